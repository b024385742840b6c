"""Models as files: tensors as safetensors, all else as JSON in the file's header.

The file is written under another name and renamed when it is complete, so that a failure leaves
an earlier file as it was. Nothing in a file is executed when it is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hosm.io.atomic_write import atomic_write

__all__ = ["of_a_saved_model", "read_archive", "write_archive"]

HEADER_KEY = "hosm"  # of the JSON text among the entries of the header


def write_archive(path: str | os.PathLike[str], tensors: dict[str, Tensor], card: Any) -> None:  # noqa: ANN401
    """Write tensors and a card into one file, which is written whole or not at all.

    Args:
        path: the file; its folder must exist.
        tensors: by name, of any shape.
        card: what the tensors are, of types that JSON has: finite numbers, texts, lists,
            dictionaries, None.

    Raises:
        OSError: the folder is missing or cannot be written to.
        TypeError: the card holds a value of a type that JSON does not have.
        ValueError: the card holds a number that is not finite.
    """
    text = json.dumps(card, allow_nan=False)
    held = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    data = save(held, metadata={HEADER_KEY: text})
    with atomic_write(path) as stream:
        stream.write(data)


def read_archive(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], Any]:
    """Return the tensors and the card of a file that `write_archive` wrote.

    Args:
        path: the file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged or of another kind.
    """
    try:
        with safe_open(path, "pt") as stream:
            text = (stream.metadata() or {}).get(HEADER_KEY)
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or no safetensors file: {error}") from error
    if text is None:
        raise ValueError(f"{path} must be a file that `save` wrote, got one without its card")
    with of_a_saved_model(path):
        card = json.loads(text)
    if not isinstance(card, dict):
        raise ValueError(f"{path} must have a card with entries, got {type(card).__name__}")
    return tensors, card


@contextmanager
def of_a_saved_model(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what a card or tensors that `save` did not write lead to into one line.

    Args:
        path: the file.

    Raises:
        ValueError: the body raised an error of what the file holds.
    """
    try:
        yield
    except (FileNotFoundError, ImportError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        if str(path) in reason:
            raise
        raise ValueError(
            f"{path} is damaged, or `save` did not write it ({type(error).__name__}: {reason})"
        ) from error
