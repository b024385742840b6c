"""Posteriors of points in the plane, beside the exact ones."""

import pandas as pd

from hosm.experiment.denoising.results import Denoising
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.coverage import coverage
from hosm.experiment.shared.rows import records

__all__ = ["denoising_tables", "posterior_table"]


def posterior_table(planar: pd.DataFrame) -> pd.DataFrame:
    """Return errors against the exact posterior, and coverage, in the plane (figure 2)."""
    rows = [
        {
            "Points": row["dataset"],
            "σ": f"{row['sigma']:g}",
            "Error of C, relative ± s.e.": formats.plus_minus(
                row["covariance_error"], row["covariance_error_standard_error"]
            ),
            "Error of m ± s.e. (σ)": formats.plus_minus(
                row["mean_error"], row["mean_error_standard_error"]
            ),
            "Coverage of 50 / 80 / 95 %": coverage(row),
            "Of N with exact moments": coverage(row, "exact_"),
            "Test points": formats.count(row["points"]),
            "Training (s)": formats.number(row["seconds"], 2),
        }
        for row in records(planar)
    ]
    return pd.DataFrame(rows)


def denoising_tables(found: Denoising) -> dict[str, pd.DataFrame]:
    """Return the table of posteriors in the plane, by its file's name."""
    return {"figure2-posteriors": posterior_table(found.posteriors)}
