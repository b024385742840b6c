"""Errors of the Hessian's diagonal, law by law and against the number of rows; drawn digits."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hosm.experiment.presenting.longer_runs import LONGER
from hosm.experiment.presenting.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    Drawings,
    grid,
    key,
    legend,
    log_axis,
    panels,
    styled,
)
from hosm.experiment.shared.files import Arrays
from hosm.experiment.shared.rows import groups
from hosm.experiment.tabular.results import OURS, Tabular

__all__ = ["digits_figure", "laws_figure", "rows_figure", "tabular_drawings"]

LOOKS = {  # method -> marker and colour
    OURS: ("o", BLUE),
    "Ledoit-Wolf Gaussian": ("|", GREY),
    "Gaussian mixture by BIC": ("s", ORANGE),
    "kernel density": ("^", GREEN),
    "Stein kernel": ("v", PURPLE),
    "differentiated network": ("D", SKY),
}
USUAL = 1000  # rows of the figure of laws, where there are so many
DIGITS = {"rows": "the table", "noisy": "law='noisy'", "clean": "law='clean'"}  # line by line
BRIGHTEST = 16  # value of a pixel
LEAST, MOST = 0.01, 20.0  # errors beyond are drawn at the edge


def _keys() -> list:  # type: ignore[type-arg]
    named = {OURS: "ScoreEstimator(), no option given"}
    return [key(mark, colour, named.get(name, name)) for name, (mark, colour) in LOOKS.items()]


def _draw_laws(ax: Axes, part: pd.DataFrame, laws: list[str]) -> str:
    """Draw the mean error of each law and method; return how often ours is least."""
    means = part.groupby(["law", "method"], sort=False)["diagonal_error"].mean().unstack()
    for name, (mark, colour) in LOOKS.items():
        if name in means:
            errors = means[name].clip(LEAST, MOST)
            front, size = (4, 7) if name == OURS else (3, 5)
            heights = [laws.index(str(law)) for law in means.index]
            ax.plot(errors, heights, mark, color=colour, markersize=size, zorder=front)
    ax.axvline(1.0, color=GREY, linestyle="-.", linewidth=1)
    ax.set_yticks(range(len(laws)), laws)
    ax.set_ylim(len(laws) - 0.5, -0.5)
    return f"ours is least for {int((means.idxmin(axis=1) == OURS).sum())} of {len(means)} laws"


@styled
def laws_figure(laws: pd.DataFrame) -> Figure:
    """Draw the errors of every law and method, a panel for each number of columns.

    Args:
        laws: as in `results.TabularRun`.
    """
    sizes = sorted(laws["size"].unique(), key=lambda size: abs(np.log(size / USUAL)))
    there = laws[laws["size"] == sizes[0]]
    names, parts = list(dict.fromkeys(laws["law"])), groups(there, "dimension")
    columns = min(3, len(parts))
    lines = -(-len(parts) // columns)
    figure, axes = grid(lines, columns, lines * (1.3 + 0.24 * len(names)))
    flat = [ax for line in axes for ax in line]
    for ax, (dimension, part) in zip(flat, parts, strict=False):
        found = _draw_laws(ax, part, names)
        log_axis(ax, "x")
        columns_text = "column" if dimension == 1 else "columns"
        ax.set_title(f"{dimension} {columns_text}, {sizes[0]:,} rows\n{found}")
        ax.set_xlabel("squared error over that of the best constant")
    for ax in flat[len(parts) :]:
        ax.set_axis_off()
    legend(figure, _keys(), columns=3)
    return figure


@styled
def rows_figure(laws: pd.DataFrame) -> Figure:
    """Draw geometric means of the errors over laws against rows, a panel for each D.

    Args:
        laws: as in `results.TabularRun`.
    """
    parts = groups(laws, "dimension")
    figure, axes = panels(len(parts), 2.5)
    for ax, (dimension, part) in zip(axes, parts, strict=True):
        logs = np.log(part["diagonal_error"]).groupby([part["size"], part["method"]]).mean()
        means = np.exp(logs.unstack())
        for name, (mark, colour) in LOOKS.items():
            if name in means:
                ax.plot(means.index, means[name], f"{mark}-", color=colour, markersize=4)
        ax.axhline(1.0, color=GREY, linestyle="-.", linewidth=1)
        log_axis(ax, "x")
        log_axis(ax, "y")
        ax.set_title(f"{dimension} columns, {part['law'].nunique()} laws")
        ax.set(xlabel="rows", ylabel="error over the best constant's")
    legend(figure, _keys(), columns=3)
    return figure


@styled
def digits_figure(digits: Arrays) -> Figure:
    """Draw rows of the table of digits, and below them draws of both laws.

    Args:
        digits: as in `results.TabularRun`.
    """
    count = min(map(len, digits.values()))
    figure, axes = grid(len(DIGITS), count, 0.3 + 0.72 * len(DIGITS), bare=True)
    for line, (law, title) in zip(axes, DIGITS.items(), strict=True):
        line[0].set_ylabel(title, fontsize=7)
        for ax, picture in zip(line, digits[law], strict=False):
            ax.imshow(picture, cmap="gray", vmin=0, vmax=BRIGHTEST)
    return figure


def tabular_drawings(found: Tabular) -> Drawings:
    """Return what draws the figures of the benchmark, by their names."""
    drawings: Drawings = {
        "tabular": lambda: laws_figure(found.run.laws),
        "tabular-digits": lambda: digits_figure(found.run.digits),
    }
    whole = found.whole
    if whole is not None:
        drawings[f"tabular{LONGER}"] = lambda: laws_figure(whole.laws)
        drawings[f"tabular-rows{LONGER}"] = lambda: rows_figure(whole.laws)
    return drawings
