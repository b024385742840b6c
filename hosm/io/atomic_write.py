"""Files that are written whole or not at all, even if the process is killed or the disk is full.

A file is written under a temporary name in its own folder. When its contents have reached the
disk it is renamed, and then the folder reaches the disk too. At each moment, a kill or a power
cut included, the path holds all of the old contents or all of the new. An error leaves no
temporary file; a kill can leave one, whose name starts with a dot and ends in `.tmp`.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["atomic_write", "write_whole"]


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: int | None = None) -> Iterator[BinaryIO]:
    """Open a stream whose contents become the file when the block ends without an error.

    Args:
        path: the file; its folder must exist.
        mode: permission bits of the file, such as 0o644; None for those that the process gives
            to new files.

    Yields:
        A binary stream, open for writing and reading.

    Raises:
        OSError: the disk is full, or the folder is missing or cannot be written to. An earlier
            file then stays as it is, as after any error in the block.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}.tmp")
    try:
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(handle, "w+b") as stream:
            yield stream
            stream.flush()
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"{error.strerror}: {path} was not written") from error
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def write_whole(data: bytes, path: Path, mode: int = 0o644) -> None:
    """Write a file whole or not at all.

    Args:
        data: the contents.
        path: the file; its folder is made if it is missing.
        mode: permission bits of the file; all may read it by default.

    Raises:
        OSError: the disk is full, or the folder cannot be written to; an earlier file then stays
            as it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, mode) as stream:
        stream.write(data)


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder reach the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
