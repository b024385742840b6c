"""Pictures of chains: figures 5 and 6 of the paper, at its step sizes and iterations."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hosm.experiment.mixing.looks import SAMPLERS, look
from hosm.experiment.mixing.results import Sampling
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.style import GREY, frame, grid, styled
from hosm.experiment.shared.files import Arrays
from hosm.experiment.shared.rows import records

__all__ = ["equal_steps_figure", "single_chains_figure", "snapshots_figure"]

POINTS = 1000  # drawn in a panel
SINGLE = 3000  # of a single chain
EXACT = "exact draws"
FLAT = 0.55  # height of a panel of two modes beside each other, over its width


class _Picture(NamedTuple):
    method: str
    step: str
    when: str
    key: str


def _pictures(draws: Arrays, target: str, single: bool) -> list[_Picture]:
    """Return what was kept of a target: of many chains, or of single ones."""
    found = [_Picture(*name.split("|")[1:], name) for name in draws if name.count("|") == 3]  # type: ignore[call-arg]
    here = [each for each in found if each.key.split("|")[0] == target]
    return [each for each in here if each.when and (each.when == "single") == single]


def _reach(draws: Arrays, target: str) -> float:
    return 1.3 * float(np.abs(draws[f"{target}|{EXACT}||"]).max())


def _scatter(ax: Axes, points: np.ndarray, colour: str, reach: float, most: int) -> None:
    """Draw points within the reach of the exact ones, in a frame."""
    x, y = points[:: max(1, -(-len(points) // most))].T if len(points) else ([], [])
    ax.scatter(x, y, s=1.5, color=colour, alpha=0.5, linewidths=0)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    frame(ax)


def _title(ax: Axes, text: str) -> None:
    ax.set_title(text, fontsize=7.5, loc="center")


def _few(times: list[str]) -> list[str]:
    """Return the first, a middle and the last of some times."""
    middle = times[len(times) // 2]
    return list(dict.fromkeys([times[0], middle, times[-1]]))


@styled
def equal_steps_figure(found: Sampling) -> Figure:
    """Draw chains on the law of two modes after some iterations, over exact draws in grey.

    Args:
        found: tables of the samplers, and points by 'target|method|eps|iterations'.
    """
    draws = found.draws
    pictures = {(e.method, e.when): e for e in _pictures(draws, "two-modes", single=False)}
    methods = list(dict.fromkeys(method for method, _ in pictures))
    times = _few(list(dict.fromkeys(when for _, when in pictures)))
    figure, axes = grid(len(methods), len(times), 1.75 * len(methods) + 0.3, bare=True)
    reach, exact = _reach(draws, "two-modes"), draws[f"two-modes|{EXACT}||"]
    known = {
        (row["method"], str(row["iterations"])): row["kolmogorov"]
        for row in records(found.approach[found.approach["target"] == "two-modes"])
    }
    for line, method in zip(axes, methods, strict=True):
        line[0].set_ylabel(SAMPLERS[method].replace(", ", "\n"), fontsize=8)
        for ax, when in zip(line, times, strict=True):
            _scatter(ax, exact, "#bbbbbb", reach, POINTS)
            _scatter(ax, draws[pictures[method, when].key], look(method)[0], reach, POINTS)
            ax.set_ylim(-FLAT * reach, FLAT * reach)
            distance = formats.number(known[method, when], 2)
            ax.set_xlabel(f"distance {distance}", fontsize=8)
    for ax, when in zip(axes[0], times, strict=True):
        _title(ax, f"{int(when):,} iterations")
    return figure


@styled
def snapshots_figure(found: Sampling) -> Figure:
    """Draw chains on the paper's two data sets at its step sizes and iterations.

    Args:
        found: tables of the samplers, and points by 'target|method|eps|iterations'.
    """
    targets = ("ring6", "ring8")
    pictures = {target: _pictures(found.draws, target, single=False) for target in targets}
    columns = 1 + max(map(len, pictures.values()))
    figure, axes = grid(len(targets), columns, 2.1 * len(targets), bare=True)
    known = {
        (row["target"], row["method"], f"{row['step_size']:g}", str(row["iterations"])): row
        for row in records(found.approach)
    }
    for line, target in zip(axes, targets, strict=True):
        reach = _reach(found.draws, target)
        _scatter(line[0], found.draws[f"{target}|{EXACT}||"], GREY, reach, POINTS)
        _title(line[0], EXACT)
        line[0].set_ylabel(target)
        for ax, each in zip(line[1:], pictures[target], strict=False):
            _scatter(ax, found.draws[each.key], look(each.method)[0], reach, POINTS)
            row = known[target, each.method, each.step, each.when]
            _title(ax, f"{SAMPLERS[each.method]}\nε = {each.step}, {int(each.when):,} it.")
            lost = 1 - row["finite_share"]
            distance = f"distance {formats.number(row['kolmogorov'], 2)}"
            ax.set_xlabel(f"{lost:.0%} diverged" if lost > 0 else distance, fontsize=8)
    return figure


def _inside(points: np.ndarray, reach: float) -> str:
    """Return the share of points in the frame, or that the chain left it for good."""
    inside = float((np.abs(points) <= reach).all(-1).mean()) if len(points) else 0.0
    return f"{inside:.0%} in the frame" if inside > 0 else "diverged"


@styled
def single_chains_figure(draws: Arrays) -> Figure:
    """Draw one long chain of each method on the paper's two data sets.

    Args:
        draws: points by 'target|method|eps|single'.
    """
    targets = ("ring6", "ring8")
    pictures = {target: _pictures(draws, target, single=True) for target in targets}
    columns = 1 + max(map(len, pictures.values()))
    figure, axes = grid(len(targets), columns, 2.2 * len(targets), bare=True)
    for line, target in zip(axes, targets, strict=True):
        reach, exact = _reach(draws, target), draws[f"{target}|{EXACT}||"]
        _scatter(line[0], exact, GREY, reach, SINGLE)
        _title(line[0], EXACT)
        line[0].set_ylabel(target)
        for ax, each in zip(line[1:], pictures[target], strict=False):
            points = draws[each.key]
            _scatter(ax, points, look(each.method)[0], reach, SINGLE)
            _title(ax, f"{SAMPLERS[each.method]}\nε = {each.step}")
            ax.set_xlabel(_inside(points, reach), fontsize=8)
    return figure
