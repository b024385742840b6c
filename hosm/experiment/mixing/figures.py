"""Charts of the samplers: who is faster, bias against effective samples, bias and step size."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hosm.experiment.mixing.comparisons import Comparison, comparisons
from hosm.experiment.mixing.looks import MARKERS, SAMPLERS, look
from hosm.experiment.mixing.pictures import (
    equal_steps_figure,
    single_chains_figure,
    snapshots_figure,
)
from hosm.experiment.mixing.results import Mixing, Sampling
from hosm.experiment.mixing.tables import crossing
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.style import (
    BLUE,
    GREY,
    ORANGE,
    Drawings,
    grid,
    key,
    label,
    legend,
    log_axis,
    styled,
)
from hosm.experiment.shared.rows import Row, groups, records

__all__ = [
    "approach_figure",
    "bias_figure",
    "curves_figure",
    "faster_figure",
    "mixing_drawings",
    "tuning_figure",
]

SHOWN = ("two-modes", "ring6", "ring8")  # the paper's laws, where a chart shows no more
SCORES = {"exact": (BLUE, "o"), "learned": (ORANGE, "s")}
BEYOND = "#f3e3d8"
THICK = {"linewidth": 5, "alpha": 0.4}  # a line that others may cover


def _of_targets(frame: pd.DataFrame) -> tuple[Figure, list[tuple[Axes, str, pd.DataFrame]]]:
    """Return a figure with a panel for each of the paper's laws, or for the first if none is."""
    parts = [(str(target), group) for target, group in groups(frame, "target")]
    parts = [part for part in parts if part[0] in SHOWN] or parts[:1]
    figure, axes = grid(1, len(parts), 3.4)
    return figure, [(ax, *part) for ax, part in zip(axes[0], parts, strict=True)]


def _keys(frame: pd.DataFrame) -> list[Line2D]:
    """Return the legend's entries of the samplers that are in a frame."""
    there = [name for name in SAMPLERS if name in set(frame["method"])]
    return [key(look(name)[1], look(name)[0], SAMPLERS[name]) for name in there]


def _exact(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["scores"] == "exact"]


def _said(each: Comparison) -> str:
    """Return why a comparison says nothing; nothing if it does."""
    if each.ozaki is None or not each.langevin["within_bound"]:
        return "no step size within the bounds on bias"
    return "" if crossing(each) else "no chain crosses between the modes"


def _draw_ratio(ax: Axes, each: Comparison, height: float) -> None:
    """Draw one ratio with two standard errors, or say why there is none."""
    colour, marker = SCORES[each.scores]
    said = _said(each)
    if said:
        label(ax, 1, height, said, GREY, fontsize=7.5)
        return
    style: dict[str, Any] = {"color": colour, "fmt": marker, "markersize": 6, "capsize": 2}
    ax.errorbar(each.ratio, height, xerr=2 * each.error, **style)


@styled
def faster_figure(found: Sampling) -> Figure:
    """Draw the effective samples per second of Ozaki over Langevin's, both tuned alike.

    Args:
        found: tables of the samplers.
    """
    compared = comparisons(found)
    targets = list(dict.fromkeys(each.target for each in compared))
    figure, axes = grid(1, 1, 1.4 + 0.42 * len(targets))
    ax = axes[0][0]
    for each in compared:
        shift = 0.17 if each.scores == "learned" else -0.17
        _draw_ratio(ax, each, targets.index(each.target) + shift)
    ax.axvline(1, color=GREY, linestyle="--", linewidth=1)
    ax.set(yticks=range(len(targets)), ylim=(len(targets) - 0.5, -0.5))
    ax.set_yticklabels(targets)
    ax.set_xlim(min(0.3, ax.get_xlim()[0]) if ax.get_xlim()[0] > 0 else 0.1, None)
    log_axis(ax, "x")
    ax.set_xlabel("effective samples a second, Ozaki over Langevin; bars are two standard errors")
    ax.set_title("← Langevin is faster      |      Ozaki is faster →")
    legend(figure, [key(m, c, f"{name} scores") for name, (c, m) in SCORES.items()])
    return figure


