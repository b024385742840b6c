"""Folders of pictures: in order, read when asked for, and never all in memory."""

import tracemalloc

import numpy as np
import pytest
from PIL import Image

from hosm.io import (
    PictureFolder,
    open_pages,
    page_shapes,
    pictures,
    random_patches,
    read_pages,
    write,
)

RNG = np.random.default_rng(0)
SIZES = [(6, 9), (7, 5), (6, 9), (8, 8)]
PAGES = [RNG.integers(0, 255, size).astype(np.uint8) for size in SIZES]


@pytest.fixture
def folder(tmp_path):
    """Pictures in folders of folders, one file with two pages, and what is none."""
    (tmp_path / "b" / "deep").mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    Image.fromarray(PAGES[0]).save(tmp_path / "a.png")
    Image.fromarray(PAGES[1]).save(tmp_path / "b" / "deep" / "x.BMP")
    write(tmp_path / "b" / "y.tif", {"x": np.stack([PAGES[2], PAGES[0]])})
    Image.fromarray(PAGES[3]).save(tmp_path / "c.png")
    (tmp_path / "notes.txt").write_text("not a picture")
    (tmp_path / "._a.png").write_bytes(b"of another system")
    Image.fromarray(PAGES[3]).save(tmp_path / ".hidden" / "z.png")
    return tmp_path


def test_pictures_come_in_the_order_of_their_paths(folder):
    found, right = PictureFolder(folder), [PAGES[0], PAGES[1], PAGES[2], PAGES[0], PAGES[3]]
    assert len(found) == 5 and page_shapes(found) == [page.shape for page in right]
    assert [found.path(k).name for k in range(5)] == ["a.png", "x.BMP", "y.tif", "y.tif", "c.png"]
    for pages in (found, read_pages(folder), open_pages(folder), found[:]):
        for page, expected in zip(pages, right, strict=True):
            np.testing.assert_array_equal(page, expected)
    np.testing.assert_array_equal(found[-1], PAGES[3])
    assert [page.shape for page in found[1:3]] == [(7, 5), (6, 9)]
    with pytest.raises(IndexError):
        found[5]
    with pytest.raises(FileNotFoundError, match="holds no file that ends in .png"):
        PictureFolder(folder / ".hidden" / "nothing")


def test_a_damaged_header_is_named_before_a_picture_is_read(folder):
    (folder / "b" / "bad.png").write_bytes(b"%!PS-Adobe-3.0")
    with pytest.raises(ValueError, match=r"bad\.png cannot be read"):
        PictureFolder(folder)


def test_patches_are_those_of_the_pictures_in_memory_and_read_no_others(folder, monkeypatch):
    grey, reads = PictureFolder(folder), []
    original = pictures._contents
    monkeypatch.setattr(pictures, "_contents", lambda path: reads.append(path) or original(path))
    found = random_patches(grey, (3, 3), 2, np.random.default_rng(1))
    assert len(reads) <= 2
    pages = read_pages(folder)
    np.testing.assert_array_equal(
        found, random_patches(pages, (3, 3), 2, np.random.default_rng(1))
    )


def test_memory_holds_one_picture_at_a_time(tmp_path):
    side, count = 400, 12
    for number in range(count):
        page = np.full((side, side), number, np.uint8)
        Image.fromarray(page).save(tmp_path / f"{number:02}.png", compress_level=0)
    tracemalloc.start()
    folder = PictureFolder(tmp_path)
    header = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    patches = random_patches(folder, (4, 4), 1000, RNG)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert set(np.unique(patches)) == set(range(count))
    assert header < side * side  # of one picture's pixels
    assert peak < 6 * side * side  # one picture, while it is decoded and the next is
