"""The photographs that judge, those that rivals are tuned on, their noise and their quality.

All are held out of the training of the shipped models. Ten have colour; they are judged in grey,
too, beside six that have none.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosm.experiment.data.photographs import COLOUR, GREY, PHOTOGRAPHS, TUNING, photo

__all__ = ["WHITE", "Array", "held_out", "middle", "noisy", "psnr", "sources", "tuning"]

Array = NDArray[Any]
WHITE = 255.0


def middle(picture: Array, side: int) -> Array:
    """Return the middle of a picture, `side` pixels high and wide, or all that there is.

    Args:
        picture: shape (height, width, ...).
        side: pixels.
    """
    places = [slice(max(0, (size - side) // 2), None) for size in picture.shape[:2]]
    return picture[places[0], places[1]][:side, :side]


def _read(names: list[str], kind: str, side: int) -> dict[str, Array]:
    found = {name: photo(name, grey=kind == "grey") for name in names}
    return {name: middle(each, side).astype(np.float64) for name, each in found.items()}


def held_out(kind: str, count: int, side: int) -> dict[str, Array]:
    """Return the pictures that judge by their names, in 0 to 255, float64.

    Args:
        kind: grey or colour.
        count: how many, at most.
        side: pixels of the middle of each that are taken, at most.
    """
    names = COLOUR if kind == "colour" else [*GREY, *COLOUR]
    return _read(names[:count], kind, side)


def tuning(kind: str, side: int) -> dict[str, Array]:
    """Return other pictures, which rivals are tuned on; arguments as in `held_out`."""
    return _read(TUNING[:1] if kind == "colour" else TUNING, kind, side)


def noisy(clean: Array, name: str, sigma: float, seed: int) -> Array:
    """Return a picture plus Gaussian noise, not clipped, fixed by its name, scale and the seed."""
    key = [seed, zlib.crc32(f"{name} {clean.ndim} {sigma:g}".encode())]
    return clean + sigma * np.random.default_rng(key).standard_normal(clean.shape)


def psnr(found: Array, clean: Array) -> float:
    """Return the peak signal-to-noise ratio in dB, of an answer clipped to 0 to 255."""
    error = np.mean((np.clip(found, 0, WHITE) - clean) ** 2)
    return float(10 * np.log10(WHITE**2 / error))


def sources(names: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return source and licence of each picture."""
    about = {name: PHOTOGRAPHS[name] for name in names}
    return [
        {"picture": name, "package": p.package, "source": p.source, "licence": p.licence}
        for name, p in about.items()
    ]
