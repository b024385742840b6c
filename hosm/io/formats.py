"""What all kinds of files share: suffixes, packages that only some files need, errors and notes.

Nothing that is read can execute code. What a file holds and the arrays do not is never left out
silently: it is refused, or told by a `FileNote`.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

__all__ = [
    "Array",
    "FileNote",
    "import_package",
    "note",
    "of_another_package",
    "read_with",
    "suffix_among",
]

Array = NDArray[Any]
Contents = TypeVar("Contents")
DAMAGE = (ValueError, OSError, EOFError)


class FileNote(UserWarning):
    """What was done with a part of a file that the arrays have no place for.

    Attributes:
        path: the file.
        text: what was done, the same words for each file of the kind.
    """

    def __init__(self, path: str | os.PathLike[str], text: str) -> None:
        super().__init__(f"{path}: {text}")
        self.path, self.text = str(path), text


def note(path: str | os.PathLike[str], text: str) -> None:
    """Warn of what was done with a part of a file, by a `FileNote`."""
    warnings.warn(FileNote(path, text), stacklevel=3)


def import_package(module: str, package: str, files: str) -> Any:  # noqa: ANN401
    """Import a module that only some files need.

    Args:
        module: its name.
        package: the name of the package that has it.
        files: the kind of files that need it.

    Raises:
        ImportError: the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        need = f"{files} files need the package {package}"
        raise ImportError(f"{need}: pip install 'hosm[files]'") from error


def suffix_among(path: Path, suffixes: Sequence[str]) -> str:
    """Return the suffix of a path in small letters.

    Raises:
        ValueError: it is not among the suffixes.
    """
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        raise ValueError(f"{path} must end in {', '.join(suffixes)}, got {suffix!r}")
    return suffix


@contextmanager
def of_another_package() -> Iterator[None]:
    """Turn whatever another package stumbles into over a damaged file into a ValueError."""
    try:
        yield
    except (*DAMAGE, ImportError, MemoryError):
        raise
    except Exception as error:
        raise ValueError(f"it is damaged ({type(error).__name__}: {error})") from error


def read_with(reader: Callable[[Path], Contents], path: Path) -> Contents:
    """Return reader(path), and its failures as errors of one line that name the file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is empty or damaged.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist, or is not a file")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} must hold data, got an empty file")
    try:
        return reader(path)
    except MemoryError as error:
        raise ValueError(f"{path} cannot be read: it needs more memory than there is") from error
    except DAMAGE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if "pickle" in reason:  # NumPy's own text says how to execute what the file holds
            reason = "it must hold numbers, got pickled objects"
        raise ValueError(f"{path} cannot be read: {reason}") from error
