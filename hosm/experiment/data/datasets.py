"""Data sets: draws of the exact laws, digits, CIFAR-10, photographs and the user's own arrays.

A data set is three splits of float32 points, shape (n, D), class labels where there are any, and
a JSON card with a hash of the contents. One generator per split, keyed by (seed, split), draws
the points of a law. Images lie in three pools, the same for every seed and size; the seed picks
and orders points of a pool, classes in turn. Nothing that is read can execute code.
"""

import hashlib
import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random import Generator, default_rng

from hosm.distributions import Law, named_laws
from hosm.experiment.data.planar import PLANAR
from hosm.experiment.data.sources import (
    FORMATS,
    IMAGES,
    SPLITS,
    Array,
    Block,
    read,
    read_npy,
    read_own,
)

__all__ = ["SYNTHETIC", "DataSet", "law", "load", "prepare", "save"]

RECONSTRUCTIONS = ("gaussian100", "logistic50", "logistic80", "ring6", "ring8")
STATISTICS = ("minimum", "maximum", "mean", "std")  # of the training split, in a card
ENTRIES = {"name": str, "shape": list, "counts": dict, "files": dict, "sha256": str} | {
    key: float for key in STATISTICS
}
SYNTHETIC: dict[str, Callable[[], Law]] = {
    "gaussian100": named_laws.gaussian100,
    "gaussian2": named_laws.gaussian2,
    "logistic50": partial(named_laws.logistic_mixture, 50),
    "logistic80": partial(named_laws.logistic_mixture, 80),
    "mog2": named_laws.mog2,
    "mog6": named_laws.mog6,
    "ring2d": named_laws.ring2d,
    "ring6": named_laws.ring6,
    "ring8": named_laws.ring8,
    "two-modes": named_laws.two_modes,
}


@dataclass(frozen=True, eq=False)
class DataSet:
    """The splits of a data set and its card.

    `train`, `validation` and `test` are float32 points, shape (n, D); `labels` holds the classes
    of each split, shape (n,). `card` tells name, description, source, reconstruction, seed, shape
    of a sample, dtype, counts; minimum, maximum, mean and std of train; the hash of each file, and
    that of all, sha256.
    """

    name: str
    train: Array
    validation: Array
    test: Array
    labels: dict[str, Array] | None
    card: dict[str, Any]

    def arrays(self) -> dict[str, Array]:
        """Return the arrays by the names of their files."""
        labels = {f"{split}_labels": of for split, of in (self.labels or {}).items()}
        return {split: getattr(self, split) for split in SPLITS} | labels


def law(name: str) -> Law:
    """Return the exact law behind a synthetic data set.

    Raises:
        ValueError: there is none of that name.
    """
    if name not in SYNTHETIC:
        raise ValueError(f"the law must be one of {', '.join(SYNTHETIC)}, got {name!r}")
    return SYNTHETIC[name]()


def prepare(
    name: str,
    *,
    train_points: int,
    validation_points: int,
    test_points: int,
    seed: int,
    folder: str | Path | None = None,
) -> DataSet:
    """Draw or read a data set.

    Args:
        name: one of SYNTHETIC, PLANAR or IMAGES, or a path ending in .npy, .npz, .csv or .parquet.
        train_points: size of the split; 1 or more, like the next two.
        validation_points: size of the split.
        test_points: size of the split.
        seed: fixes what is drawn or picked.
        folder: where official files lie, or where they go; paths are relative to it.

    Raises:
        ValueError: there is no such data set, a size is below 1 or above what there is, or a file
            does not hold data.
        FileNotFoundError: a file is missing and cannot be downloaded.
        ImportError: a package is missing that only this data set needs.
    """
    sizes = dict(zip(SPLITS, (train_points, validation_points, test_points), strict=True))
    for split, size in sizes.items():
        if size < 1:
            raise ValueError(f"{split}_points must be at least 1, got {size}")
    place = Path(folder) if folder else None
    if name in SYNTHETIC or name in PLANAR:
        return _drawn(name, sizes, seed)
    if name in IMAGES:
        return _picked(name, sizes, seed, place)
    if Path(name).suffix in FORMATS:
        return _divided((place or Path()) / name, sizes, seed)
    files = (f"a path ending in {suffix}" for suffix in FORMATS)
    known = ", ".join([*SYNTHETIC, *PLANAR, *IMAGES, *files])
    raise ValueError(f"the data set must be one of {known}, got {name!r}")


