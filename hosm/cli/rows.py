"""Rows of tables as commands read them, and answers that stay beside the rows they belong to.

A command answers a table row by row. Rows that `--skip-missing` leaves out have NaN as their
answer, an empty cell in .csv, so that a file of answers has as many rows as that of the questions,
in the same order; labels of the rows, if the file has any, are written beside the answers.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hosm.io import Array, Index, check_no_gap, read_rows

__all__ = ["OF_COLUMNS", "Rows", "read_table"]

OF_COLUMNS = ("columns", "drop", "header", "decimal", "skip_missing")  # options of tables


class _NamedPoints:
    """Points with names of their columns: the part of a data frame that an estimator uses."""

    def __init__(self, values: Array, names: list[str]) -> None:
        self.values, self.columns = values, names

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice) -> _NamedPoints:
        return _NamedPoints(self.values[rows], self.columns)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:  # noqa: ANN401
        return np.asarray(self.values, dtype=dtype)


@dataclass(frozen=True)
class Rows:
    """Points, and where they come from.

    Attributes:
        points: as an estimator takes them, shape (n, D).
        places: columns of numbers that say which row of the table each point is, from 0, or which
            patch of a picture; each of shape (n,).
        index: labels of all rows of the file, if it has any.
        kept: which rows of the file the points are, shape (rows of the file,); None for all.
    """

    points: Any
    places: dict[str, Array] = field(default_factory=dict)
    index: Index | None = None
    kept: Array | None = None

    def aligned(self, answers: Array) -> Array:
        """Return answers (n, *) with a row for each of the file, NaN where it was left out."""
        if self.kept is None:
            return answers
        every = np.full((len(self.kept), *answers.shape[1:]), np.nan, answers.dtype)
        every[self.kept] = answers
        return every

    @property
    def labels(self) -> Index | None:
        """Labels of the points: those of the file, or the numbers of the rows; None of patches."""
        if [*self.places] != ["row"]:
            return None
        numbers = self.places["row"].tolist()
        if self.index is None:
            return Index("row", numbers)
        return Index(self.index.name, [self.index.labels[number] for number in numbers])


def _listed(text: str | None) -> list[str] | None:
    """Return names that stand with commas between them; None if there are none."""
    return None if text is None else [name.strip() for name in text.split(",")]


def read_table(path: str, options: Namespace, preferred: Sequence[str] = ()) -> Rows:
    """Return the rows of a table.

    Args:
        path: the file.
        options: what the command line says of tables.
        preferred: names of the columns of a model, as in `hosm.io.read_rows`.

    Raises:
        ValueError: a cell is missing, or holds anything but a finite number; otherwise as in
            `hosm.io.read_rows`.
    """
    table = read_rows(
        path,
        columns=_listed(options.columns),
        drop=_listed(options.drop) or (),
        header=None if options.header is None else options.header == "yes",
        decimal=options.decimal,
        preferred=preferred,
        skip_missing=bool(options.skip_missing),
    )
    values, names, kept = table.values.reshape(len(table.values), -1), table.names, table.kept
    try:
        check_no_gap(values, names)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    rows = np.arange(len(values)) if kept is None else np.flatnonzero(kept)
    for i, j in np.argwhere(~np.isfinite(values))[:1]:
        where = f"in row {rows[i] + 1}, column {names[j] if names else j}"
        raise ValueError(f"{path} must hold finite numbers, got {values[i, j]} {where}")
    return Rows(_NamedPoints(values, names) if names else values, {"row": rows}, table.index, kept)
