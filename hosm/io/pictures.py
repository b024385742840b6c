"""Pictures of any number of pages: .png, .jpg, .bmp, .webp and .tif files, and folders of them.

Values stay as they are in the file, in its number type: 0 to 255 of 8 bits, 0 to 65535 of 16,
fractions where it has fractions. Grey pictures are (height, width), colours (height, width, 3).
Packages of the extra `files` are needed, and imported for pictures alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import overload

from hosm.io.formats import Array, read_with, suffix_among
from hosm.io.page_values import checked
from hosm.io.raster import raster_shapes, read_raster
from hosm.io.tables import read_rows
from hosm.io.tiff import read_tiff, tiff_shapes

__all__ = ["PictureFolder", "is_pictures", "open_pages", "page_shapes", "read_pages"]

TIFF = (".tif", ".tiff")
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", *TIFF, ".bmp", ".webp")
ARRAYS = (".npy", ".npz")


class PictureFolder(Sequence[Array]):
    """The pictures of a folder and of the folders in it, read when they are asked for.

    The order is that of the files' paths; each page of a file is a picture. Names that begin with
    a dot are passed over. Only the file that was read last is held in memory.

    Args:
        path: the folder.

    Raises:
        FileNotFoundError: the folder holds no picture.
        ValueError: a file is damaged or of another kind, by its header.
        ImportError: a package is missing.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        files = sorted(each for each in Path(path).rglob("*") if _is_picture(each, Path(path)))
        if not files:
            endings = ", ".join(PICTURE_SUFFIXES)
            raise FileNotFoundError(f"{path} holds no file that ends in {endings}")
        headers = [(file, read_with(_header, file)) for file in files]
        self._places = [(file, k) for file, shapes in headers for k in range(len(shapes))]
        self._shapes = [shape for _, shapes in headers for shape in shapes]
        self._held: tuple[Path, list[Array]] | None = None

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self._places)

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of a picture, which its file's header tells."""
        return self._shapes[number]

    def path(self, number: int) -> Path:
        """Return the file of a picture."""
        return self._places[number][0]

    @overload
    def __getitem__(self, number: int) -> Array: ...

    @overload
    def __getitem__(self, number: slice) -> list[Array]: ...

    def __getitem__(self, number: int | slice) -> Array | list[Array]:
        """Return a picture, or a list of several; errors as in `read_pages`."""
        if isinstance(number, slice):
            return [self[k] for k in range(len(self))[number]]
        file, page = self._places[number]
        if self._held is None or self._held[0] != file:
            self._held = (file, read_pages(file))
        return self._held[1][page]


def _is_picture(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return not hidden and file.suffix.lower() in PICTURE_SUFFIXES and file.is_file()


def _header(path: Path) -> list[tuple[int, ...]]:
    """Return the shapes of the pictures of a file."""
    return tiff_shapes(path) if path.suffix.lower() in TIFF else raster_shapes(path)


def _contents(path: Path) -> list[Array]:
    """Return the pictures of a file."""
    return read_tiff(path) if path.suffix.lower() in TIFF else read_raster(path)


def page_shapes(pages: Sequence[Array]) -> list[tuple[int, ...]]:
    """Return the shapes of pictures; those of a `PictureFolder` are not read for it."""
    if isinstance(pages, PictureFolder):
        return [pages.shape(number) for number in range(len(pages))]
    return [page.shape for page in pages]


def is_pictures(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a folder, or has the suffix of a file of pictures."""
    return Path(path).is_dir() or Path(path).suffix.lower() in PICTURE_SUFFIXES


def open_pages(path: str | os.PathLike[str]) -> Sequence[Array]:
    """Return the pictures of a path: of a folder as a `PictureFolder`, else as `read_pages`."""
    return PictureFolder(path) if Path(path).is_dir() else read_pages(path)


def read_pages(path: str | os.PathLike[str]) -> list[Array]:
    """Return pictures in the number type of their file, (height, width) or (height, width, 3).

    What is left out or turned, such as an alpha channel or a picture that lies on its side, is
    told by a `FileNote`.

    Args:
        path: a file of pictures, of which each page, time, depth and channel that is no colour
            is a picture; a folder, as in `PictureFolder`; or a .npy or .npz file of one picture
            (height, width) or (height, width, 3) or of several (n, height, width) or
            (n, height, width, 3).

    Raises:
        FileNotFoundError: there is no such file, or none in the folder.
        ValueError: a file is damaged, of another kind, or holds what is neither grey nor RGB,
            such as CMYK, or numbers that are not finite or that float64 has not.
        ImportError: a package is missing that the file needs.
    """
    place = Path(path)
    if place.is_dir():
        return [*PictureFolder(place)]
    if suffix_among(place, (*PICTURE_SUFFIXES, *ARRAYS)) in ARRAYS:
        return read_with(_array_pages, place)
    return read_with(_contents, place)


def _array_pages(path: Path) -> list[Array]:
    values = read_rows(path).values
    single = values.ndim == 2 or (values.ndim == 3 and values.shape[2] == 3)
    pages = values[None] if single else values
    if pages.ndim > 4 or (pages.ndim == 4 and pages.shape[3] != 3):
        shapes = "(height, width) or (n, height, width), of colours with a last axis of 3"
        raise ValueError(f"it must hold an array of shape {shapes}, got {values.shape}")
    return [checked(page) for page in pages]
