"""Claims about second-order scores, each judged by the numbers of this run.

A claim compares two measured numbers, or one with a stated threshold. Where both have standard
errors, the verdict is `holds` or `does not hold` only if they differ by more than two standard
errors of the difference, else `undecided`; with one seed, any difference decides. Claims marked
"paper" are those of Meng, Song, Li and Ermon (NeurIPS 2021); the others are what a user would
rely on.
"""

import math
from collections.abc import Iterator

import pandas as pd

from hosm.experiment.cost.study.ratios import speed_ratios
from hosm.experiment.diversity.claims import diversity_claims
from hosm.experiment.mixing.claims import sampling_claims
from hosm.experiment.presenting import number_formats as cells
from hosm.experiment.presenting.claims import Claim, Verdict, verdict
from hosm.experiment.report.results import Results
from hosm.experiment.shared.rows import (
    BASELINE,
    Row,
    groups,
    is_exact,
    is_reference,
    margin,
    records,
)
from hosm.experiment.uncertainty.claims import denoiser_claims

__all__ = ["Claim", "claims", "replicated_claims"]

NEAR = 1.1  # an error counts as reached within 10 %
STEP, LINEAR = 1.5, 1.1
HALF = 0.5  # a speed-up counts as confirmed from half of the paper's on
SIMILAR = 1.5  # a cost or an error counts as similar up to this ratio
ZERO = 2.0  # squared error of the scores 0 on N(0, I) in the plane, of s1 as of s2
OPTIONAL = 2.0  # variance reduction counts as optional up to this ratio of errors


def _smaller(first: Row, second: Row) -> Verdict:
    """Judge whether the first mean is smaller, beyond two standard errors of the difference."""
    if abs(first["mean"] - second["mean"]) <= margin(first, second):
        return "undecided"
    return verdict(first["mean"] < second["mean"])


def _shown(row: Row) -> str:
    """Return a row of table 1 as words."""
    rank = f", r = {row['rank']:.0f}" if row["rank"] > 0 else ""
    return f"{row['method']}{rank}: {cells.plus_minus(row['mean'], row['standard_error'])}"


def _best(rows: list[Row], start: str) -> list[Row]:
    """Return the row of lowest error among methods that start so, or none."""
    there = [row for row in rows if row["method"].startswith(start)]
    there = [row for row in there if math.isfinite(row["mean"])]
    return sorted(there, key=lambda row: row["mean"])[:1]


def _compared(
    where: str, statement: str, first: list[Row], second: list[Row], paper: bool
) -> Iterator[Claim]:
    """Yield the claim that the first of two rows has the smaller error, if both are there."""
    for one, other in zip(first, second, strict=False):
        evidence = f"{_shown(one)}; {_shown(other)}"
        yield Claim(where, statement, _smaller(one, other), evidence, paper)


def _reached(where: str, cell: list[Row]) -> Iterator[Claim]:
    """Yield the claim that this run reaches the errors of s2 that the paper prints."""
    there = [row for row in cell if row["method"].startswith("s2") and row["paper"] > 0]
    known = [
        min(group, key=lambda row: row["mean"])
        for rank in sorted({row["rank"] for row in there})
        if (group := [row for row in there if row["rank"] == rank])
    ]
    if known:
        pairs = [f"{_shown(row)} against the paper's {row['paper']:.2f}" for row in known]
        holds = all(row["mean"] <= NEAR * row["paper"] for row in known)
        statement = "s2 by the paper's objective reaches the paper's errors within 10 %"
        yield Claim(where, statement, verdict(holds), "; ".join(pairs), True)


def _joint(where: str, cell: list[Row], baseline: list[Row]) -> Iterator[Claim]:
    """Yield whether an s1 trained jointly by the paper's objective differentiates as well."""
    joint = [row for row in cell if row["method"] == "autodiff, joint moment"]
    for one, other in zip(joint, baseline, strict=False):
        statement = "s1 trained jointly by the paper's objective has as accurate a derivative"
        evidence = f"{_shown(one)}; {_shown(other)}"
        yield Claim(where, statement, verdict(one["mean"] <= NEAR * other["mean"]), evidence, True)