def _draw_tuning(ax: Axes, group: pd.DataFrame) -> None:
    """Draw a line through the step sizes of each sampler."""
    for method, part in groups(group, "method"):
        colour, marker = look(method)
        rows = [row for row in records(part.sort_values("step_size")) if row["ess_bulk"] > 0]
        rows = [row for row in rows if row["kolmogorov"] < 1]
        place = [[row[name] for row in rows] for name in ("kolmogorov", "ess_bulk")]
        ax.plot(*place, linewidth=0.7, color=colour)
        for row in rows:
            sound = bool(row["within_bound"])
            face = colour if sound else "white"
            style: dict[str, Any] = {
                "marker": marker,
                "markersize": 4.5 if sound else 3,
                "color": colour,
            }
            ax.plot(row["kolmogorov"], row["ess_bulk"], markerfacecolor=face, **style)


def _tuning_title(target: str, rows: list[Row]) -> str:
    within = [row for row in rows if row["within_bound"] and row["ess_bulk"] > 0]
    if not within:
        return f"{target}\nno step size within the bounds"
    best = max(within, key=lambda row: row["ess_bulk"])
    name = SAMPLERS.get(best["method"], best["method"])
    return f"{target}\nmost within: {name}"


@styled
def tuning_figure(tuning: pd.DataFrame, bias_bound: float) -> Figure:
    """Draw effective samples against bias for every step size that tuning tried, exact scores.

    Args:
        tuning: a row for each target, scores, method and step size.
        bias_bound: largest Kolmogorov distance that tuning accepts.
    """
    shown = _exact(tuning[tuning["method"].isin(list(MARKERS))])
    figure, drawn = _of_targets(shown)
    for ax, target, group in drawn:
        _draw_tuning(ax, group)
        ax.axvspan(bias_bound, 1, color=BEYOND, zorder=0)
        log_axis(ax, "x")
        log_axis(ax, "y")
        ax.set(xlabel="distance to exact draws (bias)")
        ax.set_title(_tuning_title(target, records(group)))
    drawn[0][0].set_ylabel("effective samples, more is better")
    beyond = key("s", BEYOND, f"distance beyond {bias_bound:g}", markersize=9)
    hollow = key("o", GREY, "beyond a bound", markerfacecolor="white", markersize=3)
    legend(figure, [*_keys(shown), hollow, beyond], 4)
    return figure


def _timed_curves(found: Sampling) -> pd.DataFrame:
    """Return the curves of Langevin, the best Ozaki and MALA, with seconds for iterations."""
    parts = []
    for each in comparisons(found):
        rows = {"langevin": each.langevin, "ozaki floor": each.ozaki, "mala": each.adjusted}
        for kind, row in rows.items():
            if row is not None and each.scores == "exact":
                here = _exact(found.curves)
                here = here[(here["target"] == each.target) & (here["method"] == row["method"])]
                seconds = here["iterations"] * row["seconds_per_iteration"]
                parts.append(here.assign(seconds=seconds, method=kind))
    return pd.concat(parts, ignore_index=True)


@styled
def curves_figure(found: Sampling, bias_bound: float) -> Figure:
    """Draw the distance of all draws so far to exact ones against seconds, tuned step sizes.

    A curve ends where its sampler was stopped, and shows the least distance so far, which chance
    moves less than the last one.

    Args:
        found: tables of the samplers.
        bias_bound: largest Kolmogorov distance that tuning accepts.
    """
    timed = _timed_curves(found)
    figure, drawn = _of_targets(timed)
    for ax, target, group in drawn:
        for method, rows in groups(group, "method"):
            least = rows["kolmogorov"].cummin()
            ax.plot(rows["seconds"], least, color=look(method)[0], linewidth=1.8)
        ax.axhline(bias_bound, color=GREY, linestyle=":", linewidth=1.2)
        log_axis(ax, "x")
        log_axis(ax, "y")
        ax.set(xlabel="seconds of sampling", title=target)
    drawn[0][0].set_ylabel("least distance so far, less is better")
    keys = [key("", look(n)[0], SAMPLERS[n], linestyle="-") for n in ("langevin", "mala")]
    keys.insert(1, key("", look("ozaki floor")[0], "Ozaki, best guard", linestyle="-"))
    legend(figure, [*keys, key("", GREY, f"bound on bias, {bias_bound:g}", linestyle=":")])
    return figure


