"""How far intervals are from what they state, by task and method."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from hosm.experiment.inverse.results import LEVELS, NAMES, OURS, Inverse
from hosm.experiment.presenting.longer_runs import LONGER
from hosm.experiment.presenting.style import (
    BLUE,
    COLOURS,
    GREY,
    Drawings,
    grid,
    key,
    legend,
    styled,
)
from hosm.experiment.shared.rows import records

__all__ = ["coverage_figure", "inverse_drawings"]

MARKS = ("o", "s", "^", "D", "v")
BAND = 5.0  # points
EDGE = 50.0  # points: what lies beyond is drawn at the edge


@styled
def coverage_figure(methods: pd.DataFrame) -> Figure:
    """Draw the points that intervals are off at their worst level, a marker for each task.

    Args:
        methods: as in `results.InverseRun`.
    """
    learned = methods[methods["model"] == "learned"]
    names, tasks = (list(dict.fromkeys(learned[name])) for name in ("method", "task"))
    figure, axes = grid(1, 1, 1.4 + 0.4 * len(names))
    ax = axes[0][0]
    ax.axvspan(0, BAND, color=GREY, alpha=0.25, linewidth=0)
    for row in records(learned):
        place = tasks.index(row["task"])
        off = max(100 * abs(row[f"coverage_{level:g}"] - level) for level in LEVELS)
        style: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)], "markersize": 7}
        mark = MARKS[place % len(MARKS)]
        ax.plot(min(off, EDGE), names.index(row["method"]), mark, **style)
    ax.set_yticks(range(len(names)), [NAMES[name] for name in names])
    ax.get_yticklabels()[names.index(OURS)].set_color(BLUE)
    ax.set(xlim=(0, None), ylim=(len(names) - 0.5, -0.5))
    ax.set_xlabel("largest gap between what intervals hold and what they state, percentage points")
    ax.set_title("← better")
    keys = [
        key(MARKS[i % len(MARKS)], COLOURS[i % len(COLOURS)], str(task))
        for i, task in enumerate(tasks)
    ]
    legend(figure, [*keys, key("s", "#cccccc", f"within {BAND:g} points", markersize=9)], 5)
    return figure


def inverse_drawings(found: Inverse) -> Drawings:
    """Return what draws the figures of the study, by their names."""
    drawings: Drawings = {"inverse": lambda: coverage_figure(found.run.methods)}
    whole = found.whole
    if whole is not None:
        drawings[f"inverse{LONGER}"] = lambda: coverage_figure(whole.methods)
    return drawings
