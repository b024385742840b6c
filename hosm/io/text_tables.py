r"""Tables as text, however programs write them: what separates cells, and what is a number.

The separator is a tab, a semicolon, a comma, a bar or spaces: the one with which all lines have as
many cells, and most of them are numbers. Numbers are written in one way throughout: 1234.5,
1234,5, 1,234.5, 1.234,5, 1 234.5 or 1'234.5. Where two ways fit and mean different numbers, as in
a file of nothing but 1,234 and 5,678, an error asks which it is. Lines that begin with # are
comments. The package pandas reads the cells.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hosm.io.formats import import_package, note

__all__ = ["MISSING", "Cells", "is_number", "read_text", "read_text_table"]

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "null", "NULL", "None")
SEPARATORS = ("\t", ";", ",", "|", " ")  # the first of those that fit equally well
NOTHING = "\x1f"  # a separator that no text has: of one column
WORDS = r"nan|[+-]?inf(?:inity)?"
WIDEST = 2**17  # columns, each of which costs time of its own
EXCEL = re.compile(r"\s*\"?sep=.\"?[ \t]*\n", re.IGNORECASE)  # a first line that Excel reads
SAMPLE = 2000  # lines by which a file is judged; others must be as these, or are refused
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True)
class Cells:
    """What a table holds before columns are chosen.

    Attributes:
        frame: a data frame whose columns are of numbers, NaN where a cell is missing, or of text.
        names: of the columns; None if there are none.
        index: the labels of the rows, a pandas series or index; None if there are none.
        place: number of a row, from 0 -> where a reader of the file finds it, in words.
    """

    frame: Any
    names: list[str] | None
    index: Any
    place: Callable[[int], str]


@dataclass(frozen=True)
class _Style:
    """How numbers are written: the decimal sign, and what stands between thousands."""

    decimal: str
    thousands: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Return the pattern of a whole cell."""
        whole, point = r"\d+", re.escape(self.decimal)
        if self.thousands:
            whole = rf"(?:[1-9]\d{{0,2}}(?:{re.escape(self.thousands)}\d{{3}})+|\d+)"
        number = rf"[+-]?(?:{whole}(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?"
        return re.compile(rf"\s*(?:{number}|{WORDS})\s*", re.IGNORECASE)

    def plain(self, cell: str) -> str:
        """Return a number as Python writes it."""
        cell = cell.replace(self.thousands, "") if self.thousands else cell
        return cell.replace(self.decimal, ".")


PLAIN, COMMA = _Style(".", ""), _Style(",", "")
STYLES = (
    *(PLAIN, COMMA, _Style(".", ","), _Style(",", ".")),
    *(_Style(point, gap) for gap in (" ", "\xa0", "\u202f", "'", "\u2019") for point in ".,"),
)
ANY = [style.pattern for style in STYLES]


def is_number(cell: str) -> bool:
    """Return whether a cell is a number in any way of writing."""
    return any(pattern.fullmatch(cell) for pattern in ANY)


def read_text_table(path: Path, header: bool | None, decimal: str | None) -> Cells:
    """Return the cells of a file of text; as in `read_text`."""
    return read_text(_decoded(path.read_bytes(), path), path, header, decimal)


def read_text(
    text: str,
    path: Path,
    header: bool | None,
    decimal: str | None,
    told: Callable[[int], str] = "line {}".format,
) -> Cells:
    """Return the cells of a table and the names of its columns.

    Args:
        text: the table.
        path: the file, for notes.
        header: whether the first line holds names; None to judge by the lines.
        decimal: the decimal sign, "." or ","; None to judge by the cells.
        told: line of the text, from 1 -> its place in the file, in words.

    Raises:
        ValueError: there is no row, or rows differ in length, or it is unclear what a number or
            a name is.
        ImportError: pandas is not installed.
    """
    whole = text
    text, comment = _without_comments(text)
    sample = text.split("\n", SAMPLE)[:SAMPLE]
    separator = _separator("\n".join(sample), decimal)
    first, *rows = _cells("\n".join(sample), separator) or [[]]
    if not first:
        raise ValueError("it has no row of numbers")
    if len(first) > WIDEST:
        raise ValueError(f"it must have at most {WIDEST} columns, got {len(first)}")
    named = _is_header(first, rows, header)
    names = [cell.strip() for cell in first] if named else _commented(comment, first, rows, path)
    style = _style(rows if named else [first, *rows], decimal)
    body = _rest(text, separator, named)
    if not body.strip():
        raise ValueError("it has no row of numbers")
    frame, names, index = _tidy(_frame(body, separator, style), names, path)
    return Cells(frame, names, index, lambda row: told(_line(whole, text, separator, row + named)))


