"""Pictures of any number of pages: .png, .jpg and .tif files, and folders of them.

Values stay as they are in the file, 0 to 255 where it has 8 bits; palettes become colours, and
transparency is left out. The package Pillow is needed (extra `files`) and imported for pictures
alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import numpy as np

from hosm.io.formats import Array, import_package, read_with, suffix_among
from hosm.io.tables import read_rows

__all__ = ["PICTURE_SUFFIXES", "is_pictures", "read_pages", "write_png", "write_tiff"]

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")


def is_pictures(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a folder, or has the suffix of a file of pictures."""
    return Path(path).is_dir() or Path(path).suffix.lower() in PICTURE_SUFFIXES


def read_pages(path: str | os.PathLike[str]) -> list[Array]:
    """Return pictures, in float64, each of shape (height, width) or (height, width, 3).

    Args:
        path: a .png, .jpg or .tif file, of which each page is a picture; a folder, of which each
            such file is read in the order of their names; or a .npy or .npz file of one picture
            (height, width) or of several (n, height, width) or (n, height, width, 3).

    Raises:
        FileNotFoundError: there is no such file, or none in the folder.
        ValueError: a file is damaged, of another kind, or holds anything but pictures.
        ImportError: Pillow is not installed.
    """
    place = Path(path)
    if place.is_dir():
        files = sorted(each for each in place.iterdir() if each.suffix.lower() in PICTURE_SUFFIXES)
        if not files:
            endings = ", ".join(PICTURE_SUFFIXES)
            raise FileNotFoundError(f"{path} holds no file that ends in {endings}")
        return [page for file in files for page in read_pages(file)]
    if suffix_among(place, (*PICTURE_SUFFIXES, ".npy", ".npz")) in PICTURE_SUFFIXES:
        return read_with(_pillow, place)
    values = read_rows(place).values.astype(np.float64)
    pages = values[None] if values.ndim == 2 else values
    if pages.ndim > 4 or (pages.ndim == 4 and pages.shape[3] != 3):
        shapes = "(height, width), (n, height, width) or (n, height, width, 3)"
        raise ValueError(f"{path} must hold an array of shape {shapes}, got {values.shape}")
    return [*pages]


def _pillow(path: Path) -> list[Array]:
    pillow = import_package("PIL.Image", "Pillow", "picture")
    pages: list[Array] = []
    try:
        with pillow.open(path, formats=("PNG", "JPEG", "TIFF")) as image:
            for number in range(getattr(image, "n_frames", 1)):
                image.seek(number)
                grey = image.mode[:1] in ("L", "I", "F", "1")
                kept = image.mode in ("L", "F") or image.mode.startswith("I")
                page = image if kept else image.convert("L" if grey else "RGB")
                pages.append(np.asarray(page).astype(np.float64))
    except pillow.DecompressionBombError as error:
        raise ValueError(str(error)) from error
    return pages


def _pages(values: Array) -> Array:
    """Return an array of one page or several as several, (n, height, width) or (n, ..., 3)."""
    axes = 3 if values.ndim > 2 and values.shape[-1] == 3 else 2  # of a page
    pages = values[None] if values.ndim == axes else values
    if pages.ndim != axes + 1:
        shapes = "(height, width) or (n, height, width), of colours with a last axis of 3"
        raise ValueError(f"pictures must have shape {shapes}, got {values.shape}")
    return pages


def write_png(stream: BinaryIO, values: Array) -> None:
    """Write one page into a stream as a .png file of 8 bits.

    Args:
        stream: where to; it stays open.
        values: shape (height, width) or (height, width, 3); the smallest value is shown as 0,
            the largest as 255.

    Raises:
        ValueError: the array has another shape.
        ImportError: Pillow is not installed.
    """
    pillow = import_package("PIL.Image", "Pillow", "picture")
    pages = _pages(values)
    if len(pages) != 1:
        raise ValueError(f"a .png file must hold one page, got {len(pages)}; use a .tif file")
    shades = (pages[0] - pages.min()) / (np.ptp(pages) or 1)
    pillow.fromarray(np.round(255 * shades).astype(np.uint8)).save(stream, format="PNG")


def write_tiff(stream: BinaryIO, values: Array) -> None:
    """Write grey pages into a stream as a .tif file of float32.

    Args:
        stream: where to, open for reading too; it stays open.
        values: shape (height, width) or (n, height, width), of any units.

    Raises:
        ValueError: the array has another shape.
        ImportError: Pillow is not installed.
    """
    pillow = import_package("PIL.Image", "Pillow", "picture")
    pages = _pages(values)
    if pages.ndim == 4:
        raise ValueError("a .tif file must hold grey pages, got colours; use .npy or .npz")
    images = [pillow.fromarray(page.astype(np.float32)) for page in pages]
    images[0].save(stream, format="TIFF", save_all=True, append_images=images[1:])
