"""Claims about the uncertainty of denoisers, judged as in `claims`."""

from collections.abc import Iterator

import pandas as pd

from hosm.experiment.presenting import number_formats as cells
from hosm.experiment.presenting.claims import Claim, Verdict, verdict
from hosm.experiment.presenting.longer_runs import LONGER
from hosm.experiment.shared.rows import Row, records
from hosm.experiment.uncertainty.results import Denoiser

__all__ = ["denoiser_claims"]

NEAR_EXACT = 0.15  # largest relative error of a covariance in the plane
NEAR_NOMINAL = 0.05  # largest gap of a coverage
USEFUL = 0.8  # a correlation from which a predicted variance tells where errors are
CALIBRATED = 0.15  # largest relative gap of scaled variance and measured error, in any bin
ALIKE = 0.02  # largest relative loss of likelihood, of the model of a range
SHARE = 0.9  # of what subspace iteration explains
SAVING = 50  # times faster than subspace iteration
LEVELS = (0.5, 0.8, 0.95)


def _at_each(values: dict[str, float], digits: int = 3) -> str:
    return "; ".join(f"{name}: {cells.number(value, digits)}" for name, value in values.items())


def _plane(planar: pd.DataFrame) -> Iterator[Claim]:
    """Yield whether posteriors in the plane are near the exact ones, with nominal coverage."""
    rows = records(planar)
    errors = {row["dataset"]: row["covariance_error"] for row in rows}
    statement = f"the covariance is within {NEAR_EXACT:.0%} of the exact posterior's, on average"
    evidence = f"relative Frobenius error {_at_each(errors)}"
    holds = max(errors.values()) <= NEAR_EXACT
    yield Claim("points in the plane", statement, verdict(holds), evidence, True)
    gaps = {
        row["dataset"]: max(abs(row[f"coverage_{level:g}"] - level) for level in LEVELS)
        for row in rows
    }
    statement = "regions of 50, 80 and 95 % hold the clean point as often, within 5 points"
    evidence = f"largest gap {_at_each(gaps)}"
    holds = max(gaps.values()) <= NEAR_NOMINAL
    yield Claim("points in the plane", statement, verdict(holds), evidence)


def _likelihoods(where: str, rows: list[Row]) -> Iterator[Claim]:
    """Yield whether the off-diagonal, and the diagonal, make clean images likelier."""
    parts = ("nll_low_rank", "nll_diagonal", "nll_isotropic")
    ordered = [row[parts[0]] < row[parts[1]] < row[parts[2]] for row in rows]
    found = [
        f"σ = {row['sigma']:g}: {', '.join(cells.number(row[part]) for part in parts)}"
        for row in rows
    ]
    statement = (
        "clean images are likelier under C than under its diagonal, least under one variance"
    )
    yield Claim(where, statement, verdict(all(ordered)), f"NLL {'; '.join(found)} nats", True)


def _maps(where: str, rows: list[Row], bins: pd.DataFrame) -> Iterator[Claim]:
    """Yield whether the variance tells where the error is, and how large."""
    edge = {f"σ = {row['sigma']:g}": row["edge_variance"] for row in rows}
    ratios = {
        name: value / row["background_variance"]
        for (name, value), row in zip(edge.items(), rows, strict=True)
    }
    statement = "the predicted variance is larger next to edges than elsewhere"
    holds = min(ratios.values()) > 1
    yield Claim(where, statement, verdict(holds), f"times larger, {_at_each(ratios)}", True)
    values = {f"σ = {row['sigma']:g}": row["correlation"] for row in rows}
    statement = f"predicted variance and squared error of a pixel correlate by {USEFUL:g} or more"
    holds = min(values.values()) >= USEFUL
    yield Claim(where, statement, verdict(holds), _at_each(values))
    gaps, sure = {}, []
    for sigma, part in bins.groupby("sigma", sort=False):
        scaled = part["scale"] * part["predicted"]
        gap = (part["observed"] / scaled - 1).abs()
        gaps[f"σ = {sigma:g}"] = float(gap.max())
        sure.append(float((gap - 2 * part["standard_error"] / scaled).max()))
    statement = (
        f"after one scale, variance and error agree within {CALIBRATED:.0%} in every decile"
    )
    judged: Verdict = verdict(max(gaps.values()) <= CALIBRATED)
    if max(gaps.values()) > CALIBRATED >= max(sure):
        judged = "undecided"
    evidence = f"largest gap {_at_each(gaps, 2)}; less two standard errors {max(sure):.2f} at most"
    yield Claim(where, statement, judged, evidence)


