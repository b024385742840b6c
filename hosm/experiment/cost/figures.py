"""Times by method, how time and memory grow with D, and the losses against their dense twins."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hosm.experiment.cost.results import Cost
from hosm.experiment.cost.study.ratios import speed_ratios
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.style import (
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    PAPER,
    Drawings,
    grid,
    key,
    legend,
    log_axis,
    paper_key,
    styled,
)
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["cost_drawings", "growth_figure", "loss_figure", "speed_figure"]

MARKERS = ("o", "s", "^", "D", "v", "P")
SHOWN = ("s1", "autodiff loop", "autodiff reverse, chunked", "autodiff forward, chunked", "s2")
LARGE_RANKS = (50, 1000)  # beside the least and a large one, which the table has
PALETTE = (*COLOURS, GREY)


def _draw_times(ax: Axes, rows: list[Row]) -> None:
    """Draw the times of one network, with a line at the time of s1."""
    for y, row in enumerate(reversed(rows)):
        middle, low, high = (1000 * row[f"seconds{end}"] for end in ("", "_low", "_high"))
        spread = [[middle - low], [high - middle]]
        ax.errorbar([middle], [y], xerr=spread, fmt="o", color=BLUE, capsize=2, markersize=5)
        ax.plot([1000 * row["paper_seconds"]], [y], color=ORANGE, **PAPER)
        if row["method"] == "s1":
            ax.axvline(middle, color=GREY, linestyle="--", linewidth=1.2)
    names = [f"{r['method']}, r = {r['rank']:.0f}" if r["rank"] else r["method"] for r in rows]
    log_axis(ax, "x")
    ax.set(yticks=range(len(rows)), xlabel="time for the whole batch (ms), less is better")
    ax.set_yticklabels(names[::-1])


@styled
def speed_figure(speed: pd.DataFrame) -> Figure:
    """Draw the times of second-order scores by method.

    Args:
        speed: table 2.
    """
    shown = speed["method"].isin(SHOWN) & ~speed["rank"].isin(LARGE_RANKS)
    here = speed[shown & (speed["device"] == speed["device"].iloc[0])]
    parts = groups(here, "backbone", "dimension")
    ratios = speed_ratios(speed)
    rows = max(len(group) for _, group in parts)
    figure, axes = grid(len(parts), 1, 0.7 + (0.7 + 0.23 * rows) * len(parts))
    for (ax,), ((network, dimension), group) in zip(axes, parts, strict=True):
        _draw_times(ax, records(group))
        row = next(row for row in ratios if row["backbone"] == network)
        loop, chunked = formats.ratio(row["loop"]), formats.ratio(row["chunked"])
        found = f"{loop} the time of s2 by the loop, {chunked} by the fastest chunked autodiff"
        name = f"{formats.network(network)}, D = {dimension}"
        ax.set_title(f"{name}\nat r = {row['rank']:.0f}: {found}")
    keys = [
        key("o", BLUE, "ours: median, least to largest"),
        paper_key("the paper's (TITAN Xp)", ORANGE),
    ]
    legend(figure, [*keys, key("", GREY, "our s1 alone", linestyle="--")])
    return figure


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


def cost_drawings(found: Cost) -> Drawings:
    """Return what draws the figures of times and memory, by their names."""
    return {
        "speed": lambda: speed_figure(found.speed),
        "losses": lambda: loss_figure(found.training),
        "growth": lambda: growth_figure(found.growth, found.slopes),
    }
