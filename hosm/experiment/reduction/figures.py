"""Figure 1: what variance reduction does, a column of panels for each noise scale.

From top to bottom the panels of Meng, Song, Li and Ermon (NeurIPS 2021, figure 1): the losses of
the second order without and with variance reduction, (a) and (b) there; the errors of s2 that
come of them; the estimates of s1 and s2 beside the exact scores, (c) and (d).
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.longer_runs import LONGER
from hosm.experiment.presenting.style import (
    BLUE,
    GREY,
    ORANGE,
    Drawings,
    grid,
    key,
    legend,
    styled,
)
from hosm.experiment.reduction.results import Reduction
from hosm.experiment.shared.rows import groups

__all__ = ["reduction_drawings", "reduction_figure"]

COLOURS = {"none": ORANGE, "antithetic": BLUE}
STYLES = {"moment": "-", "residual": ":", "jacobian": "--"}
LIMITS = {"s1": (-4.5, 4.5), "s2": (-4.0, 2.0)}
ZERO_ERROR = 2.0  # of an s2 that is zero everywhere, against -I in the plane
LATE = 0.5  # share of the steps that come before the late ones


def _pair(values: Mapping[Any, float]) -> str:
    """Return a number without and one with variance reduction."""
    rounded = [float(f"{values.get(kind, np.nan):.2g}") for kind in COLOURS]
    without, reduced = (formats.number(value, 2) for value in rounded)
    return f"{without} without, {reduced} with"


def _draw_losses(ax: Axes, part: pd.DataFrame) -> str:
    """Draw how far the losses of each seed are from their least value."""
    gaps = (part["train_second"] - part["least_second"]).abs()
    late = part["step"] > LATE * part["step"].max()
    for (kind, _), run in groups(part.assign(gap=gaps), "reduction", "seed"):
        ax.plot(run["step"], run["gap"], color=COLOURS[kind], linewidth=0.9, alpha=0.8)
    medians = gaps[late].groupby(part.loc[late, "reduction"]).median()
    return f"typical gap: {_pair(medians.to_dict())}"


def _draw_errors(ax: Axes, part: pd.DataFrame, target: str) -> str:
    """Draw the median error over the seeds of the s2 of every target."""
    final = {}
    for (kind, name), run in groups(part, "reduction", "target"):
        median = run.groupby("step")["s2_error"].median()
        finite = median[np.isfinite(median)]
        ax.plot(finite.index, finite, STYLES[name], color=COLOURS[kind], linewidth=1.3)
        if name == target:
            final[kind] = float(median.iloc[-1])
    ax.axhline(ZERO_ERROR, color=GREY, linestyle="-.", linewidth=1)
    return f"by {target}: {_pair(final)}"


def _draw_estimates(ax: Axes, part: pd.DataFrame, name: str) -> str:
    """Draw the estimates of every seed over the exact score."""
    if part.empty:
        return "no estimates: every run diverged"
    line, beyond, (low, high) = part.drop_duplicates("u"), 0, LIMITS[name]
    ax.plot(line["u"], line[f"exact_{name}"], color=GREY, linewidth=5, alpha=0.35, zorder=1)
    for (kind, _), run in groups(part, "reduction", "seed"):
        ax.plot(run["u"], run[name], color=COLOURS[kind], linewidth=1.1, alpha=0.9)
        beyond += not run[name].between(low, high).any()
    if beyond:
        text = f"off the chart: {beyond} of {len(groups(part, 'reduction', 'seed'))} runs"
        ax.text(0.97, 0.05, text, transform=ax.transAxes, ha="right", fontsize=8)
    ax.set(ylim=(low, high), xlim=(line["u"].min(), line["u"].max()))
    misses = (part[name] - part[f"exact_{name}"]).abs()
    return f"largest miss: {_pair(misses.groupby(part['reduction']).max().to_dict())}"


def _share(line: list[Axes]) -> None:
    """Give the panels of a line one vertical axis, labelled at its left."""
    limits = [limit for ax in line for limit in ax.get_ylim()]
    for ax in line:
        ax.set_ylim(min(limits), max(limits))
        ax.tick_params(axis="y", labelleft=ax is line[0])


@styled
def reduction_figure(curves: pd.DataFrame, estimates: pd.DataFrame) -> Figure:
    """Draw losses, errors and estimates without and with variance reduction.

    Losses and estimates are those of the target `moment`, or of the first where it was not tried.

    Args:
        curves: a row for each sigma, reduction, seed, target and record.
        estimates: a row for each sigma, reduction, seed, target and point of a line.
    """
    targets = list(dict.fromkeys(curves["target"]))
    target = "moment" if "moment" in targets else targets[0]
    sigmas = sorted(set(curves["sigma"]))
    figure, axes = grid(4, len(sigmas), 9.4)
    steps, line = "optimiser steps", "$u$, at the point $(u, 0)$"
    rows = (
        (curves, partial(_draw_losses), f"|{target} loss − its least|", steps),
        (curves, partial(_draw_errors, target=target), "squared error of $s_2$", steps),
        (estimates, partial(_draw_estimates, name="s1"), "first entry of $s_1$", line),
        (estimates, partial(_draw_estimates, name="s2"), "entry 1, 1 of $s_2$", line),
    )
    for place, (frame, draw, label, below) in enumerate(rows):
        for ax, sigma in zip(axes[place], sigmas, strict=True):
            ax.set_yscale("log" if place < 2 else "linear")
            part = frame[frame["sigma"] == sigma]
            found = draw(ax, part if place == 1 else part[part["target"] == target])
            ax.set_title(f"σ = {sigma:g}\n{found}" if place == 0 else found, fontsize=8)
            ax.set_xlabel(below)
        axes[place][0].set_ylabel(label)
        _share(axes[place])
    names = ("without variance reduction", "with it (antithetic)")
    keys = [
        key("", colour, name, linestyle="-")
        for colour, name in zip(COLOURS.values(), names, strict=True)
    ]
    keys.append(key("", GREY, "exact", linestyle="-", linewidth=5, alpha=0.35))
    keys.append(key("", GREY, "error of $s_2$ = 0", linestyle="-."))
    keys += [key("", "black", f"$s_2$ by {name}", linestyle=STYLES[name]) for name in targets]
    legend(figure, keys)
    return figure


def reduction_drawings(found: Reduction) -> Drawings:
    """Return what draws the figures of variance reduction, by their names."""
    run, whole = found.run, found.whole
    drawings: Drawings = {"reduction": lambda: reduction_figure(run.curves, run.estimates)}
    if whole is not None:
        drawings |= {f"reduction{LONGER}": lambda: reduction_figure(whole.curves, whole.estimates)}
    return drawings
