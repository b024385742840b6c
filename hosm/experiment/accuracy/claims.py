"""What table 1 says of the paper's claims about accuracy (section 4.4).

The table holds means over seeds and their standard errors, but no values by seed, so that errors
of two rows are combined as if they were independent; what the paper prints behind ± counts as the
standard error of its mean. Errors of s1 are known by seed, and compared seed by seed.
"""

import math
from collections.abc import Iterator

import pandas as pd

from hosm.experiment.accuracy.rows_of_table1 import BASELINE, PLAIN, is_exact, is_reference
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import Claim, Pair, decisive, error_of_difference
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["accuracy_claims", "first_order_claims"]

NEAR = 1.1  # an error counts as reached up to 10 % above it


def _shown(row: Row) -> str:
    """Return the error of a row of table 1, and of which method it is."""
    rank = f", r = {row['rank']:.0f}" if row["rank"] > 0 else ""
    error = formats.plus_minus(row["mean"], row["standard_error"])
    return f"{error} by {row['method']}{rank}"


def _both(one: Row, other: Row) -> str:
    """Return the errors of two rows of table 1 in words."""
    return f"squared error of the Hessian: {_shown(one)}; {_shown(other)}"


def _best(rows: list[Row], start: str) -> list[Row]:
    """Return the row of lowest error among methods whose names begin so, or none."""
    there = [row for row in rows if row["method"].startswith(start)]
    there = [row for row in there if math.isfinite(row["mean"])]
    return sorted(there, key=lambda row: row["mean"])[:1]


def _compared(
    name: str, where: str, statement: str, first: list[Row], second: list[Row], *, paper: bool
) -> Iterator[Claim]:
    """Yield the claim that the first of two rows has the smaller error, if both are there."""
    for one, other in zip(first, second, strict=False):
        yield Claim(
            name,
            where,
            statement,
            one["mean"],
            "<",
            other["mean"],
            _both(one, other),
            paper,
            error=error_of_difference(one["standard_error"], other["standard_error"]),
        )


def _printed(row: Row) -> Pair:
    """Return an error beside `NEAR` times the one that the paper prints."""
    deviation = 0.0 if math.isnan(row["paper_deviation"]) else row["paper_deviation"]
    error = error_of_difference(row["standard_error"], NEAR * deviation)
    return Pair(row["mean"], NEAR * row["paper"], error)


def _reached(where: str, cell: list[Row]) -> Iterator[Claim]:
    """Yield the claim that this run reaches the errors of s2 that the paper prints."""
    there = [row for row in cell if row["method"].startswith("s2") and row["paper"] > 0]
    known = [
        min((row for row in there if row["rank"] == rank), key=lambda row: _nan_last(row["mean"]))
        for rank in sorted({row["rank"] for row in there})
    ]
    if known:
        told = [
            f"{_shown(row)}, {formats.paper_value(row['paper'], row['paper_deviation'])} in the "
            "paper"
            for row in known
        ]
        worst = decisive("<=", [_printed(row) for row in known])
        yield Claim(
            "moment-reaches-paper",
            where,
            f"s2 trained by the paper's objective has errors at most {NEAR:g} times the paper's",
            worst.left,
            "<=",
            worst.right,
            f"squared error of the Hessian: {'; '.join(told)}",
            error=worst.error,
        )


def _nan_last(value: float) -> float:
    """Return a key by which NaN is larger than every number."""
    return math.inf if math.isnan(value) else value


def _joint(where: str, cell: list[Row], baseline: list[Row]) -> Iterator[Claim]:
    """Yield whether an s1 trained jointly by the paper's objective differentiates as well."""
    joint = [row for row in cell if row["method"] == "autodiff, joint moment"]
    for one, other in zip(joint, baseline, strict=False):
        yield Claim(
            "joint-s1-derivative",
            where,
            f"s1 trained jointly with s2 by the paper's objective has a derivative whose error is "
            f"at most {NEAR:g} times that of an s1 trained alone by DSM-VR",
            one["mean"],
            "<=",
            NEAR * other["mean"],
            _both(one, other),
            paper=True,
            error=error_of_difference(one["standard_error"], NEAR * other["standard_error"]),
        )