@styled
def approach_figure(approach: pd.DataFrame) -> Figure:
    """Draw how many chains approach the law of two modes at equal step sizes.

    Args:
        approach: a row for each target, method, step size and iteration.
    """
    equal = approach[approach["target"] == "two-modes"]
    step = float(equal["step_size"].iloc[0])
    faster = equal["method"].map({"ozaki floor": 2.0}).fillna(1.0)  # the paper's clock
    equal = equal.assign(time=step * faster * equal["iterations"])
    figure, (line,) = grid(1, 2, 3.6)
    for method, rows in groups(equal, "method"):
        colour, _ = look(method)
        wide: dict[str, Any] = THICK if method == "langevin" else {"linewidth": 1.6}
        for ax, column in zip(line, ("iterations", "time"), strict=True):
            ax.plot(rows[column], rows["kolmogorov"], color=colour, **wide)
    line[0].set_title("After equally many iterations")
    line[1].set_title("After equal time of the diffusion")
    line[0].set(xlabel="iterations", ylabel="distance to exact draws, less is better")
    line[1].set_xlabel(f"time: ε = {step:g} an iteration, twice that on Ozaki’s own clock")
    for ax in line:
        log_axis(ax, "x")
    names = {"ozaki floor": "Ozaki, its own clock", "ozaki floor, Langevin's clock": None}
    keys = []
    for method in dict.fromkeys(equal["method"]):
        thick: dict[str, Any] = THICK if method == "langevin" else {}
        name = names.get(method) or SAMPLERS[method].replace(", floor", "")
        keys.append(key("", look(method)[0], name, linestyle="-", **thick))
    legend(figure, keys, 3)
    return figure


@styled
def bias_figure(bias: pd.DataFrame) -> Figure:
    """Draw the bias of the energy against the step size, as a mean and a range over the laws.

    Args:
        bias: a row for each target, method and step size.
    """
    figure, axes = grid(1, 1, 3.6)
    ax, count = axes[0][0], bias["target"].nunique()
    for method, rows in groups(bias, "method"):
        colour, marker = look(method)
        by_size = rows.groupby("relative")["bias"]
        mean, low, high = by_size.mean(), by_size.min(), by_size.max()
        ax.fill_between(mean.index, low, high, color=colour, alpha=0.2, linewidth=0)
        ax.plot(mean.index, mean, color=colour, marker=marker, markersize=5, linewidth=1.6)
    ax.axhline(0, color=GREY, linestyle="--", linewidth=1)
    log_axis(ax, "x")
    ax.set(xlabel="step size, over the variance v of a Gaussian as steep as the law")
    ax.set_ylabel("bias of the mean energy, nats")
    largest = bias[bias["method"] == "langevin"].nlargest(1, "bias")
    found = formats.number(float(largest["bias"].iloc[0]), 2) if len(largest) else formats.DASH
    ax.set_title(f"Zero is right; the largest of Langevin is {found} nats ({count} laws)")
    legend(figure, _keys(bias), 4)
    return figure


def mixing_drawings(found: Mixing) -> Drawings:
    """Return what draws the figures of the samplers, by their names."""
    run, longest, bound = found.run, found.longest, found.bias_bound
    return {
        "faster": lambda: faster_figure(longest),
        "tuning": lambda: tuning_figure(longest.tuning, bound),
        "curves": lambda: curves_figure(longest, bound),
        "equal-steps": lambda: approach_figure(run.approach),
        "step-bias": lambda: bias_figure(longest.bias),
        "two-modes": lambda: equal_steps_figure(run),
        "snapshots": lambda: snapshots_figure(run),
        "single-chains": lambda: single_chains_figure(run.draws),
    }
