"""PNG, JPEG, BMP and WebP files of 1 to 16 bits, by the package Pillow.

Values are those of the file: 0 to 15 of a .png file of 4 bits, 0 to 65535 of one of 16. Palettes
become colours. Pillow keeps 8 of the 16 bits of colours, and so they are read in two halves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hosm.io.formats import Array, import_package, note, of_another_package
from hosm.io.page_values import checked, turned_shape, upright, without_alpha
from hosm.io.unpacking import check_unpacked

__all__ = ["raster_shapes", "read_raster"]

FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
ORIENTATION = 274  # of EXIF
GREY = ("1", "L", "LA", "I", "I;16", "I;16B", "I;16L")
COLOURS = ("RGB", "RGBA", "P", "PA")
HALVES = {  # of 16 bits: as Pillow names the high bytes, and the low ones
    "RGB;16B": "RGB;16L",
    "RGBA;16B": "RGBA;16L",
}
GREY_WITH_ALPHA = "LA;16B"
STEPS = {"L;2": 85, "L;4": 17}  # by which Pillow multiplies values of few bits


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file and yield the picture, of grey or colours."""
    pillow = import_package("PIL.Image", "Pillow", "picture")
    try:
        with of_another_package(), pillow.open(path, formats=FORMATS) as image:
            if image.mode not in (*GREY, *COLOURS):
                need = "it must be grey, RGB or of a palette"
                raise ValueError(f"{need}, got {image.mode}; convert it first")
            yield image
    except pillow.DecompressionBombError as error:
        raise ValueError(str(error)) from error


def _frames(image: Any) -> int:  # noqa: ANN401
    """Return the number of pictures; a .jpg file has one, and others that belong to it."""
    return 1 if image.format in ("JPEG", "MPO") else int(getattr(image, "n_frames", 1))


def _raw(image: Any) -> str:  # noqa: ANN401
    """Return Pillow's name of how the pixels of a .png file lie in it."""
    return str(image.tile[0][3]) if image.format == "PNG" and image.tile else image.mode


def _orientation(image: Any) -> int:  # noqa: ANN401
    """Return how a picture shall be turned; of a .png file, if that stands before its pixels."""
    late = image.format == "PNG" and "exif" not in image.info  # would make Pillow read all pixels
    return 1 if late else int(image.getexif().get(ORIENTATION, 1))


def raster_shapes(path: Path) -> list[tuple[int, ...]]:
    """Return the shapes of the pictures of a file, from its header.

    Raises:
        ValueError: the file is damaged, or of other colours; without its name.
        ImportError: Pillow is not installed.
    """
    with _opened(path) as image:
        grey = image.mode in GREY or _raw(image) == GREY_WITH_ALPHA
        shape = (image.height, image.width, *([] if grey else [3]))
        return [turned_shape(shape, _orientation(image))] * _frames(image)


def read_raster(path: Path) -> list[Array]:
    """Return the pictures of a file, (height, width) or (height, width, 3).

    Raises:
        ValueError: the file is damaged, or of other colours; without its name.
        ImportError: Pillow is not installed.
    """
    with _opened(path) as image:
        count, raw, orientation = _frames(image), _raw(image), _orientation(image)
        check_unpacked(4 * count * image.width * image.height, path)
        if count < getattr(image, "n_frames", 1):
            note(path, "further pictures in it, such as depths or previews, are left out")
        if raw in (*HALVES, GREY_WITH_ALPHA):
            pages = _sixteen_bits(image, raw, path)
        else:
            pages = np.concatenate([_page(image, k, raw, path)[None] for k in range(count)])
        if int(image.getexif().get(ORIENTATION, 1)) != orientation:
            note(path, "its orientation, which stands behind the pixels, is left out")
        pages = upright(pages, orientation, path)
        return [checked(page) for page in pages]


def _page(image: Any, number: int, raw: str, path: Path) -> Array:  # noqa: ANN401
    """Return one picture of at most 8 bits of colours or 16 of grey."""
    image.seek(number)
    keyed = "transparency" in image.info
    if image.mode in ("P", "PA"):
        image = image.convert("RGBA" if keyed or image.mode == "PA" else "RGB")
    elif keyed:
        note(path, "its transparent colour is read as any other")
    values = np.asarray(image)
    if image.mode in ("LA", "RGBA"):
        return without_alpha(values[None], path)[0]
    if image.mode == "I":
        return values.astype(np.uint16)
    return values // STEPS[raw] if raw in STEPS else values


def _sixteen_bits(image: Any, raw: str, path: Path) -> Array:  # noqa: ANN401
    """Return one picture, (1, height, width, ...), of 16 bits with colours or alpha."""
    if getattr(image, "n_frames", 1) > 1:
        raise ValueError("a moving picture must have 8 bits, got 16")
    if "transparency" in image.info:
        note(path, "its transparent colour is read as any other")
    if raw == GREY_WITH_ALPHA:  # two bytes of grey and two of alpha, as if they were four samples
        values = _decoded(path, "RGBA").view(">u2")
    else:
        high, low = _decoded(path, raw), _decoded(path, HALVES[raw])
        values = high.astype(np.uint16) * 256 + low
    return values[None] if values.shape[-1] == 3 else without_alpha(values[None], path)


def _decoded(path: Path, raw: str) -> Array:
    """Return the bytes of a .png file's samples that Pillow takes by a name."""
    with _opened(path) as image:
        image.tile = [tile._replace(args=raw) for tile in image.tile]
        return np.array(image)
