"""How far intervals are from what they state, by task and method."""

import pandas as pd
from matplotlib.figure import Figure

from hosm.experiment.inverse.results import LEVELS, NAMES, OURS, Inverse
from hosm.experiment.presenting.longer_runs import LONGER
from hosm.experiment.presenting.style import BLUE, GREY, Drawings, key, legend, panels, styled
from hosm.experiment.shared.rows import groups

__all__ = ["coverage_figure", "inverse_drawings"]

MARKS = dict(zip(LEVELS, ("o", "s", "^"), strict=True))
BAND = 5.0  # points
EDGE = 50.0  # points: what lies beyond is drawn at the edge


@styled
def coverage_figure(methods: pd.DataFrame) -> Figure:
    """Draw the points that intervals are off, a panel for each task.

    Args:
        methods: as in `results.InverseRun`.
    """
    parts = groups(methods[methods["model"] == "learned"], "task")
    figure, axes = panels(len(parts), 2.2)
    for ax, (task, part) in zip(axes, parts, strict=True):
        ax.axvspan(-BAND, BAND, color=GREY, alpha=0.25, linewidth=0)
        names = [NAMES[method] for method in part["method"]]
        for height, (_, row) in enumerate(part.iterrows()):
            colour = BLUE if row["method"] == OURS else GREY
            for level, mark in MARKS.items():
                off = 100 * (row[f"coverage_{level:g}"] - level)
                ax.plot(max(off, -EDGE), height, mark, color=colour, markersize=5)
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_title(str(task))
        ax.set_xlabel("points above what is stated")
    keys = [key(mark, GREY, f"{100 * level:g} %") for level, mark in MARKS.items()]
    legend(figure, keys, columns=3)
    return figure


def inverse_drawings(found: Inverse) -> Drawings:
    """Return what draws the figures of the study, by their names."""
    drawings: Drawings = {"inverse": lambda: coverage_figure(found.run.methods)}
    whole = found.whole
    if whole is not None:
        drawings[f"inverse{LONGER}"] = lambda: coverage_figure(whole.methods)
    return drawings
