"""Every way of writing a table: its rows and names, or one line that says what is unclear."""

import io
import warnings

import numpy as np
import openpyxl
import pandas
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hosm.io import FileNote, Index, read_rows, write

NORMAL = np.random.default_rng(0).normal(size=(300, 3))
FRAME = pandas.DataFrame(NORMAL)
NAMED = pandas.DataFrame(NORMAL, columns=["a", "b", "c"])
COUNTED, ABC = ["0", "1", "2"], ["a", "b", "c"]
SMALL = [[1, 2], [3, 4]]
INDEX = "the first column, which has no name, is taken as an index and left out"
EMPTY = "the last column, which has no name and no cell, is left out"
LATIN, COMMENT = "read as Latin-1, since it is no UTF-8", "names of its columns are those of the"
TOWNS = "town,x,y\nUlm,1,2\nBonn,3,4\n"


def sheet(*sheets):
    """The bytes of a workbook with a sheet for each list of rows."""
    book, stream = openpyxl.Workbook(), io.BytesIO()
    book.remove(book.active)
    for number, rows in enumerate(sheets):
        page = book.create_sheet(f"sheet {number}")
        for row in rows:
            page.append(row)
    book.save(stream)
    return stream.getvalue()


def parquet(frame, **options):
    """The bytes of a .parquet file."""
    return frame.to_parquet(None, **options)


