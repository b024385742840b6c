"""TIFF files of any number type, layout and axes, by the package tifffile.

Each plane of a stack (times, depths, and whatever else is not height, width or colour) is a
picture, in the order of the file. Three samples are colours; other channels are planes.
"""

from __future__ import annotations

import logging
import math
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hosm.io.formats import Array, import_package, note, of_another_package
from hosm.io.page_values import checked, turned_shape, upright, without_alpha
from hosm.io.unpacking import check_unpacked

__all__ = ["read_tiff", "tiff_shapes"]

BIG = 43  # version of a file with places of 8 bytes
ORIENTATION = 274  # numbers of the TIFF 6.0 specification, as all below
WHITE, BLACK, RGB, PALETTE, YCBCR = 0, 1, 2, 3, 6
ALPHA = (1, 2)  # kinds of extra samples
JPEG = (6, 7, 34892, 33007)  # whose decoder turns YCbCr into RGB
NO_PICTURES = ("generic", "uniform")  # series that are no more than pages of one size


@dataclass(frozen=True)
class _Block:
    """Planes of one size.

    Attributes:
        axes: a letter for each axis: Y, X, S for samples, and others.
        shape: as many lengths.
        page: the tags, as tifffile has them.
        imagej: whether ImageJ wrote it.
        read: returns the array.
    """

    axes: str
    shape: tuple[int, ...]
    page: Any
    imagej: bool
    read: Callable[[], Array]

    @property
    def samples(self) -> str:
        """Return the axis that is samples of a pixel, or nothing."""
        if "S" in self.axes:
            return "S"
        threefold = "C" in self.axes and self.length("C") == 3
        return "C" if threefold and self.page.photometric == RGB else ""

    @property
    def spread(self) -> bool:
        """Return whether the samples are channels that are no colours: pictures of their own."""
        count = self.length(self.samples)
        colour = self.page.photometric in (RGB, YCBCR) or count == 3
        return bool(self.samples) and not colour and count > 1 and not self.alpha

    @property
    def alpha(self) -> bool:
        """Return whether the last sample of a pixel is alpha."""
        extra, count = self.page.extrasamples, self.length(self.samples)
        least = 4 if self.page.photometric == RGB else 2
        return count == least and len(extra) == 1 and extra[0] in ALPHA

    @property
    def orientation(self) -> int:
        """Return the number of how the picture shall be turned."""
        tag = self.page.tags.get(ORIENTATION)
        return int(tag.value) if tag else 1

    def length(self, axis: str) -> int:
        """Return the length of an axis; 1 if there is none."""
        return self.shape[self.axes.index(axis)] if axis and axis in self.axes else 1

    def page_shape(self) -> tuple[int, ...]:
        """Return the shape of each picture, (height, width) or (height, width, 3)."""
        many = self.length(self.samples) >= 3 and not self.spread
        coloured = many or self.page.photometric == PALETTE and not self.imagej
        shape = (self.length("Y"), self.length("X"), *([3] if coloured else []))
        return turned_shape(shape, self.orientation)

    def count(self) -> int:
        """Return the number of pictures."""
        inner = self.length("Y") * self.length("X")
        own = 1 if self.spread else self.length(self.samples)
        return math.prod(self.shape) // max(1, inner * own)

    def planes(self) -> Array:
        """Return the array as (n, height, width) or (n, height, width, samples)."""
        samples = "" if self.spread else self.samples
        order = [axis for axis in self.axes if axis not in f"YX{samples}"]
        values = self.read().reshape(self.shape)
        values = values.transpose([self.axes.index(each) for each in [*order, *f"YX{samples}"]])
        inner = values.shape[len(order) :]
        pages = values.reshape(-1, *inner)
        return pages[..., 0] if samples and inner[-1] == 1 else pages


def tiff_shapes(path: Path) -> list[tuple[int, ...]]:
    """Return the shapes of the pictures of a .tif file, from its header.

    Raises:
        ValueError: the file is damaged or holds no pictures; without the name of the file.
        ImportError: tifffile is not installed.
    """
    with _blocks(path) as blocks:
        return [block.page_shape() for block in blocks for _ in range(block.count())]


def read_tiff(path: Path) -> list[Array]:
    """Return the pictures of a .tif file, (height, width) or (height, width, 3).

    Raises:
        ValueError: the file is damaged, or holds what no such array can; without its name.
        ImportError: tifffile is not installed, or the package that its compression needs.
    """
    with _blocks(path) as blocks:
        check_unpacked(
            sum(math.prod(each.shape) * each.page.dtype.itemsize for each in blocks), path
        )
        return [checked(page) for block in blocks for page in _pictures(block, path)]


@contextmanager
def _blocks(path: Path) -> Iterator[list[_Block]]:
    """Open a file and yield its blocks, all of which can be read."""
    tifffile = import_package("tifffile", "tifffile", "TIFF")
    with of_another_package(), _complaints(path), tifffile.TiffFile(path) as file:
        _check_chain(file)
        blocks = _found(file, path)
        if not blocks:
            raise ValueError("it holds no picture")
        for block in blocks:
            _check(block)
        yield blocks


