"""Every figure of a run, by its file's name; each drawer says how its own are drawn."""

from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from hosm.experiment.accuracy.figures import accuracy_drawings
from hosm.experiment.cost.figures import cost_drawings
from hosm.experiment.denoising.figures import denoising_drawings
from hosm.experiment.diffusion.figures import diffusion_drawings
from hosm.experiment.dimension.figures import dimension_drawings
from hosm.experiment.diversity.figures import diversity_drawings
from hosm.experiment.inverse.figures import inverse_drawings
from hosm.experiment.mixing.figures import mixing_drawings
from hosm.experiment.photos.figures import photos_drawings
from hosm.experiment.presenting.longer_runs import LONG_RUN, run_name
from hosm.experiment.presenting.style import Drawings, save_figure
from hosm.experiment.reduction.figures import reduction_drawings
from hosm.experiment.report.results import Results
from hosm.experiment.tabular.figures import tabular_drawings
from hosm.experiment.training_losses.figures import training_drawings
from hosm.experiment.uncertainty.figures import uncertainty_drawings

__all__ = ["drawings", "run_of_figure", "write_all"]

OF_LONG_RUNS = ("accuracy", "joint", "whole", "dimension")  # whose names do not say so
OF_SAMPLERS = ("faster", "tuning", "curves", "step-bias")


def drawings(results: Results) -> Drawings:
    """Return what draws every figure, by the figures' names, in the order of the page."""
    found = {
        **accuracy_drawings(results.accuracy),
        **reduction_drawings(results.reduction),
        **cost_drawings(results.cost),
        **mixing_drawings(results.mixing),
        **denoising_drawings(results.denoising),
        **tabular_drawings(results.tabular),
        **photos_drawings(results.photos),
        **diffusion_drawings(results.diffusion),
        **inverse_drawings(results.inverse),
        **dimension_drawings(results.dimension),
        **training_drawings(results.training),
    }
    for name, denoiser in results.denoisers.items():
        found |= uncertainty_drawings(name, denoiser)
    for name, chains in results.diversity.items():
        found |= diversity_drawings(name, chains)
    return found


def run_of_figure(name: str, results: Results) -> str:
    """Return which run a figure shows.

    Args:
        name: the figure's.
        results: what the stages measured.
    """
    if name in OF_LONG_RUNS:
        return LONG_RUN
    return results.mixing.shown if name in OF_SAMPLERS else run_name(name)


_wanted: Drawings = {}  # of a process that draws


def _save(name: str, path: Path) -> None:
    """Draw one of the wanted figures into a file."""
    save_figure(_wanted[name](), path)


def _save_beside(drawn: Drawings, paths: dict[str, Path], processes: int) -> None:
    """Draw figures into files, in forks of this process, which have all that is drawn."""
    forks = ProcessPoolExecutor(processes, get_context("fork"), _wanted.update, (drawn,))
    try:
        with forks:
            for _ in forks.map(_save, paths, paths.values()):
                pass  # an error of a fork is raised here
    except BrokenProcessPool as error:
        found = "a process that draws figures was killed, as where memory runs out; start again"
        raise ChildProcessError(found) from error


def write_all(results: Results, folder: Path, processes: int = 1) -> dict[str, Path]:
    """Draw every figure into a folder.

    Args:
        results: what the stages measured.
        folder: where to; made if it is missing.
        processes: that draw at once, 1 or more.

    Returns:
        The files by the figures' names.
    """
    drawn = drawings(results)
    paths = {name: folder / f"{name}.png" for name in drawn}
    if processes > 1:
        _save_beside(drawn, paths, processes)
        return paths
    for name, draw in drawn.items():
        save_figure(draw(), paths[name])
    return paths
