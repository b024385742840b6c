"""Pictures written into .png and .tif files, in their units: nothing is stretched."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from hosm.io.formats import Array, import_package, note

__all__ = ["check_png", "thumbnail", "write_png", "write_tiff"]

WHOLE = (np.dtype(np.uint8), np.dtype(np.uint16))


def _pages(values: Array) -> Array:
    """Return an array of one page or several as several, (n, height, width) or (n, ..., 3)."""
    axes = 3 if values.ndim > 2 and values.shape[-1] == 3 else 2  # of a page
    pages = values[None] if values.ndim == axes else values
    if pages.ndim != axes + 1:
        shapes = "(height, width) or (n, height, width), of colours with a last axis of 3"
        raise ValueError(f"pictures must have shape {shapes}, got {values.shape}")
    return pages


def check_png(number_type: Any, shape: tuple[int, ...], count: int = 1) -> None:  # noqa: ANN401
    """Raise ValueError unless a .png file can hold pictures.

    Args:
        number_type: NumPy's type of the pixels: uint8, or uint16 of grey ones.
        shape: shape of each picture.
        count: number of pictures, which must be 1.
    """
    if count != 1:
        raise ValueError(f"a .png file must hold one page, got {count}; use a .tif file")
    if np.dtype(number_type) not in WHOLE:
        need = "a .png file must hold numbers of the type uint8 or uint16"
        raise ValueError(f"{need}, got {np.dtype(number_type)}; use .tif or .npy")
    if len(shape) == 3 and np.dtype(number_type) == np.uint16:
        raise ValueError("a .png file of colours must have 8 bits, got 16; use .tif or .npy")


def write_png(stream: BinaryIO, values: Array, number_type: Any, path: Path) -> None:  # noqa: ANN401
    """Write one page into a stream as a .png file, in the units of its values.

    Values are rounded to whole numbers. Those beyond the number type are written as its least or
    largest, and a `FileNote` says how many they are.

    Args:
        stream: where to; it stays open.
        values: shape (height, width) or (height, width, 3), finite.
        number_type: uint8, or uint16 of a grey page.
        path: the file, for the note.

    Raises:
        ValueError: the array has another shape or type.
        ImportError: Pillow is not installed.
    """
    pillow = import_package("PIL.Image", "Pillow", "picture")
    pages = _pages(values)
    check_png(number_type, pages.shape[1:], len(pages))
    largest = int(np.iinfo(number_type).max)
    whole = np.round(pages[0].astype(np.float64))
    beyond = int(((whole < 0) | (whole > largest)).sum())
    if beyond:
        note(path, f"{beyond} of {whole.size} values, beyond 0 to {largest}, were clipped")
    shades = np.clip(whole, 0, largest).astype(number_type)
    pillow.fromarray(shades).save(stream, format="PNG")


def thumbnail(values: Array, side: int = 320) -> bytes:
    """Return a small picture as a .png file: the least value is black, the largest white.

    Args:
        values: shape (height, width) or (height, width, 3), finite.
        side: pixels along a side, about; every so many of a larger picture are shown.

    Raises:
        ValueError: the array has another shape.
        ImportError: Pillow is not installed.
    """
    step = max(1, math.ceil(max(values.shape[:2]) / side))
    small = values[::step, ::step].astype(np.float64)
    span = float(values.max() - values.min()) or 1.0
    stream = io.BytesIO()
    write_png(stream, 255 * (small - values.min()) / span, np.uint8, Path("thumbnail.png"))
    return stream.getvalue()


def write_tiff(stream: BinaryIO, values: Array, text: str = "") -> None:
    """Write pages into a stream as a .tif file of float32, in the units of their values.

    Args:
        stream: where to, open for reading too; it stays open.
        values: shape (height, width) or (n, height, width), of colours with a last axis of 3.
        text: what the numbers are, which the file holds in its ImageDescription.

    Raises:
        ValueError: the array has another shape, or values beyond float32.
        ImportError: tifffile is not installed.
    """
    tifffile = import_package("tifffile", "tifffile", "TIFF")
    pages = _pages(values)
    with np.errstate(over="ignore"):
        single = pages.astype(np.float32)
    if not np.isfinite(single).all():
        raise ValueError("a .tif file must hold numbers that float32 has, got others")
    kind, axes = ("rgb", "TYXS") if pages.ndim == 4 else ("minisblack", "TYX")
    if len(single) == 1:  # one picture is no stack of one
        single, axes = single[0], axes[1:]
    metadata = {"axes": axes} | ({"description": text} if text else {})
    handle = tifffile.FileHandle(stream, name="pages.tif")  # a stream's name may be a number
    tifffile.imwrite(handle, single, photometric=kind, metadata=metadata)
