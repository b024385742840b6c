"""Tables of numbers, a row for each point: .npy, .npz, .csv and .parquet files.

Parquet files need the package pyarrow (extra `files`), which is imported for them alone.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from hosm.io.formats import Array, import_package, read_with, suffix_among

__all__ = ["TABLE_SUFFIXES", "Table", "read_rows", "write_csv", "write_parquet"]

TABLE_SUFFIXES = (".npy", ".npz", ".csv", ".parquet")


@dataclass(frozen=True)
class Table:
    """What a table holds.

    Attributes:
        values: real numbers, shape (n, *).
        names: names of the columns, if the file has any.
    """

    values: Array
    names: list[str]


def read_rows(path: str | os.PathLike[str]) -> Table:
    """Return the rows of a table.

    Args:
        path: a .npy file; a .npz file of one array; a .csv file of numbers with commas between
            them, with or without a line of names; a .parquet file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, of another kind, or holds anything but rows of numbers.
            A missing number in a .csv file is such an error; in a .parquet file it becomes NaN.
        ImportError: the file needs a package that is not installed.
    """
    place = Path(path)
    readers = {".npy": _numpy, ".npz": _numpy, ".csv": _csv, ".parquet": _parquet}
    table = read_with(readers[suffix_among(place, TABLE_SUFFIXES)], place)
    values = table.values
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{path} must hold real numbers, got {values.dtype}")
    if values.ndim < 2 or values.size == 0:
        shapes = "(n, D) or (n, height, width), not empty"
        raise ValueError(f"{path} must hold an array of shape {shapes}, got {values.shape}")
    return table


def _numpy(path: Path) -> Table:
    with path.open("rb") as stream:
        loaded = np.load(stream, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            if stream.read(1):
                raise ValueError("it must hold one array, got more")
            return Table(loaded, [])
    with np.load(path, allow_pickle=False) as archive:
        if len(archive.files) != 1:
            raise ValueError(f"it must hold one array, got {archive.files}")
        return Table(archive[archive.files[0]], [])


def _csv(path: Path) -> Table:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        first = next(csv.reader([stream.readline()]), [])
        named = not any(_is_number(cell) for cell in first)
        if not named:
            stream.seek(0)
        lines = [line for line in stream if line.strip()]
    if not lines:
        raise ValueError("it has no row of numbers")
    values = np.loadtxt(lines, delimiter=",", ndmin=2, comments=None, quotechar='"')
    names = [cell.strip() for cell in first] if named else []
    if named and len(names) != values.shape[1]:
        raise ValueError(f"it has {len(names)} names for {values.shape[1]} columns")
    return Table(values, names)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _parquet(path: Path) -> Table:
    table = import_package("pyarrow.parquet", "pyarrow", ".parquet").read_table(path)
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.to_numpy()
        if values.dtype.kind not in "biuf":
            raise ValueError(f"the column {name!r} must hold numbers, got {column.type}")
        columns.append(values)
    if not columns:
        raise ValueError("it has no columns")
    return Table(np.stack(columns, 1), list(table.column_names))


def _columns(values: Array, names: Sequence[str]) -> tuple[list[str], Array]:
    """Return names of columns, x0, x1, ... if none are given, and values of shape (n, D)."""
    if values.ndim > 2:
        shapes = "(n,) or (n, D); .npy and .npz files hold any shape"
        raise ValueError(f"an array in a table must have shape {shapes}, got {values.shape}")
    rows = values.reshape(len(values), -1)
    fit = len(names) == rows.shape[1]
    return ([*names] if fit else [f"x{j}" for j in range(rows.shape[1])]), rows


def write_csv(stream: BinaryIO, values: Array, names: Sequence[str]) -> None:
    """Write an array into a stream as a .csv file with a line of names.

    Args:
        stream: where to; it stays open.
        values: numbers, shape (n,) or (n, D).
        names: names of the columns, shape (D,); if there are not D, x0, x1, ... .

    Raises:
        ValueError: the array has another shape.
    """
    columns, rows = _columns(values, names)
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(rows.tolist())
    text.detach()


def write_parquet(stream: BinaryIO, values: Array, names: Sequence[str]) -> None:
    """Write an array into a stream as a .parquet file; as in `write_csv`.

    Raises:
        ValueError: the array has another shape.
        ImportError: pyarrow is not installed.
    """
    arrow: Any = import_package("pyarrow", "pyarrow", ".parquet")
    parquet: Any = import_package("pyarrow.parquet", "pyarrow", ".parquet")
    columns, rows = _columns(values, names)
    parquet.write_table(arrow.table([*rows.T], names=columns), stream)
