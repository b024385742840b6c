"""What denoisers of images say of the paper's claims about uncertainty (section 5).

The squared error of a tenth of the pixels has a standard error over images; times have a range. A
correlation has the standard error of one over as many independent pairs as there are images, which
is rather too large, since each image has hundreds of pixels. Likelihoods, shares of directions and
variances at edges are means over hundreds of images whose spread is not kept: their differences
decide as they are.
"""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import Claim, Pair, decisive
from hosm.experiment.presenting.longer_runs import is_longer, short_name
from hosm.experiment.presenting.timing import marked
from hosm.experiment.shared.rows import Row, records
from hosm.experiment.uncertainty.results import Denoiser

__all__ = ["uncertainty_claims"]

USEFUL = 0.8  # a correlation from which a predicted variance tells where errors are
CALIBRATED = 0.15  # largest relative gap of scaled variance and measured error, in any bin
ALIKE = 0.02  # largest relative loss of likelihood by one model for all noise scales
BUDGETS = {  # of a model for one scale
    "equal steps": "trained for as many steps",
    "equal total": "where those for one scale have as many steps in total",
}
SHARE = 0.9  # least share of what subspace iteration explains that the directions of s2 explain
SAVING = 50  # the directions of s2 take at most one part in so many of its time


def _maps(where: str, rows: list[Row]) -> Iterator[Claim]:
    """Yield whether the predicted variance tells where the error is."""
    ratios = {
        f"σ = {row['sigma']:g}": row["edge_variance"] / row["background_variance"] for row in rows
    }
    yield Claim(
        "variance-larger-at-edges",
        where,
        "the predicted variance of a pixel is larger next to edges than elsewhere",
        min(ratios.values()),
        ">",
        1.0,
        f"variance next to edges over that elsewhere, {formats.at_each(ratios)}",
        paper=True,
    )
    found = [
        Pair(row["correlation"], USEFUL, (1 - row["correlation"] ** 2) / math.sqrt(row["mapped"]))
        for row in rows
    ]
    told = [
        f"σ = {row['sigma']:g}: {formats.plus_minus(pair.left, pair.error or 0.0)}"
        for row, pair in zip(rows, found, strict=True)
    ]
    worst = decisive(">=", found)
    yield Claim(
        "variance-correlates-with-error",
        where,
        f"predicted variance and squared error of a pixel have a correlation of at least "
        f"{USEFUL:g}",
        worst.left,
        ">=",
        worst.right,
        f"Pearson's correlation, {'; '.join(told)}",
        error=worst.error,
    )


def _calibration(where: str, bins: pd.DataFrame) -> Claim:
    """Return the claim that the variance, scaled once, tells how large the error is."""
    gaps, pairs = {}, []
    for sigma, part in bins.groupby("sigma", sort=False):
        scaled = part["scale"] * part["predicted"]
        found = (part["observed"] / scaled - 1).abs()
        errors = part["standard_error"] / scaled
        gaps[f"σ = {sigma:g}"] = float(found.max())
        pairs += [Pair(gap, CALIBRATED, e) for gap, e in zip(found, errors, strict=True)]
    worst = decisive("<=", pairs)
    return Claim(
        "variance-calibrated",
        where,
        f"multiplied by one number, predicted variance and squared error agree within "
        f"{CALIBRATED:.0%} in every tenth of the pixels",
        worst.left,
        "<=",
        worst.right,
        f"largest relative difference, {formats.at_each(gaps, 2)}; the one that decides is "
        f"{formats.plus_minus(worst.left, worst.error or 0.0)}",
        error=worst.error,
    )


def _likelihoods(where: str, rows: list[Row]) -> Claim:
    """Return the claim that the off-diagonal, and the diagonal, make clean images likelier."""
    parts = ("nll_low_rank", "nll_diagonal", "nll_isotropic")
    nlls = np.array([[row[part] for part in parts] for row in rows])
    found = [
        f"σ = {row['sigma']:g}: {', '.join(formats.number(row[part]) for part in parts)}"
        for row in rows
    ]
    return Claim(
        "low-rank-likelier",
        where,
        "clean images have a higher likelihood under C than under its diagonal, and the lowest "
        "under one variance for all pixels",
        float(np.max(nlls[:, :-1] - nlls[:, 1:])),
        "<",
        0.0,
        f"negative log-likelihood in nats under C, its diagonal, one variance, {'; '.join(found)}",
        paper=True,
    )


