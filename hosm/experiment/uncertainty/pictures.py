"""Pictures of a denoiser: images, the variance of their pixels, directions of uncertainty."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.style import grid, styled
from hosm.experiment.shared.files import Array

__all__ = ["directions_figure", "traversals_figure", "variance_figure"]


IMAGES = 2  # shown at each noise scale, at most
COLUMNS = {
    "noisy": "noisy",
    "mean": "denoised",
    "expected": "predicted\nvariance",
    "squared_error": "squared\nerror",
}
MAPS = ("expected", "squared_error")
CHANNELS = ("red", "green", "blue")
BRIGHTEST = 99.5  # percentile of the values that ends the colour scale
DIRECTED = 2  # images whose directions are shown, at most
IN_A_ROW = 11  # eigenvectors
STEPS = (-2, -1, 0, 1, 2)  # of a traversal, in standard deviations
TRAVERSED = 3  # directions of an image


def _show(ax: Axes, flat: Array, shape: Sequence[int], low: float, high: float) -> None:
    """Show one image, shape (D,), with pixels outside of the clean images' range clipped."""
    image = np.clip((flat.reshape(*shape) - low) / (high - low), 0, 1)
    shown = image[0] if shape[0] == 1 else image.transpose(1, 2, 0)
    ax.imshow(shown, cmap="gray", vmin=0, vmax=1)


def _signed(ax: Axes, flat: Array, shape: Sequence[int]) -> None:
    """Show an eigenvector, averaged over channels, red and blue for its two signs."""
    vector = flat.reshape(*shape).mean(axis=0)
    reach = float(np.abs(vector).max())
    ax.imshow(vector, cmap="RdBu_r", vmin=-reach, vmax=reach)


def _range(arrays: dict[str, Array]) -> tuple[float, float]:
    return float(arrays["clean"].min()), float(arrays["clean"].max())


def _stacked(flat: Array, shape: Sequence[int]) -> Array:
    """Return a map of each channel side by side, shape (height, channels width)."""
    return np.concatenate(list(flat.reshape(*shape)), axis=1)


@styled
def variance_figure(
    arrays: dict[str, Array], shape: Sequence[int], sigmas: Sequence[float]
) -> Figure:
    """Draw noisy and denoised images with predicted variance and measured error, by scale.

    Args:
        arrays: `clean`, (n, D), and 'noisy|0.5' and the like at each scale.
        shape: channels, height and width of an image.
        sigmas: noise scales, a line for each.
    """
    count, parts = min(IMAGES, len(arrays["clean"])), len(COLUMNS)
    figure, axes = grid(len(sigmas), count * parts, 0.8 + 1.05 * len(sigmas), bare=True)
    for line, sigma in zip(axes, sigmas, strict=True):
        maps = {name: arrays[f"{name}|{sigma:g}"][:count] for name in MAPS}
        largest = float(np.percentile(np.stack([*maps.values()]), BRIGHTEST))
        line[0].set_ylabel(f"σ = {sigma:g}", rotation=0, ha="right", va="center")
        for place, ax in enumerate(line):
            i, name = place // parts, [*COLUMNS][place % parts]
            flat = arrays[f"{name}|{sigma:g}"][i]
            if name in MAPS:
                drawn = ax.imshow(_stacked(flat, shape), cmap="viridis", vmin=0, vmax=largest)
            else:
                _show(ax, flat, shape, *_range(arrays))
        bar = figure.colorbar(drawn, ax=line, fraction=0.03, pad=0.01, label="pixel²")
        bar.ax.tick_params(labelsize=7)
    for place, ax in enumerate(axes[0]):
        ax.set_title([*COLUMNS.values()][place % parts], fontsize=7, loc="center")
    channels = "" if shape[0] == 1 else f"; maps of {', '.join(CHANNELS)} side by side"
    first, last = (
        formats.number(float(arrays[f"expected|{sigma:g}"].mean()), 2)
        for sigma in (sigmas[0], sigmas[-1])
    )
    found = (
        f"Mean variance of these pixels: {first} at σ = {sigmas[0]:g}, {last} at {sigmas[-1]:g}"
    )
    figure.suptitle(found + channels)
    return figure


