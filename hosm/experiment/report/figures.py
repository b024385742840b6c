"""Charts of a run: accuracy, speed, calibration, training; ours beside the paper's.

Filled markers are this run's, hollow diamonds the paper's.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hosm.experiment.accuracy.figures import targets_figure
from hosm.experiment.cost.figures import growth_figure, loss_figure
from hosm.experiment.cost.study.ratios import speed_ratios
from hosm.experiment.diversity.figures import (
    chains_figure,
    classes_figure,
    noise_figure,
    steps_figure,
)
from hosm.experiment.diversity.results import Diversity
from hosm.experiment.mixing import figures as sampling_figures
from hosm.experiment.mixing import pictures as sampling_pictures
from hosm.experiment.presenting import number_formats as cells
from hosm.experiment.presenting.style import (
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    PAPER,
    grid,
    key,
    legend,
    log_axis,
    paper_key,
    save_figure,
    styled,
)
from hosm.experiment.reduction.figures import reduction_figure
from hosm.experiment.report.results import Results
from hosm.experiment.shared.rows import Row, groups, is_exact, is_reference, method_order, records
from hosm.experiment.uncertainty import pictures
from hosm.experiment.uncertainty.figures import (
    calibration_figure,
    explained_figure,
    plane_figure,
)
from hosm.experiment.uncertainty.results import Denoiser

__all__ = [
    "accuracy_figure",
    "save_figure",
    "speed_figure",
    "training_figure",
    "write_all",
]

MARKERS = ("o", "s", "^", "v", "P")
MODELS_ACROSS = 4
LOSSES = {"dsm": "first-order loss (DSM)", "second": "second-order loss"}


def _estimates(rows: list[Row]) -> list[Row]:
    return [row for row in rows if not is_reference(row)]


def _look(rank: float, ranks: list[float]) -> tuple[str, str]:
    """Return the colour and the marker of a rank."""
    place = ranks.index(rank)
    return COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]


def _height(row: Row, methods: list[str], ranks: list[float]) -> float:
    """Return where a row stands on the vertical axis: by method, then by rank."""
    positive = [rank for rank in ranks if rank > 0]
    place = methods.index(row["method"])
    if row["rank"] not in positive:
        return place
    return place - 0.22 * (positive.index(row["rank"]) - (len(positive) - 1) / 2)


def _draw_errors(ax: Axes, cell: list[Row], methods: list[str], ranks: list[float]) -> None:
    """Draw the errors of one data set, regime and sigma, with floors and the constant."""
    for row in _estimates(cell):
        colour, marker = _look(row["rank"], ranks)
        y, error = _height(row, methods, ranks), row["standard_error"]
        style: dict[str, Any] = {"fmt": marker, "color": colour, "markersize": 5, "capsize": 2}
        ax.errorbar(row["mean"], y, xerr=error if error > 0 else 0, **style)
        ax.plot(row["paper"], y, color=colour, **PAPER)
    for row in cell:
        if row["method"].startswith("floor") and row["rank"] in ranks:
            colour = _look(row["rank"], ranks)[0]
            ax.axvline(row["mean"], color=colour, linestyle=":", linewidth=1.2)
        elif row["method"].startswith("constant") and not is_exact(row):
            ax.axvline(row["mean"], color=GREY, linestyle="--", linewidth=1.2)
    log_axis(ax, "x")
    ax.set(yticks=range(len(methods)), ylim=(-0.6, len(methods) - 0.4))


def _accuracy_title(name: str, cell: list[Row]) -> str:
    best = min(_estimates(cell), key=lambda row: row["mean"])
    rank = f", r = {best['rank']:.0f}" if best["rank"] > 0 else ""
    return f"{name}\nlowest: {best['method']}{rank}, {cells.number(best['mean'])}"


@styled
def accuracy_figure(accuracy: pd.DataFrame) -> Figure:
    """Draw the errors of second-order scores by method and rank.

    Args:
        accuracy: table 1.
    """
    parts = groups(accuracy, "dataset", "regime", "sigma")
    estimates = _estimates(records(accuracy))
    ordered = [row["method"] for row in sorted(estimates, key=method_order, reverse=True)]
    methods = list(dict.fromkeys(ordered))
    ranks = sorted({row["rank"] for row in estimates})
    lines, columns = -(-len(parts) // 2), min(2, len(parts))
    figure, axes = grid(lines, columns, 0.9 + 3.0 * lines)
    flat = [ax for line in axes for ax in line]
    for place, (ax, ((dataset, regime, sigma), group)) in enumerate(
        zip(flat, parts, strict=False)
    ):
        _draw_errors(ax, records(group), methods, ranks)
        ax.set_yticklabels([] if place % columns else methods)
        ax.set_title(_accuracy_title(f"{dataset}, {regime}, σ = {sigma:g}", records(group)))
        ax.set_xlabel("squared Frobenius error, summed over entries")
    for ax in flat[len(parts) :]:
        ax.set_visible(False)
    names = [f"ours, r = {rank:.0f}" if rank else "ours, diagonal or s1 alone" for rank in ranks]
    keys = [key(*_look(rank, ranks)[::-1], name) for rank, name in zip(ranks, names, strict=True)]
    keys += [
        paper_key("the paper's"),
        key("", GREY, "floor of a rank", linestyle=":"),
    ]
    legend(figure, [*keys, key("", GREY, "constant Hessian", linestyle="--")])
    return figure


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
    ax.set(yticks=range(len(rows)), xlabel="time for the whole batch (ms)")
    ax.set_yticklabels(names[::-1])


@styled
def speed_figure(speed: pd.DataFrame) -> Figure:
    """Draw the times of second-order scores by method.

    Args:
        speed: table 2.
    """
    parts = groups(speed[speed["device"] == speed["device"].iloc[0]], "backbone", "dimension")
    ratios = speed_ratios(speed)
    rows = max(len(group) for _, group in parts)
    figure, axes = grid(len(parts), 1, 0.7 + (0.7 + 0.23 * rows) * len(parts))
    for (ax,), ((network, dimension), group) in zip(axes, parts, strict=True):
        _draw_times(ax, records(group))
        row = next(row for row in ratios if row["backbone"] == network)
        loop, chunked = cells.ratio(row["loop"]), cells.ratio(row["chunked"])
        found = f"{loop} the time of s2 by the loop, {chunked} by the fastest chunked autodiff"
        name = f"{cells.network(network)}, D = {dimension}"
        ax.set_title(f"{name}\nat r = {row['rank']:.0f}: {found}")
    keys = [
        key("o", BLUE, "ours: median, least to largest"),
        paper_key("the paper's (TITAN Xp)", ORANGE),
    ]
    legend(figure, [*keys, key("", GREY, "our s1 alone", linestyle="--")])
    return figure


@styled
def training_figure(training: dict[str, pd.DataFrame]) -> Figure:
    """Draw the losses of each model against optimiser steps.

    Args:
        training: model -> its losses.
    """
    columns = min(len(training), MODELS_ACROSS)
    bands = -(-len(training) // columns)
    figure, axes = grid(bands * len(LOSSES), columns, 4.4 * bands)
    for place in range(len(training), bands * columns):  # beyond the last model
        for line in axes[-len(LOSSES) :]:
            line[place % columns].set_visible(False)
    for place, (model, frame) in enumerate(training.items()):
        band, column = divmod(place, columns)
        own = [line[column] for line in axes[band * len(LOSSES) :][: len(LOSSES)]]
        for ax, (loss, label) in zip(own, LOSSES.items(), strict=True):
            ax.plot(frame["step"], frame[f"train_{loss}"], color=BLUE, marker=".")
            ax.plot(frame["step"], frame[f"validation_{loss}"], "--", color=ORANGE, marker=".")
            ax.set_ylabel("" if column else label)
        best = min(records(frame), key=lambda row: row["validation_dsm"])["step"]
        own[0].set_title(f"{model}\nlowest at step {best:,}")
        own[-1].set_xlabel("optimiser steps")
    ours = key(".", BLUE, "training, mean since the point before", linestyle="-")
    legend(figure, [ours, key(".", ORANGE, "validation, averaged weights", linestyle="--")])
    return figure


def _denoiser_drawings(name: str, found: Denoiser) -> dict[str, Callable[[], Figure]]:
    """Return what draws the figures of one set of images, by their names."""
    images, shape = found.pictures, found.card["shape"]
    sigmas = list(found.numbers.loc[found.numbers["model"] == "range", "sigma"])
    charts: dict[str, Callable[[], Figure]] = {
        f"calibration-{name}": lambda: calibration_figure(found.reliability),
        f"explained-{name}": lambda: explained_figure(found.directions),
    }
    if images:
        charts |= {
            f"variance-{name}": lambda: pictures.variance_figure(images, shape, sigmas),
            f"directions-{name}": lambda: pictures.directions_figure(images, shape),
            f"traversals-{name}": lambda: pictures.traversals_figure(images, shape),
        }
    return charts


def _sampling_drawings(results: Results) -> dict[str, Callable[[], Figure]]:
    """Return what draws the figures of the samplers, by their names."""
    found, bound = results.mixing.run, results.mixing.bias_bound
    longest = results.mixing.longest
    return {
        "tuning": lambda: sampling_figures.tuning_figure(longest.tuning, bound),
        "curves": lambda: sampling_figures.curves_figure(longest, bound),
        "equal-steps": lambda: sampling_figures.approach_figure(found.approach),
        "step-bias": lambda: sampling_figures.bias_figure(longest.bias),
        "two-modes": lambda: sampling_pictures.equal_steps_figure(found.draws),
        "snapshots": lambda: sampling_pictures.snapshots_figure(found),
        "single-chains": lambda: sampling_pictures.single_chains_figure(found.draws),
    }


def _diversity_drawings(name: str, found: Diversity) -> dict[str, Callable[[], Figure]]:
    """Return what draws the figures of chains of one set of images, by their names."""
    images, card, summary = found.pictures, found.card, found.summary
    shape, settings = card["shape"], card["settings"]
    curves = {f"classes-{name}": lambda: classes_figure(found.curves, summary, found.cost)}
    if not images:
        return curves
    return {
        **curves,
        f"steps-{name}": lambda: steps_figure(found.search, summary, settings["bias_bound"]),
        f"noise-{name}": lambda: noise_figure(images, shape, settings["noise_step"]),
        f"chains-{name}": lambda: chains_figure(images, shape, summary),
    }


def write_all(results: Results, folder: Path) -> dict[str, Path]:
    """Draw every figure into a folder.

    Args:
        results: what the stages measured.
        folder: where to; made if it is missing.

    Returns:
        The files by the figures' names.
    """
    drawings: dict[str, Callable[[], Figure]] = {
        "accuracy": lambda: accuracy_figure(results.accuracy.table1),
        "targets": lambda: targets_figure(results.accuracy.learning, results.accuracy.table1),
        "whole": lambda: targets_figure(
            results.accuracy.whole.learning, results.accuracy.whole.table1
        ),
        "reduction": lambda: reduction_figure(
            results.reduction.curves, results.reduction.estimates
        ),
        "speed": lambda: speed_figure(results.cost.speed),
        "losses": lambda: loss_figure(results.cost.training),
        "growth": lambda: growth_figure(results.cost.growth, results.cost.slopes),
        **_sampling_drawings(results),
        "plane": lambda: plane_figure(results.denoising.points, results.denoising.posteriors),
        "training": lambda: training_figure(results.training),
    }
    for name, found in results.denoisers.items():
        drawings |= _denoiser_drawings(name, found)
    for name, chains in results.diversity.items():
        drawings |= _diversity_drawings(name, chains)
    paths = {name: folder / f"{name}.png" for name in drawings}
    for name, draw in drawings.items():
        save_figure(draw(), paths[name])
    return paths
