"""What the stages `speed` and `scaling` wrote."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hosm.experiment.shared.files import read_frames

__all__ = ["Cost", "load_cost"]

STEP = "device batch dimension method rank"
COSTS = "seconds seconds_low seconds_high allocated"
FRAMES = {  # field -> file, and the columns that a report needs
    "speed": (
        "speed/table2.csv",
        "device dimension batch backbone method rank seconds seconds_low seconds_high repeats "
        "paper_seconds rows_timed parameters threads",
    ),
    "training": ("speed/training.csv", f"part {STEP} target variance_reduction {COSTS}"),
    "growth": ("speed/growth.csv", f"{STEP} {COSTS}"),
    "slopes": (
        "speed/slopes.csv",
        "device method rank variable from to time memory late_time late_memory",
    ),
    "workers": ("scaling/steps.csv", "loop workers run seconds_per_step batch steps"),
    "plan": ("scaling/plan.csv", "network numbers link workers volume seconds compute_for_90"),
}


@dataclass(frozen=True, eq=False)
class Cost:
    """Times and memory.

    `speed` is table 2; `training` has losses and steps of training; `growth` times and bytes by
    D and rank, and `slopes` those of their logarithms; `workers` steps of loops with several
    workers, and `plan` what each of those has to send.
    """

    speed: pd.DataFrame
    training: pd.DataFrame
    growth: pd.DataFrame
    slopes: pd.DataFrame
    workers: pd.DataFrame
    plan: pd.DataFrame


def load_cost(results: Path) -> Cost:
    """Read times and memory.

    Args:
        results: the folder `data/results`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column, or holds no rows.
    """
    return Cost(**read_frames(results, FRAMES))
