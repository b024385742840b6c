"""Folders of learned weights: `model.safetensors`, and `card.json` that describes it.

A folder is written whole or not at all, and nothing in it is executed on reading. The card holds
the hash of the file of weights.
"""

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from hosm.io import write_whole

__all__ = ["HASH", "read_weights", "write_weights"]

FILE = "model.safetensors"
HASH = "weights_sha256"  # entry of the card


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_weights(weights: dict[str, Tensor], card: dict[str, Any], folder: Path) -> None:
    """Write a folder of weights whole or not at all.

    Args:
        weights: state dict of the model.
        card: their description, of JSON's types.
        folder: where to; what is there is replaced.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
        staged = Path(temporary) / folder.name
        staged.mkdir()
        held = save({name: weight.contiguous() for name, weight in weights.items()})
        write_whole(held, staged / FILE)
        whole = {**card, HASH: hashlib.sha256(held).hexdigest()}
        write_whole((json.dumps(whole, indent=2) + "\n").encode(), staged / "card.json")
        shutil.rmtree(folder, ignore_errors=True)
        staged.rename(folder)


def read_weights(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the weights in a folder, and their card.

    Args:
        folder: as written by `write_weights`.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: the folder is incomplete, damaged or altered.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} does not exist; run the stage that trains it")
    try:
        card = json.loads((folder / "card.json").read_text())
        weights = load_file(folder / FILE)
    except (OSError, ValueError, SafetensorError) as error:
        raise ValueError(f"{folder} holds no complete model: {error}; train it anew") from error
    if not isinstance(card, dict):
        raise ValueError(f"{folder}/card.json must hold an object, got a {type(card).__name__}")
    if card.get(HASH) != _hash(folder / FILE):
        raise ValueError(f"{folder / FILE} was altered: its hash is not the one in card.json")
    return weights, card
