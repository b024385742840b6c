"""What the stage `uncertainty` wrote of each set of images, and what is kept of longer runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hosm.experiment.presenting.longer_runs import read_runs
from hosm.experiment.shared.files import Arrays, read_arrays, read_frames, read_json

__all__ = ["Denoiser", "load_denoisers"]

FRAMES = {  # field -> file, and the columns that a report needs
    "numbers": (
        "numbers.csv",
        "model sigma draws images mapped error_per_pixel predicted_variance_per_pixel correlation "
        "edge_variance background_variance scale nll_low_rank nll_diagonal nll_isotropic "
        "nll_scaled coverage_0.5 coverage_0.8 coverage_0.95 least_variance clipped_share",
    ),
    "reliability": (
        "reliability.csv",
        "model sigma bin predicted observed standard_error entries scale",
    ),
    "directions": (
        "directions.csv",
        "method k share seconds seconds_low seconds_high images sigma",
    ),
}
PICTURES = "clean noisy mean which eigenvalues directions trace"


@dataclass(frozen=True, eq=False)
class Denoiser:
    """What is known of the denoiser of one set of images: see `calibration`, `directions`.

    `pictures` holds images, shape (n, D), directions, (n, D, k), and maps at each noise scale; it
    is empty for a denoiser that is kept from a longer run (see `make denoisers`).
    """

    numbers: pd.DataFrame
    reliability: pd.DataFrame
    directions: pd.DataFrame
    pictures: Arrays
    card: dict[str, Any]


def _denoiser(folder: Path, pictured: bool) -> Denoiser:
    frames = read_frames(folder, FRAMES)
    pictures = read_arrays(folder / "pictures.npz", PICTURES) if pictured else {}
    card = read_json(folder / "card.json", "shape settings made")
    return Denoiser(**frames, pictures=pictures, card=card)


def load_denoisers(results: Path, kept: Path, images: Sequence[str]) -> dict[str, Denoiser]:
    """Read what was measured of each denoiser, by the name of its images.

    Args:
        results: the folder `data/results`.
        kept: the folder `reports/whole` of what is kept of longer runs.
        images: names of the sets of images of this run.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column or an entry, or holds no rows.
    """
    return read_runs(_denoiser, results / "uncertainty", kept / "denoisers", images)
