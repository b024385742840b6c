"""The errors of figure 1, with and without variance reduction."""

import pandas as pd

from hosm.experiment.presenting import formats
from hosm.experiment.reduction.results import Reduction
from hosm.experiment.shared.rows import records

__all__ = ["reduction_table", "reduction_tables"]


def reduction_table(errors: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of figure 1, with and without variance reduction."""
    rows = [
        {
            "σ": f"{row['sigma']:g}",
            "Variance reduction": row["reduction"],
            "Squared error of s1, ours ± s.e.": formats.plus_minus(
                row["s1_error"], row["s1_standard_error"]
            ),
            "Target of s2": row["target"],
            "Squared error of s2, ours ± s.e.": formats.plus_minus(
                row["s2_error"], row["s2_standard_error"]
            ),
            "Seeds": formats.count(row["seeds"]),
        }
        for row in records(errors)
    ]
    return pd.DataFrame(rows)


def reduction_tables(found: Reduction) -> dict[str, pd.DataFrame]:
    """Return the tables of variance reduction, by their files' names."""
    tables = {"figure1-errors": reduction_table(found.run.errors)}
    if found.whole is not None:
        tables["figure1-errors-whole"] = reduction_table(found.whole.errors)
    return tables
