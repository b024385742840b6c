"""Files of numbers and of pictures, read as arrays and written whole or not at all.

Tables are .npy, .npz, .csv and .parquet files: a row for each point. Pictures are .png, .jpg and
.tif files, of any number of pages, and folders of them: values stay as they are in the file, 0 to
255 where it has 8 bits; palettes become colours, and transparency is left out. Parquet files take
the package pyarrow and pictures take Pillow (extra `files`); neither is imported before. Nothing
that is read can execute code.
"""

from __future__ import annotations

import csv
import importlib
import os
import struct
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

__all__ = ["Rows", "check_place", "is_pictures", "read_pages", "read_rows", "write"]

TABLES = (".npy", ".npz", ".csv", ".parquet")
PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")
WRITTEN = (*TABLES, ".tif", ".tiff", ".png")
UNREADABLE = (ValueError, OSError, EOFError, SyntaxError, BadZipFile, zlib.error, struct.error)
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Rows:
    """What a table holds.

    Attributes:
        values: real numbers, shape (n, *).
        names: of the columns, if the file has any.
    """

    values: Array
    names: list[str]


def _optional(module: str, what: str) -> Any:  # noqa: ANN401
    """Import a module that only some files need."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        need = f"{what} files need the package {'pyarrow' if 'arrow' in module else 'Pillow'}"
        raise ImportError(f"{need}: pip install 'hosm[files]'") from error


def _suffix(path: Path, legal: tuple[str, ...]) -> str:
    """Return the suffix of a path in small letters; ValueError unless it is legal."""
    suffix = path.suffix.lower()
    if suffix not in legal:
        raise ValueError(f"{path} ends in {suffix!r}; legal are {', '.join(legal)}")
    return suffix


def is_pictures(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a folder, or ends as files of pictures do."""
    return Path(path).is_dir() or Path(path).suffix.lower() in PICTURES


def _guarded(path: Path, reader: Callable[[Path], Any]) -> Any:  # noqa: ANN401
    """Return reader(path), with its failures as errors of one line that name the file."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist, or is no file")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty; legal are files with data")
    try:
        return reader(path)
    except UNREADABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if "pickle" in reason:  # NumPy says how to run what it holds
            reason = "it holds pickled objects, legal are numbers"
        raise ValueError(f"{path} cannot be read, legal is a sound file: {reason}") from error


def read_rows(path: str | os.PathLike[str]) -> Rows:
    """Return the rows of a table.

    Args:
        path: a .npy file; a .npz file of one array; a .csv file of numbers with commas between
            them, with or without a line of names; a .parquet file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, of another kind, or holds something else than rows of numbers;
            missing numbers in a .csv are such, and those of a .parquet file become NaN.
        ImportError: the file needs a package that is not installed.
    """
    place = Path(path)
    readers = {".npy": _numpy, ".npz": _numpy, ".csv": _csv, ".parquet": _parquet}
    rows: Rows = _guarded(place, readers[_suffix(place, TABLES)])
    found = f"{path} holds {rows.values.dtype} of shape {rows.values.shape}"
    if rows.values.dtype.kind not in "biuf":
        raise ValueError(f"{found}; legal are real numbers")
    if rows.values.ndim < 2 or rows.values.size == 0:
        raise ValueError(f"{found}; legal is (n, D) or (n, height, width), not empty")
    return rows


def _numpy(path: Path) -> Rows:
    with path.open("rb") as stream:
        loaded = np.load(stream, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            if stream.read(1):
                raise ValueError("it holds more than one array; legal is one")
            return Rows(loaded, [])
    with np.load(path, allow_pickle=False) as archive:
        if len(archive.files) != 1:
            raise ValueError(f"it holds the arrays {archive.files}; legal is one")
        return Rows(archive[archive.files[0]], [])


def _csv(path: Path) -> Rows:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        first = next(csv.reader([stream.readline()]), [])
        named = not any(_is_number(cell) for cell in first)
        if not named:
            stream.seek(0)
        lines = [line for line in stream if line.strip()]
    if not lines:
        raise ValueError("it holds no row of numbers")
    values = np.loadtxt(lines, delimiter=",", ndmin=2, comments=None, quotechar='"')
    names = [cell.strip() for cell in first] if named else []
    if named and len(names) != values.shape[1]:
        raise ValueError(f"it has {len(names)} names for {values.shape[1]} columns")
    return Rows(values, names)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _parquet(path: Path) -> Rows:
    table = _optional("pyarrow.parquet", ".parquet").read_table(path)
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.to_numpy()
        if values.dtype.kind not in "biuf":
            raise ValueError(f"the column {name!r} holds {column.type}; legal are numbers")
        columns.append(values)
    if not columns:
        raise ValueError("it has no columns")
    return Rows(np.stack(columns, 1), list(table.column_names))


def read_pages(path: str | os.PathLike[str]) -> list[Array]:
    """Return pictures, in float64, each of shape (height, width) or (height, width, 3).

    Args:
        path: a .png, .jpg or .tif file, of which each page is a picture; a folder, of which each
            such file is read in the order of their names; or a .npy or .npz file of one picture
            (height, width) or of several (n, height, width) or (n, height, width, 3).

    Raises:
        FileNotFoundError: there is no such file, or none in the folder.
        ValueError: a file is damaged, of another kind, or holds something else than pictures.
        ImportError: Pillow is not installed.
    """
    place = Path(path)
    if place.is_dir():
        files = sorted(each for each in place.iterdir() if each.suffix.lower() in PICTURES)
        if not files:
            raise FileNotFoundError(f"{path} holds no file that ends in {', '.join(PICTURES)}")
        return [page for file in files for page in read_pages(file)]
    if _suffix(place, (*PICTURES, ".npy", ".npz")) in PICTURES:
        return _guarded(place, _pillow)
    values = read_rows(place).values.astype(np.float64)
    pages = values[None] if values.ndim == 2 else values
    if pages.ndim > 4 or (pages.ndim == 4 and pages.shape[3] != 3):
        legal = "(height, width), (n, height, width) or (n, height, width, 3)"
        raise ValueError(f"{path} holds an array of shape {values.shape}; legal is {legal}")
    return [*pages]


def _pillow(path: Path) -> list[Array]:
    pillow = _optional("PIL.Image", "picture")
    pages = []
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


def check_place(path: str | os.PathLike[str], legal: tuple[str, ...] = WRITTEN) -> str:
    """Return the suffix of a file that is to be written, in small letters.

    Raises:
        ValueError: it is none of the legal ones, if any are named.
        FileNotFoundError: the folder does not exist.
    """
    place = Path(path)
    suffix = _suffix(place, legal) if legal else place.suffix.lower()
    if not place.parent.is_dir():
        raise FileNotFoundError(f"the folder {place.parent} of {place.name} does not exist")
    return suffix


def write(
    path: str | os.PathLike[str], arrays: dict[str, Array], names: list[str] | None = None
) -> list[Path]:
    """Write arrays by name; return the files, each of which is whole or not there.

    A .npz file holds them all. Other files hold one array: of several, each goes into a file of
    its own, whose name has that of the array before the suffix, as in `out.mean.npy`.

    Args:
        path: where to; .npy and .npz files hold arrays of any shape, .csv and .parquet files (n,)
            or (n, D), .tif files float32 pages (height, width) or (n, height, width), and a .png
            file one page, grey or with a last axis of 3 colours, whose values it shows from
            least to largest as 0 to 255.
        arrays: what to write.
        names: of the columns, shape (D,), where a file has a place for them; else numbers.

    Raises:
        ValueError: the suffix is none of these, or an array does not fit it.
        OSError: the folder is missing or cannot be written to.
        ImportError: the file needs a package that is not installed.
    """
    place, suffix = Path(path), check_place(path)
    if suffix == ".npz":
        _whole(place, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]
        return [place]
    writers = {".npy": lambda aside, values, _: np.save(aside, values, allow_pickle=False)}
    writers |= {".csv": _write_csv, ".parquet": _write_parquet}
    written = []
    for name, values in arrays.items():
        file = place if len(arrays) == 1 else place.with_name(f"{place.stem}.{name}{place.suffix}")
        writer = writers.get(suffix, _write_pages)
        _whole(file, lambda aside, v=values, of=writer: of(aside, v, names))  # type: ignore[misc]
        written.append(file)
    return written


def _whole(path: Path, fill: Callable[[Path], None]) -> None:
    """Move a file to its place when `fill` has written it elsewhere in the same folder."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
        staged = Path(folder) / path.name
        fill(staged)
        os.replace(staged, path)


