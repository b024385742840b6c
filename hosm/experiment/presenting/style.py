"""How every figure looks: size, colours, and files that do not differ between two runs.

Figures are built without pyplot, so none outlives its function, and under a context of their
own, so no setting of matplotlib changes for anybody else. Colours are those of Okabe and Ito,
which the colour-blind can tell apart; markers and line styles repeat what colours say.
"""

import io
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from hosm.io import write_whole

__all__ = [
    "BLUE",
    "COLOURS",
    "GREY",
    "ORANGE",
    "PAPER",
    "Drawings",
    "Lines",
    "frame",
    "grid",
    "key",
    "label",
    "legend",
    "log_axis",
    "panels",
    "paper_key",
    "save_figure",
    "styled",
]

Lines = list[list[Axes]]
Drawings = dict[str, Callable[[], Figure]]  # name -> what draws that figure

WIDTH = 8.2  # inches, 902 pixels
DPI = 110
DENSE = 300  # range of a logarithmic axis that has room for ticks at 2 and 5
BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY)
GREY = "#666666"
RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "figure.titlesize": 10.5,
    "savefig.facecolor": "white",
    "path.simplify": True,
}

PAPER: dict[str, Any] = {
    "marker": "D",
    "markerfacecolor": "none",
    "linestyle": "none",
    "markersize": 6,
}

P = ParamSpec("P")


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Run a function that draws a figure under the settings above, and no longer."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context(RC):
            return draw(*args, **kwargs)

    return drawn


def grid(rows: int, columns: int, height: float, *, bare: bool = False) -> tuple[Figure, Lines]:
    """Return a figure of page width, and its axes line by line.

    Args:
        rows: of axes.
        columns: of axes.
        height: of the figure, in inches.
        bare: without ticks and frames, for pictures.
    """
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = [list(line) for line in figure.subplots(rows, columns, squeeze=False)]
    for line in axes if bare else []:
        for ax in line:
            _strip(ax)
    return figure, axes


def panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure of two axes a line, or of one alone, and its axes in order.

    Args:
        count: of axes.
        height: of a line, in inches.
    """
    lines, columns = -(-count // 2), min(2, count)
    figure, axes = grid(lines, columns, 0.9 + height * lines)
    flat = [ax for line in axes for ax in line]
    for ax in flat[count:]:
        ax.set_visible(False)
    return figure, flat[:count]


def log_axis(ax: Axes, name: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with plain numbers at 1, 2 and 5, or at powers of ten alone.

    An axis without positive values, such as one without any, stays linear.
    """
    ax.set(**{f"{name}scale": "log"})
    axis = ax.xaxis if name == "x" else ax.yaxis
    low, high = sorted(axis.get_view_interval())
    if not low > 0:
        ax.set(**{f"{name}scale": "linear"})
        return
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < DENSE * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axis.set_minor_formatter(NullFormatter())


def _strip(ax: Axes) -> None:
    """Take away ticks, grid and frame."""
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
    ax.spines[:].set_visible(False)


def frame(ax: Axes) -> None:
    """Put a thin frame around a panel without ticks."""
    ax.spines[:].set(visible=True, color="#bbbbbb", linewidth=0.6)


def label(ax: Axes, x: float, y: float, text: str, colour: str, **style: Any) -> None:  # noqa: ANN401
    """Write the name of a line or point beside it, in its colour."""
    options = {"xytext": (6, 0), "va": "center", "fontsize": 8, **style}
    ax.annotate(text, (x, y), textcoords="offset points", color=colour, **options)


def key(marker: str, colour: str, label: str, **style: Any) -> Line2D:  # noqa: ANN401
    """Return an entry of a legend: a marker, a line, or both."""
    options = {"linestyle": "none", "markersize": 5, "marker": marker, **style}
    return Line2D([], [], color=colour, label=label, **options)


def paper_key(label: str, colour: str = GREY) -> Line2D:
    """Return the legend's entry of the paper's markers."""
    return Line2D([], [], color=colour, label=label, **PAPER)


def legend(figure: Figure, keys: list[Line2D], columns: int = 4) -> None:
    """Put a legend below all axes of a figure."""
    figure.legend(handles=keys, loc="outside lower center", ncols=min(len(keys), columns))


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, the same bytes for the same figure.

    Args:
        figure: what to write.
        path: where to; the folder is made if it is missing.
    """
    picture = io.BytesIO()
    with mpl.rc_context(RC):
        figure.savefig(
            picture,
            format="png",
            dpi=DPI,
            metadata={"Software": None},
            pil_kwargs={"optimize": True},
        )
    write_whole(picture.getvalue(), path)