def _beats_constant(where: str, cell: list[Row]) -> Iterator[Claim]:
    """Yield the claim that every estimate is better than a constant."""
    for constant in _best(cell, "constant"):
        if is_exact(constant):
            continue
        estimates = [row for row in cell if not is_reference(row)]
        worse = [_shown(row) for row in estimates if row["mean"] >= constant["mean"]]
        found = f"no better are {'; '.join(worse)}" if worse else "every method is below"
        evidence = f"constant: {cells.number(constant['mean'])}; {found}"
        statement = "every method is more accurate than a constant Hessian"
        yield Claim(where, statement, verdict(not worse), evidence)


def _accuracy(accuracy: pd.DataFrame) -> Iterator[Claim]:
    """Yield what table 1 says about each data set, regime and sigma."""
    for (dataset, regime, sigma), group in groups(accuracy, "dataset", "regime", "sigma"):
        where, cell = f"{dataset}, {regime}, σ = {sigma:g}", records(group)
        baseline = [row for row in cell if row["method"] == BASELINE]
        plain = [row for row in cell if row["method"] == "autodiff, DSM"]
        statement = "s2 by the paper's objective is more accurate than autodiff of s1 by DSM-VR"
        moment = [row for row in cell if row["method"].endswith("moment")]
        yield from _compared(where, statement, _best(moment, "s2"), baseline, True)
        statement = "the most accurate s2 is more accurate than the most accurate autodiff"
        yield from _compared(where, statement, _best(cell, "s2"), _best(cell, "autodiff"), False)
        statement = "autodiff of s1 is more accurate with variance reduction than without"
        yield from _compared(where, statement, baseline, plain, True)
        yield from _reached(where, cell)
        yield from _joint(where, cell, baseline)
        yield from _beats_constant(where, cell)


def _first_order(trials: pd.DataFrame) -> Iterator[Claim]:
    """Yield whether joint training by the paper's objective leaves s1 as accurate as DSM-VR."""
    for (dataset, regime, sigma), cell in groups(trials, "dataset", "regime", "sigma"):
        means = {target: float(rows["s1_error"].mean()) for target, rows in groups(cell, "target")}
        if {"joint-moment", "dsm-vr"} <= set(means):
            joint, alone = means["joint-moment"], means["dsm-vr"]
            statement = "s1 trained jointly by the paper's objective is as accurate as by DSM-VR"
            evidence = f"squared error of s1 {cells.number(joint)} against {cells.number(alone)}"
            where = f"{dataset}, {regime}, σ = {sigma:g}"
            judged = verdict(joint <= NEAR * alone)
            yield Claim(where, statement, judged, evidence, True)


def _reduction(errors: pd.DataFrame) -> Iterator[Claim]:
    """Yield what figure 1 says of the paper's target with and without variance reduction."""
    moment = errors[errors["target"] == "moment"]
    sigmas = sorted(moment["sigma"].unique())
    found = {
        (row["sigma"], row["reduction"]): (row["s1_error"], row["s2_error"])
        for row in records(moment)
    }
    least, largest = sigmas[0], sigmas[-1]

    def shown(sigma: float) -> str:
        pairs = (found[sigma, "none"], found[sigma, "antithetic"])
        without, reduced = (" and ".join(map(cells.number, pair)) for pair in pairs)
        return f"squared errors of s1 and s2 {without} without, {reduced} with"

    statement = "without variance reduction the scores stay farther off than zero at the least σ"
    off = min(found[least, "none"]) > ZERO
    yield Claim(
        f"N(0, I) in the plane, σ = {least:g}", statement, verdict(off), shown(least), True
    )
    statement = f"without variance reduction errors are at most {OPTIONAL:g} times those with it"
    pairs = zip(found[largest, "none"], found[largest, "antithetic"], strict=True)
    needless = all(plain <= OPTIONAL * reduced for plain, reduced in pairs)
    where = f"N(0, I) in the plane, σ = {largest:g}"
    yield Claim(where, statement, verdict(needless), shown(largest), True)
    statement = f"with variance reduction σ changes errors by {SIMILAR:g} times at most"
    orders = zip(*(found[sigma, "antithetic"] for sigma in sigmas), strict=True)
    ratio = max(max(values) / min(values) for values in orders)
    where = f"N(0, I) in the plane, σ = {least:g} to {largest:g}"
    yield Claim(where, statement, verdict(ratio <= SIMILAR), cells.ratio(ratio))


