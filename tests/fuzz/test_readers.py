"""Bad files of each kind, by name: each is read or refused in one plain line that names it."""

import gzip
import io
import json
import zipfile

import numpy as np
import pyarrow
import pytest
from PIL import Image
from pyarrow import parquet

from hosm.io import read_pages, read_rows, unpacking
from tests.fuzz.readers import CASES, READERS, ends_well, good_files, plain_archive, zipped


def _flipped(data, seed):
    """Return data with one byte in twenty, at least one, replaced."""
    generator = np.random.default_rng(seed)
    values = np.frombuffer(data, np.uint8).copy()
    places = generator.integers(len(values), size=max(1, len(values) // 20 // (seed + 1)))
    values[places] = generator.integers(256, size=len(places))
    return values.tobytes()


DAMAGES = {
    "empty": lambda data: b"",
    "one byte": lambda data: data[:1],
    "first tenth": lambda data: data[: len(data) // 10],
    "first half": lambda data: data[: len(data) // 2],
    "without its last byte": lambda data: data[:-1],
    "second half": lambda data: data[len(data) // 2 :],
    "without its first byte": lambda data: data[1:],
    "twice": lambda data: data + data,
    "with a tail": lambda data: data + b"tail",
    "zeros": lambda data: bytes(len(data)),
    "all ones": lambda data: b"\xff" * len(data),
    "a hole of zeros": lambda data: data[: len(data) // 3] + bytes(40) + data[len(data) // 2 :],
    "turned round": lambda data: data[::-1],
    "upper case": lambda data: data.upper(),
    "text": lambda data: b"to be or not to be\n" * 9,
    "a million brackets": lambda data: b"[" * 10**6,
    "a million spaces": lambda data: b" " * 10**6 + b"x",
    "a long number": lambda data: b"1" * 10**6,
    "a wide row": lambda data: b"1," * 140_000 + b"1\n",
} | {f"flipped {seed}": lambda data, seed=seed: _flipped(data, seed) for seed in range(6)}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return good_files(tmp_path_factory.mktemp("good"))


@pytest.mark.parametrize("name", READERS)
def test_the_good_file_is_read(good, name):
    READERS[name][1](good[name])


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_ends_in_one_line(good, tmp_path, name, damage):
    path = tmp_path / f"bad{READERS[name][0]}"
    path.write_bytes(DAMAGES[damage](good[name].read_bytes()))
    assert ends_well(name, path) is None


@pytest.mark.parametrize("case", sorted(each.name for each in CASES.glob("*-*")))
def test_what_was_found_once_ends_in_one_line(tmp_path, case):
    name = max((each for each in READERS if case.startswith(f"{each}-")), key=len)
    path = tmp_path / f"bad{READERS[name][0]}"
    path.write_bytes((CASES / case).read_bytes())
    assert ends_well(name, path) is None


# Files that claim to hold far more than they do


def _npy_header(shape):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    return stream.getvalue()


SHEET = (
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    '<dimension ref="{size}"/><sheetData>{rows}</sheetData></worksheet>'
)
CELL = '<row r="{row}"><c r="{name}"><v>1</v></c></row>'


def _workbook(good, path, size, rows):
    """Write the good workbook with another sheet."""
    with zipfile.ZipFile(good["xlsx"]) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    members["xl/worksheets/sheet1.xml"] = SHEET.format(size=size, rows=rows)
    path.write_bytes(zipped(members))


def test_a_header_that_claims_more_than_follows_is_refused(tmp_path):
    path = tmp_path / "huge.npy"
    path.write_bytes(_npy_header((10**12, 100)) + bytes(80))
    with pytest.raises(ValueError, match=r"huge.npy cannot be read: it must hold 8\d+ bytes"):
        read_rows(path)
    path = tmp_path / "huge.npz"
    path.write_bytes(zipped({"x.npy": _npy_header((10**12, 100)) + bytes(80)}))
    with pytest.raises(ValueError, match=r"huge.npz cannot be read: it must hold 8\d+ bytes"):
        read_rows(path)


def test_zeros_that_unpack_a_thousandfold_are_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "FREE", 2**20)
    path = tmp_path / "zeros.npz"
    path.write_bytes(zipped({"x.npy": _npy_header((2**20, 1)) + bytes(2**23)}))
    with pytest.raises(ValueError, match="must unpack to at most 1 MB or 100 times its size"):
        read_rows(path)
    monkeypatch.setattr(unpacking, "FREE", 2**24)
    assert read_rows(path).values.shape == (2**20, 1)


def test_a_large_file_may_unpack_to_a_hundred_times_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "FREE", 2**10)
    path = tmp_path / "steps.npz"
    np.savez_compressed(path, x=np.repeat(np.arange(8000.0), 8).reshape(-1, 8))
    size = path.stat().st_size
    assert 2 * size < 8 * 64000 < 100 * size  # so that it tells the two rules apart
    assert read_rows(path).values.shape == (8000, 8)


def test_a_sheet_that_claims_all_cells_is_read_as_it_is(good, tmp_path):
    path = tmp_path / "wide.xlsx"
    rows = CELL.format(row=1, name="A1") + CELL.format(row=900_000, name="A900000")
    _workbook(good, path, "A1:XFD1048576", rows)
    assert read_rows(path).values.tolist() == [[1], [1]]


def test_a_sheet_of_a_far_row_or_many_far_columns_is_refused(good, tmp_path, monkeypatch):
    path = tmp_path / "far.xlsx"
    _workbook(good, path, "A1", CELL.format(row=10**12, name="A1"))
    with pytest.raises(ValueError, match="must have at most 1048576 rows"):
        read_rows(path)
    monkeypatch.setattr(unpacking, "FREE", 2**20)
    rows = "".join(CELL.format(row=k, name=f"XFD{k}") for k in range(1, 400))
    _workbook(good, path, "A1", rows)
    with pytest.raises(ValueError, match="must unpack to at most"):
        read_rows(path)


def test_a_column_of_one_long_text_takes_its_memory_once(tmp_path):
    path = tmp_path / "texts.parquet"
    texts = pyarrow.DictionaryArray.from_arrays(np.zeros(10**5, np.int32), ["a" * 10**6])
    parquet.write_table(pyarrow.table({"t": texts, "x": np.arange(1e5)}), path)
    with pytest.raises(ValueError, match="the column 't' must hold numbers") as caught:
        read_rows(path)
    assert len(str(caught.value)) < 500  # of a million letters
    assert read_rows(path, columns=["x"]).values.shape == (10**5, 1)


def test_a_column_of_many_equal_numbers_is_refused_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "FREE", 2**20)
    path = tmp_path / "equal.parquet"
    parquet.write_table(pyarrow.table({"x": np.zeros(10**6)}), path)
    with pytest.raises(ValueError, match="must unpack to at most"):
        read_rows(path)


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_a_picture_that_unpacks_a_thousandfold_is_refused(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(unpacking, "FREE", 2**20)
    path = tmp_path / f"black{suffix}"
    options = {"compression": "tiff_deflate"} if suffix == ".tif" else {}
    Image.new("L", (4000, 4000)).save(path, **options)
    with pytest.raises(ValueError, match="must unpack to at most"):
        read_pages(path)


CARDS = {
    "a list": [1],
    "a number": 3,
    "nothing": {},
    "a huge rank": {"given": [], "model": {"sigma": 1, "rank": 10**12, "data_std": 1}},
    "a text for a rank": {"given": [], "model": {"sigma": 1, "rank": "9", "data_std": 1}},
    "wide pictures": {
        "kind": "pictures",
        "parameters": {"widths": [10**6, 10**6], "blocks": 1},
        "sigma": [1, 2],
        "unit": 1.0,
        "history": [],
        "channels": 1,
    },
    "endless blocks": {
        "kind": "pictures",
        "parameters": {"widths": [8], "blocks": 10**12},
        "sigma": [1, 2],
        "unit": 1.0,
        "history": [],
        "channels": 1,
    },
    "pictures of nothing": {"kind": "pictures"},
}


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("name", ["model", "denoiser"])
def test_a_model_whose_card_lies_is_refused(tmp_path, name, card):
    path = tmp_path / "bad.hosm"
    plain_archive(path, CARDS[card])
    assert ends_well(name, path) is None
    with pytest.raises(ValueError, match=r"bad\.hosm"):
        READERS[name][1](path)


SETTINGS = {
    "an impossible date": "profile: smoke\na: 2001-99-99\n",
    "a time that is none": "profile: !!timestamp x\n",
    "a number of a million digits": "profile: smoke\na: " + "1" * 10**6,
    "a number that is none": "profile: !!int x\n",
    "a fraction that is none": "profile: !!float x\n",
    "sixty to the power of a thousand": "profile: smoke\na: 1" + ":59" * 1000,
    "a hundred thousand keys": "".join(f"k{j}: 1\n" for j in range(10**5)),
    "a key that is a list": "? [a]\n: 1\n",
    "a key that is a mapping": "? {a: 1}\n: 1\n",
    "a class of Python": "profile: !!python/object:os.system x\n",
    "a merge of nothing": "<<: 3\n",
    "a set": "profile: !!set {a, b}\n",
    "bytes that are none": "profile: !!binary x\n",
    "an alias": "a: &a [1]\nb: *a\n",
    "a control character": "profile: \x07\n",
    "two documents": "profile: smoke\n---\nprofile: smoke\n",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_are_none_end_in_one_line(tmp_path, name):
    path = tmp_path / "params.yaml"
    path.write_text(SETTINGS[name])
    assert ends_well("params", path) is None
    with pytest.raises(ValueError, match="params.yaml|profile"):
        READERS["params"][1](path)


def test_an_archive_of_images_that_never_ends_is_refused(tmp_path):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(bytes(2**27), 1))
    with pytest.raises(ValueError, match="at most 67108864 bytes"):
        READERS["idx-gz"][1](path)


def test_a_card_of_results_must_be_an_object(tmp_path):
    path = tmp_path / "card.json"
    path.write_text(json.dumps([1, 2]))
    with pytest.raises(ValueError, match="it must hold an object, got list"):
        READERS["card"][1](path)