@styled
def directions_figure(arrays: dict[str, Array], shape: Sequence[int], rank: int) -> Figure:
    """Draw eigenvectors of the posterior covariance of some images, the paper's choice of them.

    C is a diagonal plus a matrix of rank r, so that of its eigenvectors those after the first r
    come from the diagonal alone; they are marked.

    Args:
        arrays: `clean`, `noisy`, `mean`, (n, D); `which`, (k,); `eigenvalues`, (n, k);
            `directions`, (n, D, k); `trace`, (n,).
        shape: channels, height and width of an image.
        rank: r of the model.
    """
    which, count = arrays["which"], min(DIRECTED, len(arrays["clean"]))
    rows = -(-len(which) // IN_A_ROW)
    figure, axes = grid(count * rows, 1 + IN_A_ROW, 0.4 + 0.78 * count * rows, bare=True)
    for i in range(count):
        lines = axes[i * rows : (i + 1) * rows]
        for line, name in zip(lines, ("noisy", "mean"), strict=False):
            _show(line[0], arrays[name][i], shape, *_range(arrays))
            line[0].set_title({"noisy": "x~", "mean": "m"}[name], fontsize=8, loc="center")
        flat = [ax for line in lines for ax in line[1:]]
        for j, number in enumerate(which):
            _signed(flat[j], arrays["directions"][i, :, j], shape)
            flat[j].set_title(f"{number}", fontsize=8, loc="center")
            if number > rank:
                flat[j].set_xlabel("from the\ndiagonal alone", fontsize=5.5)
        for ax in flat[len(which) :]:
            ax.set_visible(False)
    leading = which <= IN_A_ROW
    share = float((arrays["eigenvalues"][:, leading].sum(1) / arrays["trace"]).mean())
    figure.suptitle(f"The first {leading.sum()} directions hold {share:.0%} of the variance")
    signs = ScalarMappable(Normalize(-1, 1), cmap="RdBu_r")
    every = [ax for line in axes for ax in line]
    bar = figure.colorbar(signs, ax=every, fraction=0.02, pad=0.01, ticks=[-1, 0, 1])
    bar.set_label("entry, over the largest of its picture")
    return figure


@styled
def traversals_figure(arrays: dict[str, Array], shape: Sequence[int]) -> Figure:
    """Draw m + c lambda^(1/2) v for c from -2 to 2 along the first directions of some images.

    Args:
        arrays: as for `directions_figure`.
        shape: channels, height and width of an image.
    """
    count = min(DIRECTED, len(arrays["clean"]))
    across = 2 + TRAVERSED * len(STEPS)
    figure, axes = grid(count, across, 0.75 + 0.52 * count, bare=True)
    for i, line in enumerate(axes):
        for ax, name in zip(line, ("clean", "noisy"), strict=False):
            _show(ax, arrays[name][i], shape, *_range(arrays))
        for j in range(TRAVERSED):
            reach = float(arrays["eigenvalues"][i, j]) ** 0.5
            for c, ax in zip(STEPS, line[2 + j * len(STEPS) :], strict=False):
                moved = arrays["mean"][i] + c * reach * arrays["directions"][i, :, j]
                _show(ax, moved, shape, *_range(arrays))
    names = ["x", "x~", *[f"{c:+d}" if c else f"m, v{j + 1}" for j in range(3) for c in STEPS]]
    for ax, name in zip(axes[0], names, strict=True):
        ax.set_title(name, fontsize=7, loc="center")
    figure.suptitle("What else the clean image may be: m + c λ¹ᐟ² v along the first 3 directions")
    return figure
