"""Tables of numbers, a row for each point: arrays, text, Parquet files and sheets.

Parquet files and sheets need packages of the extra `files`. Packages are imported for the files
that need them alone.
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

from hosm.io.formats import (
    Array,
    import_package,
    note,
    of_another_package,
    read_with,
    suffix_among,
)
from hosm.io.text_tables import is_number, read_text, read_text_table
from hosm.io.unpacking import check_npy, check_unpacked, check_zip

__all__ = ["WRITTEN_TABLES", "Table", "read_rows", "write_csv", "write_parquet"]

TEXTS = (".csv", ".tsv", ".txt")
TABLE_SUFFIXES = (".npy", ".npz", *TEXTS, ".parquet", ".xlsx")
SHOWN = 60  # letters of a cell, at most, in a message
WRITTEN_TABLES = (".npy", ".npz", ".csv", ".parquet")
NPY = b"\x93NUMPY"  # at the beginning of a file of one array
ROWS = 2**20  # of a sheet, at most
EXACT = 2**53  # largest of the whole numbers that float64 has without a gap


@dataclass(frozen=True)
class Table:
    """What a table holds.

    Attributes:
        values: real numbers, shape (n, *).
        names: names of the columns, if the file has any.
    """

    values: Array
    names: list[str]


def read_rows(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    header: bool | None = None,
    decimal: str | None = None,
) -> Table:
    """Return the rows of a table.

    A column without a name that stands first, as pandas writes an index, is left out, with a
    `FileNote`, as everything that is left out.

    Args:
        path: a .npy file; a .npz file of one array; a .csv, .tsv or .txt file of text, as
            `hosm.io.text_tables` says; a .parquet file; the first sheet of a .xlsx file.
        columns: names of the columns to take, in this order, or their numbers from 0 if they have
            no names; None for all.
        drop: names or numbers of columns to leave out.
        header: whether the first line of a text or sheet holds names; None to judge by the lines.
        decimal: the decimal sign of a text, "." or ","; None to judge by the cells.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, of another kind, or holds anything but rows of numbers in
            the columns that are taken; or no column has a name that is given. A missing number in
            a text or sheet is such an error; in a .parquet file it becomes NaN.
        ImportError: the file needs a package that is not installed.
    """
    place = Path(path)
    suffix = suffix_among(place, TABLE_SUFFIXES)

    def rows(file: Path) -> Table:
        if suffix in (".npy", ".npz"):
            return _chosen(_numpy(file), columns, drop)
        frame, names = _frame(file, suffix, header, decimal)
        return _of_frame(frame, names, columns, drop, gaps=suffix == ".parquet")

    table = read_with(rows, place)
    values = table.values
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{path} must hold real numbers, got {values.dtype}")
    if values.ndim < 2 or values.size == 0:
        shapes = "(n, D) or (n, height, width), not empty"
        raise ValueError(f"{path} must hold an array of shape {shapes}, got {values.shape}")
    return Table(values.astype(values.dtype.newbyteorder("="), copy=False), table.names)


def _numpy(path: Path) -> Table:
    with of_another_package(), path.open("rb") as stream:
        if stream.read(len(NPY)) == NPY:
            stream.seek(0)
            check_npy(stream, path.stat().st_size)
        stream.seek(0)
        loaded = np.load(stream, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            if stream.read(1):
                raise ValueError("it must hold one array, got more")
            return Table(loaded, [])
    with of_another_package(), np.load(path, allow_pickle=False) as archive:
        check_zip(path)
        if len(archive.files) != 1:
            raise ValueError(f"it must hold one array, got {archive.files}")
        member = archive.zip.infolist()[0]
        with archive.zip.open(member) as stream:
            check_npy(stream, member.file_size)
        return Table(archive[archive.files[0]], [])


def _chosen(table: Table, columns: Sequence[str] | None, drop: Sequence[str]) -> Table:
    """Return some columns of an array (n, D), by their numbers."""
    if columns is None and not drop:
        return table
    if table.values.ndim != 2:
        raise ValueError(f"columns must be of a table (n, D), got {table.values.shape}")
    labels = [str(j) for j in range(table.values.shape[1])]
    return Table(table.values[:, _places(labels, columns, drop)], [])


def _places(
    labels: Sequence[str], columns: Sequence[str] | None, drop: Sequence[str]
) -> list[int]:
    """Return the numbers of the columns that are taken.

    Raises:
        ValueError: there is no such column, or none is left.
    """
    for name in (*(columns or ()), *drop):
        if name not in labels:
            known = ", ".join(labels)
            raise ValueError(f"--columns and --drop must name some of {known}, got {name!r}")
    place = {name: j for j, name in reversed([*enumerate(labels)])}  # the first of equal ones
    taken = [place[name] for name in (labels if columns is None else columns)]
    kept = [j for j in taken if labels[j] not in drop]
    if not kept:
        raise ValueError("--columns and --drop must leave a column, got none")
    return kept


def _frame(
    path: Path, suffix: str, header: bool | None, decimal: str | None
) -> tuple[Any, list[str] | None]:
    """Return the cells of a file as a data frame, and names."""
    if suffix in TEXTS:
        with of_another_package():
            return read_text_table(path, header, decimal)
    if suffix == ".xlsx":
        text = _sheet(path)
        with of_another_package():
            return read_text(text, path, header, ".")
    with of_another_package():
        frame = _parquet(path)
    if any(name is not None for name in frame.index.names):
        note(path, f"its index, {', '.join(map(str, frame.index.names))}, is left out")
    return frame, [str(name) for name in frame.columns]


def _parquet(path: Path) -> Any:  # noqa: ANN401
    """Return the cells of a .parquet file as a data frame, after a look at how many they are."""
    parquet: Any = import_package("pyarrow.parquet", "pyarrow", ".parquet")
    pandas: Any = import_package("pandas", "pandas", ".parquet")
    with parquet.ParquetFile(path) as file:
        about, columns = file.metadata, range(file.metadata.num_columns)
        groups = [about.row_group(k) for k in range(about.num_row_groups)]
        cells = sum(group.column(j).num_values for group in groups for j in columns)
        check_unpacked(max(8 * cells, sum(each.total_byte_size for each in groups)), path)
        texts = [
            file.schema.column(j).path
            for j in columns
            if file.schema.column(j).physical_type == "BYTE_ARRAY"
        ]
    return pandas.read_parquet(path, engine="pyarrow", read_dictionary=texts)


def _sheet(path: Path) -> str:
    """Return the first sheet of a workbook as text with commas."""
    openpyxl = import_package("openpyxl", "openpyxl", ".xlsx")
    with of_another_package():
        check_zip(path)
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        filled = _filled_rows(book.worksheets[0], path)
        book.close()
    if len(book.worksheets) > 1:
        note(path, f"only the first sheet, {book.worksheets[0].title}, is read")
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(filled)
    return text.getvalue()


def _filled_rows(sheet: Any, path: Path) -> list[tuple[Any, ...]]:  # noqa: ANN401
    """Return the rows of a sheet that hold something, of equal length.

    What the sheet says of its own size is not believed: it may claim sixteen billion cells.
    """
    sheet.reset_dimensions()
    filled, width, held = [], 0, 0
    for number, row in enumerate(sheet.iter_rows(max_row=ROWS + 1, values_only=True), 1):
        if number > ROWS:
            raise ValueError(f"a sheet must have at most {ROWS} rows, got more")
        if any(cell is not None for cell in row):
            filled.append(row)
            width, held = max(width, len(row)), held + len(row)
            check_unpacked(8 * max(held, width * len(filled)), path)
    return [(*row, *[None] * (width - len(row))) for row in filled]


def _of_frame(
    frame: Any,  # noqa: ANN401
    names: list[str] | None,
    columns: Sequence[str] | None,
    drop: Sequence[str],
    gaps: bool,
) -> Table:
    """Return columns of a data frame as an array."""
    if frame.shape[1] == 0:
        raise ValueError("it has no columns")
    labels = names or [str(j) for j in range(frame.shape[1])]
    places = _places(labels, columns, drop)
    taken = [_numbers(frame.iloc[:, j], labels[j], gaps) for j in places]
    kind = np.result_type(*taken)
    for j, values in zip(places, taken, strict=True):
        if kind.kind == "f" and values.dtype.kind in "iu" and (np.abs(values) > EXACT).any():
            text = f"the column {labels[j]!r} must hold numbers that float64 has"
            raise ValueError(f"{text}, got whole ones beyond 2^53 beside fractions")
    return Table(np.stack(taken, 1), [labels[j] for j in places] if names else [])


def _numbers(column: Any, name: str, gaps: bool) -> Array:  # noqa: ANN401
    """Return a column of a data frame as an array.

    Raises:
        ValueError: it is none of real numbers, or a cell is missing and none may.
    """
    types: Any = import_package("pandas", "pandas", "table").api.types
    real = types.is_numeric_dtype(column.dtype) and not types.is_complex_dtype(column.dtype)
    if not real:
        raise ValueError(_no_numbers(column, name))
    empty = column.isna().to_numpy()
    if empty.any() and not gaps:
        row = int(empty.argmax()) + 1
        raise ValueError(f"row {row}, column {name} must hold a number, got a missing cell or NaN")
    values: Array = (
        column.to_numpy(np.float64, na_value=np.nan) if empty.any() else column.to_numpy()
    )
    return values


def _no_numbers(column: Any, name: str) -> str:  # noqa: ANN401
    """Return what is wrong with a column that is none of numbers.

    Cells are looked at one at a time: a column may share one long text between all of its rows.
    """
    texts = ((row, str(column.iloc[row])) for row in range(len(column)))
    row, text = next((each for each in texts if not is_number(each[1])), (0, str(column.iloc[0])))
    ways = "take other columns with --columns, or leave it out with --drop"
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    return f"the column {name!r} must hold numbers, got {shown!r} in row {row + 1}; {ways}"


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
