"""Charts of the samplers: bias against effective samples, convergence, bias against step size."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hosm.experiment.mixing.comparisons import comparisons
from hosm.experiment.mixing.looks import MARKERS, SAMPLERS, look
from hosm.experiment.mixing.pictures import (
    equal_steps_figure,
    single_chains_figure,
    snapshots_figure,
)
from hosm.experiment.mixing.results import Mixing, Sampling
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.style import (
    GREY,
    Drawings,
    grid,
    key,
    legend,
    log_axis,
    panels,
    styled,
)
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["approach_figure", "bias_figure", "curves_figure", "mixing_drawings", "tuning_figure"]

STYLES = {"exact": "-", "learned": "--"}
BEYOND = "#f3e3d8"


def _of_targets(frame: pd.DataFrame) -> tuple[Figure, list[tuple[Axes, str, pd.DataFrame]]]:
    """Return a figure with a panel for each target."""
    parts = groups(frame, "target")
    figure, axes = panels(len(parts), 2.7)
    pairs = zip(axes, parts, strict=True)
    return figure, [(ax, str(target), group) for ax, (target, group) in pairs]


def _keys(frame: pd.DataFrame) -> list[Line2D]:
    """Return the legend's entries of the samplers and of the scores that are in a frame."""
    there = [name for name in SAMPLERS if name in set(frame["method"])]
    entries = [key(look(name)[1], look(name)[0], SAMPLERS[name]) for name in there]
    scores = [name for name in STYLES if name in set(frame.get("scores", []))]
    return entries + [key("", GREY, f"{name} scores", linestyle=STYLES[name]) for name in scores]


def _draw_tuning(ax: Axes, group: pd.DataFrame) -> None:
    """Draw a line through the step sizes of each sampler and kind of scores."""
    for (method, scores), part in groups(group, "method", "scores"):
        colour, marker = look(method)
        rows = [row for row in records(part.sort_values("step_size")) if row["ess_bulk"] > 0]
        rows = [row for row in rows if row["kolmogorov"] < 1]
        place = [[row[name] for row in rows] for name in ("kolmogorov", "ess_bulk")]
        ax.plot(*place, linestyle=STYLES[scores], linewidth=0.7, color=colour)
        for row in rows:
            sound = bool(row["within_bound"])
            face = colour if sound else "white"
            style: dict[str, Any] = {
                "marker": marker,
                "markersize": 4.5 if sound else 3,
                "color": colour,
            }
            ax.plot(row["kolmogorov"], row["ess_bulk"], markerfacecolor=face, **style)


def _tuning_title(target: str, rows: list[Row]) -> str:
    within = [row for row in rows if row["within_bound"] and row["ess_bulk"] > 0]
    if not within:
        return f"{target}\nno step size within the bounds"
    best = max(within, key=lambda row: row["ess_bulk"])
    name = SAMPLERS.get(best["method"], best["method"])
    return f"{target}\nmost within: {name}, {best['scores']}, ε = {best['step_size']:.2g}"


@styled
def tuning_figure(tuning: pd.DataFrame, bias_bound: float) -> Figure:
    """Draw effective samples against bias for every step size that tuning tried.

    Args:
        tuning: a row for each target, scores, method and step size.
        bias_bound: largest Kolmogorov distance that tuning accepts.
    """
    shown = tuning[tuning["method"].isin(list(MARKERS))]
    figure, drawn = _of_targets(shown)
    for ax, target, group in drawn:
        _draw_tuning(ax, group)
        ax.axvspan(bias_bound, 1, color=BEYOND, zorder=0)
        log_axis(ax, "x")
        log_axis(ax, "y")
        ax.set(xlabel="Kolmogorov distance to exact draws", ylabel="ESS bulk, all chains")
        ax.set_title(_tuning_title(target, records(group)))
    beyond = key("s", BEYOND, f"distance beyond {bias_bound:g}", markersize=9)
    hollow = key("o", GREY, "beyond a bound", markerfacecolor="white", markersize=3)
    legend(figure, [*_keys(shown), hollow, beyond], 4)
    return figure


def _timed_curves(found: Sampling) -> pd.DataFrame:
    """Return the curves of Langevin, the best Ozaki and MALA, with seconds for iterations."""
    parts = []
    for each in comparisons(found):
        for row in (each.langevin, each.ozaki, each.adjusted):
            if row is not None:
                here = found.curves[
                    (found.curves["target"] == each.target)
                    & (found.curves["scores"] == each.scores)
                    & (found.curves["method"] == row["method"])
                ]
                parts.append(
                    here.assign(seconds=here["iterations"] * row["seconds_per_iteration"])
                )
    return pd.concat(parts, ignore_index=True)