def _check_chain(file: Any) -> None:  # noqa: ANN401
    """Raise ValueError if the pages of a file lead back to an earlier one: there is no end."""
    kind, handle, seen = file.tiff, file.filehandle, set()
    where = 8 if kind.version == BIG else 4
    while True:
        handle.seek(where)
        (place,) = struct.unpack(kind.offsetformat, _exactly(handle, kind.offsetsize))
        if place == 0:
            break
        if place in seen:
            raise ValueError(f"its pages must end, got one that leads back to byte {place}")
        seen.add(place)
        handle.seek(place)
        (tags,) = struct.unpack(kind.tagnoformat, _exactly(handle, kind.tagnosize))
        where = place + kind.tagnosize + tags * kind.tagsize
    handle.seek(0)


def _exactly(handle: Any, count: int) -> bytes:  # noqa: ANN401
    """Return bytes of a file; zeros where it is cut short, of which tifffile itself tells."""
    return bytes(handle.read(count)).ljust(count, b"\0")


def _found(file: Any, path: Path) -> list[_Block]:  # noqa: ANN401
    """Return the blocks of a file: its series, or page by page if they are only of one size."""
    series = file.series
    if series and series[0].kind not in NO_PICTURES:
        return [_of_series(each, file.is_imagej, path) for each in series]
    pages = [page for page in file.pages if not (page.is_reduced or page.is_mask)]
    if len(pages) < len(file.pages):
        note(path, "smaller copies and masks of its pictures are left out")
    return [_Block(page.axes, page.shape, page, False, _array(page, path)) for page in pages]


def _of_series(series: Any, imagej: bool, path: Path) -> _Block:  # noqa: ANN401
    if any(page is None for page in series.pages):
        raise ValueError("it lacks some of the planes that it lists")
    if len(series.levels) > 1:
        note(path, "smaller copies and masks of its pictures are left out")
    return _Block(series.axes, series.shape, series.keyframe, imagej, _array(series, path))


def _array(source: Any, path: Path) -> Callable[[], Array]:  # noqa: ANN401
    """Return a function that reads the array of a page or series."""

    def read() -> Array:
        try:
            return np.asarray(source.asarray())
        except (ValueError, KeyError) as error:
            if "imagecodecs" not in str(error):
                raise
            kind = source.keyframe.compression.name
            need = f"{path} is compressed by {kind}, which needs the package imagecodecs"
            raise ImportError(f"{need}: pip install 'hosm[files]'") from error

    return read


@contextmanager
def _complaints(path: Path) -> Iterator[None]:
    """Make errors of what tifffile only logs: missing parts that it fills; of the rest, notes."""
    records: list[logging.LogRecord] = []
    handler, logger = logging.Handler(logging.WARNING), logging.getLogger("tifffile")
    handler.emit = records.append  # type: ignore[assignment,method-assign]
    passed, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = passed
    for record in records:
        text = " ".join(record.getMessage().split())
        if record.levelno >= logging.ERROR or "zeroed" in text or "failed" in text:
            raise ValueError(f"it is damaged or lacks parts: {text}")
        note(path, f"tifffile says: {text}")


def _check(block: _Block) -> None:
    """Raise ValueError for a block that is no picture of grey or colours."""
    kind, page = block.page.photometric, block.page
    if not {"Y", "X"} <= set(block.axes):
        raise ValueError(f"it must have height and width, got the axes {block.axes}")
    decoded = kind == YCBCR and page.compression in JPEG
    if kind not in (WHITE, BLACK, RGB, PALETTE) and not decoded:
        name = getattr(kind, "name", kind)
        raise ValueError(f"it must be grey, RGB or of a palette, got {name}; convert it first")
    count = block.length(block.samples)
    if kind == RGB and count != 3 and not block.alpha:
        raise ValueError(f"RGB must have 3 samples of a pixel, or alpha too, got {count}")
    if kind == WHITE and page.dtype.kind not in "bu":
        raise ValueError(f"it shows 0 as white, which must be of whole numbers, got {page.dtype}")


def _pictures(block: _Block, path: Path) -> Array:
    """Return the pictures of a block, (n, height, width) or (n, height, width, 3)."""
    pages = block.planes()
    if block.spread or (block.length("C") > 1 and block.samples != "C"):
        note(path, "its channels are no colours: each is a picture of its own")
    if block.alpha:
        pages = without_alpha(pages, path)
    if block.page.photometric == PALETTE:
        pages = _coloured(pages, block, path)
    if block.page.photometric == WHITE:
        note(path, "it shows 0 as white: its values are turned round, so that 0 is black")
        pages = np.subtract(_largest(block), pages, dtype=np.dtype(_whole(pages)))
    return upright(pages, block.orientation, path)


def _whole(pages: Array) -> Any:  # noqa: ANN401
    return np.uint8 if pages.dtype.kind == "b" else pages.dtype


def _largest(block: _Block) -> int:
    """Return the largest value that the bits of a block can hold."""
    bits = block.page.bitspersample
    return int(2 ** (bits if isinstance(bits, int) else bits[0]) - 1)


def _coloured(pages: Array, block: _Block, path: Path) -> Array:
    """Return the colours of pages of a palette, in 8 bits if that is what its 16 bits repeat."""
    if block.imagej:
        note(path, "its colour table, by which ImageJ shows it, is left out")
        return pages
    colours = block.page.colormap.T
    for unit in (257, 256):
        if not (colours % unit).any():
            return (colours // unit).astype(np.uint8)[pages.astype(np.intp)]
    return np.asarray(colours.astype(np.uint16)[pages.astype(np.intp)])
