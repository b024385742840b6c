"""Tables of numbers, a row for each point: arrays, text, Parquet files and sheets.

Parquet files and sheets need packages of the extra `files`. Packages are imported for the files
that need them alone.
"""

from __future__ import annotations

import csv
import difflib
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from hosm.io.missing_cells import check_no_gap, rows_without_gaps
from hosm.io.text_tables import Cells, is_number, read_text, read_text_table
from hosm.io.unpacking import check_npy, check_unpacked, check_zip

__all__ = [
    "LABELLED",
    "WRITTEN_TABLES",
    "Index",
    "Table",
    "read_rows",
    "write_csv",
    "write_parquet",
]

TEXTS = (".csv", ".tsv", ".txt")
TABLE_SUFFIXES = (".npy", ".npz", *TEXTS, ".parquet", ".xlsx")
SHOWN = 60  # letters of a cell, at most, in a message
LABELLED = (".csv", ".parquet")  # files that hold names of columns and labels of rows
WRITTEN_TABLES = (".npy", ".npz", *LABELLED)
NPY = b"\x93NUMPY"  # at the beginning of a file of one array
ROWS = 2**20  # of a sheet, at most
EXACT = 2**53  # largest of the whole numbers that float64 has without a gap


@dataclass(frozen=True)
class Index:
    """Labels of rows, which are no coordinates of points.

    Attributes:
        name: of the column that holds them; empty if it has none.
        labels: one for each row, whole or other numbers, or texts.
    """

    name: str
    labels: list[Any]


@dataclass(frozen=True)
class Table:
    """What a table holds.

    Attributes:
        values: real numbers, shape (n, *).
        names: names of the columns, if the file has any.
        index: labels of all rows of the file, if it has any.
        kept: which rows of the file the values are of, shape (rows of the file,); None for all.
    """

    values: Array
    names: list[str]
    index: Index | None = None
    kept: Array | None = None


def read_rows(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    header: bool | None = None,
    decimal: str | None = None,
    preferred: Sequence[str] = (),
    skip_missing: bool = False,
) -> Table:
    """Return the rows of a table.

    A column without a name that stands first, as pandas writes an index, is no coordinate but the
    labels of the rows. Everything that is left out is told by a `FileNote`.

    Args:
        path: a .npy file; a .npz file of one array; a .csv, .tsv or .txt file of text, as
            `hosm.io.text_tables` says; a .parquet file; the first sheet of a .xlsx file.
        columns: names of the columns to take, in this order, or their numbers from 0 if they have
            no names; None for all.
        drop: names or numbers of columns to leave out.
        header: whether the first line of a text or sheet holds names; None to judge by the lines.
        decimal: the decimal sign of a text, "." or ","; None to judge by the cells.
        preferred: names of columns, such as those of a model, that are taken in this order where
            `columns` is None and the file has them all; where it lacks one, they mean nothing.
        skip_missing: leave out rows with a missing cell in the columns that are taken.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, of another kind, or holds anything but rows of numbers in
            the columns that are taken; or no column has a name that is given. A missing number in
            a text or sheet is such an error, unless such rows are skipped; in a .parquet file
            it becomes NaN.
        ImportError: the file needs a package that is not installed.
    """
    place = Path(path)
    suffix = suffix_among(place, TABLE_SUFFIXES)

    def rows(file: Path) -> Table:
        if suffix in (".npy", ".npz"):
            table = _chosen(_numpy(file), columns, drop)
        else:
            cells = _cells(file, suffix, header, decimal)
            wanted = _wanted(cells, columns, drop, preferred, file)
            table = _of_cells(cells, wanted, drop)
            if suffix != ".parquet" and not skip_missing:
                with of_another_package():
                    check_no_gap(table.values, table.names, cells.place)
        return _without_gaps(table, file) if skip_missing else table

    table = read_with(rows, place)
    values = table.values
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{path} must hold real numbers, got {values.dtype}")
    if values.ndim < 2 or values.size == 0:
        shapes = "(n, D) or (n, height, width), not empty"
        raise ValueError(f"{path} must hold an array of shape {shapes}, got {values.shape}")
    return replace(table, values=values.astype(values.dtype.newbyteorder("="), copy=False))