KINDS = {  # name: contents, options, rows, names, and what must be told
    "pandas without index.csv": (FRAME.to_csv(index=False), {}, NORMAL, COUNTED, None),
    "pandas.csv": (FRAME.to_csv(), {}, NORMAL, COUNTED, INDEX),
    "pandas, names.csv": (NAMED.to_csv(), {}, NORMAL, ABC, INDEX),
    "pandas, shuffled.csv": (NAMED.sample(frac=1, random_state=0).to_csv(), {}, None, ABC, INDEX),
    "pandas, two.csv": (
        FRAME[[0, 1]].to_csv(index=False),
        {"header": True},
        NORMAL[:, :2],
        COUNTED[:2],
        None,
    ),
    "counted rows.csv": ("0,1,2\n3,4,5\n", {"header": False}, [[0, 1, 2], [3, 4, 5]], [], None),
    "commas.csv": ("1,2\n3,4\n", {}, SMALL, [], None),
    "names.csv": ("a,b\n1,2\n3,4\n", {}, SMALL, ["a", "b"], None),
    "years.csv": (
        "day,2019,2020\n1,1.5,2.5\n",
        {},
        [[1, 1.5, 2.5]],
        ["day", "2019", "2020"],
        None,
    ),
    "tabs.tsv": (NAMED.to_csv(sep="\t", index=False), {}, NORMAL, ABC, None),
    "semicolons.csv": (NAMED.to_csv(sep=";", index=False), {}, NORMAL, ABC, None),
    "decimal commas.csv": (NAMED.to_csv(sep=";", decimal=","), {}, NORMAL, ABC, INDEX),
    "tabs and decimal commas.txt": (
        FRAME.to_csv(sep="\t", decimal=",", index=False),
        {},
        NORMAL,
        COUNTED,
        None,
    ),
    "spaces.txt": (NAMED.to_csv(sep=" ", index=False), {}, NORMAL, ABC, None),
    "many spaces.txt": ("  1   2\n 3\t 4 \n", {}, SMALL, [], None),
    "spaces and decimal commas.txt": ("1,5 2\n3 4,5\n", {}, [[1.5, 2], [3, 4.5]], [], None),
    "bars.txt": ("a|b\n1|2\n3|4\n", {}, SMALL, ["a", "b"], None),
    "one column.csv": ("my value\n1.5\n2.5\n", {}, [[1.5], [2.5]], ["my value"], None),
    "one column of numbers.txt": ("0\n1\n0\n", {}, [[0], [1], [0]], [], None),
    "one row.csv": ("1,2\n", {}, [[1, 2]], [], None),
    "R, row names.txt": ('"a" "b c"\n"r1" 1 2\n"r2" 3 4\n', {}, SMALL, ["a", "b c"], INDEX),
    "R, row names.csv": ('"","a","b"\n"r1",1,2\n"r2",3,4\n', {}, SMALL, ["a", "b"], INDEX),
    "separators at the ends.csv": ("a,b,\n1,2,\n3,4,\n", {}, SMALL, ["a", "b"], EMPTY),
    "separators after rows.csv": ("a,b\n1,2,\n3,4,\n", {}, SMALL, ["a", "b"], EMPTY),
    "separators, no names.csv": ("1,2,\n3,4,\n", {}, SMALL, [], EMPTY),
    "Excel's word.csv": ("sep=;\r\na;b\r\n1;2\r\n3;4\r\n", {}, SMALL, ["a", "b"], None),
    "UTF-8 with a mark.csv": ('\ufeff"a",b\r\n1,2\r\n\r\n3,4', {}, SMALL, ["a", "b"], None),
    "UTF-8.csv": ("été,größe\n1,2\n3,4\n", {}, SMALL, ["été", "größe"], None),
    "Latin-1.csv": ("été,größe\n1,2\n3,4\n".encode("latin-1"), {}, SMALL, ["été", "größe"], LATIN),
    "UTF-16.csv": ("a,b\n1,2\n3,4\n".encode("utf-16"), {}, SMALL, ["a", "b"], None),
    "UTF-16 backwards.csv": (
        "\ufeffa,b\n1,2\n3,4\n".encode("utf-16-be"),
        {},
        SMALL,
        ["a", "b"],
        None,
    ),
    "UTF-16 without a mark.csv": (
        "a,b\n1,2\n3,4\n".encode("utf-16-le"),
        {},
        SMALL,
        ["a", "b"],
        None,
    ),
    "old line ends.csv": ("a,b\r1,2\r3,4\r", {}, SMALL, ["a", "b"], None),
    "quoted.csv": ('"a, b","c\nd"\n"1","2"\n"3","4"\n', {}, SMALL, ["a, b", "c\nd"], None),
    "spaces at commas.csv": ("a, b\n1, 2 \n 3 ,4\n", {}, SMALL, ["a", "b"], None),
    "comments.csv": ("# of 2020\n\na,b\n1,2\n# a gap\n3,4\n", {}, SMALL, ["a", "b"], None),
    "names in a comment.txt": ("# by us\n# a b\n1 2\n3 4\n", {}, SMALL, ["a", "b"], COMMENT),
    "thousands.csv": (
        'a,b\n"1,234.5",2\n"2,345,678",3\n',
        {},
        [[1234.5, 2], [2345678, 3]],
        ["a", "b"],
        None,
    ),
    "thousands, points.csv": (
        "1.234,5;2\n1.234.567;3\n",
        {},
        [[1234.5, 2], [1234567, 3]],
        [],
        None,
    ),
    "thousands, spaces.csv": ("1 234,5;2\n3;4\n", {}, [[1234.5, 2], [3, 4]], [], None),
    "thousands, signs.csv": ("1'234.5;2\n3;4\n", {}, [[1234.5, 2], [3, 4]], [], None),
    "three decimals.csv": ("0,234;5,678\n", {}, [[0.234, 5.678]], [], None),
    "told a comma.csv": ("1,234;5,678\n", {"decimal": ","}, [[1.234, 5.678]], [], None),
    "told a point.csv": ("1,234;5,678\n", {"decimal": "."}, [[1234, 5678]], [], None),
    "powers.csv": ("1e5,-2E-3\n+.5,1.\n", {}, [[1e5, -2e-3], [0.5, 1]], [], None),
    "large.csv": ("1152921504606846977,1\n", {}, [[2**60 + 1, 1]], [], None),
    "truth.csv": ("a,b\nTrue,1\nFalse,0\n", {}, [[1, 1], [0, 0]], ["a", "b"], None),
    "some columns.csv": (TOWNS, {"columns": ["y", "x"]}, [[2, 1], [4, 3]], ["y", "x"], None),
    "but one.csv": (TOWNS, {"drop": ["town"]}, SMALL, ["x", "y"], None),
    "by number.csv": ("Ulm,1,2\nBonn,3,4\n", {"drop": ["0"]}, SMALL, [], None),
    "dates.csv": (
        "day;x;y\n2020-01-01;1;2\n2020-01-02;3;4\n",
        {"columns": ["x", "y"]},
        SMALL,
        ["x", "y"],
        None,
    ),
    "frame.parquet": (parquet(NAMED), {}, NORMAL, ABC, None),
    "index.parquet": (
        parquet(NAMED.set_index("a")),
        {},
        NORMAL[:, 1:],
        ["b", "c"],
        "its index, a, is left out",
    ),
    "numbers of many types.parquet": (
        parquet(
            pandas.DataFrame({"a": [1, 2], "b": [True, False], "c": pandas.array([3, 4], "Int8")})
        ),
        {},
        [[1, 1, 3], [2, 0, 4]],
        ABC,
        None,
    ),
    "gap.parquet": (
        parquet(pandas.DataFrame({"a": [1.5, np.nan], "b": pandas.array([1, None], "Int64")})),
        {},
        [[1.5, 1], [np.nan, np.nan]],
        ["a", "b"],
        None,
    ),
    "text.parquet": (parquet(NAMED.assign(d="red")), {"drop": ["d"]}, NORMAL, ABC, None),
    "sheet.xlsx": (
        sheet([["a", "b"], [1, 2], [3, 4.5]]),
        {},
        [[1, 2], [3, 4.5]],
        ["a", "b"],
        None,
    ),
    "sheet of pandas.xlsx": (
        sheet([[None, "a"], [0, 1.5], [1, 2.5]]),
        {},
        [[1.5], [2.5]],
        ["a"],
        INDEX,
    ),
    "sheets.xlsx": (
        sheet([[1, 2], [3, 4]], [["other"]]),
        {},
        SMALL,
        [],
        "only the first sheet, sheet 0",
    ),
    "array.npy": (None, {"columns": ["2", "0"]}, NORMAL[:, [2, 0]], [], None),
    "array.npz": (None, {"drop": ["1"]}, NORMAL[:, [0, 2]], [], None),
}
BOTH = "take other columns with --columns, or leave it out with --drop"
GAP = "every cell must hold a number, got a missing cell or NaN in"
ASKED = "may be names or a row of numbers: say --header yes or no"
REFUSED = {  # name: contents, options, and what is said
    "counted.csv": ("0,1,2\n3,4,5\n", {}, f"the first line, 0,1,2, {ASKED}"),
    "counted two.csv": (FRAME[[0, 1]].to_csv(index=False), {}, f"the first line, 0,1, {ASKED}"),
    "counted one.csv": ("0\n0.5\n1.5\n", {}, f"the first line, 0, {ASKED}"),
    "text.csv": (TOWNS, {}, f"the column 'town' must hold numbers, got 'Ulm' in row 1; {BOTH}"),
    "stray text.csv": (
        "a,b\n1,2\n3,red\n",
        {},
        f"the column 'b' must hold numbers, got 'red' in row 2; {BOTH}",
    ),
    "text, no names.csv": (
        "Ulm,1\nBonn,2\n",
        {},
        "the column '0' must hold numbers, got 'Ulm' in row 1",
    ),
    "day.csv": (
        "day,x\n2020-01-01,1\n",
        {},
        "the column 'day' must hold numbers, got '2020-01-01'",
    ),
    "note.csv": (
        "1,2\n3,4 # wrong?\n",
        {},
        "the column '1' must hold numbers, got '4 # wrong?' in row 2",
    ),
    "point for comma.csv": ("1,5;2\n3.5;4\n", {}, "got '1,5' in row 1"),
    "underline.csv": ("1_000,2\n", {}, "got '1_000' in row 1"),
    "gap.csv": ("a,b\n1,2\n3,\n", {}, f"{GAP} 1 of 2 rows, first in line 3, column b"),
    "NA.csv": ("a,b\n1,2\n3,NA\n", {}, f"{GAP} 1 of 2 rows, first in line 3, column b"),
    "nan.csv": ("1,2\nnan,4\n", {}, f"{GAP} 1 of 2 rows, first in line 2, column 0"),
    "short row.csv": ("a,b\n1,2\n3\n", {}, f"{GAP} 1 of 2 rows, first in line 3, column b"),
    "gaps.csv": (
        "sep=;\n# a table\n\na;b\n\n1;2\n# and\n3;\n;4\n",
        {},
        f"{GAP} 2 of 3 rows, first in line 8, column b; --skip-missing leaves such rows out",
    ),
    "gap below lines.csv": (
        '"a\nb",c\n1,2\n3,\n',
        {},
        f"{GAP} 1 of 2 rows, first in line 4, column c",
    ),
    "nothing else.csv": ("a,b\n1,\n,4\n", {"skip_missing": True}, "a missing one in all 2"),
    "long row.csv": ("a,b\n1,2\n3,4,5\n", {}, "row 2 has 3 cells, and the first row 2"),
    "names.csv": ("a,b\n", {}, "it has no row of numbers"),
    "comments.csv": ("# a\n# b\n", {}, "it has no row of numbers"),
    "more names.csv": ("a,b,c\n1,2\n", {}, "3 names for 2 columns"),
    "twice.csv": ("a,a\n1,2\n", {}, "names that differ, got 'a' in column 1"),
    "no name.csv": ("a,,c\n1,2,3\n", {}, "names that differ, got '' in column 1"),
    "either.csv": (
        "1,234;5,678\n",
        {},
        "1,234 may have a decimal comma, or be above a thousand: say --decimal",
    ),
    "bytes.csv": (b"\x01\0\0\0\xff\xfe\0\0", {}, "cannot be read"),
    "large beside fractions.csv": (
        "9007199254740993,.5\n",
        {},
        "column '0' must hold numbers that float64 has",
    ),
    "other column.csv": (TOWNS, {"columns": ["z"]}, "must name some of town, x, y, got 'z'"),
    "none left.csv": (TOWNS, {"drop": ["town", "x", "y"]}, "must leave a column, got none"),
    "text.parquet": (
        parquet(NAMED.assign(d="red")),
        {},
        f"the column 'd' must hold numbers, got 'red' in row 1; {BOTH}",
    ),
    "times.parquet": (
        parquet(NAMED.assign(d=pandas.Timestamp("2020-01-01"))),
        {},
        "the column 'd' must hold numbers",
    ),
    "complex.npy": (None, {}, "must hold real numbers, got complex128"),
    "gap.xlsx": (
        sheet([["a", "b"], [1, 2], [None, None], [1, None], [3, 4]]),
        {},
        f"{GAP} 1 of 3 rows, first in row 4 of the sheet, column b",
    ),
    "text.xlsx": (
        sheet([["a", "b"], [1, "red"]]),
        {},
        "the column 'b' must hold numbers, got 'red' in row 1",
    ),
    "empty.xlsx": (sheet([]), {}, "it has no row of numbers"),
    "old.xls": ("x", {}, "must end in .npy, .npz, .csv, .tsv, .txt, .parquet, .xlsx, got '.xls'"),
}


