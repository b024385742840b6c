"""Photographs that scikit-image, scikit-learn and matplotlib ship, read from their own files.

Nothing is downloaded. Crops of the colour ones are a data set of images, whose test crops come
from pictures of which nothing is in the training split.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = [
    "COLOUR",
    "CROP_COUNTS",
    "GREY",
    "PHOTOGRAPHS",
    "TUNING",
    "Photograph",
    "crops",
    "photo",
]

Array = NDArray[Any]
WEIGHTS = np.array([0.299, 0.587, 0.114])  # of red, green and blue in grey (ITU-R BT.601)
CREATIVE_COMMONS_0, PUBLIC = "CC0", "public domain"
SIDE, STRIDE = 32, 16  # of the crops of the data set, in pixels
CONTRASTS = (6.0, 20.0, 40.0)  # standard deviations of grey that divide its four classes


class Photograph(NamedTuple):
    """A file of a package: where it lies, whose it is, and what part of it is taken.

    `rows` and `columns` are the first and the last but one that are taken; None for all.
    """

    package: str
    file: str
    source: str
    licence: str
    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None


def _skimage(file: str, source: str, licence: str, **part: tuple[int, int]) -> Photograph:
    return Photograph("skimage", f"data/{file}", source, licence, **part)


def _sklearn(file: str, source: str) -> Photograph:
    return Photograph("sklearn", f"datasets/images/{file}", source, "CC BY 2.0")


MIDDLE_OF_HUBBLE, MIDDLE_OF_RETINA = (200, 712), (450, 962)
PHOTOGRAPHS = {
    "astronaut": _skimage("astronaut.png", "NASA Great Images: Eileen Collins", PUBLIC),
    "chelsea": _skimage("chelsea.png", "Stefan van der Walt", CREATIVE_COMMONS_0),
    "coffee": _skimage("coffee.png", "Rachel Michetti, Pikolo Espresso Bar", CREATIVE_COMMONS_0),
    "rocket": _skimage("rocket.jpg", "SpaceX: launch of DSCOVR", PUBLIC),
    "ihc": _skimage(
        "ihc.png", "Center for Microscopy and Molecular Imaging", "no known restrictions"
    ),
    "motorcycle_left": _skimage(
        "motorcycle_left.png", "Middlebury 2014 stereo benchmark", "none named"
    ),
    "hubble_deep_field": _skimage(
        "hubble_deep_field.jpg", "NASA", PUBLIC, rows=MIDDLE_OF_HUBBLE, columns=MIDDLE_OF_HUBBLE
    ),
    "retina": _skimage(
        "retina.jpg",
        "Mikael Häggström, Wikimedia Commons",
        CREATIVE_COMMONS_0,
        rows=MIDDLE_OF_RETINA,
        columns=MIDDLE_OF_RETINA,
    ),
    "china": _sklearn("china.jpg", "danielbuechele, Flickr"),
    "flower": _sklearn("flower.jpg", "vultilion, Flickr"),
    "camera": _skimage("camera.png", "Lav Varshney", CREATIVE_COMMONS_0),
    "coins": _skimage("coins.png", "Brooklyn Museum", "no known restrictions"),
    "grass": _skimage("grass.png", "linolafett, DeviantArt", CREATIVE_COMMONS_0),
    "moon": _skimage("moon.png", "none named", "none named"),
    "brick": _skimage("brick.png", "CC0Textures", CREATIVE_COMMONS_0),
    "gravel": _skimage("gravel.png", "CC0Textures", CREATIVE_COMMONS_0),
    "grace_hopper": Photograph(
        "matplotlib", "mpl-data/sample_data/grace_hopper.jpg", "United States Navy", PUBLIC
    ),
    "clock_motion": _skimage("clock_motion.png", "Stefan van der Walt", PUBLIC),
    "cell": _skimage("cell.png", "Paul Müller and others, 2018", CREATIVE_COMMONS_0),
}
COLOUR = [*PHOTOGRAPHS][:10]
GREY = [*PHOTOGRAPHS][10:16]
TUNING = [*PHOTOGRAPHS][16:]
LEARNED = [name for name in COLOUR if name not in ("chelsea", "china")]  # of the data set
CROP_COUNTS = (7207, 801, 1434)  # of training, validation and test


def photo(name: str, grey: bool = False) -> Array:
    """Return a photograph, uint8, shape (height, width, 3), or (height, width) without colour.

    Args:
        name: one of `PHOTOGRAPHS`.
        grey: whether one of colour is returned as grey, .299 R + .587 G + .114 B, rounded.

    Raises:
        ImportError: the package that ships it is missing.
    """
    about = PHOTOGRAPHS[name]
    found = importlib.util.find_spec(about.package)
    if found is None or not found.submodule_search_locations:
        raise ImportError(
            f"{name} needs the package {about.package}: pip install 'hosm[pipeline]'"
        )
    with Image.open(Path(found.submodule_search_locations[0], about.file)) as file:
        pixels = np.asarray(file)
    rows, columns = (slice(*(each or (None,))) for each in (about.rows, about.columns))
    part = pixels[rows, columns]
    return np.rint(part @ WEIGHTS).astype(np.uint8) if grey and part.ndim == 3 else part


def _crops_of(names: Sequence[str]) -> tuple[Array, Array]:
    """Return crops, channels first and flat, and the classes of their contrast, 0 to 3."""
    found, contrasts = [], []
    for name in names:
        picture, grey = photo(name), photo(name, grey=True)
        height, width = grey.shape
        for top in range(0, height - SIDE + 1, STRIDE):
            for left in range(0, width - SIDE + 1, STRIDE):
                place = slice(top, top + SIDE), slice(left, left + SIDE)
                found.append(np.moveaxis(picture[place], 2, 0).reshape(-1))
                contrasts.append(float(grey[place].std()))
    return np.stack(found), np.digitize(contrasts, CONTRASTS)


def crops() -> list[tuple[Array, Array]]:
    """Return crops of 32 x 32 pixels to learn from, and those of two other pictures as a test.

    Each is (n, 3 x 32 x 32), uint8, with classes 0 to 3 by the standard deviation of its grey
    values: below 6, 20 and 40 of 255, and above. Neighbouring crops share half of their pixels.
    """
    return [_crops_of(LEARNED), _crops_of([name for name in COLOUR if name not in LEARNED])]
