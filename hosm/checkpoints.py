"""Checkpoints of a training run: written whole or not at all, verified when read.

A checkpoint lies beside its checksum. It holds tensors, numbers and texts only, and is read
without executing anything.
"""

import hashlib
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import torch

__all__ = ["load_checkpoint", "save_checkpoint"]


def save_checkpoint(state: dict[str, Any], path: Path) -> None:
    """Write a training state atomically, with its checksum beside it.

    Args:
        state: what `Progress.state()` returned.
        path: the file; `path` + `.sha256` holds the checksum.

    Raises:
        OSError: the folder cannot be written to; an earlier file then stays as it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            torch.save(state, stream)
            stream.flush()
            os.fsync(stream.fileno())
        digest = hashlib.sha256(Path(temporary).read_bytes()).hexdigest()
        path.with_name(path.name + ".sha256").write_text(digest + "\n")
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a training state; nothing in the file is executed.

    Args:
        path: the file that `save_checkpoint` wrote.

    Returns:
        The state, its tensors on the CPU.

    Raises:
        FileNotFoundError: the file or its checksum is missing.
        ValueError: the checksum does not match, or the file holds something else.
    """
    expected = path.with_name(path.name + ".sha256").read_text().strip()
    if hashlib.sha256(path.read_bytes()).hexdigest() != expected:
        raise ValueError(f"checkpoint {path} is damaged: its checksum does not match")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, LookupError, pickle.UnpicklingError) as error:
        raise ValueError(f"{path} is no checkpoint of tensors, numbers and texts") from error
