"""What the stage `photos` wrote, and what is kept of a longer run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hosm.experiment.presenting.longer_runs import WithLonger, read_with_longer
from hosm.experiment.shared.files import Arrays, read_arrays, read_frames, read_json

__all__ = ["BM3D", "OURS", "Photos", "PhotosRun", "load_photos"]

OURS, BM3D = "ours", "BM3D"
PLACE = "kind sigma picture method"
COVERAGES = "coverage_0.5 coverage_0.8 coverage_0.95"
FRAMES = {  # field -> file, and the columns that a report needs
    "quality": ("quality.csv", f"{PLACE} psnr seconds"),
    "error_bars": (
        "error_bars.csv",
        f"{PLACE} ratio {COVERAGES} correlation local_correlation known seconds",
    ),
    "tenths": ("tenths.csv", "kind sigma method tenth predicted measured ratio"),
    "coverage": ("coverage.csv", "kind sigma level plain calibrated least most pictures"),
}


@dataclass(frozen=True, eq=False)
class PhotosRun:
    """The denoiser of photographs and its rivals on pictures that it has not seen.

    `quality` has a row for each picture, noise scale and method, `error_bars` the same of
    methods that have error bars, `tenths` a row for each tenth of the pixels, `coverage` one for
    each level of intervals; `shown` are the pictures of the gallery.
    """

    quality: pd.DataFrame
    error_bars: pd.DataFrame
    tenths: pd.DataFrame
    coverage: pd.DataFrame
    shown: Arrays
    card: dict[str, Any]


Photos = WithLonger[PhotosRun]


def _read(folder: Path) -> PhotosRun:
    card = read_json(folder / "card.json", "profile commit hardware settings pictures")
    shown = read_arrays(folder / "pictures.npz")
    return PhotosRun(**read_frames(folder, FRAMES), shown=shown, card=card)


def load_photos(results: Path, kept: Path) -> Photos:
    """Read the study of photographs.

    Args:
        results: the folder `data/results`.
        kept: the folder `reports/whole` of what is kept of longer runs.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column or an entry, or holds no rows.
    """
    return read_with_longer(_read, results / "photos", kept / "photos")