@styled
def curves_figure(found: Sampling, bias_bound: float) -> Figure:
    """Draw the distance of all draws so far to exact ones against seconds, tuned step sizes.

    Args:
        found: tables of the samplers.
        bias_bound: largest Kolmogorov distance that tuning accepts.
    """
    timed = _timed_curves(found)
    figure, drawn = _of_targets(timed)
    for ax, target, group in drawn:
        ends = {}
        for (method, scores), rows in groups(group, "method", "scores"):
            colour, _ = look(method)
            ax.plot(rows["seconds"], rows["kolmogorov"], linestyle=STYLES[scores], color=colour)
            name = SAMPLERS.get(method, method)
            ends[f"{name}, {scores}"] = float(rows["kolmogorov"].iloc[-1])
        ax.axhline(bias_bound, color=GREY, linestyle=":", linewidth=1.2)
        log_axis(ax, "x")
        log_axis(ax, "y")
        ax.set(xlabel="seconds after burn-in", ylabel="Kolmogorov distance")
        nearest = min(ends, key=lambda name: ends[name])
        ax.set_title(f"{target}\nnearest: {nearest} ({formats.number(ends[nearest], 2)})")
    methods = timed.assign(
        method=timed["method"].where(timed["method"].isin(["langevin", "mala"]), "ozaki floor")
    )
    keys = _keys(methods)
    for entry in keys:
        if entry.get_label() == SAMPLERS["ozaki floor"]:
            entry.set_label("Ozaki, best guard")
        if entry.get_linestyle() == "None":
            entry.set(linestyle="-", marker="")
    legend(figure, [*keys, key("", GREY, f"bias bound, {bias_bound:g}", linestyle=":")], 3)
    return figure


def _halfway(equal: pd.DataFrame, column: str) -> str:
    """Return each method's distance at half of Langevin's way in iterations or time."""
    middle = 0.5 * float(equal.loc[equal["method"] == "langevin", column].max())
    found = []
    for method, rows in groups(equal, "method"):
        distance = float(np.interp(middle, rows[column], rows["kolmogorov"]))
        name = {"langevin": "Langevin", "ozaki floor": "Ozaki"}.get(method, "on one clock")
        found.append(f"{name} {formats.number(distance, 2)}")
    return f"at {middle:g}:\n{', '.join(found)}"


@styled
def approach_figure(approach: pd.DataFrame) -> Figure:
    """Draw how many chains approach the law of two modes at equal step sizes.

    Args:
        approach: a row for each target, method, step size and iteration.
    """
    equal = approach[approach["target"] == "two-modes"]
    step = float(equal["step_size"].iloc[0])
    faster = equal["method"].map({"ozaki floor": 2.0}).fillna(1.0)  # the paper's clock
    equal = equal.assign(time=step * faster * equal["iterations"])
    figure, (line,) = grid(1, 2, 3.6)
    columns = ("iterations", "time")
    for method, rows in groups(equal, "method"):
        colour, marker = look(method)
        for ax, column in zip(line, columns, strict=True):
            style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4}
            ax.plot(rows[column], rows["kolmogorov"], **style)
    for ax, what, column in zip(
        line, (f"equal ε = {step:g}", "equal time t"), columns, strict=True
    ):
        ax.set_title(f"{what}, {_halfway(equal, column)}")
    line[0].set(xlabel="iterations", ylabel="Kolmogorov distance to exact draws")
    line[1].set_xlabel("time t: ε per step on Langevin’s clock, 2ε on the paper’s")
    for ax in line:
        log_axis(ax, "x")
    legend(figure, _keys(equal.drop(columns="scores")), 3)
    return figure


@styled
def bias_figure(bias: pd.DataFrame) -> Figure:
    """Draw the bias of the energy against the step size, with a line in proportion to it.

    Args:
        bias: a row for each target, method and step size.
    """
    figure, drawn = _of_targets(bias)
    for ax, target, group in drawn:
        for method, rows in groups(group, "method"):
            colour, marker = look(method)
            size, error = rows["relative"], 2 * rows["standard_error"]
            style: dict[str, Any] = {"color": colour, "fmt": marker, "markersize": 4, "capsize": 2}
            ax.errorbar(size, rows["bias"].abs(), yerr=error, **style)
            if method == "langevin":
                first = float(rows["bias"].iloc[1] / rows["relative"].iloc[1])
                ax.plot(size, first * size, color=GREY, linewidth=0.8, linestyle=":")
        log_axis(ax, "x")
        ax.set_yscale("symlog", linthresh=0.02)
        ax.set(xlabel="ε / v, with v = D / E|s1|²", ylabel="|bias| of −log p, nats")
        ends = group[group["method"] == "langevin"].iloc[[0, -1]]["bias"].abs()
        low, high = (formats.number(float(value), 2) for value in ends)
        ax.set_title(f"{target}\nLangevin: {low} to {high} nats")
    proportional = key("", GREY, "in proportion to ε", linestyle=":")
    legend(figure, [*_keys(bias), proportional], 4)
    return figure


def mixing_drawings(found: Mixing) -> Drawings:
    """Return what draws the figures of the samplers, by their names."""
    run, longest, bound = found.run, found.longest, found.bias_bound
    return {
        "tuning": lambda: tuning_figure(longest.tuning, bound),
        "curves": lambda: curves_figure(longest, bound),
        "equal-steps": lambda: approach_figure(run.approach),
        "step-bias": lambda: bias_figure(longest.bias),
        "two-modes": lambda: equal_steps_figure(run.draws),
        "snapshots": lambda: snapshots_figure(run),
        "single-chains": lambda: single_chains_figure(run.draws),
    }