def _speed(speed: pd.DataFrame) -> Iterator[Claim]:
    """Yield what table 2 says about each network."""
    ratios = speed_ratios(speed[speed["device"] == "cpu"])
    for backbone in dict.fromkeys(row["backbone"] for row in ratios):
        rows = [row for row in ratios if row["backbone"] == backbone and not row["compiled"]]
        row, rank = rows[0], f"r = {rows[0]['rank']:.0f}"
        where = f"{cells.network(backbone)}, D = {row['dimension']:.0f}"
        if row["paper"] > 0:
            statement = (
                "s2 is faster than the autodiff loop, by half of the paper's factor or more"
            )
            judged = verdict(row["loop"] >= HALF * row["paper"])
            evidence = (
                f"{cells.ratio(row['loop'])} here, {cells.ratio(row['paper'])} there, {rank}"
            )
            yield Claim(where, statement, judged, evidence, True)
        statement = "s2 is faster than the fastest chunked autodiff"
        evidence = f"{cells.ratio(row['chunked'])} at {rank}, {row['chunked_method']}"
        yield Claim(where, statement, verdict(row["chunked_low"] > 1), evidence)
        statement = f"s2 costs no more than {SIMILAR:g} times s1, at every rank"
        costs = [f"{cells.ratio(row['s1'])} at r = {row['rank']:.0f}" for row in rows]
        judged = verdict(max(row["s1"] for row in rows) <= SIMILAR)
        yield Claim(where, statement, judged, ", ".join(costs))


def _cost(training: pd.DataFrame, slopes: pd.DataFrame) -> Iterator[Claim]:
    """Yield what training costs beside s1 alone, and how that grows."""
    steps = training[(training["part"] == "step") & (training["device"] == "cpu")]
    for reduction, part in groups(steps, "variance_reduction"):
        alone = part[part["target"] == "dsm"]["seconds"].iloc[0]
        for row in records(part[part["target"] == "jacobian"].nlargest(1, "rank")):
            over, where = row["seconds"] / alone, f"U-Net, D = {row['dimension']:.0f}"
            where += f", variance reduction {reduction}"
            statement = f"a step of s1 and s2 costs no more than {STEP:g} steps of s1 alone"
            evidence = f"{cells.ratio(over)} at r = {row['rank']:.0f}, jacobian"
            yield Claim(where, statement, verdict(over <= STEP), evidence)
    fits = slopes[(slopes["method"] == "joint step") & (slopes["device"] == "cpu")]
    fits = fits[fits["variable"] == "D"]
    for row in records(fits.nlargest(1, "rank")):
        steepest = max(row["time"], row["memory"], row["late_time"], row["late_memory"])
        late = f"{row['late_time']:.2f} and {row['late_memory']:.2f} at the largest sizes"
        evidence = (
            f"slopes {row['time']:.2f} and {row['memory']:.2f} of log time and memory, {late}"
        )
        where = f"D = {row['from']:,.0f} to {row['to']:,.0f}"
        statement = "time and memory of a step grow no faster than D"
        yield Claim(where, statement, verdict(steepest <= LINEAR), evidence)


def claims(results: Results) -> list[Claim]:
    """Judge every claim by the numbers of a run.

    Args:
        results: what the stages measured.
    """
    return [*_accuracy(results.accuracy.table1), *_others(results)]


def replicated_claims(results: Results) -> list[Claim]:
    """Judge every claim as `claims` does, but accuracy by the whole of table 1.

    Args:
        results: what the stages measured.
    """
    return [*_accuracy(results.accuracy.whole.table1), *_others(results)]


def _others(results: Results) -> list[Claim]:
    return [
        *_first_order(results.accuracy.trials),
        *_reduction(results.reduction.errors),
        *_speed(results.cost.speed),
        *_cost(results.cost.training, results.cost.slopes),
        *sampling_claims(results.mixing.longest),
        *denoiser_claims(results.denoising.posteriors, results.denoisers),
        *diversity_claims(results.diversity),
    ]
