"""The bound's gap and the draws' distance against the number of steps, by covariance."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hosm.experiment.diffusion.results import BOTH, EXACT, LEARNED, Diffusion
from hosm.experiment.presenting.longer_runs import LONGER
from hosm.experiment.presenting.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    Drawings,
    key,
    legend,
    log_axis,
    panels,
    styled,
)

__all__ = ["diffusion_drawings", "steps_figure"]

LOOKS = {  # covariance of the network's steps -> marker and colour
    BOTH: ("o", BLUE),
    "exact": ("s", GREY),
    "diagonal": ("^", GREEN),
    "optimal isotropic": ("v", ORANGE),
    "beta": ("P", PURPLE),
    "beta-tilde": ("X", SKY),
}
MEASURES = {
    "gap": "gap of the bound, nats a dimension ↓",
    "distance": "distance of draws to the law ↓",
}


def _draw(ax: Axes, steps: pd.DataFrame, measure: str) -> None:
    means = steps.groupby(["covariance", "steps"], sort=False)[measure].mean()
    for name, (mark, colour) in LOOKS.items():
        if name in means.index.get_level_values(0):
            values = means[name].clip(lower=0)
            ax.plot(values.index, values, f"{mark}-", color=colour, markersize=5)
    log_axis(ax, "x")
    log_axis(ax, "y")
    ax.set(xlabel="steps", ylabel=MEASURES[measure])


@styled
def steps_figure(steps: pd.DataFrame) -> Figure:
    """Draw both measures of the network's steps against their number.

    Args:
        steps: as in `results.DiffusionRun`.
    """
    figure, axes = panels(len(MEASURES), 2.7)
    for ax, measure in zip(axes, MEASURES, strict=True):
        _draw(ax, steps[steps["mean"] == LEARNED], measure)
    floor = steps.loc[(steps["mean"] == EXACT) & steps["gap"].isna(), "distance"].mean()
    axes[1].axhline(floor, color=GREY, linestyle="-.", linewidth=1)
    named = {name: f"{name} (ours)" if name == BOTH else name for name in LOOKS}
    keys = [key(mark, colour, named[name]) for name, (mark, colour) in LOOKS.items()]
    legend(figure, keys, columns=3)
    return figure


def diffusion_drawings(found: Diffusion) -> Drawings:
    """Return what draws the figures of the study, by their names."""
    drawings: Drawings = {"diffusion": lambda: steps_figure(found.run.steps)}
    whole = found.whole
    if whole is not None:
        drawings[f"diffusion{LONGER}"] = lambda: steps_figure(whole.steps)
    return drawings