def _line(whole: str, text: str, separator: str, record: int) -> int:
    """Return the line, from 1, in which a record begins, from 0.

    Args:
        whole: the text with its comments and empty lines.
        text: without them.
        separator: of the cells.
        record: number of a row, from 0, that of the names counted.
    """
    excel = EXCEL.match(whole)
    first = whole.count("\n", 0, excel.end()) if excel else 0
    lines = [(number, line.lstrip(" \t")) for number, line in enumerate(whole.split("\n"), 1)]
    kept = [number for number, line in lines if number > first and line and line[0] != "#"]
    reader = csv.reader(io.StringIO(text), delimiter=NOTHING if separator == " " else separator)
    for _ in range(record):
        next(reader)
    return kept[reader.line_num]


def _decoded(content: bytes, path: Path) -> str:
    """Return bytes as text with line feeds at the ends of lines."""
    encoding = next((name for mark, name in MARKS if content.startswith(mark)), "")
    if not encoding and b"\0" in content[:1000]:
        encoding = "utf-16-be" if content[:1] == b"\0" else "utf-16-le"
    try:
        text = content.decode(encoding or "utf-8")
    except UnicodeDecodeError:
        if encoding:
            raise
        text = content.decode("latin-1")
        note(path, "read as Latin-1, since it is no UTF-8")
    if "\0" in text:
        raise ValueError("it must be a table of text, got other bytes")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _without_comments(text: str) -> tuple[str, str]:
    """Return a text without comments and empty lines, and the last comment before the first row.

    Excel's `sep=;` is such a comment.
    """
    excel = EXCEL.match(text)
    text = text[excel.end() :] if excel else text
    before = re.match(r"(?:[ \t]*(?:#.*)?\n)*", text)
    comments = re.findall(r"^[ \t]*#(.*)", before.group() if before else "", re.MULTILINE)
    if "#" in text:
        text = re.sub(r"^[ \t]*#.*(?:\n|\Z)", "", text, flags=re.MULTILINE)
    if text[:1].isspace() or any(gap in text for gap in ("\n\n", "\n ", "\n\t")):
        text = re.sub(r"^[ \t]*\n", "", text, flags=re.MULTILINE)
    return text, (comments or [""])[-1]


def _cells(text: str, separator: str) -> list[list[str]]:
    """Return the cells of lines."""
    if separator == " ":
        text = re.sub(r"^ | $", "", re.sub(r"[ \t]+", " ", text), flags=re.MULTILINE)
    reader = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
    try:
        return [row for row in reader if row]
    except csv.Error as error:
        raise ValueError(str(error)) from error


def _separator(text: str, decimal: str | None) -> str:
    """Return what separates the cells of lines."""
    fitting = [each for each in SEPARATORS if each in text and each != decimal]
    if not fitting:
        return NOTHING
    found = max(fitting, key=lambda each: _fitness(_cells(text, each)))
    rows = _cells(text, found)
    judged = (rows[1:] or rows) if found == " " else rows  # a name may have spaces in it
    return found if max(map(len, judged)) > 1 else NOTHING


def _fitness(rows: list[list[str]]) -> tuple[bool, bool, bool, float]:
    """Return how well a separator fits: whether rows agree, and the share of numbers."""
    data = rows[1:] or rows
    widths = {len(row) for row in data}
    cells = [cell for row in data[:200] for cell in row if cell.strip() not in MISSING]
    share = sum(map(is_number, cells)) / max(1, len(cells))
    short = 0 if any(map(is_number, rows[0])) else 1  # names may lack that of an index
    agree = len(widths) == 1 and max(widths) - short <= len(rows[0]) <= max(widths)
    return agree and widths != {1}, len(rows[0]) in widths, max(widths) > 1, share


def _is_header(first: list[str], rows: list[list[str]], header: bool | None) -> bool:
    """Return whether the first line holds names.

    It does if it holds no number, or a word above a column of numbers, or 0, 1, 2, ... above
    fractions, as pandas names columns that have no names.
    """
    if header is not None:
        return header
    texts = [cell.strip() for cell in first]
    words = [j for j, cell in enumerate(texts) if not (is_number(cell) or cell in MISSING)]
    if words and not any(map(is_number, texts)):
        return True
    if any(_numeric_below(rows, j) for j in words):
        return True
    return not words and _is_counted(texts, rows)


def _numeric_below(rows: list[list[str]], column: int) -> bool:
    below = [row[column].strip() for row in rows if column < len(row)]
    below = [cell for cell in below if cell not in MISSING]
    return bool(below) and all(map(is_number, below))


def _is_counted(first: list[str], rows: list[list[str]]) -> bool:
    """Return whether the first line counts the columns, 0, 1, 2, ..., and is none of the rows.

    Raises:
        ValueError: it may be either.
    """
    indexed = first[0] == "" and len(first) > 1
    names = first[1:] if indexed else first
    if not rows or names != [str(j) for j in range(len(names))]:
        return False
    if indexed:
        return True
    below = [cell for row in rows for cell in row if cell.strip() not in MISSING]
    fractions = [not cell.strip().lstrip("+-").isdigit() for cell in below]
    if len(names) > 2 and all(fractions):
        return True
    if len(names) == 1 and not any(fractions):
        return False
    line = ",".join(names)
    raise ValueError(
        f"the first line, {line}, may be names or a row of numbers: say --header yes or no"
    )


