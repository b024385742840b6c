"""What the stage `denoising` wrote."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hosm.experiment.shared.files import Arrays, read_arrays, read_frame

__all__ = ["Denoising", "load_denoising"]

POSTERIORS = (
    "dataset sigma points mean_error mean_error_standard_error covariance_error "
    "covariance_error_standard_error coverage_0.5 coverage_0.8 coverage_0.95 "
    "exact_coverage_0.5 exact_coverage_0.8 exact_coverage_0.95 seconds"
)


@dataclass(frozen=True, eq=False)
class Denoising:
    """Errors of posteriors in the plane, and the points of figure 2 by 'dataset|column'."""

    posteriors: pd.DataFrame
    points: Arrays


def load_denoising(results: Path) -> Denoising:
    """Read posteriors in the plane.

    Args:
        results: the folder `data/results`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column, or holds no rows.
    """
    folder = results / "denoising"
    posteriors = read_frame(folder / "posteriors.csv", POSTERIORS)
    return Denoising(posteriors, read_arrays(folder / "points.npz"))
