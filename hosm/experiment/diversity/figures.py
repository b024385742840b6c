"""Figures 7 and 8: classes that chains of images reach, the steps they may take, and pictures."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hosm.experiment.diversity.results import Diversity
from hosm.experiment.diversity.study.methods import METHODS
from hosm.experiment.diversity.study.summary import averaged
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.style import (
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    Drawings,
    grid,
    key,
    legend,
    log_axis,
    styled,
)
from hosm.experiment.shared.files import Array
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["chains_figure", "classes_figure", "diversity_drawings", "noise_figure", "steps_figure"]


GREEN = COLOURS[2]
LOOKS = {"langevin": (BLUE, "o"), "ozaki": (ORANGE, "s"), "fixed": (GREEN, "^")}
PARTS = {  # of |x|^2, and what the ratio is of
    "noise": "noise |x − m|², over expected",
    "image": "image m·(x − m), over expected",
    "energy": "energy |m|², over the start's",
}
STYLES = {"": "-", "Langevin's clock": ":", "largest step": "--"}
SHOWN_NOISE = 2  # chains of each sampler


def _variant(sampler: str) -> str:
    return sampler.partition(", ")[2]


def _draw_share(ax: Axes, rows: pd.DataFrame, x: str) -> None:
    """Draw the share that changed class, with a band of one standard error."""
    first = rows.iloc[0]
    colour, style = LOOKS[first["method"]][0], STYLES[_variant(first["sampler"])]
    rows = rows[rows[x] > 0]
    share, error = 100 * rows["changed"], 100 * rows["changed_standard_error"]
    ax.plot(rows[x], share, color=colour, linestyle=style, linewidth=1.4)
    ax.fill_between(rows[x], share - error, share + error, color=colour, alpha=0.12, linewidth=0)


def _percent(row: Row, prefix: str = "") -> str:
    return f"{row[f'{prefix}changed']:.0%}"


@styled
def classes_figure(curves: pd.DataFrame, summary: pd.DataFrame, cost: pd.DataFrame) -> Figure:
    """Draw the share that changed class against iterations, time of the diffusion, and seconds.

    Args:
        curves: a row for each sampler, recorded iteration and start.
        summary: a row for each sampler.
        cost: of an iteration of so many chains, a row for each method.
    """
    figure, axes = grid(1, 3, 3.9)
    averages = averaged(curves)
    by = {str(row["sampler"]): row for row in records(summary)}
    equal = [name for name in by if _variant(name) != "largest step"]
    plain = ["Langevin", *(name for name in by if _variant(name) == "largest step")]
    pairs = {
        f"Equal ε = {by['Ozaki']['step']:g}": ("Ozaki", "Langevin", ""),
        "Equal time": ("Ozaki", "Langevin", "equal_time_"),
        "Largest steps within the bias": ("Ozaki, largest step", "Langevin, largest step", ""),
    }
    titles = [
        f"{where}\nOzaki {_percent(by[ozaki], prefix)}, Langevin {_percent(by[langevin], prefix)}"
        for where, (ozaki, langevin, prefix) in pairs.items()
    ]
    panels = (
        ("iterations", "iterations", equal),
        ("time", "time of the diffusion", equal),
        ("seconds", f"seconds for {cost['chains'].iloc[0]:,} chains", plain),
    )
    highest = 100 * averages["changed"].max()
    for ax, (x, label, names), title in zip(axes[0], panels, titles, strict=True):
        for name in names:
            _draw_share(ax, averages[averages["sampler"] == name], x)
        ax.axhline(100 * averages["changed"].iloc[0], color=GREY, linestyle="-.", linewidth=1)
        log_axis(ax, "x")
        ax.set(xlabel=label, ylim=(0, 1.1 * highest))
        ax.set_title(title, fontsize=8.5)
    axes[0][0].set_ylabel("chains that changed class (%)")
    keys = [
        key(
            "",
            LOOKS[row["method"]][0],
            f"{name}, ε = {row['step']:g}",
            linestyle=STYLES[_variant(name)],
        )
        for name, row in by.items()
    ]
    legend(figure, [*keys, key("", GREY, "noise and denoising alone", linestyle="-.")], 3)
    return figure


def _largest(summary: pd.DataFrame) -> str:
    """Return the largest steps, as times of an iteration."""
    rows = [row for row in records(summary) if _variant(row["sampler"]) == "largest step"]
    return ", ".join(f"{METHODS[row['method']]} {row['iteration_time']:g}" for row in rows)


@styled
def steps_figure(tried: pd.DataFrame, summary: pd.DataFrame, bound: float) -> Figure:
    """Draw the three parts of |x|^2 over what is expected, by the time of an iteration.

    Args:
        tried: a row for each method and time, and one of exact draws.
        summary: a row for each sampler.
        bound: largest gap that the search accepts.
    """
    figure, axes = grid(1, 3, 3.6)
    draws = records(tried[tried["method"] == "draws"])[0]
    moved = tried[tried["method"] != "draws"]
    for ax, (name, label) in zip(axes[0], PARTS.items(), strict=True):
        level, ratio = draws[f"{name}_ratio"], f"{name}_ratio"
        ax.axhspan(level * (1 - bound), level * (1 + bound), color=GREY, alpha=0.15)
        ax.axhline(level, color=GREY, linestyle="--", linewidth=1.2)
        for method, rows in groups(moved, "method"):
            colour, marker = LOOKS[method]
            error = rows[f"{name}_standard_error"]
            style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4}
            ax.errorbar(rows["time"], rows[ratio], yerr=error, capsize=2, linewidth=1, **style)
        log_axis(ax, "x")
        ax.set(xlabel="time of an iteration", ylim=(0.6, 1.4), ylabel=label)
        row = max(records(moved), key=lambda row: abs(row[ratio] / level - 1))
        worst = formats.number(100 * (row[ratio] / level - 1), 2)
        ax.set_title(f"Largest gap {worst} %:\n{METHODS[row['method']]}, t = {row['time']:g}")
    figure.suptitle(
        f"Largest steps within the bias, as times t of an iteration: {_largest(summary)}"
    )
    keys = [
        key(marker, colour, METHODS[method], linestyle="-")
        for method, (colour, marker) in LOOKS.items()
    ]
    legend(figure, [*keys, key("", GREY, f"exact draws, ± {bound:.0%}", linestyle="--")])
    return figure


def _show(ax: Axes, flat: Array, shape: Sequence[int], ends: tuple[float, float]) -> None:
    """Show a denoised image, shape (D,), clipped to the range of clean ones."""
    image = np.clip((flat.reshape(*shape) - ends[0]) / (ends[1] - ends[0]), 0, 1)
    ax.imshow(image[0] if shape[0] == 1 else image.transpose(1, 2, 0), cmap="gray", vmin=0, vmax=1)


def _ends(arrays: dict[str, Array]) -> tuple[float, float]:
    return float(arrays["starts"].min()), float(arrays["starts"].max())


def _names(arrays: dict[str, Array], kind: str) -> list[str]:
    return [name.partition("|")[2] for name in arrays if name.startswith(f"{kind}|")]


def _side(ax: Axes, name: str) -> None:
    """Write the name of a sampler beside its line of pictures."""
    ax.set_ylabel(name.replace(", ", ",\n"), rotation=0, ha="right", va="center", fontsize=8)


@styled
def noise_figure(arrays: dict[str, Array], shape: Sequence[int], step: float) -> Figure:
    """Draw chains that start at noise, denoised after some iterations, for each sampler.

    Args:
        arrays: `starts`, (k, D), `noise_iterations`, (R,), and 'noise|sampler', (R, chains, D).
        shape: channels, height and width of an image.
        step: eps of all samplers.
    """
    names, wanted = _names(arrays, "noise"), arrays["noise_iterations"]
    count = min(SHOWN_NOISE, arrays[f"noise|{names[0]}"].shape[1])
    lines = len(names) * count
    figure, axes = grid(lines, len(wanted), 0.7 + 0.72 * lines, bare=True)
    for place, line in enumerate(axes):
        name, chain = names[place // count], place % count
        for ax, image in zip(line, arrays[f"noise|{name}"][:, chain], strict=True):
            _show(ax, image, shape, _ends(arrays))
        if chain == 0:
            _side(line[0], name)
    for ax, iteration in zip(axes[0], wanted, strict=True):
        ax.set_title(f"{iteration}", fontsize=8, loc="center")
    base = arrays["noise|Langevin"]
    gaps = [
        formats.number(float(np.abs(arrays[f"noise|{name}"] - base)[-1].mean()), 2)
        for name in ("Ozaki", "Ozaki, Langevin's clock")
    ]
    figure.suptitle(
        f"From the same noise, ε = {step:g}: after {wanted[-1]:,} iterations a pixel of Ozaki's "
        f"differs from\nLangevin's by {gaps[0]} on the paper's clock, by {gaps[1]} on Langevin's"
    )
    return figure


@styled
def chains_figure(arrays: dict[str, Array], shape: Sequence[int], summary: pd.DataFrame) -> Figure:
    """Draw the last images of different chains from one start, with their classes.

    Args:
        arrays: `starts`, (k, D), `own`, (k,), 'chains|sampler', (k, chains, D), and
            'labels|sampler', (k, chains).
        shape: channels, height and width of an image.
        summary: a row for each sampler.
    """
    names, starts = _names(arrays, "chains"), arrays["starts"]
    chains = arrays[f"chains|{names[0]}"].shape[1]
    lines = len(starts) * len(names)
    figure, axes = grid(lines, 1 + chains, 0.5 + 0.66 * lines, bare=True)
    for place, line in enumerate(axes):
        start, name = place // len(names), names[place % len(names)]
        _side(line[0], name)
        _show(line[0], starts[start], shape, _ends(arrays))
        own = arrays["own"][start]
        found = arrays[f"chains|{name}"][start], arrays[f"labels|{name}"][start]
        for ax, image, label in zip(line[1:], *found, strict=True):
            _show(ax, image, shape, _ends(arrays))
            colour = GREY if label == own else ORANGE
            style: dict[str, Any] = {"fontsize": 8, "va": "top", "fontweight": "bold"}
            ax.text(0.04, 0.96, f"{label}", color=colour, transform=ax.transAxes, **style)
    by = {str(row["sampler"]): row["entropy"] for row in records(summary)}
    pairs = [
        " and ".join(f"{by[f'{name}{variant}']:.2f}" for name in ("Langevin", "Ozaki"))
        for variant in ("", ", largest step")
    ]
    figure.suptitle(
        f"After {summary['iterations'].max():,} iterations, from the digit at the left; orange "
        "where the class changed\nEntropy of the classes (nats), Langevin and Ozaki: "
        f"{pairs[0]} at equal ε, {pairs[1]} at the largest steps",
    )
    return figure


def diversity_drawings(name: str, found: Diversity) -> Drawings:
    """Return what draws the figures of chains of one set of images, by their names."""
    images, card, summary = found.pictures, found.card, found.summary
    shape, settings = card["shape"], card["settings"]
    return {
        f"classes-{name}": lambda: classes_figure(found.curves, summary, found.cost),
        f"steps-{name}": lambda: steps_figure(found.search, summary, settings["bias_bound"]),
        f"noise-{name}": lambda: noise_figure(images, shape, settings["noise_step"]),
        f"chains-{name}": lambda: chains_figure(images, shape, summary),
    }
