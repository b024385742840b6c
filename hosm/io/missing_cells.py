"""Rows of a table with a missing cell: they are refused in a sentence, or left out and counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from hosm.io.formats import Array, note

__all__ = ["check_no_gap", "rows_without_gaps"]


def _of_rows(values: Array) -> Array:
    """Return which rows of values (n, *) have a missing cell, shape (n,)."""
    if values.dtype.kind != "f":
        return np.zeros(len(values), bool)
    return np.asarray(np.isnan(values).reshape(len(values), -1).any(1))


def _row(number: int) -> str:
    return f"row {number + 1}"


def check_no_gap(values: Array, names: Sequence[str], place: Callable[[int], str] = _row) -> None:
    """Refuse a table with a missing cell.

    Args:
        values: NaN where a cell is missing, shape (n, D).
        names: of the columns, shape (D,), or none.
        place: number of a row, from 0 -> where it stands in the file; its number, from 1, by
            default.

    Raises:
        ValueError: a cell is missing; without the name of the file.
    """
    gaps = _of_rows(values)
    if not gaps.any():
        return
    row = int(gaps.argmax())
    column = int(np.isnan(values[row]).argmax())
    raise ValueError(
        f"every cell must hold a number, got a missing cell or NaN in {gaps.sum()} of {len(gaps)} "
        f"rows, first in {place(row)}, column {names[column] if names else column}; "
        "--skip-missing leaves such rows out"
    )


def rows_without_gaps(values: Array, path: Path) -> Array:
    """Return which rows have all their cells, shape (n,), with a note that counts the others.

    Args:
        values: NaN where a cell is missing, shape (n, *).
        path: the file, for the note.

    Raises:
        ValueError: no row has all its cells; without the name of the file.
    """
    gaps = _of_rows(values)
    if gaps.size and gaps.all():
        raise ValueError(f"a row must have all its cells, got a missing one in all {len(gaps)}")
    if gaps.any():
        note(path, f"{gaps.sum()} of {len(gaps)} rows, which have a missing cell, are left out")
    return ~gaps
