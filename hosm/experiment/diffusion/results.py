"""What the stage `diffusion` wrote, and what is kept of a longer run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hosm.experiment.presenting.longer_runs import WithLonger, read_tables

__all__ = ["BOTH", "EXACT", "LEARNED", "TRACE", "Diffusion", "DiffusionRun", "load_diffusion"]

EXACT, LEARNED = "exact", "network"  # where the mean comes from
BOTH = "diagonal plus low rank"  # the covariance of the network
TRACE = "trace of s2"
TIMES = "seconds seconds_low seconds_high repeats"
CARD = "profile commit hardware settings"
FRAMES = {  # field -> file, and the columns that a report needs
    "steps": ("steps.csv", "steps seed mean covariance gap distance evaluations"),
    "seconds": ("seconds.csv", f"covariance points {TIMES}"),
    "likelihood": (
        "likelihood.csv",
        f"mean trace error bias noise evaluations points {TIMES}",
    ),
}


@dataclass(frozen=True, eq=False)
class DiffusionRun:
    """Few steps with each covariance, and likelihoods by the flow, on a mixture of Gaussians.

    `steps` has a row for each number of steps, seed, mean and covariance or sampler: the gap of
    the bound to the exact value, in nats for each dimension, and the distance of draws; `seconds`
    one for each covariance, `likelihood` one for each source of the trace.
    """

    steps: pd.DataFrame
    seconds: pd.DataFrame
    likelihood: pd.DataFrame
    card: dict[str, Any]


Diffusion = WithLonger[DiffusionRun]


def load_diffusion(results: Path, kept: Path) -> Diffusion:
    """Read the study of diffusion.

    Args:
        results: the folder `data/results`.
        kept: the folder `reports/whole` of what is kept of longer runs.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column or an entry, or holds no rows.
    """
    return read_tables(DiffusionRun, "diffusion", FRAMES, CARD, results, kept)
