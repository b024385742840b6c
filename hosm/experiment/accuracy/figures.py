"""Errors of second-order scores by method, and against seconds of training.

Filled markers are ours, hollow diamonds the paper's.
"""

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hosm.experiment.accuracy.results import Accuracy
from hosm.experiment.accuracy.rows_of_table1 import BASELINE, PLAIN, is_exact
from hosm.experiment.presenting.style import (
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    PAPER,
    PURPLE,
    SKY,
    Drawings,
    grid,
    key,
    legend,
    log_axis,
    panels,
    paper_key,
    styled,
)
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["accuracy_drawings", "accuracy_figure", "joint_figure", "targets_figure"]

BLACK = "#222222"
PAPER_SIGMA = 0.05  # the middle one of table 1
JOINT = "autodiff, joint moment"
POINTS = {"finite": "finite: few points", "streaming": "streaming: fresh points"}
SHOWN = {  # method -> its name, colour and marker
    BASELINE: ("derivative of s1", BLACK, "o"),
    PLAIN: ("derivative of s1, plain network", SKY, "v"),
    "s2, moment": ("s2, the paper’s objective", ORANGE, "s"),
    "s2, jacobian": ("s2, our default", BLUE, "^"),
}

LOOKS = {  # target of a fit -> its name, colour, line
    "dsm": ("autodiff of s1, DSM", COLOURS[4], "--"),
    "dsm-vr": ("autodiff of s1, DSM-VR", BLACK, "--"),
    "plain": ("autodiff of s1, DSM-VR, plain MLP", BLACK, ":"),
    "jacobian": ("s2, jacobian", BLUE, "-"),
    "residual": ("s2, residual", COLOURS[2], "-"),
    "moment": ("s2, moment (the paper's)", ORANGE, "-"),
    "joint-moment": ("s2, moment, s1 trained with it", COLOURS[3], "-"),
}


def _over_seeds(learning: pd.DataFrame) -> pd.DataFrame:
    """Return the curves as means over seeds."""
    keys = ["dataset", "regime", "sigma", "target", "rank", "step"]
    return learning.groupby(keys, sort=False)[["seconds", "error"]].mean().reset_index()


def _references(ax: Axes, cell: list[Row], rank: float) -> None:
    """Draw the floor of a rank and the constant Hessian, where they are no zero."""
    for row in cell:
        if row["method"].startswith("floor") and row["rank"] == rank:
            ax.axhline(row["mean"], color=GREY, linestyle=":", linewidth=1.2)
        elif row["method"].startswith("constant") and not is_exact(row):
            ax.axhline(row["mean"], color=GREY, linestyle="-.", linewidth=1.2)


def _draw(ax: Axes, curves: pd.DataFrame) -> str:
    """Draw the curves of one data set and return the title's second line."""
    ends: list[tuple[float, str]] = []
    for target, (name, colour, line) in LOOKS.items():
        own = curves[curves["target"] == target]
        if not own.empty:
            ax.plot(own["seconds"], own["error"], line, color=colour, linewidth=1.5)
            last = records(own)[-1]
            ax.plot([last["seconds"]], [last["error"]], "o", color=colour, markersize=4)
            ends.append((last["error"], name.split(" (")[0]))
    return f"ends lowest: {min(ends)[1]}"


@styled
def targets_figure(learning: pd.DataFrame, accuracy: pd.DataFrame) -> Figure:
    """Draw error against seconds of training, for every target and for autodiff.

    Args:
        learning: learning curves at one sigma and rank, a row for each validation of each fit.
        accuracy: table 1, for its references.
    """
    parts = groups(_over_seeds(learning), "dataset", "regime", "sigma")
    figure, axes = panels(len(parts), 2.7)
    for ax, ((dataset, regime, sigma), curves) in zip(axes, parts, strict=True):
        rank = curves["rank"].max()
        found = _draw(ax, curves)
        same = (accuracy["dataset"] == dataset) & (accuracy["regime"] == regime)
        _references(ax, records(accuracy[same & (accuracy["sigma"] == sigma)]), rank)
        log_axis(ax, "x")
        log_axis(ax, "y")
        width = f"r = {rank:.0f}" if rank else "diagonal"
        ax.set_title(f"{dataset}, {regime}, σ = {sigma:g}, {width}\n{found}")
        ax.set(xlabel="seconds of training, s1 included", ylabel="squared error of the Hessian")
    there = [LOOKS[target] for target in LOOKS if target in set(learning["target"])]
    keys = [key("", colour, name, linestyle=line) for name, colour, line in there]
    keys += [key("", GREY, "floor of the rank", linestyle=":")]
    legend(figure, [*keys, key("", GREY, "constant Hessian", linestyle="-.")], columns=3)
    return figure


