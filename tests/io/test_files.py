"""Files of users: what is read and written, and that bad ones are named."""

import io
import pickle
import sys
import zipfile

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from hosm.io import is_pictures, read_pages, read_rows, write

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(5, 3))
PAGE = RNG.integers(0, 255, (6, 9)).astype(np.uint8)
COLOURS = RNG.integers(0, 255, (6, 9, 3)).astype(np.uint8)


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv", "parquet"])
def test_tables_come_back_as_they_were_written(tmp_path, suffix):
    path = tmp_path / f"rows.{suffix}"
    assert write(path, {"rows": ROWS}, ["a", "b", "c"]) == [path]
    back = read_rows(path)
    np.testing.assert_array_equal(back.values, ROWS)
    assert back.names == (["a", "b", "c"] if suffix in ("csv", "parquet") else [])
    write(path, {"rows": 2 * ROWS})  # replaces what stands there
    np.testing.assert_array_equal(read_rows(path).values, 2 * ROWS)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_several_arrays_go_into_one_archive_or_a_file_each(tmp_path):
    arrays = {"mean": ROWS, "variance": ROWS**2}
    write(tmp_path / "out.npz", arrays)
    with np.load(tmp_path / "out.npz") as archive:
        np.testing.assert_array_equal(archive["variance"], ROWS**2)
    written = write(tmp_path / "out.csv", arrays)
    assert [path.name for path in written] == ["out.mean.csv", "out.variance.csv"]
    np.testing.assert_array_equal(read_rows(written[1]).values, ROWS**2)


def packed(save, *arguments, **options):
    stream = io.BytesIO()
    save(stream, *arguments, **options)
    return stream.getvalue()


def parquet(table):
    return packed(lambda stream: pyarrow.parquet.write_table(pyarrow.table(table), stream))


PNG = packed(lambda stream: Image.fromarray(COLOURS).save(stream, format="PNG"))
NPY, NPZ = packed(np.save, ROWS), packed(np.savez, x=ROWS)
PICKLED = np.array([{"a": 1}], dtype=object)
PICKLE = "it must hold numbers, got pickled objects"
TAMPERED = PNG[:60] + bytes(20) + PNG[80:]
BAD_ROWS = {
    "empty.npy": (b"", "must hold data, got an empty file"),
    "cut.npy": (NPY[:-9], "cannot be read"),
    "other.npy": (b"hello, world", "cannot be read"),
    "pickled.npy": (
        packed(np.save, PICKLED, allow_pickle=True),
        "it must hold numbers, got pickled objects",
    ),
    "raw.npy": (pickle.dumps(ROWS), PICKLE),
    "texts.npy": (packed(np.save, np.array([["a"]])), "must hold real numbers, got <U1"),
    "complex.npy": (packed(np.save, ROWS * 1j), "must hold real numbers, got complex128"),
    "flat.npy": (packed(np.save, ROWS[0]), "(n, D) or (n, height, width), not empty, got (3,)"),
    "nothing.npy": (packed(np.save, ROWS[:0]), "not empty, got (0, 3)"),
    "cut.npz": (NPZ[:-30], "cannot be read"),
    "pickled.npz": (
        packed(np.savez, x=PICKLED, allow_pickle=True),
        "it must hold numbers, got pickled objects",
    ),
    "two.npz": (packed(np.savez, x=ROWS, y=ROWS), "must hold one array, got ['x', 'y']"),
    "other.parquet": (b"PAR1 but not really", "cannot be read"),
    "none.parquet": (parquet({}), "no columns"),
    "x.xls": (b"x", "must end in .npy, .npz, .csv, .tsv, .txt, .parquet, .xlsx, got '.xls'"),
    "other.xlsx": (b"PK but not really", "cannot be read"),
}
BAD_PAGES = {
    "empty.png": (b"", "must hold data, got an empty file"),
    "cut.png": (PNG[:-60], "cannot be read"),
    "tampered.png": (TAMPERED, "cannot be read"),
    "renamed.png": (b"%!PS-Adobe-3.0 EPSF-3.0\n", "cannot be read"),
    "cut.tif": (packed(lambda s: Image.fromarray(PAGE).save(s, "TIFF"))[:20], "cannot be read"),
    "deep.npy": (packed(np.save, np.zeros((2, 2, 2, 4))), "shape (height, width) or (n,"),
    "x.csv": (b"1,2", "must end in .png, .jpg"),
}


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
@pytest.mark.parametrize("name", [*BAD_ROWS, *BAD_PAGES])
def test_bad_files_are_named_in_one_line(tmp_path, name):
    content, message = (BAD_ROWS | BAD_PAGES)[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError) as caught:
        (read_rows if name in BAD_ROWS else read_pages)(tmp_path / name)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_files_that_are_missing_are_named(tmp_path):
    for reader, name in ((read_rows, "x.npy"), (read_pages, "x.png")):
        with pytest.raises(FileNotFoundError, match=f"{name} does not exist"):
            reader(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="holds no file that ends in .png"):
        read_pages(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist, or is not a file"):
        (tmp_path / "folder.npy").mkdir()
        read_rows(tmp_path / "folder.npy")


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.tif", "x.png", "x.txt"])
def test_what_a_file_has_no_place_for_is_refused_and_leaves_nothing(tmp_path, name):
    with pytest.raises(ValueError, match=r"must have shape|must end in .npy, .*, got '.txt'"):
        write(tmp_path / name, {"x": np.zeros((2, 2, 2, 2))})
    assert not [*tmp_path.iterdir()]
    with pytest.raises(FileNotFoundError, match="the folder .*nowhere of x.csv does not exist"):
        write(tmp_path / "nowhere" / "x.csv", {"x": ROWS})


def test_a_file_is_whole_or_not_there(tmp_path, monkeypatch):
    write(tmp_path / "x.csv", {"x": ROWS})
    before = (tmp_path / "x.csv").read_bytes()
    monkeypatch.setattr("os.replace", lambda *paths: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "x.csv", {"x": 2 * ROWS})
    assert (tmp_path / "x.csv").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("x.parquet", "pyarrow.parquet", "pyarrow"),
        ("x.png", "PIL.Image", "Pillow"),
        ("x.tif", "tifffile", "tifffile"),
        ("x.csv", "pandas", "pandas"),
        ("x.txt", "pandas", "pandas"),
        ("x.xlsx", "openpyxl", "openpyxl"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, name, module, package):
    monkeypatch.setitem(sys.modules, module, None)  # importing it raises
    (tmp_path / name).write_bytes(b"1,2\n")
    need = rf"need the package {package}: pip install 'hosm\[files\]'"
    with pytest.raises(ImportError, match=need):
        (read_pages if is_pictures(name) else read_rows)(tmp_path / name)
    if name in ("x.parquet", "x.png", "x.tif"):
        with pytest.raises(ImportError, match=need):
            write(tmp_path / name, {"x": PAGE})


def test_pictures_are_known_by_their_names(tmp_path):
    assert is_pictures(tmp_path) and is_pictures("x.JPG") and is_pictures("x.ome.tif")
    assert not is_pictures("x.npy") and not is_pictures("x.csv")


def test_an_archive_that_is_written_holds_arrays_alone(tmp_path):
    write(tmp_path / "x.npz", {"x": ROWS})
    assert zipfile.ZipFile(tmp_path / "x.npz").namelist() == ["x.npy"]
