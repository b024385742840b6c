"""Data larger than memory: a folder of .npy files, of which a batch reads its own rows alone.

The rows of the files, in the order of their names, are the points 0, 1, 2, ... . `ShardedRows`
takes the place of a tensor in `hosm.training`: the same order, the same noise for each sample and
the same batches, bit for bit, also where a run goes on in the middle of an epoch. What lies in
Parquet files or comes from a loader is packed into such a folder once, piece by piece.
"""

import bisect
import copy
import io
import itertools
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import torch
from numpy.typing import NDArray
from torch import Tensor

from hosm.checks import check_count, check_number
from hosm.io import write_whole
from hosm.io.unpacking import check_npy

__all__ = ["ShardedRows", "pack", "parquet_pieces"]

Array = NDArray[Any]
PIECE = 65_536  # rows of a Parquet file that are in memory at once


class _File:
    """One .npy file: its rows, and where they begin."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as stream:
            try:
                check_npy(stream, path.stat().st_size)
            except ValueError as error:
                raise ValueError(f"{path} cannot be read: {error}") from error
            version = np.lib.format.read_magic(stream)
            read: Any = getattr(np.lib.format, f"read_array_header_{version[0]}_{version[1]}")
            self.shape, turned, self.dtype = read(stream)
            self.start = stream.tell()
        if turned or len(self.shape) < 2 or self.dtype.kind not in "uif":
            raise ValueError(
                f"{path} must hold rows of numbers, one after the other, got {self.dtype} "
                f"{self.shape}"
            )
        self.width = math.prod(self.shape[1:])

    def row(self, number: int) -> Array:
        """Return one row, shape (D,); no file stays open, for there may be thousands."""
        place = self.start + number * self.width * self.dtype.itemsize
        return np.fromfile(self.path, self.dtype, self.width, offset=place)


class ShardedRows:
    """The rows of a folder of .npy files, float32, read when they are asked for.

    Args:
        folder: its .npy files hold arrays (n, *) of one number type and row shape.
        unit: a stored number b becomes b / unit + low; above 0.
        low: see `unit`.

    Raises:
        FileNotFoundError: the folder holds no such file.
        ValueError: a file is damaged, or differs from the first in type or shape of its rows.
    """

    def __init__(self, folder: str | Path, unit: float = 1.0, low: float = 0.0) -> None:
        check_number("unit", unit)
        self.unit, self.low, self.device = unit, low, torch.device("cpu")
        paths = sorted(Path(folder).glob("*.npy"))
        if not paths:
            raise FileNotFoundError(f"{folder} holds no .npy file")
        self.files = [_File(path) for path in paths]
        first = self.files[0]
        for path, file in zip(paths, self.files, strict=True):
            if (file.dtype, file.shape[1:]) != (first.dtype, first.shape[1:]):
                raise ValueError(
                    f"{path} must hold {first.dtype} rows of shape {first.shape[1:]}, got "
                    f"{file.dtype} of {file.shape[1:]}"
                )
        self.ends = [*itertools.accumulate(file.shape[0] for file in self.files)]

    def __len__(self) -> int:
        """Return the number of rows of all files."""
        return self.ends[-1]

    def on(self, device: torch.device) -> "ShardedRows":
        """Return the same rows, which go to a device once they are read.

        There the noise of a batch is drawn, which takes a core far longer than reading does.

        Args:
            device: of the training.
        """
        moved = copy.copy(self)
        moved.device = device
        return moved

    def fingerprint(self) -> bytes:
        """Return what tells these rows from others: each file's name, size and time of change."""
        stats = [(file.path, file.path.stat()) for file in self.files]
        listed = [f"{path.name} {each.st_size} {each.st_mtime_ns}" for path, each in stats]
        return "\n".join([*listed, f"{self.unit} {self.low}"]).encode()

    def __getitem__(self, index: Tensor) -> Tensor:
        """Return rows, shape (n, D).

        Args:
            index: whole numbers in 0, ..., N - 1, shape (n,).

        Raises:
            ValueError: there is no such row, or a number is not finite.
        """
        for number in index.tolist():
            check_count("index", number, 0, len(self) - 1)
        rows = np.empty((len(index), self.files[0].width), np.float32)
        for place, number in enumerate(index.tolist()):
            which = bisect.bisect_right(self.ends, number)
            begin = self.ends[which - 1] if which else 0
            rows[place] = self.files[which].row(number - begin)
        rows = rows / np.float32(self.unit) + np.float32(self.low)
        if not np.isfinite(rows).all():
            raise ValueError("points must be finite, got NaN or infinity among them")
        return torch.from_numpy(rows).to(self.device)


def pack(pieces: Iterable[Array], folder: str | Path) -> int:
    """Write pieces of a data set into a folder, a file each; return the number of rows.

    Args:
        pieces: arrays (n, *) of one number type, such as the batches of a torch loader.
        folder: where to; it must not hold .npy files.

    Raises:
        ValueError: it does.
    """
    place, rows = Path(folder), 0
    if any(place.glob("*.npy")):
        raise ValueError(f"{folder} must hold no .npy file, and holds some")
    place.mkdir(parents=True, exist_ok=True)
    for number, piece in enumerate(pieces):
        array = np.ascontiguousarray(piece)
        stream = io.BytesIO()
        np.save(stream, array, allow_pickle=False)
        write_whole(stream.getvalue(), place / f"{number:06d}.npy")
        rows += len(array)
    return rows


def parquet_pieces(path: str | Path, columns: list[str] | None = None) -> Iterator[Array]:
    """Yield the rows of a .parquet file in pieces, shape (n, D), float32.

    Args:
        path: the file.
        columns: those that are taken; None for all.
    """
    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(PIECE, columns=columns):
            values = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
            yield np.stack(values, 1).astype(np.float32)