def _table(path: Path, values: Array, names: list[str] | None) -> tuple[list[str], Array]:
    """Return names of columns, and values of shape (n, D)."""
    if values.ndim > 2:
        legal = "legal are .npy and .npz files"
        raise ValueError(f"{path.name} has no place for an array {values.shape}; {legal}")
    rows = values.reshape(len(values), -1)
    fits = names is not None and len(names) == rows.shape[1]
    return (names if fits and names else [f"x{j}" for j in range(rows.shape[1])]), rows


def _write_csv(path: Path, values: Array, names: list[str] | None) -> None:
    columns, rows = _table(path, values, names)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(rows.tolist())


def _write_parquet(path: Path, values: Array, names: list[str] | None) -> None:
    arrow, parquet = (_optional(each, ".parquet") for each in ("pyarrow", "pyarrow.parquet"))
    columns, rows = _table(path, values, names)
    parquet.write_table(arrow.table([*rows.T], names=columns), path)


def _write_pages(path: Path, values: Array, names: list[str] | None) -> None:
    pillow = _optional("PIL.Image", "picture")
    coloured = values.ndim > 2 and values.shape[-1] == 3
    pages = values[None] if values.ndim == (3 if coloured else 2) else values
    if pages.ndim != (4 if coloured else 3):
        raise ValueError(f"{path.name} has no place for an array {values.shape}; legal are pages")
    if path.suffix.lower() == ".png":
        if len(pages) != 1:
            raise ValueError(f"{path.name} has no place for {len(pages)} pages; legal are .tif")
        shades = (pages[0] - pages.min()) / (np.ptp(pages) or 1)
        return pillow.fromarray(np.round(255 * shades).astype(np.uint8)).save(path)
    if coloured:
        raise ValueError(f"{path.name} has no place for colours in float32; legal are .npy, .npz")
    images = [pillow.fromarray(page.astype(np.float32)) for page in pages]
    images[0].save(path, format="TIFF", save_all=True, append_images=images[1:])
