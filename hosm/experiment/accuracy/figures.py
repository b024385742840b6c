"""Errors of second-order scores by method and rank, and against seconds of training.

Filled markers are this run's, hollow diamonds the paper's.
"""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hosm.experiment.accuracy.results import Accuracy
from hosm.experiment.accuracy.rows_of_table1 import is_exact, is_reference, method_order
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.style import (
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    PAPER,
    Drawings,
    key,
    legend,
    log_axis,
    panels,
    paper_key,
    styled,
)
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["accuracy_drawings", "accuracy_figure", "targets_figure"]

MARKERS = ("o", "s", "^", "v", "P")

LOOKS = {  # target of a fit -> its name, colour, line
    "dsm": ("autodiff of s1, DSM", COLOURS[4], "--"),
    "dsm-vr": ("autodiff of s1, DSM-VR", "#222222", "--"),
    "plain": ("autodiff of s1, DSM-VR, plain MLP", "#222222", ":"),
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
    error, best = min(ends)
    return f"ends lowest: {best}, {formats.number(error)}"


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


def _estimates(rows: list[Row]) -> list[Row]:
    return [row for row in rows if not is_reference(row)]


def _look(rank: float, ranks: list[float]) -> tuple[str, str]:
    """Return the colour and the marker of a rank."""
    place = ranks.index(rank)
    return COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]


def _height(row: Row, methods: list[str], ranks: list[float]) -> float:
    """Return where a row stands on the vertical axis: by method, then by rank."""
    positive = [rank for rank in ranks if rank > 0]
    place = methods.index(row["method"])
    if row["rank"] not in positive:
        return place
    return place - 0.22 * (positive.index(row["rank"]) - (len(positive) - 1) / 2)


def _draw_errors(ax: Axes, cell: list[Row], methods: list[str], ranks: list[float]) -> None:
    """Draw the errors of one data set, regime and sigma, with floors and the constant."""
    for row in _estimates(cell):
        colour, marker = _look(row["rank"], ranks)
        y, error = _height(row, methods, ranks), row["standard_error"]
        style: dict[str, Any] = {"fmt": marker, "color": colour, "markersize": 5, "capsize": 2}
        ax.errorbar(row["mean"], y, xerr=error if error > 0 else 0, **style)
        ax.plot(row["paper"], y, color=colour, **PAPER)
    for row in cell:
        if row["method"].startswith("floor") and row["rank"] in ranks:
            colour = _look(row["rank"], ranks)[0]
            ax.axvline(row["mean"], color=colour, linestyle=":", linewidth=1.2)
        elif row["method"].startswith("constant") and not is_exact(row):
            ax.axvline(row["mean"], color=GREY, linestyle="--", linewidth=1.2)
    log_axis(ax, "x")
    ax.set(yticks=range(len(methods)), ylim=(-0.6, len(methods) - 0.4))


def _accuracy_title(name: str, cell: list[Row]) -> str:
    best = min(_estimates(cell), key=lambda row: row["mean"])
    rank = f", r = {best['rank']:.0f}" if best["rank"] > 0 else ""
    return f"{name}\nlowest: {best['method']}{rank}, {formats.number(best['mean'])}"


@styled
def accuracy_figure(accuracy: pd.DataFrame) -> Figure:
    """Draw the errors of second-order scores by method and rank.

    Args:
        accuracy: table 1.
    """
    parts = groups(accuracy, "dataset", "regime", "sigma")
    estimates = _estimates(records(accuracy))
    ordered = [row["method"] for row in sorted(estimates, key=method_order, reverse=True)]
    methods = list(dict.fromkeys(ordered))
    ranks = sorted({row["rank"] for row in estimates})
    figure, axes = panels(len(parts), 3.0)
    for place, (ax, ((dataset, regime, sigma), group)) in enumerate(zip(axes, parts, strict=True)):
        _draw_errors(ax, records(group), methods, ranks)
        ax.set_yticklabels([] if place % 2 else methods)
        ax.set_title(_accuracy_title(f"{dataset}, {regime}, σ = {sigma:g}", records(group)))
        ax.set_xlabel("squared Frobenius error, summed over entries")
    names = [f"ours, r = {rank:.0f}" if rank else "ours, diagonal or s1 alone" for rank in ranks]
    keys = [key(*_look(rank, ranks)[::-1], name) for rank, name in zip(ranks, names, strict=True)]
    keys += [
        paper_key("the paper's"),
        key("", GREY, "floor of a rank", linestyle=":"),
    ]
    legend(figure, [*keys, key("", GREY, "constant Hessian", linestyle="--")])
    return figure


def accuracy_drawings(found: Accuracy) -> Drawings:
    """Return what draws the figures of table 1, by their names."""
    whole = found.whole
    return {
        "accuracy": lambda: accuracy_figure(found.table1),
        "targets": lambda: targets_figure(found.learning, found.table1),
        "whole": lambda: targets_figure(whole.learning, whole.table1),
    }