def _commented(
    comment: str, first: list[str], rows: list[list[str]], path: Path
) -> list[str] | None:
    """Return names from a comment above the rows, if it has one for each column."""
    for separator in SEPARATORS:
        if separator not in comment.strip():
            continue
        (names,) = _cells(comment, separator) or [[]]
        names = [each.strip() for each in names]
        fit = len(names) == len(first) > 1 and len({*names, ""}) == len(names) + 1
        if fit and not any(map(is_number, names)):
            note(path, "the names of its columns are those of the comment above them")
            return names
    return None


def _style(rows: list[list[str]], decimal: str | None) -> _Style:
    """Return how the numbers of rows are written.

    Raises:
        ValueError: the same cells are different numbers in two ways of writing.
    """
    cells = [cell for row in rows for cell in row if not cell.strip().lstrip("+-").isdigit()]
    styles = [style for style in STYLES if decimal in (None, style.decimal)]
    fit = [sum(style.pattern.fullmatch(cell) is not None for cell in cells) for style in styles]
    best = [style for style, count in zip(styles, fit, strict=True) if count == max(fit)]
    if best[0] == COMMA and _Style(".", ",") in best:
        example = next(cell.strip() for cell in cells if COMMA.pattern.fullmatch(cell))
        raise ValueError(
            f"{example} may have a decimal comma, or be above a thousand: say --decimal , or ."
        )
    return best[0]


def _rest(text: str, separator: str, named: bool) -> str:
    """Return the lines below the names."""
    if not named:
        return text
    end = 0

    def lines() -> Iterator[str]:
        nonlocal end
        while end < len(text):
            start, end = end, text.find("\n", end) + 1 or len(text)
            yield text[start:end]

    delimiter = NOTHING if separator == " " else separator
    next(csv.reader(lines(), delimiter=delimiter))  # names may have ends of lines in them
    return text[end:]


def _frame(text: str, separator: str, style: _Style) -> Any:  # noqa: ANN401
    """Return the cells of rows as a data frame of numbers and of text."""
    pandas = import_package("pandas", "pandas", ".csv, .tsv and .txt")
    options = {
        "sep": r"\s+" if separator == " " else separator,
        "decimal": style.decimal,
        "dtype": str if style.thousands else None,
        **_exact(pandas),
    }
    try:
        frame = pandas.read_csv(
            io.BytesIO(text.encode()),
            header=None,
            na_values=[*MISSING],
            keep_default_na=False,
            skipinitialspace=True,
            low_memory=False,
            **options,
        )
    except pandas.errors.ParserError as error:
        counts = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if counts is None:
            raise
        width, row, found = counts.groups()
        raise ValueError(f"row {row} has {found} cells, and the first row {width}") from error
    for j in frame.columns:
        if not pandas.api.types.is_numeric_dtype(frame[j]):
            frame[j] = _numbers(frame[j], style)
    return frame


def _exact(pandas: Any) -> dict[str, str]:  # noqa: ANN401
    """Return what makes pandas read each number to the last bit, as it does by itself from 3.1."""
    version = tuple(map(int, pandas.__version__.split(".")[:2]))
    return {} if version >= (3, 1) else {"float_precision": "round_trip"}


def _numbers(column: Any, style: _Style) -> Any:  # noqa: ANN401
    """Return a column of text as numbers, or as it is if a cell is none."""
    cells, pattern = column.dropna().astype(str), style.pattern
    if not all(pattern.fullmatch(cell) for cell in cells):
        return column
    return cells.map(lambda cell: float(style.plain(cell))).reindex(column.index)


def _tidy(
    frame: Any,  # noqa: ANN401
    names: list[str] | None,
    path: Path,
) -> tuple[Any, list[str] | None, Any]:
    """Return a frame and its names without a column that labels the rows or is empty; the labels.

    Raises:
        ValueError: names and columns differ in number, or a name is missing or there twice.
    """
    unnamed = names is None or frame.shape[1] == len(names) + 1 or names[-1] == ""
    if frame.shape[1] > 1 and unnamed and frame.iloc[:, -1].isna().all():
        note(path, "the last column, which has no name and no cell, is left out")
        frame = frame.iloc[:, :-1]
        names = names[: frame.shape[1]] if names else None
    if names is None:
        return frame, None, None
    if frame.shape[1] == len(names) + 1:
        names = ["", *names]
    if len(names) != frame.shape[1]:
        raise ValueError(f"it has {len(names)} names for {frame.shape[1]} columns")
    index = None
    if names[0] == "" and len(names) > 1:
        note(path, "the first column, which has no name, is taken as an index and left out")
        index, frame, names = frame.iloc[:, 0], frame.iloc[:, 1:], names[1:]
    before = {""}
    for j, name in enumerate(names):
        if name in before:
            raise ValueError(f"columns must have names that differ, got {name!r} in column {j}")
        before.add(name)
    return frame, names, index
