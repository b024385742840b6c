"""How time and memory grow with the dimension, and the losses against their dense twins."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hosm.experiment.presenting.style import COLOURS, GREY, grid, key, legend, log_axis, styled
from hosm.experiment.shared.rows import groups

__all__ = ["growth_figure", "loss_figure"]

MARKERS = ("o", "s", "^", "D", "v", "P")
PALETTE = (*COLOURS, GREY)


def _label(method: str, rank: float) -> str:
    return method if method == "DSM step" else f"{method}, r = {rank:.0f}"


def _finish(ax: Axes, quantity: str) -> None:
    for name in ("x", "y"):
        log_axis(ax, name)  # type: ignore[arg-type]
    ax.set(xlabel="dimension D", ylabel=quantity)


@styled
def growth_figure(growth: pd.DataFrame, slopes: pd.DataFrame) -> Figure:
    """Draw time and allocated memory against D, a line for each method.

    Args:
        growth: times and bytes by D, method and rank.
        slopes: of both on logarithmic axes.
    """
    fits = slopes[(slopes["variable"] == "D") & (slopes["device"] == growth["device"].iloc[0])]
    figure, axes = grid(1, 2, 3.9)
    keys = []
    for place, fit in enumerate(fits.to_dict("records")):
        rows = growth[(growth["method"] == fit["method"]) & (growth["rank"] == fit["rank"])]
        rows = rows[rows["device"] == fit["device"]].sort_values("dimension")
        colour, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
        columns = (("seconds", 1e3), ("allocated", 1e-6))
        for ax, (column, unit) in zip(axes[0], columns, strict=True):
            ax.plot(
                rows["dimension"],
                unit * rows[column],
                color=colour,
                marker=marker,
                markersize=4,
                linewidth=1.2,
            )
        keys.append(
            key(
                marker,
                colour,
                f"{_label(fit['method'], fit['rank'])} (slope {fit['time']:.2f})",
                linestyle="-",
            )
        )
    for ax, quantity in zip(axes[0], ("time (ms)", "memory (MB)"), strict=True):
        _finish(ax, quantity)
    steps = fits[fits["method"] == "joint step"]
    worst = f"{steps['time'].max():.2f} and {steps['memory'].max():.2f}"
    axes[0][0].set_title(
        f"A joint step grows with D at a slope of\n{worst} (time, memory); 1 is linear"
    )
    legend(figure, keys, 3)
    return figure


@styled
def loss_figure(training: pd.DataFrame) -> Figure:
    """Draw the losses' times against D, structured and dense.

    Args:
        training: the cost of training, of which the losses are drawn.
    """
    losses = training[(training["part"] == "loss")]
    losses = losses[losses["device"] == losses["device"].iloc[0]]
    figure, axes = grid(1, 2, 3.6)
    keys = []
    kinds = groups(losses, "target", "variance_reduction")
    for place, ((target, reduction), part) in enumerate(kinds):
        colour = PALETTE[place % len(PALETTE)]
        for method, style in (("structured", "-"), ("dense", "--")):
            rows = part[part["method"] == method].sort_values("dimension")
            columns = (("seconds", 1e3), ("allocated", 1e-6))
            for ax, (column, unit) in zip(axes[0], columns, strict=True):
                values = unit * rows[column] / rows["batch"]
                ax.plot(rows["dimension"], values, style, color=colour, marker="o", markersize=4)
        name = target if reduction == "none" else f"{target}, {reduction}"
        keys.append(key("o", colour, name, linestyle="-"))
    for ax, quantity in zip(
        axes[0], ("time of a sample (ms)", "memory of a sample (MB)"), strict=True
    ):
        _finish(ax, quantity)
    largest = losses[losses["dimension"] == losses["dimension"].max()]
    seconds = (
        largest.groupby(["target", "variance_reduction", "method"])["seconds"].median().unstack()
    )
    gains = seconds["dense"] / seconds["structured"]
    found = f"{gains.min():.0f}× to {gains.max():.0f}×"
    axes[0][0].set_title(f"Dense over ours at D = {largest['dimension'].iloc[0]:,}: {found}")
    legend(figure, [*keys, key("", GREY, "dense", linestyle="--")])
    return figure
