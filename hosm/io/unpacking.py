"""How much a file may unpack to: one that claims far more than its size is refused unread.

A few bytes can claim to be gigabytes: zeros compress a thousandfold, and a header can name any
shape. So a file may unpack to `FREE` bytes, or to `RATIO` times its own size if that is more.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

__all__ = ["FREE", "RATIO", "check_npy", "check_unpacked", "check_zip"]

FREE = 2**30  # bytes that a file of any size may unpack to
RATIO = 100  # bytes that each byte of a larger file may unpack to


def check_unpacked(size: int, path: str | os.PathLike[str]) -> None:
    """Refuse a file that unpacks to far more than its own size.

    Args:
        size: bytes of its contents, as its headers claim.
        path: the file.

    Raises:
        ValueError: they are above `FREE` and above `RATIO` times the size of the file.
    """
    own = Path(path).stat().st_size
    if size > max(FREE, RATIO * own):
        raise ValueError(
            f"it must unpack to at most {FREE >> 20} MB or {RATIO} times its size, got "
            f"{size / 2**20:.0f} MB from {own} bytes; write it without compression first"
        )


def check_zip(path: Path) -> None:
    """Refuse a zip archive whose members unpack to far too much; errors as in `check_unpacked`."""
    with zipfile.ZipFile(path) as archive:
        check_unpacked(sum(member.file_size for member in archive.infolist()), path)


def check_npy(stream: BinaryIO, size: int) -> None:
    """Refuse a .npy file whose header names another number of bytes than follow it.

    Args:
        stream: the file, at its beginning, to which it returns.
        size: bytes of the whole file.

    Raises:
        ValueError: the header is damaged, or names more bytes than there are.
    """
    readers: dict[tuple[int, int], Any] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = np.lib.format.read_magic(stream)
    if version in readers:  # np.load itself refuses others
        shape, _, dtype = readers[version](stream)
        claimed, there = dtype.itemsize, size - stream.tell()
        for length in shape:
            claimed *= length
        if min(shape, default=1) < 0 or claimed > there:
            raise ValueError(f"it must hold {claimed} bytes of {shape}, got {there}")
    stream.seek(0)
