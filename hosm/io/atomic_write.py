"""Files that are written whole or not at all, whatever ends the process or fills the disk."""

import os
import tempfile
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(data: bytes, path: Path) -> None:
    """Write a file under another name, have it and its folder reach the disk, then rename it.

    At each moment, a kill or a power cut included, `path` holds all of the old contents or all
    of the new.

    Args:
        data: the contents.
        path: the file; its folder is made if it is missing.

    Raises:
        OSError: the disk is full, or the folder cannot be written to; an earlier file then stays
            as it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), 0o644)
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}: {path} was not written") from error
    finally:
        Path(temporary).unlink(missing_ok=True)
    _reach_disk(path.parent)


def _reach_disk(folder: Path) -> None:
    """Have the names in a folder reach the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