def _assembled(
    name: str, seed: int, parts: dict[str, Array], labels: dict[str, Array] | None, **facts: object
) -> DataSet:
    train = parts["train"]
    card: dict[str, Any] = {"name": name, **facts, "seed": seed, "dtype": "float32"}
    card["counts"] = {split: len(points) for split, points in parts.items()}
    card |= _statistics(train)
    data = DataSet(name, **parts, labels=labels, card=card)
    card["files"] = {f"{key}.npy": _hash(array) for key, array in data.arrays().items()}
    card["sha256"] = _hash_of_all(card["files"])
    return data


def _statistics(train: Array) -> dict[str, float]:
    values = train.min(), train.max(), train.mean(dtype=float), train.std(dtype=float)
    return dict(zip(STATISTICS, map(float, values), strict=True))


def _hash(array: Array) -> str:
    content = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()


def _hash_of_all(hashes: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()


def _drawn(name: str, sizes: dict[str, int], seed: int) -> DataSet:
    draw: Any = PLANAR.get(name) or law(name).sample
    parts = {}
    for split, size in sizes.items():
        key = int.from_bytes(hashlib.sha256(f"{seed} {split}".encode()).digest()[:7])
        parts[split] = draw(size, torch.Generator().manual_seed(key)).float().numpy()
    dimension, exact = parts["train"].shape[1], "with" if name in SYNTHETIC else "without"
    text = f"draws of a law in {dimension} dimensions {exact} exact scores"
    source = (
        "hosm.distributions.named_laws" if name in SYNTHETIC else "hosm.experiment.data.planar"
    )
    facts: dict[str, Any] = {"description": text, "source": source, "shape": [dimension]}
    facts["reconstruction"] = name in RECONSTRUCTIONS or name in PLANAR
    return _assembled(name, seed, parts, None, **facts)


def _balanced(labels: Array, size: int, generator: Generator) -> Array:
    """Return `size` indices in random order, the classes of `labels` in turn."""
    order = generator.permutation(len(labels))
    turn = np.empty(len(labels), dtype=int)
    for label in np.unique(labels):
        members = order[labels[order] == label]
        turn[members] = np.arange(len(members))
    return order[np.argsort(turn[order], kind="stable")][:size]


def _pools(blocks: list[Block], full: dict[str, int]) -> dict[str, Block]:
    """Divide blocks into pools for the splits, in the proportions `full`.

    A second block is the test pool; the others are held out of the first.
    """
    pools = dict(zip(("train", "test"), blocks, strict=False))
    splits = [split for split in full if split != "test" or len(blocks) == 1]
    (images, labels), total = blocks[0], sum(full[split] for split in splits)
    generator, left = default_rng(0), np.arange(len(labels))
    for split in splits[1:]:
        size = max(1, round(len(labels) * full[split] / total))
        held = left[_balanced(labels[left], size, generator)]
        pools[split], left = (images[held], labels[held]), np.setdiff1d(left, held)
    return pools | {"train": (images[left], labels[left])}


def _picked(name: str, sizes: dict[str, int], seed: int, folder: Path | None) -> DataSet:
    about = IMAGES[name]
    pools = _pools(about.read(folder), about.sizes)
    parts, labels = {}, {}
    for number, (split, size) in enumerate(sizes.items()):
        images, classes = pools[split]
        if size > len(classes):
            raise ValueError(
                f"{split}_points must be at most {len(classes)} for {name}, got {size}"
            )
        chosen = _balanced(classes, size, default_rng([seed % 2**64, number]))
        parts[split] = images[chosen].astype(np.float32) / about.unit + about.low
        labels[split] = classes[chosen].astype(np.int64)
    facts = {"description": about.description, "source": about.source, "reconstruction": False}
    return _assembled(name, seed, parts, labels, **facts, shape=list(about.shape))


def _divided(path: Path, sizes: dict[str, int], seed: int) -> DataSet:
    rows = read_own(path)
    wanted = sum(sizes.values())
    if wanted > len(rows):
        raise ValueError(
            f"the splits must have at most {len(rows)} points, as {path} has, got {wanted}"
        )
    order = default_rng(seed % 2**64).permutation(len(rows))
    ends = np.cumsum(list(sizes.values()))[:-1]
    chosen = dict(zip(sizes, np.split(order[:wanted], ends), strict=True))
    parts = {split: rows[index].reshape(len(index), -1) for split, index in chosen.items()}
    facts = {"description": "the user's own array", "source": path.name, "reconstruction": False}
    return _assembled(path.stem, seed, parts, None, **facts, shape=list(rows.shape[1:]))


def save(data: DataSet, folder: str | Path) -> None:
    """Write a data set to a folder, as one .npy file per array and card.json.

    The folder appears whole or not at all; one that holds a data set is replaced.

    Args:
        data: what to write.
        folder: where to.

    Raises:
        ValueError: the folder holds other files than those of a data set.
    """
    folder = Path(folder).absolute()
    if folder.exists() and not (folder / "card.json").is_file():
        if not folder.is_dir() or any(folder.iterdir()):
            raise ValueError(
                f"folder {folder} must hold a data set or nothing, and holds other files"
            )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as aside:
        fresh = Path(aside, "fresh")
        fresh.mkdir()
        for name, array in data.arrays().items():
            np.save(fresh / f"{name}.npy", array, allow_pickle=False)
        card = json.dumps(data.card, indent=2, allow_nan=False)
        (fresh / "card.json").write_text(card + "\n")
        if folder.exists():
            folder.rename(Path(aside, "old"))
        fresh.rename(folder)


def load(folder: str | Path) -> DataSet:
    """Read a data set that `save` wrote, and verify it.

    Args:
        folder: where it lies.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is truncated or altered, or holds values that are not finite.
    """
    folder = Path(folder)
    if not folder.is_dir():
        stage = f"prepare-images@{folder.name}" if folder.name in IMAGES else "prepare"
        raise FileNotFoundError(f"{folder} does not exist; run `dvc repro {stage}`")
    card = read(folder / "card.json", _card)
    arrays = {name: read(folder / name, read_npy) for name in card["files"]}
    for name, array in arrays.items():
        _verify(folder / name, array, card)
    for key, value in _statistics(arrays["train.npy"]).items():
        if not math.isclose(value, card[key], rel_tol=1e-5, abs_tol=1e-6):
            raise ValueError(f"{folder / 'card.json'} was altered: {key} is {value} by the data")
    labels = {split: arrays[f"{split}_labels.npy"] for split in SPLITS if len(arrays) > 3}
    parts = {split: arrays[f"{split}.npy"] for split in SPLITS}
    return DataSet(card["name"], **parts, labels=labels or None, card=card)


def _card(path: Path) -> dict[str, Any]:
    """Read a card, and check the entries that the arrays are then checked against."""
    card = json.loads(path.read_text())
    entries = card if isinstance(card, dict) else {}
    for key, kind in ENTRIES.items():
        if not isinstance(entries.get(key), kind):
            raise ValueError(f"{key} must be a {kind.__name__}, got {entries.get(key)!r}")
    points = {f"{split}.npy" for split in SPLITS}
    every = points | {f"{split}_labels.npy" for split in SPLITS}
    if set(card["files"]) not in (points, every) or set(card["counts"]) != set(SPLITS):
        raise ValueError(f"files must be among {sorted(every)}, got {sorted(card['files'])}")
    if _hash_of_all(card["files"]) != card["sha256"]:
        raise ValueError("sha256 is not the hash of the entry files")
    return card


def _verify(path: Path, array: Array, card: dict[str, Any]) -> None:
    """Check an array against its card."""
    split, labelled, _ = path.stem.partition("_")
    shape: tuple[int, ...] = (card["counts"][split],)
    if not labelled:
        shape += (math.prod(card["shape"]),)
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise ValueError(
                f"{path} must hold finite float32 numbers, got {array.dtype}, NaN or infinite ones"
            )
    if array.shape != shape:
        raise ValueError(f"{path} must have the shape {shape} of its card, got {array.shape}")
    if _hash(array) != card["files"][path.name]:
        raise ValueError(f"{path} was altered: its hash is not the one in card.json")
