"""Results of the stages: files -> frames, read in one place and checked on reading.

Layout below the project's `data/results`: `sweep/`, `accuracy/`, `speed/`, `scaling/`, `mixing/`,
`uncertainty/`, `diversity/` and `training/`, each written by the stage of that name (`training/`
by `train`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from hosm.experiment.mixing.results import Sampling, load_sampling
from hosm.experiment.settings import load_params
from hosm.experiment.shared.files import Arrays, read_arrays, read_frame, read_json

__all__ = ["WHOLE", "Denoiser", "Diversity", "Results", "Whole", "load_results"]

Found = TypeVar("Found")
WHOLE = "-whole"  # ends the name of what is kept from a longer run

REDUCTION = "sigma reduction seed target step train_second least_second s1_error s2_error"
COST = "dataset regime target fits seconds"
LEARNING = "dataset regime sigma target rank seed step seconds error"
STEP, COSTS = "device batch dimension method rank", "seconds seconds_low seconds_high allocated"
TABLE1 = (
    "dataset regime sigma method rank mean seeds standard_error seconds steps paper "
    "paper_deviation"
)
FRAMES = {  # field of Results -> file, and the columns that a report needs
    "trials": ("sweep/trials.csv", "dataset regime sigma target rank seed s1_error seconds steps"),
    "learning": ("accuracy/curves.csv", LEARNING),
    "cost": ("accuracy/cost.csv", COST),
    "accuracy": ("accuracy/table1.csv", TABLE1),
    "reduction": ("reduction/curves.csv", REDUCTION),
    "estimates": (
        "reduction/estimates.csv",
        "sigma reduction seed target u s1 s2 exact_s1 exact_s2",
    ),
    "reduction_errors": (
        "reduction/numbers.csv",
        "sigma reduction target seeds diverged s1_error s1_standard_error s2_error "
        "s2_standard_error",
    ),
    "speed": (
        "speed/table2.csv",
        "device dimension batch backbone method rank seconds seconds_low seconds_high repeats "
        "paper_seconds rows_timed parameters threads",
    ),
    "training_cost": ("speed/training.csv", f"part {STEP} target variance_reduction {COSTS}"),
    "growth": ("speed/growth.csv", f"{STEP} {COSTS}"),
    "slopes": ("speed/slopes.csv", "device method rank variable time memory late_time"),
    "workers": ("scaling/steps.csv", "loop workers run seconds_per_step batch steps"),
    "plan": ("scaling/plan.csv", "network numbers link workers volume seconds compute_for_90"),
    "planar": (
        "denoising/posteriors.csv",
        "dataset sigma points mean_error mean_error_standard_error covariance_error "
        "covariance_error_standard_error coverage_0.5 coverage_0.8 coverage_0.95 "
        "exact_coverage_0.5 exact_coverage_0.8 exact_coverage_0.95 seconds",
    ),
}
DENOISER = {  # field of Denoiser -> file below its folder, and the columns that a report needs
    "numbers": (
        "numbers.csv",
        "model sigma draws images mapped error_per_pixel predicted_variance_per_pixel correlation "
        "edge_variance background_variance scale nll_low_rank nll_diagonal nll_isotropic "
        "nll_scaled coverage_0.5 coverage_0.8 coverage_0.95 least_variance clipped_share",
    ),
    "reliability": (
        "reliability.csv",
        "model sigma bin predicted observed standard_error entries scale",
    ),
    "directions": ("directions.csv", "method k share seconds images sigma"),
}
DIVERSITY = {  # field of Diversity -> file below its folder, and the columns that a report needs
    "curves": (
        "curves.csv",
        "sampler method clock step start iterations time seconds changed entropy classes "
        "confidence brightness",
    ),
    "summary": (
        "summary.csv",
        "sampler method step iterations iteration_time iteration_ratio bias changed entropy "
        "entropy_standard_error classes confidence brightness equal_time_changed gain "
        "gain_standard_error equal_time_gain equal_time_gain_standard_error",
    ),
    "search": (
        "search.csv",
        "method time step chains iterations noise_ratio noise_standard_error image_ratio "
        "image_standard_error energy_ratio energy_standard_error bias",
    ),
    "cost": ("cost.csv", "method chains seconds ratio"),
}
TRAINING = "step train_dsm train_second validation_dsm validation_second"
PICTURES = "clean noisy mean which eigenvalues directions trace"


@dataclass(frozen=True, eq=False)
class Denoiser:
    """What is known of the denoiser of one set of images: see `calibration`, `directions`.

    `pictures` holds images, shape (n, D), directions, (n, D, k), and maps at each noise scale; it
    is empty for a denoiser that is kept from a longer run (see `make denoisers`).
    """

    numbers: pd.DataFrame
    reliability: pd.DataFrame
    directions: pd.DataFrame
    pictures: Arrays
    card: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Diversity:
    """What is known of chains of one set of images: see `diversity`, `step_search`.

    `pictures` holds denoised images of chains, and is empty for chains that are kept from a longer
    run (see `make classes`); the `card` settings, and the classifier's accuracy.
    """

    curves: pd.DataFrame
    summary: pd.DataFrame
    search: pd.DataFrame
    cost: pd.DataFrame
    pictures: Arrays
    card: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Whole:
    """Table 1 at the paper's sizes, kept from the last run of them: see `make table1`."""

    accuracy: pd.DataFrame
    learning: pd.DataFrame
    cost: pd.DataFrame
    card: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Results:
    """Everything that a report shows, as the stages measured it.

    `sampling_whole` is a study of the samplers that is kept from a longer run. `points` maps
    'dataset|column' to points of figure 2. `denoisers` and `diversity` are by their images,
    those of a longer run with `WHOLE`. `training` maps a model to its losses, `bias_bound` is
    the largest Kolmogorov distance that tuning accepts.
    """

    trials: pd.DataFrame
    learning: pd.DataFrame
    cost: pd.DataFrame
    accuracy: pd.DataFrame
    whole: Whole
    reduction: pd.DataFrame
    estimates: pd.DataFrame
    reduction_errors: pd.DataFrame
    speed: pd.DataFrame
    training_cost: pd.DataFrame
    growth: pd.DataFrame
    slopes: pd.DataFrame
    workers: pd.DataFrame
    plan: pd.DataFrame
    sampling: Sampling
    sampling_whole: Sampling | None
    planar: pd.DataFrame
    points: Arrays
    denoisers: dict[str, Denoiser]
    diversity: dict[str, Diversity]
    training: dict[str, pd.DataFrame]
    bias_bound: float


