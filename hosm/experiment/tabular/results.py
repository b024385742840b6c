"""What the stage `tabular` wrote, and what is kept of a longer run."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hosm.experiment.presenting.longer_runs import WithLonger, read_with_longer
from hosm.experiment.shared.files import Arrays, read_arrays, read_frames, read_json
from hosm.experiment.shared.rows import groups

__all__ = [
    "OURS",
    "PLACE",
    "Tabular",
    "TabularRun",
    "errors_by_method",
    "load_tabular",
    "standard_error",
]

OURS = "ours"
PLACE = ("law", "dimension", "size")
MEASURES = "score_error diagonal_error hessian_error denoising_error predicted variance_ratio"
FRAMES = {  # field -> file, and the columns that a report needs
    "laws": (
        "laws.csv",
        f"law dimension size seed mixture method {MEASURES} seconds sigma chosen",
    ),
    "tables": (
        "tables.csv",
        "table seed rows columns steps method held_out_score denoising_error predicted "
        "variance_ratio seconds sigma chosen",
    ),
}


@dataclass(frozen=True, eq=False)
class TabularRun:
    """The default estimator and its rivals: a row for each fit.

    `laws` are laws whose derivatives are known, with errors over those of the best constant;
    `tables` are real ones; `digits` are pictures, rows of a table and draws of its laws.
    """

    laws: pd.DataFrame
    tables: pd.DataFrame
    digits: Arrays
    card: dict[str, Any]


Tabular = WithLonger[TabularRun]


def errors_by_method(
    laws: pd.DataFrame, measure: str = "diagonal_error"
) -> Iterator[tuple[tuple[str, int, int], pd.DataFrame]]:
    """Yield law, dimension and rows, with the errors of each seed, a column for each method.

    Args:
        laws: as in `TabularRun`.
        measure: which error.
    """
    for place, part in groups(laws, *PLACE):
        yield place, part.pivot(index="seed", columns="method", values=measure)


def standard_error(values: pd.Series) -> float:
    """Return the standard error of a mean over seeds; not a number of one seed."""
    return float(values.std()) / math.sqrt(len(values))


def _read(folder: Path) -> TabularRun:
    card = read_json(folder / "card.json", "profile commit hardware")
    digits = read_arrays(folder / "digits.npz", "rows noisy clean")
    return TabularRun(**read_frames(folder, FRAMES), digits=digits, card=card)


def load_tabular(results: Path, kept: Path) -> Tabular:
    """Read the benchmark of tables.

    Args:
        results: the folder `data/results`.
        kept: the folder `reports/whole` of what is kept of longer runs.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column, or holds no rows.
    """
    return read_with_longer(_read, results / "tabular", kept / "tabular")