def _range(where: str, rows: list[Row], alone: list[Row], budget: str) -> Iterator[Claim]:
    """Yield whether the model of all noise scales is as good as those of one scale each."""
    whole = {row["sigma"]: row["nll_low_rank"] for row in rows}
    losses = {
        f"σ = {row['sigma']:g}": (whole[row["sigma"]] - row["nll_low_rank"])
        / abs(row["nll_low_rank"])
        for row in alone
        if row["sigma"] in whole
    }
    if losses:
        found = "; ".join(f"{name}: {loss:+.1%}" for name, loss in losses.items())
        yield Claim(
            "one-model-of-all-scales",
            where,
            f"one model for all noise scales has a negative log-likelihood at most {ALIKE:.0%} "
            f"above that of a model for one scale, {BUDGETS[budget]}",
            max(losses.values()),
            "<=",
            ALIKE,
            f"negative log-likelihood relative to that of the model for one scale, {found}",
        )


def _directions(where: str, directions: pd.DataFrame) -> Claim:
    """Return the claim that the directions of s2 are as good as those of subspace iteration."""
    last = directions[directions["k"] == directions["k"].max()].set_index("method")
    ours, iterated = last.loc["s2"], last[last.index.str.startswith("subspace")]
    longest = iterated.loc[iterated["seconds"].idxmax()]  # by automatic differentiation
    found = [
        f"{row['share']:.1%} by {name} in "
        f"{marked(formats.ratio(row['seconds'] / ours['seconds']), dict(row))} the time"
        for name, row in iterated.iterrows()
    ]
    share = Pair(ours["share"] / (SHARE * longest["share"]), 1.0)
    low, middle, high = (
        longest[over] / (SAVING * ours[under])
        for over, under in (
            ("seconds_low", "seconds_high"),
            ("seconds", "seconds"),
            ("seconds_high", "seconds_low"),
        )
    )
    worst = decisive(">=", [share, Pair(middle, 1.0, ends=(low, high))])
    return Claim(
        "directions-of-s2",
        where,
        f"{last['k'].iloc[0]} directions of s2 explain at least {SHARE:.0%} of the squared error "
        f"that those of subspace iteration explain, in at most 1/{SAVING} of the time",
        worst.left,
        ">=",
        worst.right,
        f"{ours['share']:.1%} of the squared error by s2; {'; '.join(found)}",
        ends=worst.ends,
    )


def _positive(where: str, rows: list[Row], unconstrained: list[Row]) -> Claim:
    """Return the claim that no predicted variance is negative."""
    least = min(row["least_variance"] for row in rows)
    clipped = [f"{row['clipped_share']:.1%}" for row in unconstrained]
    return Claim(
        "variance-positive",
        where,
        "no predicted variance is negative if the model is constrained to be positive "
        "semidefinite",
        least,
        ">",
        0.0,
        f"smallest variance {formats.number(least)}; without the constraint, clipping negative "
        f"variances adds {', '.join(clipped)} of C",
        by_construction=True,
    )


def _denoiser(name: str, found: Denoiser) -> Iterator[Claim]:
    kinds = {kind: records(part) for kind, part in found.numbers.groupby("model", sort=False)}
    long = ", trained at length" if is_longer(name) else ""
    where, rows = f"denoiser, {short_name(name)}{long}", kinds["range"]
    alone = {budget: kinds.get(f"one scale, {budget}", []) for budget in BUDGETS}
    yield from _maps(where, rows)
    yield _calibration(where, found.reliability[found.reliability["model"] == "range"])
    yield _likelihoods(where, rows)
    for budget, of_budget in alone.items():
        yield from _range(where, rows, of_budget, budget)
    yield _directions(where, found.directions)
    singles = [row for of_budget in alone.values() for row in of_budget]
    yield _positive(where, [*rows, *singles], kinds.get("unconstrained", []))


def uncertainty_claims(denoisers: dict[str, Denoiser]) -> Iterator[Claim]:
    """Yield what the numbers say about posteriors of images.

    Args:
        denoisers: what was found of each set of images; a name that ends with `LONGER` is of a
            longer run.
    """
    for name, found in denoisers.items():
        yield from _denoiser(name, found)