def _with_references(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Repeat references, which hold for every regime and sigma of their data set, for each."""
    known = accuracy["sigma"].isna()
    cells = accuracy.loc[~known, ["dataset", "regime", "sigma"]].drop_duplicates()
    references = accuracy[known].drop(columns=["regime", "sigma"]).merge(cells, on="dataset")
    return pd.concat([accuracy[~known], references[accuracy.columns]], ignore_index=True)


def _whole(folder: Path) -> Whole:
    accuracy = _with_references(read_frame(folder / "table1.csv", TABLE1))
    learning = read_frame(folder / "curves.csv", LEARNING)
    cost = read_frame(folder / "cost.csv", COST)
    card = read_json(folder / "card.json", "profile seeds commit hardware protocol")
    return Whole(accuracy, learning, cost, card)


def _denoiser(folder: Path, pictured: bool) -> Denoiser:
    frames = {
        name: read_frame(folder / file, columns) for name, (file, columns) in DENOISER.items()
    }
    pictures = read_arrays(folder / "pictures.npz", PICTURES) if pictured else {}
    card = read_json(folder / "card.json", "shape settings made")
    return Denoiser(**frames, pictures=pictures, card=card)


def _chains(folder: Path, pictured: bool) -> Diversity:
    frames = {name: read_frame(folder / file, cols) for name, (file, cols) in DIVERSITY.items()}
    card = read_json(folder / "card.json", "shape settings made accuracies")
    names = "starts own noise_iterations"
    pictures = read_arrays(folder / "pictures.npz", names) if pictured else {}
    return Diversity(**frames, pictures=pictures, card=card)


def _and_longer(
    read: Callable[[Path, bool], Found], run: Path, whole: Path, names: tuple[str, ...]
) -> dict[str, Found]:
    """Return what this run found of each set of images, and what is kept of longer ones."""
    found = {name: read(run / name, True) for name in names}
    kept = {f"{folder.name}{WHOLE}": read(folder, False) for folder in sorted(whole.glob("*/"))}
    return {**found, **kept}


def _sampling(folder: Path) -> Sampling | None:
    """Return the study of the samplers that is kept from a longer run, if there is one."""
    return load_sampling(folder, pictured=False) if folder.is_dir() else None


def load_results(root: Path) -> Results:
    """Read what the stages wrote.

    References of table 1 are repeated for each regime and sigma.

    Args:
        root: the project's folder, with `params.yaml` and `data/results`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column or an entry, or holds no rows.
    """
    folder = root / "data" / "results"
    frames: dict[str, Any] = {
        field: read_frame(folder / file, names) for field, (file, names) in FRAMES.items()
    }
    params, whole = load_params(root / "params.yaml"), root / "reports" / "whole"
    frames["accuracy"] = _with_references(frames["accuracy"])
    losses = sorted((folder / "training").glob("*.csv"))
    if not losses:
        raise FileNotFoundError(f"{folder / 'training'} holds no losses; run the stage train")
    return Results(
        **frames,
        whole=_whole(whole),
        sampling=load_sampling(folder),
        sampling_whole=_sampling(whole / "sampling"),
        points=read_arrays(folder / "denoising" / "points.npz"),
        denoisers=_and_longer(
            _denoiser, folder / "uncertainty", whole / "denoisers", params.images
        ),
        diversity=_and_longer(_chains, folder / "diversity", whole / "diversity", params.images),
        training={path.stem: read_frame(path, TRAINING) for path in losses},
        bias_bound=params.mixing.bias_bound,
    )
