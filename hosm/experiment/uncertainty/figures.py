"""Charts of denoisers: their calibration, and directions against their cost."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.style import (
    COLOURS,
    GREY,
    Drawings,
    grid,
    key,
    legend,
    log_axis,
    styled,
)
from hosm.experiment.shared.rows import groups
from hosm.experiment.uncertainty import pictures
from hosm.experiment.uncertainty.results import Denoiser

__all__ = ["calibration_figure", "explained_figure", "uncertainty_drawings"]

MARKERS = ("o", "s", "^", "v", "P")
BOUND = 0.15  # relative gap that a decile may have


@styled
def calibration_figure(reliability: pd.DataFrame) -> Figure:
    """Draw measured squared error over scaled predicted variance, by tenths of the pixels.

    Args:
        reliability: a row for each model, noise scale and bin.
    """
    figure, axes = grid(1, 2, 3.6)
    (left, right), keys, worst = axes[0], [], 0.0
    parts = groups(reliability[reliability["model"] == "range"], "sigma")
    for place, (sigma, part) in enumerate(parts):
        colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
        scaled = part["scale"] * part["predicted"]
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4}
        left.plot(scaled, part["observed"], linewidth=1, **style)
        gap, error = part["observed"] / scaled, 2 * part["standard_error"] / scaled
        right.errorbar(part["bin"], gap, yerr=error, linewidth=1, capsize=2, **style)
        worst = max(worst, float((gap - 1).abs().max()))
        keys.append(key(marker, colour, f"σ = {sigma:g}", linestyle="-"))
    ends = np.array([0.7 * reliability["predicted"].min(), 1.4 * reliability["predicted"].max()])
    left.plot(ends, ends, color=GREY, linestyle="--", linewidth=1.2)
    right.axhline(1, color=GREY, linestyle="--", linewidth=1.2)
    right.axhspan(1 - BOUND, 1 + BOUND, color=GREY, alpha=0.15)
    log_axis(left, "x")
    log_axis(left, "y")
    left.set(xlabel="predicted variance, scaled (pixel²)", ylabel="squared error (pixel²)")
    right.set(xlabel="tenth of the pixels, by predicted variance", ylabel="error / variance")
    right.set(xticks=range(1, 11), ylim=(0, max(2, 1.1 + worst)))
    left.set_title("Measured against predicted")
    right.set_title(f"Their ratio: largest gap {worst:.0%}")
    keys.append(key("", GREY, "perfect calibration, ± 15 %", linestyle="--"))
    legend(figure, keys, len(keys))
    return figure


@styled
def explained_figure(directions: pd.DataFrame) -> Figure:
    """Draw the share of the error that k directions hold, with the time to find them.

    Args:
        directions: a row for each method and k.
    """
    figure, axes = grid(1, 1, 3.4)
    ax, keys = axes[0][0], []
    for place, (method, part) in enumerate(groups(directions, "method")):
        colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
        ax.plot(part["k"], 100 * part["share"], color=colour, marker=marker, markersize=4)
        seconds = part["seconds"].iloc[0] / part["images"].iloc[0]
        cost = f", {formats.milliseconds(seconds)} ms" if seconds > 0 else ", one for all images"
        keys.append(key(marker, colour, method + cost, linestyle="-"))
    ax.set(xlabel="directions k", ylabel="share of the squared error (%)", ylim=(0, None))
    last = directions[directions["k"] == directions["k"].max()].set_index("method")
    iterated = last[last.index.str.startswith("subspace")]["seconds"] / last.loc["s2", "seconds"]
    saving = f"{formats.ratio(float(iterated.min()))} to {formats.ratio(float(iterated.max()))}"
    share = last.loc["s2", "share"] / last.loc[last["seconds"].idxmax(), "share"]
    ax.set_title(
        f"{directions['k'].max()} directions of s2 hold {share:.0%} of what subspace "
        f"iteration's hold, {saving} faster"
    )
    legend(figure, keys, 2)
    return figure


def uncertainty_drawings(name: str, found: Denoiser) -> Drawings:
    """Return what draws the figures of one set of images, by their names."""
    images, shape = found.pictures, found.card["shape"]
    rank = found.card["settings"]["rank"]
    sigmas = list(found.numbers.loc[found.numbers["model"] == "range", "sigma"])
    charts: Drawings = {
        f"calibration-{name}": lambda: calibration_figure(found.reliability),
        f"explained-{name}": lambda: explained_figure(found.directions),
    }
    if images:
        charts |= {
            f"variance-{name}": lambda: pictures.variance_figure(images, shape, sigmas),
            f"directions-{name}": lambda: pictures.directions_figure(images, shape, rank),
            f"traversals-{name}": lambda: pictures.traversals_figure(images, shape),
        }
    return charts
