"""The headline numbers of table 1: few data beside fresh draws, and what is to be beaten."""

import math
from collections.abc import Iterator

import pandas as pd

from hosm.experiment.accuracy.results import PaperSizes
from hosm.experiment.accuracy.rows_of_table1 import BASELINE, PLAIN, is_exact, is_reference
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import Finding
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["accuracy_findings", "accuracy_headline", "accuracy_sentence"]

PAPER_SIGMA = 0.05  # the middle one of table 1
PAPER_OBJECTIVE = "s2, moment"
BEST = "s2, jacobian"  # the default target
SHOWN = "logistic50"  # of the findings
REGIMES = ("finite", "streaming")  # the first is that of the paper, which trains on data sets

Cells = dict[str, dict[tuple[str, float], Row]]  # regime -> (method, rank) -> row of table 1


def _cells(group: pd.DataFrame) -> Cells:
    """Return the rows of a data set at the middle sigma, by regime, method and rank."""
    sigma = min(group["sigma"].unique(), key=lambda value: abs(value - PAPER_SIGMA))
    parts = groups(group[group["sigma"] == sigma], "regime")
    cells = {name: {(r["method"], r["rank"]): r for r in records(part)} for name, part in parts}
    return {name: cells.get(name, {}) for name in REGIMES}


def _shown(rows: dict[tuple[str, float], Row]) -> dict[tuple[str, float], str]:
    """Return the rows to show, and what they are: baselines, the paper's objective, the best.

    Where a plain network stands beside it, the network of the baseline is one whose linear map
    contains the truth.
    """
    second = [key for key in rows if key[0].startswith("s2") and math.isfinite(rows[key]["mean"])]
    second.sort(key=lambda key: float(rows[key]["mean"]))
    published = [key for key in second if key[0] == PAPER_OBJECTIVE]
    plain = {key: "" for key in rows if key[0] == PLAIN}
    about = " (a network that contains the truth)" if plain else ""
    shown = {key: about for key in rows if key[0] == BASELINE} | plain
    shown |= dict.fromkeys(published[:1], " (the paper's objective)")
    return shown | {key: " (the best here)" for key in second[:1] if key not in shown}


def _rival(rows: dict[tuple[str, float], Row], key: tuple[str, float]) -> str:
    """Return the error to compare with: the floor at a rank, else the constant predictor."""
    found = [row for row in rows.values() if is_reference(row) and not is_exact(row)]
    floors = [row for row in found if row["method"].startswith("floor") and row["rank"] == key[1]]
    constants = [row for row in found if row["method"].startswith("constant")]
    for row in floors or constants:
        return f"{row['method'].replace(',', '').split()[0]} {formats.number(row['mean'])}"
    return formats.DASH


def _error(row: Row | None) -> str:
    if row is None:
        return formats.DASH
    return formats.plus_minus(row["mean"], row["standard_error"])


def _line(key: tuple[str, float], note: str, cells: Cells, points: str) -> dict[str, str]:
    """Return the cells of one estimate: what it is, the paper's error, and ours by regime."""
    finite, streaming = (cells[name] for name in REGIMES)
    there = finite or streaming
    printed, rank = there[key], f", r = {key[1]:.0f}" if key[1] > 0 else ""
    return {
        f"Squared error of the Hessian, σ = {printed['sigma']:g}": str(printed["dataset"]),
        "Estimate": f"{key[0]}{rank}{note}",
        "To beat": _rival(there, key),
        "Paper": formats.paper_value(printed["paper"], printed["paper_deviation"]),
        f"Ours ± s.e., {points} points": _error(finite.get(key)),
        "Ours ± s.e., fresh draws": _error(streaming.get(key)),
    }


def _drawn(cells: Cells, batch: int) -> str:
    """Return how many fresh points s1 drew, a dash where there are none."""
    baseline = cells["streaming"].get((BASELINE, 0))
    return formats.count(baseline["steps"] * batch) if baseline else formats.DASH


def accuracy_headline(found: PaperSizes) -> pd.DataFrame:
    """Return the baseline, the paper's objective and the best objective of each data set.

    The best is that of the finite regime, where there is one. A row holds the paper's error, ours
    with few data and with fresh draws, and how many points were drawn for the latter.

    Args:
        found: table 1 at the paper's sizes.
    """
    points, rows = found.card["protocol"]["train_points"], []
    for dataset, group in groups(found.table1, "dataset"):
        cells = _cells(group)
        drawn = _drawn(cells, found.batches[dataset])
        for key, note in _shown(cells["finite"] or cells["streaming"]).items():
            rows.append({**_line(key, note, cells, points), "Points drawn": drawn})
    return pd.DataFrame(rows)


def _named(regime: str, cells: Cells, found: PaperSizes) -> str:
    """Return how many points of which kind a regime learns from."""
    if regime == "finite":
        return f"{found.card['protocol']['train_points']} points"
    return f"{_drawn(cells, found.batches[SHOWN])} fresh points"


def accuracy_sentence(found: PaperSizes) -> str:
    """Return the error of the default target on one law beside those of its rivals.

    Args:
        found: table 1 at the paper's sizes.
    """
    cells, parts = _cells(found.table1[found.table1["dataset"] == SHOWN]), []
    for regime in reversed(REGIMES):
        rows, own = cells[regime], (BEST, 0)
        if own not in rows:
            continue
        rivals = [f"a constant Hessian {_rival(rows, own).removeprefix('constant ')}"]
        if (BASELINE, 0) in rows:
            derived = formats.number(rows[BASELINE, 0]["mean"], 4)
            rivals.append(f"the derivative of the first-order score {derived}")
        error, points = _error(rows[own]), _named(regime, cells, found)
        parts.append(f"{error} if learned from {points} ({', '.join(rivals)})")
    return (
        "The squared error of the second-order score of a law in 50 dimensions, summed over its "
        f"2,500 entries, is {', and '.join(parts)}."
    )


def accuracy_findings(found: PaperSizes) -> Iterator[Finding]:
    """Yield the error of the default target on one law, from fresh draws and from few points.

    Args:
        found: table 1 at the paper's sizes.
    """
    cells = _cells(found.table1[found.table1["dataset"] == SHOWN])
    for regime in reversed(REGIMES):
        rows, own = cells[regime], (BEST, 0)
        if own not in rows:
            continue
        rivals = [f"{_rival(rows, own).removeprefix('constant ')} by a constant Hessian"]
        if (published := (PAPER_OBJECTIVE, 0)) in rows:
            rivals.append(f"{formats.number(rows[published]['mean'])} by the paper's objective")
        yield Finding(
            f"Squared error of the Hessian of a mixture of logistic laws in 50 dimensions, summed "
            f"over its 2,500 entries, learned from {_named(regime, cells, found)} (`{SHOWN}`, "
            f"sigma {rows[own]['sigma']:g}).",
            _error(rows[own]),
            ", ".join(rivals),
        )
