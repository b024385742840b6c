"""The headline numbers of table 1."""

from collections.abc import Iterator

import pandas as pd

from hosm.experiment.accuracy.rows_of_table1 import BASELINE
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import HeadlineLine
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["accuracy_lines"]

PAPER_SIGMA = 0.05  # the middle one of table 1
PAPER_OBJECTIVE = "s2, moment"


def _cells(table1: pd.DataFrame) -> Iterator[tuple[str, list[Row]]]:
    """Yield one cell of table 1 for each data set: fresh draws and the middle sigma, if there."""
    for dataset, group in groups(table1, "dataset"):
        rows = records(group)
        regimes = [row["regime"] for row in rows]
        regime = "streaming" if "streaming" in regimes else regimes[0]
        rows = [row for row in rows if row["regime"] == regime]
        sigma = min((row["sigma"] for row in rows), key=lambda value: abs(value - PAPER_SIGMA))
        yield f"{dataset}, σ = {sigma:g}", [row for row in rows if row["sigma"] == sigma]


def _reference(cell: list[Row], rank: float) -> str:
    """Return the error to compare with: the floor at a rank, else the constant predictor."""
    for row in cell:
        if row["method"].startswith("floor") and row["rank"] == rank:
            return f"floor {formats.number(row['mean'])}"
    constant = [row["mean"] for row in cell if row["method"].startswith("constant")]
    return f"constant {formats.number(constant[0])}" if constant else ""


def _error_line(where: str, cell: list[Row], row: Row, note: str = "") -> HeadlineLine:
    rank = f", r = {row['rank']:.0f}" if row["rank"] > 0 else ""
    beside = _reference(cell, row["rank"]) if row["method"].startswith("s2") else ""
    notes = "; ".join(filter(None, [note, beside]))
    method = f"{row['method']}{rank}" + (f" ({notes})" if notes else "")
    ours = formats.plus_minus(row["mean"], row["standard_error"])
    paper = formats.paper_value(row["paper"], row["paper_deviation"])
    return HeadlineLine(f"squared error of the Hessian, {where}", method, paper, ours)


def accuracy_lines(table1: pd.DataFrame) -> Iterator[HeadlineLine]:
    """Yield the baseline, the paper's objective and the best objective of each data set."""
    for where, cell in _cells(table1):
        second = sorted(
            (row for row in cell if row["method"].startswith("s2")), key=lambda row: row["mean"]
        )
        published = [row for row in second if row["method"] == PAPER_OBJECTIVE]
        for row in cell:
            if row["method"] == BASELINE:
                yield _error_line(where, cell, row)
        for row in published[:1]:
            yield _error_line(where, cell, row, "the paper's objective")
        for row in second[:1]:
            if row["method"] != PAPER_OBJECTIVE:
                yield _error_line(where, cell, row, "the best objective here")
