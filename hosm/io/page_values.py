"""What becomes of the pixels of any kind of picture: alpha, orientation, and what is refused.

Pictures keep the number type of their file, in the byte order of the machine. Bits become uint8,
0 and 1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hosm.io.formats import Array, note

__all__ = ["checked", "turned_shape", "upright", "without_alpha"]

EXACT = 2**53  # largest of the whole numbers that float64 has without a gap


def without_alpha(pages: Array, path: Path) -> Array:
    """Return pages (n, height, width, s) without the last sample of each pixel, with a note.

    Args:
        pages: grey or colours, and then alpha, of which the largest value of the type, 1 for
            fractions, is opaque.
        path: the file, for the note.

    Returns:
        Shape (n, height, width) of grey, (n, height, width, 3) of colours.
    """
    alpha = pages[..., -1]
    opaque = np.iinfo(alpha.dtype).max if alpha.dtype.kind in "iu" else 1
    if (alpha == opaque).all():
        note(path, "the alpha channel, opaque everywhere, is left out")
    else:
        note(path, "some pixels are transparent: their colours are used, and alpha is left out")
    return pages[..., 0] if pages.shape[-1] == 2 else pages[..., :-1]


def turned_shape(shape: tuple[int, ...], orientation: int) -> tuple[int, ...]:
    """Return the shape that a page (height, width, ...) has when it is turned upright."""
    return (shape[1], shape[0], *shape[2:]) if orientation in (5, 6, 7, 8) else shape


def upright(pages: Array, orientation: int, path: Path) -> Array:
    """Return pages (n, height, width, ...) as they shall be seen, with a note if that differs.

    Args:
        pages: as they lie in the file.
        orientation: the number of EXIF and TIFF: 1 for upright, 3 for upside down, 6 if they must
            be turned to the right and 8 if to the left; 2, 4, 5 and 7 are mirrored. Any other
            number is taken as 1.
        path: the file, for the note.
    """
    if orientation not in range(2, 9):
        return pages
    note(path, f"turned upright, as its orientation of {orientation} says")
    if orientation in (5, 7):
        pages = np.swapaxes(pages, 1, 2)
    turns = {3: 2, 6: -1, 7: 2, 8: 1}.get(orientation, 0)  # to the left
    flip = {2: 2, 4: 1}.get(orientation)
    pages = np.rot90(pages, turns, axes=(1, 2))
    return pages if flip is None else np.flip(pages, flip)


def checked(page: Array) -> Array:
    """Return a page in the byte order of the machine, its bits as 0 and 1.

    Raises:
        ValueError: it holds anything but real numbers that are finite and that float64 has.
    """
    if page.dtype.kind not in "biuf":
        raise ValueError(f"it must hold real numbers, got {page.dtype}")
    if page.size == 0:
        raise ValueError(f"it must hold pixels, got a picture of shape {page.shape}")
    for i, j in np.argwhere(~np.isfinite(page))[:1, :2]:
        where = f"in row {i}, column {j}, counted from 0"
        raise ValueError(f"it must hold finite numbers, got others {where}")
    if page.dtype.itemsize >= 8 and not _fits_float64(page):
        raise ValueError(f"it must hold numbers that float64 has, got {page.dtype} beyond them")
    own = np.dtype(np.uint8) if page.dtype.kind == "b" else page.dtype.newbyteorder("=")
    return np.ascontiguousarray(page, dtype=own)


def _fits_float64(page: Array) -> bool:
    """Return whether float64 has all numbers of a page of 64 bits or more."""
    if page.dtype.kind in "iu":
        return bool(-EXACT <= page.min() and page.max() <= EXACT)
    return page.dtype.itemsize == 8 or bool((page.astype(np.float64) == page).all())