def _without_gaps(table: Table, path: Path) -> Table:
    """Return a table without the rows in which a cell is missing."""
    if table.values.ndim == 0:
        return table
    kept = rows_without_gaps(table.values, path)
    return table if kept.all() else replace(table, values=table.values[kept], kept=kept)


def _wanted(
    cells: Cells,
    columns: Sequence[str] | None,
    drop: Sequence[str],
    preferred: Sequence[str],
    path: Path,
) -> Sequence[str] | None:
    """Return the names of the columns to take, with a note of those that a model does not have."""
    known = cells.names or []
    if columns is not None or not preferred or not {*preferred} <= {*known} - {*drop}:
        return columns
    others = [name for name in known if name not in (*preferred, *drop)]
    if others:
        note(path, f"columns that the model does not have are left out: {', '.join(others)}")
    return preferred


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


def _meant(name: str, labels: Sequence[str]) -> str:
    """Return a question for the label that is most like a name, in large or small letters."""
    small = {label.lower(): label for label in labels}
    near = difflib.get_close_matches(name.lower(), small, 1)
    return f"; did you mean {small[near[0]]!r}?" if near else ""


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
            raise ValueError(
                f"--columns and --drop must name some of {known}, got {name!r}"
                f"{_meant(name, labels)}"
            )
    place = {name: j for j, name in reversed([*enumerate(labels)])}  # the first of equal ones
    taken = [place[name] for name in (labels if columns is None else columns)]
    kept = [j for j in taken if labels[j] not in drop]
    if not kept:
        raise ValueError("--columns and --drop must leave a column, got none")
    return kept


def _cells(path: Path, suffix: str, header: bool | None, decimal: str | None) -> Cells:
    """Return the cells of a file."""
    if suffix in TEXTS:
        with of_another_package():
            return read_text_table(path, header, decimal)
    if suffix == ".xlsx":
        text, rows = _sheet(path)
        with of_another_package():
            told = "row {} of the sheet".format
            return read_text(text, path, header, ".", lambda line: told(rows[line - 1]))
    with of_another_package():
        frame = _parquet(path)
    if any(name is not None for name in frame.index.names):
        note(path, f"its index, {', '.join(map(str, frame.index.names))}, is left out")
    pandas: Any = import_package("pandas", "pandas", ".parquet")
    plain = isinstance(frame.index, pandas.RangeIndex | pandas.MultiIndex)
    names = [str(name) for name in frame.columns]
    return Cells(frame, names, None if plain else frame.index, lambda row: f"row {row + 1}")


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


def _sheet(path: Path) -> tuple[str, list[int]]:
    """Return the first sheet of a workbook as text with commas, and the row of each line."""
    openpyxl = import_package("openpyxl", "openpyxl", ".xlsx")
    with of_another_package():
        check_zip(path)
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        filled = _filled_rows(book.worksheets[0], path)
        book.close()
    if len(book.worksheets) > 1:
        note(path, f"only the first sheet, {book.worksheets[0].title}, is read")
    lines: list[str] = []
    rows: list[int] = []
    for number, row in filled:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(row)
        lines.append(text.getvalue())
        rows += [number] * lines[-1].count("\n")
    return "".join(lines), rows


def _filled_rows(sheet: Any, path: Path) -> list[tuple[int, tuple[Any, ...]]]:  # noqa: ANN401
    """Return the rows of a sheet that hold something, of equal length, with numbers from 1.

    What the sheet says of its own size is not believed: it may claim sixteen billion cells.
    """
    sheet.reset_dimensions()
    filled, width, held = [], 0, 0
    for number, row in enumerate(sheet.iter_rows(max_row=ROWS + 1, values_only=True), 1):
        if number > ROWS:
            raise ValueError(f"a sheet must have at most {ROWS} rows, got more")
        if any(cell is not None for cell in row):
            filled.append((number, row))
            width, held = max(width, len(row)), held + len(row)
            check_unpacked(8 * max(held, width * len(filled)), path)
    return [(number, (*row, *[None] * (width - len(row)))) for number, row in filled]


