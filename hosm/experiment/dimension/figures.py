"""Errors of the estimators of local dimension, from the least to the largest."""

import pandas as pd
from matplotlib.figure import Figure

from hosm.experiment.dimension.results import EVERYWHERE, OURS, Dimension
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.style import BLUE, GREY, Drawings, grid, label, styled
from hosm.experiment.shared.rows import records

__all__ = ["dimension_drawings", "errors_figure"]


@styled
def errors_figure(summary: pd.DataFrame) -> Figure:
    """Draw the mean absolute error of each estimator as a bar.

    Args:
        summary: as in `results.Dimension`; the most points alone are shown.
    """
    most = summary[summary["n"] == summary["n"].max()]
    rows = records(most[most["method"] != EVERYWHERE].sort_values("error"))
    figure, axes = grid(1, 1, 0.9 + 0.3 * len(rows))
    ax = axes[0][0]
    for place, row in enumerate(rows):
        colour = BLUE if row["method"] == OURS else GREY
        ax.barh(place, row["error"], color=colour, height=0.6)
        label(ax, row["error"], place, formats.number(row["error"]), colour)
    ax.set_yticks(range(len(rows)), [row["method"] for row in rows])
    ax.set(xlim=(0, None), ylim=(len(rows) - 0.5, -0.5))
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("mean absolute error of the local dimension, over points and surfaces")
    ax.set_title("← better")
    return figure


def dimension_drawings(found: Dimension | None) -> Drawings:
    """Return what draws the figure of the study; none where none is kept."""
    return {} if found is None else {"dimension": lambda: errors_figure(found.summary)}
