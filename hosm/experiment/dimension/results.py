"""What `make dimension` measured, where it is kept."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hosm.experiment.shared.files import read_frames

__all__ = ["EVERYWHERE", "OURS", "Dimension", "load_dimension"]

OURS = "hosm"
EVERYWHERE = "TwoNN, one for all"  # gives all points of a surface one dimension
FRAMES = {  # field -> file, and the columns that a report needs
    "surfaces": ("surfaces.csv", "surface D n seed method d error seconds"),
    "summary": ("summary.csv", "n method error relative median_relative seconds"),
}


@dataclass(frozen=True, eq=False)
class Dimension:
    """Local intrinsic dimension by several estimators on public surfaces.

    `surfaces` has a row for each surface, number of points and method; `summary` one for each
    number of points and method, with means over the surfaces.
    """

    surfaces: pd.DataFrame
    summary: pd.DataFrame


def load_dimension(kept: Path) -> Dimension | None:
    """Read the study of local dimension; None where none is kept.

    Args:
        kept: the folder `reports/whole` of what is kept of longer runs.

    Raises:
        FileNotFoundError: one of its files is missing.
        ValueError: a file lacks a column, or holds no rows.
    """
    folder = kept / "dimension"
    return Dimension(**read_frames(folder, FRAMES)) if folder.is_dir() else None
