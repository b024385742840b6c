"""Made images in any number, for data larger than memory: textures of random colour and scale.

An image is two pieces of textures whose spectrum falls with the frequency, mixed at random. File k
of a folder depends on k alone, so that a folder which is half made is gone on with.
"""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hosm.io import write_whole

__all__ = ["make_folder", "made_images"]

TEXTURES = 48
Bytes = NDArray[np.uint8]


def _textures(side: int, draw: np.random.Generator) -> NDArray[np.float32]:
    """Return textures, shape (TEXTURES, 3, 2 side, 2 side), of mean 0 and variance 1."""
    frequency = np.fft.fftfreq(2 * side)
    size = np.hypot(frequency[:, None], frequency[None, : side + 1])
    white = draw.normal(size=(TEXTURES, 3, 2 * side, 2 * side))
    smooth = np.fft.irfft2(np.fft.rfft2(white) / (size + 0.5 / side), s=white.shape[2:])
    smooth -= smooth.mean((2, 3), keepdims=True)
    return (smooth / smooth.std((2, 3), keepdims=True)).astype(np.float32)


def made_images(count: int, side: int, seed: int) -> Bytes:
    """Return images, shape (count, 3, side, side).

    Args:
        count: of images.
        side: of an image, in pixels.
        seed: of the textures and of the images.
    """
    draw = np.random.default_rng(seed)
    textures, out = _textures(side, draw), np.empty((count, 3, side, side), np.uint8)
    chosen = draw.integers(TEXTURES, size=(count, 2))
    corners = draw.integers(side, size=(count, 2, 2))
    weights = draw.uniform(0.2, 1.0, size=(count, 2)).astype(np.float32) * 32
    colours = draw.uniform(64, 192, size=(count, 3, 1, 1)).astype(np.float32)
    for place in range(count):
        image = colours[place]
        for which, (top, left), weight in zip(
            chosen[place], corners[place], weights[place], strict=True
        ):
            image = image + weight * textures[which, :, top : top + side, left : left + side]
        out[place] = image.clip(0, 255)
    return out


def make_folder(
    folder: Path,
    files: int,
    each: int,
    side: int,
    tell: Callable[[int], None] = lambda made: None,
) -> None:
    """Write files of made images into a folder; those that are there stay.

    Args:
        folder: where to.
        files: of the folder.
        each: images of a file.
        side: of an image, in pixels.
        tell: called with the number of files that are there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        path = folder / f"{number:06d}.npy"
        if not path.exists():
            stream = io.BytesIO()
            np.save(stream, made_images(each, side, number), allow_pickle=False)
            write_whole(stream.getvalue(), path)
        tell(number + 1)
