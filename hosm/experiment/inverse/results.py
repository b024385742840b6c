"""What the stage `inverse` wrote, and what is kept of a longer run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hosm.experiment.presenting.longer_runs import WithLonger, read_tables

__all__ = ["EXACT", "LEVELS", "NAMES", "OURS", "Inverse", "InverseRun", "load_inverse"]

OURS, EXACT = "covariance", "exact draws"
LEVELS = (0.5, 0.8, 0.95)
NAMES = {  # method -> as a reader sees it
    OURS: "ours",
    "diagonal": "ours, diagonal",
    "tmpd": "TMPD",
    "pigdm": "ΠGDM",
    "dps": "DPS",
    "mmps": "MMPS",
    EXACT: EXACT,
}
COVERAGES = " ".join(f"coverage_{level:g}" for level in LEVELS)
CARD = "profile commit hardware settings"
FRAMES = {  # field -> file, and the columns that a report needs
    "methods": (
        "methods.csv",
        f"task model method strength mean_error distance {COVERAGES} evaluations products seconds",
    ),
}


@dataclass(frozen=True, eq=False)
class InverseRun:
    """Posterior samples of linear inverse problems: a row for each task, model and method.

    The model is `learned` or `exact`; that of exact draws is `none`.
    """

    methods: pd.DataFrame
    card: dict[str, Any]


Inverse = WithLonger[InverseRun]


def load_inverse(results: Path, kept: Path) -> Inverse:
    """Read the study of linear inverse problems.

    Args:
        results: the folder `data/results`.
        kept: the folder `reports/whole` of what is kept of longer runs.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column or an entry, or holds no rows.
    """
    return read_tables(InverseRun, "inverse", FRAMES, CARD, results, kept)
