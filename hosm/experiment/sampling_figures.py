"""Figures of the samplers: bias against effective samples, convergence, and the draws."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from hosm.experiment import cells
from hosm.experiment.rows import Row, groups, radial_distance, records
from hosm.experiment.style import BLUE, GREY, ORANGE, grid, key, legend, log_axis, styled

__all__ = ["curves_figure", "draws_figure", "tuning_figure"]

Array = NDArray[Any]

SAMPLERS = {"langevin": (BLUE, "o"), "ozaki": (ORANGE, "s")}
STYLES = {"exact": "-", "learned": "--"}
BEYOND = "#f3e3d8"
POINTS = 1000  # drawn of each sampler
EXACT = "exact draws"


def _panels(frame: pd.DataFrame) -> tuple[Figure, list[tuple[Axes, str, pd.DataFrame]]]:
    """Return a figure with a panel for each target."""
    parts = groups(frame, "target")
    columns = min(2, len(parts))
    lines = -(-len(parts) // columns)
    figure, axes = grid(lines, columns, 0.9 + 2.7 * lines)
    flat = [ax for line in axes for ax in line]
    for ax in flat[len(parts) :]:
        ax.set_visible(False)
    pairs = zip(flat, parts, strict=False)
    return figure, [(ax, str(target), group) for ax, (target, group) in pairs]


def _sampler_keys(frame: pd.DataFrame, markers: bool) -> list[Line2D]:
    scores = [name for name in STYLES if name in set(frame["scores"])]
    return [
        key(
            marker if markers else "",
            colour,
            f"{method.capitalize()}, {name} scores",
            linestyle=STYLES[name],
            markerfacecolor=colour if name == "exact" else "white",
        )
        for method, (colour, marker) in SAMPLERS.items()
        for name in scores
    ]


def _label(ax: Axes, row: Row, colour: str) -> None:
    """Write a step size beside its point."""
    place = (row["kolmogorov"], row["ess_bulk"])
    text, offset = f"{row['step_size']:g}", "offset points"
    ax.annotate(text, place, (4, 4), textcoords=offset, fontsize=7, color=colour)


def _draw_tuning(ax: Axes, group: pd.DataFrame) -> None:
    """Draw a line through the step sizes of each sampler and kind of scores."""
    for (method, scores), part in groups(group, "method", "scores"):
        colour, marker = SAMPLERS[method]
        rows = [row for row in records(part.sort_values("step_size")) if row["ess_bulk"] > 0]
        rows = [row for row in rows if row["kolmogorov"] < 1]
        ax.plot(
            [row["kolmogorov"] for row in rows],
            [row["ess_bulk"] for row in rows],
            linestyle=STYLES[scores],
            linewidth=0.8,
            color=colour,
            marker=marker,
            markerfacecolor=colour if scores == "exact" else "white",
            markersize=5,
        )
        for row in [*rows[:1], *rows[-1:]]:
            _label(ax, row, colour)


def _tuning_title(target: str, rows: list[Row], bound: float) -> str:
    within = [row for row in rows if row["kolmogorov"] <= bound and row["ess_bulk"] > 0]
    if not within:
        return f"{target}\nno step size within the bound"
    best = max(within, key=lambda row: row["ess_bulk"])
    step = f"ε = {best['step_size']:g}"
    return f"{target}\nmost within the bound: {best['method'].capitalize()}, {step}"


@styled
def tuning_figure(tuning: pd.DataFrame, bias_bound: float) -> Figure:
    """Draw effective samples against bias for every step size that tuning tried.

    Args:
        tuning: a row for each target, scores, method and step size.
        bias_bound: largest Kolmogorov distance that tuning accepts.
    """
    figure, panels = _panels(tuning)
    for ax, target, group in panels:
        _draw_tuning(ax, group)
        ax.axvspan(bias_bound, 1, color=BEYOND, zorder=0)
        log_axis(ax, "x")
        log_axis(ax, "y")
        ax.set(xlabel="Kolmogorov distance to exact draws", ylabel="ESS bulk, all chains")
        ax.set_title(_tuning_title(target, records(group), bias_bound))
    keys = _sampler_keys(tuning, markers=True)
    beyond = key("s", BEYOND, f"beyond the bias bound, {bias_bound:g}", markersize=9)
    legend(figure, [*keys, beyond], 3)
    return figure


@styled
def curves_figure(curves: pd.DataFrame, bias_bound: float) -> Figure:
    """Draw the distance of all draws so far to exact ones against iterations.

    Args:
        curves: a row for each target, scores, method and number of iterations.
        bias_bound: largest Kolmogorov distance that tuning accepts.
    """
    figure, panels = _panels(curves)
    for ax, target, group in panels:
        ends = {}
        for (method, scores), rows in groups(group, "method", "scores"):
            x, y = rows["iterations"], rows["kolmogorov"]
            ax.plot(x, y, linestyle=STYLES[scores], color=SAMPLERS[method][0])
            ends[f"{method.capitalize()}, {scores}"] = rows["kolmogorov"].iloc[-1]
        ax.axhline(bias_bound, color=GREY, linestyle=":", linewidth=1.2)
        log_axis(ax, "x")
        log_axis(ax, "y")
        ax.set(xlabel="iterations after burn-in, each chain", ylabel="Kolmogorov distance")
        nearest = min(ends, key=lambda name: np.nan_to_num(ends[name], nan=np.inf))
        ax.set_title(f"{target}\nnearest at the end: {nearest} ({cells.number(ends[nearest], 2)})")
    keys = _sampler_keys(curves, markers=False)
    legend(figure, [*keys, key("", GREY, f"bias bound, {bias_bound:g}", linestyle=":")], 3)
    return figure


def _by_target(draws: dict[str, Array]) -> dict[str, dict[str, Array]]:
    """Return for each target its panels: exact draws, then samplers by exact, learned scores."""
    targets: dict[str, dict[str, Array]] = {}
    for name in sorted(draws):
        target, scores, method = name.split("|")
        label = EXACT if method == EXACT else f"{method.capitalize()}\n{scores} scores"
        targets.setdefault(target, {}).setdefault(label, draws[name])
    return {target: {EXACT: panels.pop(EXACT), **panels} for target, panels in targets.items()}


def _colour(label: str) -> str:
    method = label.partition("\n")[0].lower()
    return SAMPLERS[method][0] if method in SAMPLERS else GREY


@styled
def draws_figure(draws: dict[str, Array]) -> Figure:
    """Draw the draws of each tuned sampler beside exact ones, on the same axes for a target.

    Args:
        draws: 'target|scores|method' -> points, shape (n, 2); method 'exact draws' is needed.
    """
    targets = _by_target(draws)
    columns = max(map(len, targets.values()))
    figure, axes = grid(len(targets), columns, 0.4 + 1.85 * len(targets), bare=True)
    for line, (target, panels) in zip(axes, targets.items(), strict=True):
        reach = 1.3 * float(np.abs(panels[EXACT]).max())
        line[0].set_ylabel(target)
        for ax, (label, points) in zip(line, panels.items(), strict=False):
            x, y = points[:: max(1, len(points) // POINTS)].T
            ax.scatter(x, y, s=1.5, color=_colour(label), alpha=0.5, linewidths=0)
            ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
            ax.set_title(label, fontsize=8, loc="center")
            if label != EXACT:
                distance = cells.number(radial_distance(points, panels[EXACT]), 2)
                ax.set_xlabel(f"radius: distance {distance}", fontsize=8)
    return figure
