"""Which target to use: error of second-order scores against seconds of training."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hosm.experiment.presenting import number_formats as cells
from hosm.experiment.presenting.style import (
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    grid,
    key,
    legend,
    log_axis,
    styled,
)
from hosm.experiment.shared.rows import Row, groups, is_exact, records

__all__ = ["targets_figure"]

LOOKS = {  # target of a fit -> its name, colour, line
    "dsm": ("autodiff of s1, DSM", COLOURS[4], "--"),
    "dsm-vr": ("autodiff of s1, DSM-VR", "#222222", "--"),
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
    return f"ends lowest: {best}, {cells.number(error)}"


@styled
def targets_figure(learning: pd.DataFrame, accuracy: pd.DataFrame) -> Figure:
    """Draw error against seconds of training, for every target and for autodiff.

    Args:
        learning: learning curves at one sigma and rank, a row for each validation of each fit.
        accuracy: table 1, for its references.
    """
    parts = groups(_over_seeds(learning), "dataset", "regime", "sigma")
    columns = min(2, len(parts))
    lines = -(-len(parts) // columns)
    figure, axes = grid(lines, columns, 0.9 + 2.7 * lines)
    flat = [ax for line in axes for ax in line]
    for ax, ((dataset, regime, sigma), curves) in zip(flat, parts, strict=False):
        rank = curves["rank"].max()
        found = _draw(ax, curves)
        same = (accuracy["dataset"] == dataset) & (accuracy["regime"] == regime)
        _references(ax, records(accuracy[same & (accuracy["sigma"] == sigma)]), rank)
        log_axis(ax, "x")
        log_axis(ax, "y")
        width = f"r = {rank:.0f}" if rank else "diagonal"
        ax.set_title(f"{dataset}, {regime}, σ = {sigma:g}, {width}\n{found}")
        ax.set(xlabel="seconds of training, s1 included", ylabel="squared error of the Hessian")
    for ax in flat[len(parts) :]:
        ax.set_visible(False)
    there = [LOOKS[target] for target in LOOKS if target in set(learning["target"])]
    keys = [key("", colour, name, linestyle=line) for name, colour, line in there]
    keys += [key("", GREY, "floor of the rank", linestyle=":")]
    legend(figure, [*keys, key("", GREY, "constant Hessian", linestyle="-.")], columns=3)
    return figure
