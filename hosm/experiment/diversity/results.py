"""What the stage `diversity` wrote of each set of images, and what is kept of longer runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hosm.experiment.presenting.longer_runs import read_runs
from hosm.experiment.shared.files import Arrays, read_arrays, read_frames, read_json

__all__ = ["Diversity", "load_diversity"]

FRAMES = {  # field -> file, and the columns that a report needs
    "curves": (
        "curves.csv",
        "sampler method clock step start iterations time seconds changed entropy classes "
        "confidence brightness",
    ),
    "summary": (
        "summary.csv",
        "sampler method step iterations iteration_time iteration_ratio bias changed entropy "
        "entropy_standard_error classes confidence brightness equal_time_changed gain "
        "gain_standard_error equal_time_gain equal_time_gain_standard_error",
    ),
    "search": (
        "search.csv",
        "method time step chains iterations noise_ratio noise_standard_error image_ratio "
        "image_standard_error energy_ratio energy_standard_error bias",
    ),
    "cost": ("cost.csv", "method chains seconds ratio ratio_low ratio_high"),
}
PICTURES = "starts own noise_iterations"


@dataclass(frozen=True, eq=False)
class Diversity:
    """What is known of chains of one set of images: see `diversity`, `step_search`.

    `pictures` holds denoised images of chains; the `card` settings, and the classifier's accuracy.
    Longer runs are those of `make classes`.
    """

    curves: pd.DataFrame
    summary: pd.DataFrame
    search: pd.DataFrame
    cost: pd.DataFrame
    pictures: Arrays
    card: dict[str, Any]


def _diversity(folder: Path) -> Diversity:
    frames = read_frames(folder, FRAMES)
    pictures = read_arrays(folder / "pictures.npz", PICTURES)
    card = read_json(folder / "card.json", "shape settings made accuracies")
    return Diversity(**frames, pictures=pictures, card=card)


def load_diversity(results: Path, kept: Path, images: Sequence[str]) -> dict[str, Diversity]:
    """Read what was measured of chains, by the name of their images.

    Args:
        results: the folder `data/results`.
        kept: the folder `reports/whole` of what is kept of longer runs.
        images: names of the sets of images of this run.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column or an entry, or holds no rows.
    """
    places = results / "diversity", kept / "diversity"
    return read_runs(lambda folder, _: _diversity(folder), *places, images)
