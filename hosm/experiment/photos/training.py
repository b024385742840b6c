"""The photographs that the shipped denoisers are learned from: wallpapers of Debian's packages.

`make photo-models` fetches the packages, cuts their photographs down to at most 1,500 pixels along
a side, which takes away the traces of compression and of the camera's noise, and trains a denoiser
of grey pictures and one of colour pictures (`hosm.pictures.PictureDenoiser`). None of the pictures
that judge them is among these.

    python -m hosm.experiment.photos.training WALLPAPERS KIND MODEL

The shipped models had less: 6,000 and then 5,000 steps for grey, 4,000 and then 3,000 for colour,
the second of each by `--begin` from the first, about an hour and a half of one core for each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from hosm.io import Array
from hosm.pictures import PictureDenoiser

__all__ = ["PHOTOGRAPHS", "photographs", "train"]

LEARNING_RATE = 1e-3
LARGEST_SIDE = 1500  # pixels
LEAST_SHRINKING = 1.35  # of pictures larger than this much: they were compressed
PHOTOGRAPHS = {  # package of Debian -> its photographs, by the names of their files
    "lomiri-wallpapers-16.04": (
        "Bridge_by_Sander_Klootwijk.jpg",
        "Dragonfly_by_Bolly.jpg",
        "Picture_0B_by_freespace.jpg",
        "Picture_1A_by_freespace.jpg",
        "Wine_by_Jakkub_Mede.jpg",
        "aitzgorri_by_Aitzol_Berasategi.jpg",
        "free_by_Peter_Nerlich.jpg",
        "friends_by_Aitzol_Berasategi.jpg",
        "greentock_by_Peter_Nerlich.jpg",
        "life_by_Aitzol_Berasategi.jpg",
        "picosdeeuropa_by_Aitzol_Berasategi.jpg",
        "seeding_by_Clements_Engelhardt.jpg",
        "sunset_by_Aitzol_Berasategi.jpg",
    ),
    "lomiri-wallpapers-20.04": ("Kleiber_by_Lukas_Baubkus.jpg",),
    "mate-backgrounds": (
        "Elephants.jpg",
        "Aqua.jpg",
        "Blinds.jpg",
        "Dune.jpg",
        "FreshFlower.jpg",
        "Garden.jpg",
        "GreenMeadow.jpg",
        "LadyBird.jpg",
        "RainDrops.jpg",
        "Storm.jpg",
        "TwoWings.jpg",
        "Wood.jpg",
        "YellowFlower.jpg",
    ),
    "plasma-workspace-wallpapers": (
        "BytheWater/contents/images/2560x1600.jpg",
        "ColdRipple/contents/images/2560x1600.jpg",
        "ColorfulCups/contents/images/2560x1600.jpg",
        "EveningGlow/contents/images/2560x1600.jpg",
        "FallenLeaf/contents/images/2560x1600.jpg",
        "Grey/contents/images/2560x1600.jpg",
        "Kite/contents/images/2560x1600.jpg",
        "OneStandsOut/contents/images/2560x1600.jpg",
        "Path/contents/images/2560x1600.jpg",
        "Volna/contents/images/5120x2880.jpg",
        "summer_1am/contents/images/2560x1600.jpg",
    ),
}


def _files(folder: Path) -> Iterator[Path]:
    """Yield the photographs' files in a folder that holds the contents of the packages.

    Raises:
        FileNotFoundError: one is missing.
    """
    for package, names in PHOTOGRAPHS.items():
        for name in names:
            found = sorted((folder / package).rglob(name))
            if not found:
                raise FileNotFoundError(f"{folder / package} holds no {name}")
            yield found[0]


def photographs(folder: Path, channels: int) -> list[Array]:
    """Return the photographs, uint8, (height, width) or (height, width, 3).

    Args:
        folder: holds a folder for each package, with its contents.
        channels: 1 for grey, 3 for colour.

    Raises:
        FileNotFoundError: a picture is missing.
    """
    pages = []
    for file in _files(folder):
        image: Any = Image.open(file).convert("L" if channels == 1 else "RGB")
        largest = max(image.size)
        least = LEAST_SHRINKING if largest > LARGEST_SIDE / LEAST_SHRINKING else 1.0
        factor = max(largest / LARGEST_SIDE, least)
        size = tuple(round(side / factor) for side in image.size)
        pages.append(np.asarray(image.resize(size, Image.Resampling.LANCZOS)))
    return pages


def train(
    pages: list[Array], model: Path, steps: int, begin: PictureDenoiser | None = None
) -> PictureDenoiser:
    """Learn a denoiser from photographs, save it in half precision, and return it.

    Args:
        pages: uint8, all (height, width) or all (height, width, 3).
        model: file of the model; the state of a training that is interrupted lies beside it.
        steps: of the training.
        begin: a denoiser to go on from; its training is then that of the model made finer, with
            half the learning rate.
    """
    start = time.perf_counter()

    def report(progress: dict[str, Any]) -> None:
        seconds, step = time.perf_counter() - start, progress["step"]
        losses = ", ".join(f"{name} {progress[name]:.4f}" for name in progress if name != "step")
        print(f"step {step} of {steps}, {seconds / 60:.0f} min: {losses}", flush=True)

    rate = LEARNING_RATE if begin is None else LEARNING_RATE / 2
    seed = 0 if begin is None else begin.random_state + 1  # other crops and noise
    denoiser = PictureDenoiser(
        max_steps=steps, learning_rate=rate, random_state=seed, callback=report
    )
    denoiser.fit(pages, model.with_suffix(".state"), start=begin)
    denoiser.save(model, half=True)
    return denoiser


def main() -> None:
    """Read the command line, and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wallpapers", type=Path, help="folder of the packages' contents")
    parser.add_argument("kind", choices=("grey", "colour"))
    parser.add_argument("model", type=Path, help="file of the model")
    parser.add_argument("--steps", type=int, default=16_000)
    parser.add_argument("--begin", type=Path, help="file of a model to go on from")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    pages = photographs(options.wallpapers, 1 if options.kind == "grey" else 3)
    begin = options.begin and PictureDenoiser.load(options.begin)
    train(pages, options.model, options.steps, begin)


if __name__ == "__main__":
    main()