def saved(path, content):
    """Write contents; without any, an array by the suffix."""
    if content is None:
        values = NORMAL * 1j if "complex" in path.name else NORMAL
        np.savez(path, x=values) if path.suffix == ".npz" else np.save(path, values)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("name", KINDS)
def test_each_way_of_writing_is_read_and_what_is_left_out_is_told(tmp_path, name):
    content, options, expected, names, text = KINDS[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = read_rows(saved(tmp_path / name, content), **options)
    if expected is None:
        expected = NAMED.sample(frac=1, random_state=0).to_numpy()
    np.testing.assert_array_equal(table.values, expected)
    assert table.names == names
    notes = [str(each.message) for each in caught if issubclass(each.category, FileNote)]
    assert len(notes) == len(caught) == (1 if text else 0)
    assert all(text in note and name in note for note in notes)


@pytest.mark.filterwarnings("ignore::hosm.io.FileNote")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_unclear_is_asked_or_refused_in_a_line(tmp_path, name):
    content, options, message = REFUSED[name]
    with pytest.raises(ValueError) as caught:
        read_rows(saved(tmp_path / name, content), **options)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert name in str(caught.value)


GAPS = NAMED.round(3).assign(c=NAMED.c.round(3).where(NAMED.index != 1))
WITH_GAPS = {
    "gaps.csv": GAPS.to_csv(index=False),
    "gaps.tsv": GAPS.to_csv(sep="\t", decimal=",", index=False, na_rep="NA"),
    "gaps.xlsx": sheet([[*ABC], *GAPS.astype(object).where(GAPS.notna(), None).values.tolist()]),
    "gaps.parquet": parquet(GAPS),
    "gaps.npy": None,
}


@pytest.mark.parametrize("name", WITH_GAPS)
def test_rows_with_missing_cells_are_left_out_if_asked_and_counted(tmp_path, name):
    path = tmp_path / name
    np.save(path, GAPS.to_numpy()) if name.endswith("npy") else saved(path, WITH_GAPS[name])
    with pytest.warns(FileNote, match=f"1 of {len(GAPS)} rows, which have a missing cell"):
        table = read_rows(path, skip_missing=True)
    np.testing.assert_array_equal(table.values, GAPS.dropna().to_numpy())
    np.testing.assert_array_equal(table.kept, GAPS.notna().all(axis=1))


def test_cells_that_are_not_taken_may_be_missing(tmp_path):
    path = saved(tmp_path / "x.csv", WITH_GAPS["gaps.csv"])
    assert read_rows(path, drop=["c"]).kept is None


PLOTS = "plot,temp,rain,moss\nmeadow,1,2,3\nwood,4,5,6\n"
PREFERRED = {  # preferred columns, options -> the columns that are taken, or the error
    "all there": (["moss", "temp"], {}, ["moss", "temp"]),
    "one missing": (["moss", "snow"], {"drop": ["plot"]}, ["temp", "rain", "moss"]),
    "one missing beside text": (["moss", "snow"], {}, "the column 'plot' must hold numbers"),
    "one dropped": (["moss", "temp"], {"drop": ["plot", "temp"]}, ["rain", "moss"]),
    "others asked for": (["moss", "temp"], {"columns": ["rain"]}, ["rain"]),
}


@pytest.mark.parametrize("case", PREFERRED)
def test_columns_of_a_model_are_taken_by_name_where_all_are_there(tmp_path, case):
    preferred, options, expected = PREFERRED[case]
    path = saved(tmp_path / "x.csv", PLOTS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if isinstance(expected, str):
            with pytest.raises(ValueError, match=expected):
                read_rows(path, preferred=preferred, **options)
        else:
            table = read_rows(path, preferred=preferred, **options)
            assert table.names == expected
            wanted = pandas.read_csv(path)[expected].to_numpy()
            np.testing.assert_array_equal(table.values, wanted)
    told = [str(each.message) for each in caught]
    left = "columns that the model does not have are left out: plot, rain"
    assert [left in each for each in told] == ([True] if case == "all there" else [])


@pytest.mark.filterwarnings("ignore::hosm.io.FileNote")
@pytest.mark.parametrize("labels", [["wood 1", "meadow, wet", "wood 2"], [7, 5, 9]])
@pytest.mark.parametrize(
    ("suffix", "name"), [("csv", None), ("parquet", None), ("parquet", "plot")]
)
def test_labels_of_rows_come_back(tmp_path, suffix, labels, name):
    frame = NAMED.iloc[:3].set_axis(pandas.Index(labels, name=name))
    path = tmp_path / f"x.{suffix}"
    frame.to_parquet(path) if suffix == "parquet" else frame.to_csv(path)
    table = read_rows(path)
    assert table.index == Index(name or "", labels)
    write(tmp_path / f"y.{suffix}", {"x": table.values}, table.names, index=table.index)
    again = read_rows(tmp_path / f"y.{suffix}")
    assert again.index == table.index and again.names == table.names
    np.testing.assert_array_equal(again.values, table.values)


def test_missing_numbers_are_written_as_empty_cells(tmp_path):
    write(tmp_path / "x.csv", {"x": np.array([[1.0, np.nan]])}, ["a", "b"])
    assert (tmp_path / "x.csv").read_text().splitlines() == ["a,b", "1.0,"]


def test_the_byte_order_becomes_that_of_the_machine(tmp_path):
    np.save(tmp_path / "x.npy", NORMAL.astype(">f8"))
    values = read_rows(tmp_path / "x.npy").values
    assert values.dtype == np.dtype("=f8")
    np.testing.assert_array_equal(values, NORMAL)


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
ROWS = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(FLOATS, min_size=width, max_size=width), min_size=1, max_size=6
    )
)


@settings(max_examples=100, deadline=None)
@example(rows=[[5e-324, 1.7976931348623157e308], [0.1, 2.2250738585072011e-308]], style=";,")
@given(ROWS, st.sampled_from([",.", ";,", ";.", "\t.", "\t,", " .", "|."]))
def test_what_pandas_writes_comes_back_to_the_last_bit(tmp_path_factory, rows, style):
    path = tmp_path_factory.mktemp("any") / "x.csv"
    names = [f"x{j}" for j in range(len(rows[0]))]
    frame = pandas.DataFrame(rows, columns=names)
    frame.to_csv(path, sep=style[0], decimal=style[1], index=False)
    table = read_rows(path, decimal=style[1])
    np.testing.assert_array_equal(table.values, np.array(rows))
    assert table.names == names
    write(path, {"rows": table.values}, names)
    np.testing.assert_array_equal(read_rows(path).values, np.array(rows))
