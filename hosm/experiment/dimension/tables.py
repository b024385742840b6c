"""Errors and seconds of the estimators of local dimension."""

import pandas as pd

from hosm.experiment.dimension.results import Dimension
from hosm.experiment.presenting import formats
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["dimension_tables", "estimators_table"]

MEASURES = {
    "Mean absolute error": "error",
    "Mean relative error": "relative",
    "Median relative error": "median_relative",
}


def _row(row: Row, best: pd.Series) -> Row:
    measured = {}
    for title, column in MEASURES.items():
        text = formats.number(row[column])
        measured[title] = formats.bold(text) if row[column] == best[column] else text
    about = {"Points": formats.count(row["n"]), "Estimator": row["method"]}
    return {**about, **measured, "Seconds": formats.number(row["seconds"], 2)}


def estimators_table(summary: pd.DataFrame) -> pd.DataFrame:
    """Return what was measured of each estimator, the least errors marked.

    Args:
        summary: as in `results.Dimension`.
    """
    rows = []
    for _, part in groups(summary, "n"):
        best = part[list(MEASURES.values())].min()
        rows += [_row(row, best) for row in records(part)]
    return pd.DataFrame(rows)


def dimension_tables(found: Dimension | None) -> dict[str, pd.DataFrame]:
    """Return the table of the study, by its file's name; none where none is kept."""
    return {} if found is None else {"dimension": estimators_table(found.summary)}
