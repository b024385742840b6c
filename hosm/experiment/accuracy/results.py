"""What the stages `sweep` and `accuracy` wrote, and table 1 at the paper's sizes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hosm.experiment.shared.files import read_frame, read_frames, read_json

__all__ = ["Accuracy", "PaperSizes", "load_accuracy"]

TRIALS = "dataset regime sigma target rank seed s1_error seconds steps"
FRAMES = {  # field -> file, and the columns that a report needs
    "table1": (
        "table1.csv",
        "dataset regime sigma method rank mean seeds standard_error seconds steps paper "
        "paper_deviation",
    ),
    "learning": ("curves.csv", "dataset regime sigma target rank seed step seconds error"),
    "cost": ("cost.csv", "dataset regime target fits seconds"),
    "budgets": (
        "budgets.csv",
        "dataset regime target batch_size max_steps learning_rate weight_decay patience points",
    ),
}


@dataclass(frozen=True, eq=False)
class PaperSizes:
    """Table 1 at the paper's sizes, kept from the last run of them: see `make table1`.

    `batches` is the size of a batch of s1 on each data set: its steps times that is the number of
    fresh points that s1 draws. s2 sees none besides, since seed and epoch determine the draws.
    """

    table1: pd.DataFrame
    learning: pd.DataFrame
    cost: pd.DataFrame
    budgets: pd.DataFrame
    card: dict[str, Any]
    batches: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Accuracy:
    """Errors of second-order scores.

    `table1` has a row for each data set, regime, sigma and method, `learning` one for each
    validation of each fit, `cost` the seconds of all fits of a kind, `budgets` what each kind may
    train with, `trials` one for each fit.
    """

    table1: pd.DataFrame
    learning: pd.DataFrame
    cost: pd.DataFrame
    budgets: pd.DataFrame
    trials: pd.DataFrame
    whole: PaperSizes


def _frames(folder: Path) -> dict[str, pd.DataFrame]:
    frames = read_frames(folder, FRAMES)
    return {**frames, "table1": _with_references(frames["table1"])}


def _with_references(table1: pd.DataFrame) -> pd.DataFrame:
    """Repeat references, which hold for every regime and sigma of their data set, for each."""
    references = table1["sigma"].isna()
    places = table1.loc[~references, ["dataset", "regime", "sigma"]].drop_duplicates()
    repeated = table1[references].drop(columns=["regime", "sigma"]).merge(places, on="dataset")
    return pd.concat([table1[~references], repeated[table1.columns]], ignore_index=True)


def load_accuracy(results: Path, kept: Path, batches: Mapping[str, int]) -> Accuracy:
    """Read the errors of this run, and those at the paper's sizes.

    Args:
        results: the folder `data/results`.
        kept: the folder `reports/whole` of what is kept of longer runs.
        batches: points in a batch of s1 on each data set.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column or an entry, or holds no rows.
    """
    card = read_json(kept / "card.json", "profile seeds commit hardware protocol")
    return Accuracy(
        **_frames(results / "accuracy"),
        trials=read_frame(results / "sweep" / "trials.csv", TRIALS),
        whole=PaperSizes(**_frames(kept), card=card, batches=batches),
    )
