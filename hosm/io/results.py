"""Arrays written into files, whose kind the suffix of the path tells."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from hosm.io.atomic_write import atomic_write
from hosm.io.formats import Array, suffix_among
from hosm.io.picture_files import write_png, write_tiff
from hosm.io.tables import WRITTEN_TABLES, Index, write_csv, write_parquet

__all__ = ["check_output", "write"]

WRITTEN_SUFFIXES = (*WRITTEN_TABLES, ".tif", ".tiff", ".png")


def check_output(path: str | os.PathLike[str], suffixes: Sequence[str] = WRITTEN_SUFFIXES) -> str:
    """Return the suffix of a file that is to be written, in small letters.

    Args:
        path: the file, which need not exist.
        suffixes: those that it may have; by default, those that `write` knows; if there are
            none, any.

    Raises:
        ValueError: the path has another suffix.
        FileNotFoundError: its folder does not exist.
    """
    place = Path(path)
    suffix = suffix_among(place, suffixes) if suffixes else place.suffix.lower()
    if not place.parent.is_dir():
        raise FileNotFoundError(f"the folder {place.parent} of {place.name} does not exist")
    return suffix


def write(
    path: str | os.PathLike[str],
    arrays: dict[str, Array],
    names: Sequence[str] | None = None,
    pixels: Any = None,  # noqa: ANN401
    index: Index | None = None,
    about: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write arrays by name; return the files, each of which is written whole or not at all.

    A .npz file holds all of them. Other files hold one array: of several, each goes into a file
    of its own, which has the array's name before the suffix, as in `out.mean.npy`.

    Args:
        path: the file; .npy and .npz files hold arrays of any shape, .csv and .parquet files (n,)
            or (n, D), .tif files float32 pages (height, width) or (n, height, width), of colours
            with a last axis of 3, and a .png file one page of whole numbers.
        arrays: the arrays by name.
        names: names of the columns, shape (D,), for .csv and .parquet files; None, or another
            number of names, for x0, x1, ... .
        pixels: number type of a .png file, uint8 or uint16, to which values are rounded, and
            clipped with a `FileNote` that counts them; None for that of the array.
        index: labels of the rows, which .csv and .parquet files hold too; None for none.
        about: what the numbers of an array are and their unit, by its name, which .tif files
            hold in their description; None for none.

    Raises:
        ValueError: the suffix is none of these, an array does not fit the kind of file, or some
            of its values are masked.
        OSError: the folder is missing or cannot be written to.
        ImportError: the file needs a package that is not installed.
    """
    place, suffix = Path(path), check_output(path)
    for name, values in arrays.items():
        if np.ma.is_masked(values):
            raise ValueError(f"{name} must hold numbers, got masked values")
    if suffix == ".npz":
        with atomic_write(place) as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]
        return [place]
    written = []
    for name, values in arrays.items():
        file = place if len(arrays) == 1 else place.with_name(f"{place.stem}.{name}{place.suffix}")
        with atomic_write(file) as stream:
            if suffix == ".png":
                write_png(stream, values, values.dtype if pixels is None else pixels, file)
            else:
                text = (about or {}).get(name, "")
                _write_one(stream, suffix, values, names or [], index, text)
        written.append(file)
    return written


def _write_one(
    stream: BinaryIO,
    suffix: str,
    values: Array,
    names: Sequence[str],
    index: Index | None,
    text: str,
) -> None:
    """Write one array into a stream as a file of a suffix."""
    if suffix == ".npy":
        np.save(stream, values, allow_pickle=False)
    elif suffix == ".csv":
        write_csv(stream, values, names, index)
    elif suffix == ".parquet":
        write_parquet(stream, values, names, index)
    else:
        write_tiff(stream, values, text)
