"""Points in the plane: clean, noisy, denoised, and drawn from posteriors."""

import pandas as pd
from matplotlib.figure import Figure

from hosm.experiment.denoising.results import Denoising
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.style import COLOURS, Drawings, grid, styled
from hosm.experiment.shared.files import Arrays
from hosm.experiment.shared.rows import records

__all__ = ["denoising_drawings", "plane_figure"]


@styled
def plane_figure(points: Arrays, planar: pd.DataFrame) -> Figure:
    """Draw points clean, noisy, denoised by the mean alone, and by draws of posteriors.

    Args:
        points: 'dataset|column' -> points, shape (n, 2).
        planar: a row for each data set, with the error of the covariance.
    """
    rows = records(planar)
    columns = list(dict.fromkeys(name.partition("|")[2] for name in points))
    figure, axes = grid(len(rows), len(columns), 0.3 + 1.75 * len(rows), bare=True)
    for line, row in zip(axes, rows, strict=True):
        clean = points[f"{row['dataset']}|{columns[0]}"]
        low, high = clean.min(0) - 0.4, clean.max(0) + 0.4
        for ax, column in zip(line, columns, strict=True):
            x, y = points[f"{row['dataset']}|{column}"].T
            ax.plot(x, y, ".", color=COLOURS[0], markersize=1.1, alpha=0.6)
            ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
        line[0].set_ylabel(row["dataset"])
        error = formats.number(100 * row["covariance_error"], 2)
        line[3].set_title(f"error of C: {error} %", fontsize=8, loc="center")
    for ax, column in zip(axes[0], columns, strict=True):
        below = f"\n{ax.get_title(loc='center')}" if ax.get_title(loc="center") else "\n"
        ax.set_title(column + below, fontsize=8, loc="center")
    return figure


def denoising_drawings(found: Denoising) -> Drawings:
    """Return what draws the figure of points in the plane, by its name."""
    return {"plane": lambda: plane_figure(found.points, found.posteriors)}