def _middle(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the middle sigma of table 1."""
    sigma = min(accuracy["sigma"].unique(), key=lambda value: abs(value - PAPER_SIGMA))
    return accuracy[accuracy["sigma"] == sigma]


def _of_method(rows: list[Row], method: str) -> Row | None:
    """Return the row of a method at its largest rank."""
    there = [row for row in rows if row["method"] == method and math.isfinite(row["mean"])]
    return max(there, key=lambda row: row["rank"], default=None)


def _place(dataset: str, regime: str, rows: list[Row]) -> str:
    """Return the name of a line: data set, rank and kind of points."""
    rank = max(row["rank"] for row in rows if row["method"].startswith("s2"))
    width = f"r = {rank:.0f}" if rank else "diagonal"
    return f"{dataset}, {width}\n{POINTS.get(regime, regime)}"


def _draw_references(ax: Axes, rows: list[Row], height: int) -> None:
    """Draw the constant Hessian, unless it is exact, as a bar across a line of the chart."""
    for row in rows:
        if row["method"].startswith("constant") and not is_exact(row):
            span = [height - 0.35, height + 0.35]
            ax.plot([row["mean"]] * 2, span, color=GREY, linewidth=3, alpha=0.5)


@styled
def accuracy_figure(accuracy: pd.DataFrame) -> Figure:
    """Draw the errors of the main methods, a line of one chart for each data set and regime.

    Args:
        accuracy: table 1; shown are its middle sigma and, of each method, the largest rank.
    """
    parts = groups(_middle(accuracy), "dataset", "regime")
    figure, axes = grid(1, 1, 1.5 + 0.55 * len(parts))
    ax, names = axes[0][0], []
    for height, ((dataset, regime), group) in enumerate(parts):
        rows = records(group)
        names.append(_place(str(dataset), str(regime), rows))
        _draw_references(ax, rows, height)
        for method, (_, colour, marker) in SHOWN.items():
            row = _of_method(rows, method)
            if row is not None:
                y = height + 0.16 * ([*SHOWN].index(method) - 1.5)
                ax.plot(row["mean"], y, marker, color=colour, markersize=6, zorder=3)
                if method != PLAIN:  # the paper has one number for both networks of s1
                    ax.plot(row["paper"], y, color=colour, **PAPER)
    log_axis(ax, "x")
    ax.set(yticks=range(len(names)), ylim=(len(names) - 0.4, -0.6))
    ax.set_yticklabels(names)
    sigma = _middle(accuracy)["sigma"].iloc[0]
    ax.set_xlabel(f"squared error of the Hessian at σ = {sigma:g}, summed over entries")
    ax.set_title("← better")
    there = set(accuracy["method"])
    keys = [key(mark, colour, name) for m, (name, colour, mark) in SHOWN.items() if m in there]
    keys += [paper_key("the paper’s numbers"), key("|", GREY, "a constant Hessian", markersize=10)]
    legend(figure, keys, columns=3)
    return figure


@styled
def joint_figure(accuracy: pd.DataFrame) -> Figure:
    """Draw the error of the derivative of s1 trained alone, and of one trained jointly with s2.

    Args:
        accuracy: table 1.
    """
    parts = [
        (place, alone, joint)
        for place, group in groups(accuracy, "dataset", "regime", "sigma")
        if (alone := _of_method(records(group), BASELINE))
        and (joint := _of_method(records(group), JOINT))
    ]
    figure, axes = grid(1, 1, 1.4 + 0.32 * max(1, len(parts)))
    ax = axes[0][0]
    for height, (_, *pair) in enumerate(parts):
        ax.plot([row["mean"] for row in pair], [height] * 2, color="#bbbbbb", zorder=1)
        for row, colour, marker in zip(pair, (BLACK, PURPLE), ("o", "s"), strict=True):
            style: dict[str, Any] = {"color": colour, "capsize": 2}
            error = row["standard_error"]
            ax.errorbar(
                row["mean"], height, xerr=2 * error if error > 0 else 0, fmt=marker, **style
            )
    log_axis(ax, "x")
    ax.set(yticks=range(len(parts)), ylim=(len(parts) - 0.4, -0.6))
    ax.set_yticklabels([f"{d}, {POINTS.get(r, r)}, σ = {s:g}" for (d, r, s), *_ in parts])
    ax.set(xlabel="squared error of the derivative of s1; bars are two standard errors")
    ax.set_title("← better")
    keys = [key("o", BLACK, "s1 trained alone"), key("s", PURPLE, "s1 trained jointly with s2")]
    legend(figure, keys)
    return figure


def accuracy_drawings(found: Accuracy) -> Drawings:
    """Return what draws the figures of table 1 at the paper's sizes, by their names."""
    whole = found.whole
    return {
        "accuracy": lambda: accuracy_figure(whole.table1),
        "joint": lambda: joint_figure(whole.table1),
        "whole": lambda: targets_figure(whole.learning, whole.table1),
    }
