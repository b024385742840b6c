"""Pictures of a denoiser: digits, the variance of their pixels, directions of uncertainty."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hosm.experiment import cells
from hosm.experiment.style import grid, styled

__all__ = ["denoising_figure", "directions_figure"]

Array = NDArray[Any]

IMAGES = 8  # shown, at most
PLAIN = {"clean": "clean x", "noisy": "noisy x~", "mean": "mean m"}
SPREAD = {"variance": "predicted\nvariance", "squared_error": "measured\n(x - m)²"}
BRIGHTEST = 99.5  # percentile of the values that ends the colour scale
DIRECTIONS = 12  # shown of each image, at most
DIRECTED = 6  # images whose directions are shown, at most


def _show(ax: Axes, flat: Array, shape: Sequence[int], low: float, high: float) -> None:
    """Show one image, shape (D,), with pixels outside of the clean images' range clipped."""
    image = np.clip((flat.reshape(*shape) - low) / (high - low), 0, 1)
    shown = image[0] if shape[0] == 1 else image.transpose(1, 2, 0)
    ax.imshow(shown, cmap="gray", vmin=0, vmax=1)


def _over_channels(flat: Array, shape: Sequence[int]) -> Array:
    """Return values of each pixel, averaged over channels, shape (height, width)."""
    return flat.reshape(*shape).mean(axis=0)


def _range(arrays: dict[str, Array]) -> tuple[float, float]:
    return float(arrays["clean"].min()), float(arrays["clean"].max())


@styled
def denoising_figure(arrays: dict[str, Array], shape: Sequence[int]) -> Figure:
    """Draw images clean, noisy and denoised, with predicted variance and measured error.

    Args:
        arrays: images of shape (n, D) by the names above.
        shape: channels, height and width of an image.
    """
    count, labels = min(IMAGES, len(arrays["clean"])), {**PLAIN, **SPREAD}
    figure, axes = grid(len(labels), count, 0.4 + 0.82 * len(labels), bare=True)
    maps = {
        name: [_over_channels(flat, shape) for flat in arrays[name][:count]] for name in SPREAD
    }
    largest = float(np.percentile(np.stack([*maps.values()]), BRIGHTEST))
    for line, (name, label) in zip(axes, labels.items(), strict=True):
        line[0].set_ylabel(label, rotation=0, ha="right", va="center")
        for i, ax in enumerate(line):
            if name in SPREAD:
                shown = ax.imshow(maps[name][i], cmap="viridis", vmin=0, vmax=largest)
            else:
                _show(ax, arrays[name][i], shape, *_range(arrays))
    both = [ax for line in axes[-len(SPREAD) :] for ax in line]
    means = [cells.number(float(np.mean(images))) for images in maps.values()]
    figure.suptitle(f"Mean over these pixels: variance {means[0]}, squared error {means[1]}")
    figure.colorbar(shown, ax=both, label="pixel²", fraction=0.05, aspect=14, extend="max")
    return figure


@styled
def directions_figure(arrays: dict[str, Array], shape: Sequence[int]) -> Figure:
    """Draw the leading eigenvectors of the posterior covariance of several images.

    Args:
        arrays: `noisy`, `clean`, `variance`, (n, D); `eigenvalues` (n, k); `directions` (n, D, k).
        shape: channels, height and width of an image.
    """
    directions = arrays["directions"]
    count, k = min(DIRECTED, len(directions)), min(DIRECTIONS, directions.shape[-1])
    figure, axes = grid(count, 2 + k, 0.45 + 0.62 * count, bare=True)
    for i, line in enumerate(axes):
        _show(line[0], arrays["noisy"][i], shape, *_range(arrays))
        _show(line[1], arrays["clean"][i], shape, *_range(arrays))
        for j, ax in enumerate(line[2:]):
            vector = _over_channels(directions[i, :, j], shape)
            reach = float(np.abs(vector).max())
            ax.imshow(vector, cmap="RdBu_r", vmin=-reach, vmax=reach)
    for ax, name in zip(axes[0], ["noisy", "clean", *map(str, range(1, k + 1))], strict=True):
        ax.set_title(name, fontsize=8, loc="center")
    share = float(arrays["eigenvalues"][:, :k].sum() / arrays["variance"].sum())
    figure.suptitle(f"The first {k} directions hold {share:.0%} of the predicted variance")
    return figure
