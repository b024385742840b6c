"""Results of all stages; each drawer says which files and columns are its own."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hosm.experiment.accuracy.results import Accuracy, load_accuracy
from hosm.experiment.cost.results import Cost, load_cost
from hosm.experiment.denoising.results import Denoising, load_denoising
from hosm.experiment.diffusion.results import Diffusion, load_diffusion
from hosm.experiment.dimension.results import Dimension, load_dimension
from hosm.experiment.diversity.results import Diversity, load_diversity
from hosm.experiment.inverse.results import Inverse, load_inverse
from hosm.experiment.mixing.results import Mixing, load_mixing
from hosm.experiment.photos.results import Photos, load_photos
from hosm.experiment.reduction.results import Reduction, load_reduction
from hosm.experiment.settings import SweepParams, load_params
from hosm.experiment.shared.files import read_frame
from hosm.experiment.tabular.results import Tabular, load_tabular
from hosm.experiment.training_losses.results import load_training_losses
from hosm.experiment.uncertainty.results import Denoiser, load_denoisers

__all__ = ["Results", "load_results"]

OPINIONS = "name where verdict evidence seconds"


@dataclass(frozen=True, eq=False)
class Results:
    """Everything that a report shows, as the stages measured it.

    `denoisers` and `diversity` are by the names of their images, those of a longer run with
    `longer_runs.LONGER` at the end; `training` maps a model to its losses; `opinions` has a row
    for each place of a claim of the paper at its other point, see `second_opinions`.
    """

    accuracy: Accuracy
    reduction: Reduction
    cost: Cost
    mixing: Mixing
    denoising: Denoising
    denoisers: dict[str, Denoiser]
    diversity: dict[str, Diversity]
    tabular: Tabular
    photos: Photos
    diffusion: Diffusion
    inverse: Inverse
    training: dict[str, pd.DataFrame]
    opinions: pd.DataFrame | None = None
    dimension: Dimension | None = None


def _batches(sweep: SweepParams) -> dict[str, int]:
    """Return the points in a batch of s1 that trains on fresh draws, by data set."""
    first = [cell for cell in sweep.every_cell() if cell["target"] == "dsm-vr"]
    fresh = [cell for cell in first if cell["regime"] == "streaming"]
    return {cell["dataset"]: sweep.model(cell).batch_size for cell in fresh}


def load_results(root: Path) -> Results:
    """Read what the stages wrote.

    Args:
        root: the project's folder, with `params.yaml`, `data/results` and `reports/whole`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column or an entry, or holds no rows.
    """
    params = load_params(root / "params.yaml")
    found, kept = root / "data" / "results", root / "reports" / "whole"
    opinions = kept / "second-opinions.csv"
    return Results(
        accuracy=load_accuracy(found, kept, _batches(params.sweep)),
        reduction=load_reduction(found, kept),
        cost=load_cost(found),
        mixing=load_mixing(found, kept, params.mixing.bias_bound),
        denoising=load_denoising(found),
        denoisers=load_denoisers(found, kept, params.images),
        diversity=load_diversity(found, kept, params.images),
        tabular=load_tabular(found, kept),
        photos=load_photos(found, kept),
        diffusion=load_diffusion(found, kept),
        inverse=load_inverse(found, kept),
        training=load_training_losses(found),
        dimension=load_dimension(kept),
        opinions=read_frame(opinions, OPINIONS) if opinions.is_file() else None,
    )