def _range(where: str, rows: list[Row], alone: list[Row]) -> Iterator[Claim]:
    """Yield whether the model of a range is as good as those of one scale each."""
    whole = {row["sigma"]: row["nll_low_rank"] for row in rows}
    losses = {
        f"σ = {row['sigma']:g}": (whole[row["sigma"]] - row["nll_low_rank"])
        / abs(row["nll_low_rank"])
        for row in alone
        if row["sigma"] in whole
    }
    if losses:
        statement = f"one model of all noise scales loses {ALIKE:.0%} of likelihood at most"
        holds = max(losses.values()) <= ALIKE
        evidence = "; ".join(f"{name}: {loss:+.1%}" for name, loss in losses.items())
        yield Claim(where, statement, verdict(holds), f"NLL over a single one's, {evidence}")


def _directions(where: str, directions: pd.DataFrame) -> Iterator[Claim]:
    """Yield whether the model's own directions are as good as those of subspace iteration."""
    last = directions[directions["k"] == directions["k"].max()].set_index("method")
    ours, iterated = last.loc["s2"], last[last.index.str.startswith("subspace")]
    longest = iterated.loc[iterated["seconds"].idxmax()]  # by automatic differentiation
    statement = (
        f"{last['k'].iloc[0]} directions of s2 hold {SHARE:.0%} of the error that "
        f"subspace iteration's hold, at 1/{SAVING} of its time"
    )
    found = [
        f"{row['share']:.1%} by {name} in {cells.ratio(row['seconds'] / ours['seconds'])} the time"
        for name, row in iterated.iterrows()
    ]
    evidence = f"{ours['share']:.1%} of the squared error by s2; {'; '.join(found)}"
    holds = ours["share"] >= SHARE * longest["share"]
    holds = holds and longest["seconds"] >= SAVING * ours["seconds"]
    yield Claim(where, statement, verdict(holds), evidence)


def _denoiser(name: str, found: Denoiser) -> Iterator[Claim]:
    kinds = {kind: records(part) for kind, part in found.numbers.groupby("model", sort=False)}
    long = ", trained at length" if name.endswith(LONGER) else ""
    where, rows = f"denoiser, {name.removesuffix(LONGER)}{long}", kinds["range"]
    bins = found.reliability[found.reliability["model"] == "range"]
    yield from _maps(where, rows, bins)
    yield from _likelihoods(where, rows)
    yield from _range(where, rows, kinds.get("one scale", []))
    yield from _directions(where, found.directions)
    least = min(row["least_variance"] for row in (*rows, *kinds.get("one scale", [])))
    clipped = [f"{row['clipped_share']:.1%}" for row in kinds.get("unconstrained", [])]
    evidence = f"least variance {cells.number(least)}; without psd {', '.join(clipped)} is clipped"
    yield Claim(where, "with psd no variance is negative", verdict(least > 0), evidence)


def denoiser_claims(planar: pd.DataFrame, denoisers: dict[str, Denoiser]) -> Iterator[Claim]:
    """Yield what the numbers say about posteriors in the plane and of images.

    Args:
        planar: errors of posteriors in the plane.
        denoisers: what was measured of each denoiser, by the name of its images.
    """
    yield from _plane(planar)
    for name, found in denoisers.items():
        yield from _denoiser(name, found)
