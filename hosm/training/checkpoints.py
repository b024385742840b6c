"""Checkpoints of a training run: written whole or not at all, verified when read.

A checkpoint is one file: a line with the checksum of what follows, then the state. The two cannot
part, so no kill between two writes leaves a state with the checksum of another. It holds tensors,
numbers and texts only, and is read without executing anything.
"""

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import torch

from hosm.io import write_whole

__all__ = ["load_checkpoint", "packed", "save_checkpoint", "unpacked"]


def packed(state: dict[str, Any]) -> bytes:
    """Return a training state as bytes, its checksum first.

    Args:
        state: what `Progress.state()` returned.
    """
    buffer = io.BytesIO()
    torch.save(state, buffer)
    body = buffer.getvalue()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def unpacked(data: bytes, name: str) -> dict[str, Any]:
    """Return the state that `packed` made bytes of; nothing in them is executed.

    Args:
        data: the bytes.
        name: where they come from, for the message.

    Returns:
        The state, its tensors on the CPU.

    Raises:
        ValueError: they are cut short or altered, or hold something else.
    """
    expected, _, body = data.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != expected:
        raise ValueError(f"checkpoint {name} is damaged: its checksum does not match")
    try:
        return torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, LookupError, pickle.UnpicklingError) as error:
        raise ValueError(f"{name} is no checkpoint of tensors, numbers and texts") from error


def save_checkpoint(state: dict[str, Any], path: Path) -> None:
    """Write a training state atomically, with its checksum.

    Args:
        state: what `Progress.state()` returned.
        path: the file.

    Raises:
        OSError: the folder cannot be written to; an earlier file then stays as it is.
    """
    write_whole(packed(state), path)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a training state; nothing in the file is executed.

    Args:
        path: the file that `save_checkpoint` wrote.

    Returns:
        The state, its tensors on the CPU.

    Raises:
        FileNotFoundError: the file is missing.
        ValueError: the file is cut short or altered, or holds something else.
    """
    return unpacked(path.read_bytes(), str(path))