def _beats_constant(where: str, cell: list[Row]) -> Iterator[Claim]:
    """Yield the claim that every estimate is better than a constant, unless that is exact."""
    for constant in _best(cell, "constant"):
        if is_exact(constant):
            continue
        estimates = [row for row in cell if not is_reference(row) and not math.isnan(row["mean"])]
        if not estimates:
            continue
        worse = [_shown(row) for row in estimates if row["mean"] >= constant["mean"]]
        found = f"at least as large are {'; '.join(worse)}" if worse else "all others are smaller"
        pairs = [Pair(row["mean"], constant["mean"], row["standard_error"]) for row in estimates]
        worst = decisive("<", pairs)
        yield Claim(
            "all-beat-constant",
            where,
            "every method has a smaller error than a constant Hessian",
            worst.left,
            "<",
            worst.right,
            f"squared error of the constant Hessian: {formats.number(constant['mean'])}; {found}",
            error=worst.error,
        )


def _against_plain(where: str, cell: list[Row]) -> Iterator[Claim]:
    """Yield the claim that the paper's objective beats an s1 by a network without a linear map."""
    moment = [row for row in cell if row["method"] == "s2, moment"]
    plain = [row for row in cell if row["method"] == PLAIN]
    for one, other in zip(_best(moment, "s2"), plain, strict=False):
        others = [_shown(row) for row in moment if row is not one]
        yield Claim(
            "moment-beats-plain-autodiff",
            f"{where}, against a plain MLP",
            "s2 trained by the paper's objective, at its best rank, has a smaller error than the "
            "derivative of an s1 that a plain MLP learns by DSM-VR",
            one["mean"],
            "<",
            other["mean"],
            "; ".join([_both(one, other), *(f"beside it {each}" for each in others)]),
            paper=True,
            error=error_of_difference(one["standard_error"], other["standard_error"]),
        )


def _of_cell(where: str, cell: list[Row]) -> Iterator[Claim]:
    """Yield what one cell of table 1 says: one data set, regime and sigma."""
    baseline = [row for row in cell if row["method"] == BASELINE]
    plain = [row for row in cell if row["method"] == "autodiff, DSM"]
    moment = [row for row in cell if row["method"].endswith("moment")]
    linear = any(row["method"] == PLAIN for row in cell)
    yield from _against_plain(where, cell)
    yield from _compared(
        "moment-beats-autodiff",
        f"{where}, against a network that contains the truth" if linear else where,
        "s2 trained by the paper's objective has a smaller error than the derivative of an s1 "
        "trained by DSM-VR",
        _best(moment, "s2"),
        baseline,
        paper=True,
    )
    yield from _compared(
        "best-s2-beats-best-autodiff",
        where,
        "the most accurate s2 has a smaller error than the most accurate derivative of an s1",
        _best(cell, "s2"),
        _best(cell, "autodiff"),
        paper=False,
    )
    yield from _compared(
        "variance-reduction-helps-autodiff",
        where,
        "the derivative of an s1 trained by DSM has a smaller error with variance reduction than "
        "without",
        baseline,
        plain,
        paper=False,
    )
    yield from _reached(where, cell)
    yield from _joint(where, cell, baseline)
    yield from _beats_constant(where, cell)


def accuracy_claims(accuracy: pd.DataFrame) -> Iterator[Claim]:
    """Yield what table 1 says of each data set, regime and sigma.

    Args:
        accuracy: rows of table 1, with references repeated for each regime and sigma.
    """
    for (dataset, regime, sigma), group in groups(accuracy, "dataset", "regime", "sigma"):
        yield from _of_cell(f"{dataset}, {regime}, σ = {sigma:g}", records(group))


def _error(values: pd.Series) -> float:
    """Return the standard error of the mean of values by seed."""
    return float(values.std()) / math.sqrt(values.count())


def first_order_claims(trials: pd.DataFrame) -> Iterator[Claim]:
    """Yield whether joint training by the paper's objective leaves s1 as accurate as DSM-VR.

    Args:
        trials: a row for each model trained, with the squared error of its s1.
    """
    for (dataset, regime, sigma), cell in groups(trials, "dataset", "regime", "sigma"):
        errors = cell.pivot_table(index="seed", columns="target", values="s1_error")
        if {"joint-moment", "dsm-vr"} <= set(errors):
            joint, alone = errors["joint-moment"], errors["dsm-vr"]
            both = [
                formats.plus_minus(float(each.mean()), _error(each)) for each in (joint, alone)
            ]
            yield Claim(
                "joint-s1-error",
                f"{dataset}, {regime}, σ = {sigma:g}",
                f"s1 trained jointly with s2 by the paper's objective has an error at most "
                f"{NEAR:g} times that of an s1 trained alone by DSM-VR",
                float(joint.mean()),
                "<=",
                NEAR * float(alone.mean()),
                f"squared error of s1: {both[0]} trained jointly, {both[1]} trained alone",
                paper=True,
                error=_error(joint - NEAR * alone),
            )
