"""Figure 1: what variance reduction does to the errors of both scores.

Above, the errors at every noise scale; below, what was learned at the smallest one, along a line,
beside the exact scores, as in panels (c) and (d) of figure 1 of Meng, Song, Li and Ermon (NeurIPS
2021).
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.longer_runs import LONGER
from hosm.experiment.presenting.style import (
    BLUE,
    GREY,
    ORANGE,
    Drawings,
    grid,
    label,
    log_axis,
    styled,
)
from hosm.experiment.reduction.results import Reduction
from hosm.experiment.shared.rows import groups

__all__ = ["reduction_drawings", "reduction_figure"]

NAMES = {"none": "without variance reduction", "antithetic": "with variance reduction"}
COLOURS = {"none": ORANGE, "antithetic": BLUE}
SCORES = {"s1": "First-order score", "s2": "Second-order score"}
LIMITS = {"s1": (-4.5, 4.5), "s2": (-4.0, 2.0)}
ENTRIES = {"s1": "first entry of $s_1$", "s2": "entry 1, 1 of $s_2$"}
ZERO_ERROR = 2.0  # of a score that is zero everywhere, against -x and -I in the plane


def _target(frame: pd.DataFrame) -> str:
    """Return the paper's target, or the first where it was not tried."""
    targets = list(dict.fromkeys(frame["target"]))
    return "moment" if "moment" in targets else targets[0]


def _draw_errors(ax: Axes, final: pd.DataFrame, score: str) -> None:
    """Draw the last error of every seed against the noise, with their geometric mean."""
    for kind, part in groups(final, "reduction"):
        there = part[np.isfinite(part[f"{score}_error"])]
        errors = there[f"{score}_error"]
        ax.plot(there["sigma"], errors, "o", color=COLOURS[kind], markersize=3, alpha=0.5)
        middle = np.exp(np.log(errors).groupby(there["sigma"]).mean())
        ax.plot(middle.index, middle, color=COLOURS[kind], linewidth=1.8)
        if len(middle):
            place = len(middle) // 2
            point = float(middle.index[place]), float(middle.iloc[place])
            label(ax, *point, NAMES[kind], COLOURS[kind], xytext=(4, 9))
    sigmas = sorted(set(final["sigma"]))
    ax.axhline(ZERO_ERROR, color=GREY, linestyle="--", linewidth=1)
    between = float(np.sqrt(sigmas[0] * sigmas[min(1, len(sigmas) - 1)]))
    label(ax, between, ZERO_ERROR, "the answer 0", GREY, xytext=(0, 6), ha="center")
    log_axis(ax, "x")
    log_axis(ax, "y")
    ax.margins(y=0.15)
    ax.set_xticks(sigmas)
    ax.set(xlabel="standard deviation σ of the noise", ylabel="squared error, less is better")
    ax.set_title(SCORES[score])


def _draw_estimates(ax: Axes, part: pd.DataFrame, score: str, sigma: float) -> None:
    """Draw the estimates of every seed over the exact score."""
    ax.set_title(f"What every seed learned at σ = {sigma:g}")
    ax.set(xlabel="$u$, at the point $(u, 0)$", ylabel=ENTRIES[score], ylim=LIMITS[score])
    if part.empty:
        ax.set_title("no estimates: every run diverged")
        return
    line, (low, high) = part.drop_duplicates("u"), LIMITS[score]
    ax.plot(line["u"], line[f"exact_{score}"], color=GREY, linewidth=6, alpha=0.35, zorder=1)
    beyond, runs = 0, groups(part, "reduction", "seed")
    for (kind, _), run in runs:
        ax.plot(run["u"], run[score], color=COLOURS[kind], linewidth=1.1, alpha=0.9)
        beyond += not run[score].between(low, high).any()
    if beyond:
        text = f"off the chart: {beyond} of {len(runs)} runs"
        ax.text(0.97, 0.05, text, transform=ax.transAxes, ha="right", fontsize=8)
    ax.text(0.03, 0.05, "grey: exact", transform=ax.transAxes, color=GREY, fontsize=8)
    ax.set_xlim(line["u"].min(), line["u"].max())


@styled
def reduction_figure(curves: pd.DataFrame, estimates: pd.DataFrame) -> Figure:
    """Draw the errors without and with variance reduction, and what was learned.

    Shown is the target `moment`, the paper's, or the first where it was not tried.

    Args:
        curves: a row for each sigma, reduction, seed, target and record.
        estimates: a row for each sigma, reduction, seed, target and point of a line.
    """
    target = _target(curves)
    own = curves[curves["target"] == target].sort_values("step")
    final = own.groupby(["sigma", "reduction", "seed"]).tail(1).sort_values("sigma")
    least = float(curves["sigma"].min())
    there = (estimates["sigma"] == least) & (estimates["target"] == target)
    figure, axes = grid(2, 2, 5.6)
    for place, score in enumerate(SCORES):
        _draw_errors(axes[0][place], final, score)
        _draw_estimates(axes[1][place], estimates[there], score, least)
    steps = formats.count(float(own["step"].max()))
    figure.suptitle(f"After {steps} steps of training on N(0, I) in the plane")
    return figure


def reduction_drawings(found: Reduction) -> Drawings:
    """Return what draws the figures of variance reduction, by their names."""
    run, whole = found.run, found.whole
    drawings: Drawings = {"reduction": lambda: reduction_figure(run.curves, run.estimates)}
    if whole is not None:
        drawings |= {f"reduction{LONGER}": lambda: reduction_figure(whole.curves, whole.estimates)}
    return drawings
