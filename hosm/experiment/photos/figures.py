"""A gallery of pictures and their errors, reliability of error bars, and PSNR by method."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from hosm.experiment.photos.results import OURS, Photos, PhotosRun
from hosm.experiment.presenting.longer_runs import LONGER
from hosm.experiment.presenting.style import (
    BLUE,
    COLOURS,
    GREY,
    Drawings,
    grid,
    key,
    legend,
    log_axis,
    styled,
)
from hosm.experiment.shared.files import Array, Arrays
from hosm.experiment.shared.rows import groups

__all__ = ["gallery_figure", "photos_drawings", "psnr_figure", "reliability_figure"]

MARKERS = ("o", "s", "^", "v", "P")
PARTS = {
    "clean": "clean",
    "noisy": "noisy",
    "mean": "denoised",
    "std": "predicted standard deviation",
    "error": "absolute error",
}
BAND = (0.8, 1.25)  # of measured over predicted variance
ENDS = (0.25, 4.0)  # ratios beyond are drawn at the edge
BRIGHTEST = 99.5  # percentile that ends the colour scale
MOST = 4  # pictures of the gallery


def _grey(picture: Array) -> Array:
    """Return a map of one number for each pixel, the root mean square over colours."""
    values = picture.astype(float)
    return values if values.ndim == 2 else np.sqrt((values**2).mean(2))


@styled
def gallery_figure(shown: Arrays) -> Figure:
    """Draw a line for each picture: clean, noisy, denoised, standard deviation, absolute error.

    Args:
        shown: as in `results.PhotosRun`.
    """
    names = [name.partition("|")[2] for name in shown if name.startswith("clean|")][:MOST]
    figure, axes = grid(len(names), len(PARTS), 0.5 + 1.55 * len(names), bare=True)
    for line, name in zip(axes, names, strict=True):
        maps = {part: _grey(shown[f"{part}|{name}"]) for part in ("std", "error")}
        largest = float(np.percentile(maps["error"], BRIGHTEST))
        line[0].set_ylabel(name.replace("_", "\n"))
        for ax, part in zip(line, PARTS, strict=True):
            if part in maps:
                drawn = ax.imshow(maps[part], cmap="viridis", vmin=0, vmax=largest)
            else:
                pixels = shown[f"{part}|{name}"].astype(float)
                ax.imshow(np.clip(pixels / 255, 0, 1), cmap="gray", vmin=0, vmax=1)
        bar = figure.colorbar(drawn, ax=line[-1], fraction=0.046, label="levels of 255")
        bar.ax.tick_params(labelsize=7)
    for ax, title in zip(axes[0], PARTS.values(), strict=True):
        ax.set_title(title, fontsize=7.5, loc="center")
    return figure


@styled
def reliability_figure(tenths: pd.DataFrame) -> Figure:
    """Draw measured over predicted variance against its standard deviation, by tenths.

    Args:
        tenths: as in `results.PhotosRun`.
    """
    parts = groups(tenths, "kind")
    figure, axes = grid(1, len(parts), 3.4)
    sigmas = list(dict.fromkeys(tenths["sigma"]))
    for ax, (kind, part) in zip(axes[0], parts, strict=True):
        own = part[part["method"] == OURS]
        for (sigma, method), line in groups(part, "sigma", "method"):
            place, ours = sigmas.index(sigma), method == OURS
            style: dict[str, Any] = {"color": COLOURS[place], "marker": MARKERS[place]}
            style |= {} if ours else {"linestyle": ":", "markerfacecolor": "none", "alpha": 0.7}
            deviation = np.sqrt(line["predicted"])
            ax.plot(deviation, line["ratio"].clip(*ENDS), linewidth=1, markersize=4, **style)
        ax.axhspan(*BAND, color=GREY, alpha=0.15)
        ax.axhline(1, color=GREY, linestyle="--", linewidth=1)
        log_axis(ax, "x")
        log_axis(ax, "y")
        ax.set_title(f"{kind}: ours {own['ratio'].min():.2f} to {own['ratio'].max():.2f}")
        ax.set_xlabel("predicted standard deviation (of 255)")
    axes[0][0].set_ylabel("squared error over predicted variance")
    keys = [
        key(MARKERS[place], COLOURS[place], f"ours, noise {sigma:g}", linestyle="-")
        for place, sigma in enumerate(sigmas)
    ]
    rivals = ", ".join(name for name in dict.fromkeys(tenths["method"]) if name != OURS)
    keys.append(key("o", GREY, rivals, linestyle=":", markerfacecolor="none"))
    keys.append(key("", GREY, "perfect; band 0.8 to 1.25", linestyle="--"))
    legend(figure, keys, 5)
    return figure


@styled
def psnr_figure(quality: pd.DataFrame) -> Figure:
    """Draw the mean PSNR of each method, a panel for each kind of pictures.

    Args:
        quality: as in `results.PhotosRun`.
    """
    parts = groups(quality, "kind")
    methods = list(dict.fromkeys(quality["method"]))
    sigmas = list(dict.fromkeys(quality["sigma"]))
    figure, axes = grid(1, len(parts), 1.4 + 0.3 * len(methods))
    for ax, (kind, part) in zip(axes[0], parts, strict=True):
        for (method, sigma), rows in groups(part, "method", "sigma"):
            place = sigmas.index(sigma)
            style: dict[str, Any] = {"color": COLOURS[place], "markersize": 6}
            style |= {} if method == OURS else {"markerfacecolor": "none"}
            ax.plot(rows["psnr"].mean(), methods.index(method), MARKERS[place], **style)
        ax.set_yticks(range(len(methods)), methods)
        ax.set_ylim(len(methods) - 0.5, -0.5)
        ax.set_title(f"{kind}, {part['picture'].nunique()} pictures")
        ax.set_xlabel("mean PSNR (dB), more is better →")
        ax.get_yticklabels()[methods.index(OURS)].set_color(BLUE)
    keys = [
        key(MARKERS[place], COLOURS[place], f"noise {sigma:g} of 255")
        for place, sigma in enumerate(sigmas)
    ]
    legend(figure, keys)
    return figure


def photos_drawings(found: Photos) -> Drawings:
    """Return what draws the figures of the study, by their names."""
    drawings: Drawings = {}

    def add(run: PhotosRun, ending: str) -> None:
        drawings[f"photos{ending}"] = lambda: gallery_figure(run.shown)
        drawings[f"photos-reliability{ending}"] = lambda: reliability_figure(run.tenths)
        drawings[f"photos-psnr{ending}"] = lambda: psnr_figure(run.quality)

    add(found.run, "")
    if found.whole is not None:
        add(found.whole, LONGER)
    return drawings
