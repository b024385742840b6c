"""What the stage `reduction` wrote, and what is kept of a longer run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hosm.experiment.presenting.longer_runs import WithLonger, read_tables

__all__ = ["Reduction", "ReductionRun", "load_reduction"]

CARD = "profile commit hardware"
FRAMES = {  # field -> file, and the columns that a report needs
    "curves": (
        "curves.csv",
        "sigma reduction seed target step train_second least_second s1_error s2_error",
    ),
    "estimates": (
        "estimates.csv",
        "sigma reduction seed target u s1 s2 exact_s1 exact_s2",
    ),
    "errors": (
        "numbers.csv",
        "sigma reduction target seeds diverged s1_error s1_standard_error s2_error "
        "s2_standard_error",
    ),
}


@dataclass(frozen=True, eq=False)
class ReductionRun:
    """Training on N(0, I) in the plane, with and without variance reduction.

    `curves` has a row for each record of each run, `estimates` one for each point of a line,
    `errors` the mean over the seeds at the end.
    """

    curves: pd.DataFrame
    estimates: pd.DataFrame
    errors: pd.DataFrame
    card: dict[str, Any]

    @property
    def steps(self) -> int:
        """Optimiser steps of its longest run."""
        return int(self.curves["step"].max())


Reduction = WithLonger[ReductionRun]


def load_reduction(results: Path, kept: Path) -> Reduction:
    """Read the runs with and without variance reduction.

    Args:
        results: the folder `data/results`.
        kept: the folder `reports/whole` of what is kept of longer runs.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column, or holds no rows.
    """
    return read_tables(ReductionRun, "reduction", FRAMES, CARD, results, kept)
