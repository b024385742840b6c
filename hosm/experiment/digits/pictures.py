"""What the studies of digits kept, as two pictures.

    python -m hosm.experiment.digits.pictures reports/whole docs/pictures

Draws by the number of steps and the covariance, and each inverse problem by each method.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hosm.experiment.presenting.style import grid, save_figure, styled
from hosm.experiment.shared.files import Arrays, read_arrays

__all__ = ["draws_figure", "problems_figure"]

DRAWS, SHOWN = 6, 4  # pictures beside each other: of a sampler, and of a posterior
ROW = 0.36  # inches
NAMES = {
    "covariance": "ours",
    "diagonal": "ours, diagonal",
    "dps": "DPS",
    "pigdm": "ΠGDM",
    "tmpd": "TMPD",
    "mmps": "MMPS",
}


def _square(x: NDArray[Any]) -> NDArray[Any]:
    """Return a flat picture as a square one."""
    side = round(x.size**0.5)
    return x.reshape(side, side)


def _beside(pictures: NDArray[Any]) -> NDArray[Any]:
    """Return flat pictures, shape (n, D), as one picture beside each other."""
    return np.concatenate([_square(each) for each in pictures], 1)


@styled
def draws_figure(draws: Arrays) -> Figure:
    """Draw a row for each sampler and a column for each number of steps.

    Args:
        draws: uint8 pictures (n, D) by names such as `5/diagonal`.
    """
    places = [name.split("/", 1) for name in draws]
    steps = sorted({int(number) for number, _ in places})
    names = list(dict.fromkeys(name for _, name in places))
    figure, axes = grid(len(names), len(steps), 0.3 + ROW * len(names), bare=True)
    for row, name in zip(axes, names, strict=True):
        for ax, number in zip(row, steps, strict=True):
            ax.imshow(_beside(draws[f"{number}/{name}"][:DRAWS]), cmap="gray", vmin=0, vmax=255)
            if row is axes[0]:
                ax.set_title(f"{number} steps")
        row[0].set_ylabel(name, rotation=0, ha="right", va="center")
    return figure


@styled
def problems_figure(kept: Arrays) -> Figure:
    """Draw a digit beside its measurement, and below the mean, deviations and draws by method.

    Args:
        kept: by names such as `Gaussian blur/dps`: mean, standard deviation and draws, (n, D);
            under `truth` and `measurement` flat pictures, the latter brought back by A^T.
    """
    tasks = list(dict.fromkeys(name.split("/")[0] for name in kept))
    methods = [name for name in NAMES if f"{tasks[0]}/{name}" in kept]
    names = ["digit, measurement", *(NAMES[method] for method in methods)]
    figure, axes = grid(len(names), len(tasks), 0.3 + ROW * len(names), bare=True)
    for column, task in enumerate(tasks):
        seen = kept[f"{task}/measurement"]
        lines = [_beside(np.stack([kept[f"{task}/truth"], seen / np.abs(seen).max()]))]
        for method in methods:
            mean, spread, *found = kept[f"{task}/{method}"].astype(float)
            lines.append(_beside(np.stack([mean, 2 * spread, *found[:SHOWN]])))
        for row, line in zip(axes, lines, strict=True):
            row[column].imshow(line, cmap="gray", vmin=0, vmax=1)
            row[column].set_anchor("W")
        axes[0][column].set_title(task)
    for row, name in zip(axes, names, strict=True):
        row[0].set_ylabel(name, rotation=0, ha="right", va="center")
    return figure


def main() -> None:
    """Read the command line and draw what was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kept", type=Path, help="folder of the two studies' folders")
    parser.add_argument("pictures", type=Path, help="folder of the pictures")
    options = parser.parse_args()
    draws = read_arrays(options.kept / "diffusion-digits" / "draws.npz")
    save_figure(draws_figure(draws), options.pictures / "few_steps_digits.png")
    kept = read_arrays(options.kept / "inverse-digits" / "pictures.npz")
    save_figure(problems_figure(kept), options.pictures / "inverse_digits.png")


if __name__ == "__main__":
    main()
