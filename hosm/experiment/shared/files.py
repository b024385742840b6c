"""Files that stages wrote, read and checked: tables, arrays, cards."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hosm.io.formats import of_another_package, read_with
from hosm.io.unpacking import check_npy, check_zip

__all__ = ["Array", "Arrays", "read_arrays", "read_frame", "read_frames", "read_json"]

Array = NDArray[Any]
Arrays = dict[str, Array]
WIDEST = 1000  # columns of a table, of whose names pandas compares each with each


def _frame(path: Path) -> pd.DataFrame:
    with path.open("rb") as stream:
        if (width := stream.readline().count(b",")) > WIDEST:
            raise ValueError(f"it must have at most {WIDEST} columns, got {width + 1}")
    with of_another_package():
        return pd.read_csv(path)


def _arrays(path: Path) -> Arrays:
    with of_another_package():
        check_zip(path)
        with np.load(path, allow_pickle=False) as archive:
            for member in archive.zip.infolist():
                with archive.zip.open(member) as stream:
                    check_npy(stream, member.file_size)
            return {name: archive[name] for name in archive.files}


def _json(path: Path) -> dict[str, Any]:
    with of_another_package():
        content = json.loads(path.read_text())
    if not isinstance(content, dict):
        raise ValueError(f"it must hold an object, got {type(content).__name__}")
    return content


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; run the stage that writes it")
    return path


def _check_names(path: Path, there: list[str], wanted: str) -> None:
    missing = [name for name in wanted.split() if name not in there]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}; it has {', '.join(there)}")


def read_frame(path: Path, columns: str) -> pd.DataFrame:
    """Return a table.

    Args:
        path: a CSV file.
        columns: those that it must have, separated by spaces.

    Raises:
        FileNotFoundError: it is missing.
        ValueError: it lacks a column, or holds no rows.
    """
    frame = read_with(_frame, _existing(path))
    _check_names(path, list(map(str, frame.columns)), columns)
    if frame.empty:
        raise ValueError(f"{path} holds no rows")
    return frame


def read_frames(folder: Path, files: Mapping[str, tuple[str, str]]) -> dict[str, pd.DataFrame]:
    """Return tables by their names.

    Args:
        folder: that they lie in.
        files: name -> file below the folder, and the columns that it must have.
    """
    return {name: read_frame(folder / file, columns) for name, (file, columns) in files.items()}


def read_arrays(path: Path, names: str = "") -> Arrays:
    """Return the arrays of a .npz file by their names; arguments and errors as in `read_frame`."""
    arrays = read_with(_arrays, _existing(path))
    _check_names(path, list(arrays), names)
    return arrays


def read_json(path: Path, names: str = "") -> dict[str, Any]:
    """Return a JSON object; arguments and errors as in `read_frame`."""
    content = read_with(_json, _existing(path))
    _check_names(path, list(content), names)
    return content