def _of_cells(cells: Cells, columns: Sequence[str] | None, drop: Sequence[str]) -> Table:
    """Return columns as an array, NaN where a cell is missing."""
    frame, names = cells.frame, cells.names
    if frame.shape[1] == 0:
        raise ValueError("it has no columns")
    labels = names or [str(j) for j in range(frame.shape[1])]
    places = _places(labels, columns, drop)
    taken = [_numbers(frame.iloc[:, j], labels[j]) for j in places]
    kind = np.result_type(*taken)
    for j, values in zip(places, taken, strict=True):
        if kind.kind == "f" and values.dtype.kind in "iu" and (np.abs(values) > EXACT).any():
            text = f"the column {labels[j]!r} must hold numbers that float64 has"
            raise ValueError(f"{text}, got whole ones beyond 2^53 beside fractions")
    index = None if cells.index is None else _index(cells.index)
    return Table(np.stack(taken, 1), [labels[j] for j in places] if names else [], index)


def _index(labels: Any) -> Index:  # noqa: ANN401
    """Return labels of rows, those that are neither numbers nor texts as texts."""
    told = [each if isinstance(each, int | float | str) else str(each) for each in labels.tolist()]
    return Index(labels.name if isinstance(labels.name, str) else "", told)


def _numbers(column: Any, name: str) -> Array:  # noqa: ANN401
    """Return a column of a data frame as an array, NaN where a cell is missing.

    Raises:
        ValueError: it is none of real numbers.
    """
    types: Any = import_package("pandas", "pandas", "table").api.types
    real = types.is_numeric_dtype(column.dtype) and not types.is_complex_dtype(column.dtype)
    if not real:
        raise ValueError(_no_numbers(column, name))
    empty = column.isna().to_numpy()
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


def write_csv(
    stream: BinaryIO, values: Array, names: Sequence[str], index: Index | None = None
) -> None:
    """Write an array into a stream as a .csv file with a line of names; NaN as an empty cell.

    Args:
        stream: where to; it stays open.
        values: numbers, shape (n,) or (n, D).
        names: names of the columns, shape (D,); if there are not D, x0, x1, ... .
        index: labels of the rows, n of them, which become the first column; None for none.

    Raises:
        ValueError: the array has another shape.
    """
    columns, rows = _columns(values, names)
    cells: list[list[Any]] = rows.tolist()
    if rows.dtype.kind == "f" and np.isnan(rows).any():
        cells = [["" if cell != cell else cell for cell in row] for row in cells]
    if index is not None:
        columns = [index.name, *columns]
        cells = [[label, *row] for label, row in zip(index.labels, cells, strict=True)]
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(cells)
    text.detach()


def write_parquet(
    stream: BinaryIO, values: Array, names: Sequence[str], index: Index | None = None
) -> None:
    """Write an array into a stream as a .parquet file; as in `write_csv`, NaN as it is.

    Raises:
        ValueError: the array has another shape.
        ImportError: pyarrow is not installed, or with an index pandas.
    """
    arrow: Any = import_package("pyarrow", "pyarrow", ".parquet")
    parquet: Any = import_package("pyarrow.parquet", "pyarrow", ".parquet")
    columns, rows = _columns(values, names)
    if index is not None:
        pandas: Any = import_package("pandas", "pandas", ".parquet")
        labels = pandas.Index(index.labels, name=index.name or None)
        pandas.DataFrame(rows, labels, columns).to_parquet(stream, engine="pyarrow")
        return
    parquet.write_table(arrow.table([*rows.T], names=columns), stream)
