"""The sections of params.yaml as frozen models: types, ranges, defaults, the sweep's grid."""

import os
from itertools import product
from typing import Any, Literal, get_args

from pydantic import Field, model_validator

from hosm.experiment.settings.model import (
    Count,
    Frozen,
    ModelParams,
    Positive,
    Regime,
    SecondOrder,
)

__all__ = [
    "AccuracyParams",
    "CELL",
    "ClassifierParams",
    "ClusterParams",
    "DenoisingParams",
    "DiversityParams",
    "KINDS",
    "METHODS",
    "MixingParams",
    "PrepareParams",
    "ReductionParams",
    "ScalesParams",
    "ScalingParams",
    "SpeedParams",
    "SweepParams",
    "UncertaintyParams",
]

KINDS = ("first", "finite", *get_args(SecondOrder), "dsm", "joint")
CELL = ("dataset", "regime", "sigma", "target", "rank", "seed")


class ClusterParams(Frozen):
    """Where Ray runs, how many workers a training run has, and when its state is kept.

    The state is kept at each validation, and every `checkpoint_every` steps between unless that
    is 0; the last `checkpoints_kept` stay.
    """

    workers: Count
    use_gpu: bool
    backend: Literal["auto", "gloo", "nccl"]
    cpus_per_worker: int = Field(ge=1)
    local_cpus: int = Field(ge=1)
    object_store_mb: int = Field(ge=80)
    max_failures: int = Field(ge=0)
    checkpoint_every: int = Field(ge=0)
    checkpoints_kept: int = Field(ge=2)

    @model_validator(mode="after")
    def _fits(self) -> "ClusterParams":
        needed, here = self.workers * self.cpus_per_worker, self.local_cpus
        if "RAY_ADDRESS" not in os.environ and needed > here:
            raise ValueError(
                f"workers x cpus_per_worker must be at most local_cpus = {here}, got "
                f"{self.workers} x {self.cpus_per_worker} = {needed}"
            )
        return self


class PrepareParams(Frozen):
    """Sizes of the splits."""

    seed: int
    train_points: Count
    validation_points: Count
    test_points: Count
    images: Count
    folder: str


class SweepParams(Frozen):
    """The grid of Table 1 and how each of its models trains.

    A data set's settings hold, beside those of every model, what differs for one kind of them:
    under `first` for s1 alone, under `finite` for s1 in the finite regime, under `jacobian`,
    `residual` or `moment` for heads on a frozen s1. Two more kinds are trained where a data set
    has them: `dsm`, s1 without variance reduction, and `joint`, s1 and s2 together.
    """

    datasets: tuple[str, ...] = Field(min_length=1)
    sigmas: tuple[Positive, ...] = Field(min_length=1)
    ranks: tuple[Count, ...] = Field(min_length=1)
    targets: tuple[SecondOrder, ...]
    joint: tuple[SecondOrder, ...]
    regimes: tuple[Regime, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=1)
    workers_per_trial: int = Field(ge=1)
    cpus_per_worker: int = Field(ge=1)
    max_concurrent: int = Field(ge=0)
    test_points: int = Field(ge=1)
    models: dict[str, dict[str, Any]]

    def diagonal(self, dataset: str) -> bool:
        """Say whether the second-order models of a data set are diagonal."""
        return self.ranks_of(dataset) == (0,)

    def ranks_of(self, dataset: str) -> tuple[int, ...]:
        """Return the ranks of a data set's models: `ranks`, unless its settings fix one."""
        fixed = self.models[dataset].get("rank")
        return self.ranks if fixed is None else (fixed,)

    def grid(self) -> list[dict[str, Any]]:
        """Return the cells that a trial trains: dataset, regime, sigma, target, rank, seed.

        `dsm-vr` stands for an s1 with all the heads on it, `joint-<target>` for s1 and s2.
        """
        cells = []
        for dataset, regime, sigma, seed in product(
            self.datasets, self.regimes, self.sigmas, self.seeds
        ):
            kinds, layers = [("dsm-vr", 0)], self.models[dataset]
            if "dsm" in layers:
                kinds.append(("dsm", 0))
            if "joint" in layers:
                own = layers["joint"].get("rank")
                ranks = self.ranks_of(dataset) if own is None else (own,)
                kinds += [(f"joint-{name}", rank) for name in self.joint for rank in ranks]
            for target, rank in kinds:
                cell = (dataset, regime, sigma, target, rank, seed)
                cells.append(dict(zip(CELL, cell, strict=True)))
        return cells

    def estimates(self, cell: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the cells of Table 1 that a trial fills: its own, and those of the heads."""
        if cell["target"] != "dsm-vr":
            return [cell]
        heads = [(name, rank) for name in self.targets for rank in self.ranks_of(cell["dataset"])]
        return [cell, *({**cell, "target": name, "rank": rank} for name, rank in heads)]

    def every_cell(self) -> list[dict[str, Any]]:
        """Return a cell for whatever the settings describe, in the grid of this profile or not."""
        every = {"datasets": tuple(self.models), "regimes": ("streaming", "finite")}
        every |= {"targets": get_args(SecondOrder), "joint": get_args(SecondOrder)}
        whole = self.model_copy(update=every)
        return [cell for trial in whole.grid() for cell in whole.estimates(trial)]

    def kinds(self, cell: dict[str, Any]) -> tuple[str, ...]:
        """Return the kinds of the model at a cell, the last of which prevails."""
        alone = ("first", "finite") if cell["regime"] == "finite" else ("first",)
        target = cell["target"]
        return {"dsm": (*alone, "dsm"), "dsm-vr": alone}.get(target, (target.split("-")[0],))

    def model(self, cell: dict[str, Any]) -> ModelParams:
        """Return the settings of the model at a cell."""
        layers, target = self.models[cell["dataset"]], cell["target"]
        merged = {key: value for key, value in layers.items() if key not in KINDS}
        for kind in self.kinds(cell):
            merged |= layers.get(kind, {})
        chosen = {key: value for key, value in cell.items() if key != "dataset"}
        return ModelParams(**{**merged, **chosen, "target": target.removeprefix("joint-")})


class AccuracyParams(Frozen):
    """Table 1 made from the sweep."""

    constant_points: Count


class SpeedParams(Frozen):
    """Table 2 and the cost of training: what is timed, and how often."""

    batch: int = Field(ge=1)
    ranks: tuple[Count, ...] = Field(min_length=1)
    repeats: int = Field(ge=1)
    threads: int = Field(ge=1)
    loop_rows: int = Field(ge=1)
    compiled: bool
    dense: tuple[tuple[Count, Count], ...] = Field(min_length=1)
    images: tuple[tuple[Count, Count], ...] = Field(min_length=1)
    image_batch: int = Field(ge=1)
    image_ranks: tuple[Count, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _fits(self) -> "SpeedParams":
        for channels, side in self.images:
            dimension = channels * side**2
            if side % 4 or max(self.image_ranks) > dimension:
                raise ValueError(
                    f"the side of an image must be divisible by 4 and image_ranks at most its "
                    f"dimension {dimension}, got [{channels}, {side}] and {max(self.image_ranks)}"
                )
        return self


class ScalingParams(Frozen):
    """Scaling out: the network and the run that is timed, alone and by Ray Train."""

    width: int = Field(ge=1)
    rank: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    steps: int = Field(ge=2)
    workers: tuple[Count, ...] = Field(min_length=1)
    repeats: int = Field(ge=1)
    threads: int = Field(ge=1)


class ReductionParams(Frozen):
    """Figure 1: the grid, and how each of its models trains."""

    sigmas: tuple[Positive, ...] = Field(min_length=1)
    targets: tuple[SecondOrder, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=1)
    width: int = Field(ge=1)
    learning_rate: float = Field(gt=0)
    batch_size: int = Field(ge=1)
    max_steps: int = Field(ge=1)
    record_every: int = Field(ge=1)


class MixingParams(Frozen):
    """Table 3, figures 5 and 6: chains, and the step sizes that tuning tries."""

    chains: int = Field(ge=2)
    runs: int = Field(ge=2)
    burn_in: int = Field(ge=0)
    steps: int = Field(ge=10)
    tuning_chains: int = Field(ge=2)
    tuning_steps: int = Field(ge=10)
    drift_chains: int = Field(ge=10)
    drift_iterations: int = Field(ge=2)
    step_sizes: tuple[Positive, Positive]
    tries: int = Field(ge=4)
    bias_bound: float = Field(gt=0, le=1)
    variance_bound: float = Field(gt=1)
    floor: Positive
    repeats: int = Field(ge=1)
    timed_iterations: int = Field(ge=1)
    compiled: bool
    bias_chains: int = Field(ge=10)
    picture_chains: int = Field(ge=10)
    longest: int = Field(ge=10)
    seed: int

    @model_validator(mode="after")
    def _fits(self) -> "MixingParams":
        low, high = self.step_sizes
        if low >= high:
            raise ValueError(
                f"step_sizes must be [low, high] with low < high, got [{low}, {high}]"
            )
        return self


class DenoisingParams(Frozen):
    """Figure 2: points in the plane, and the model that denoises them."""

    datasets: tuple[str, ...] = Field(min_length=1)
    sigma: Positive
    train_points: Count
    test_points: int = Field(ge=2)
    model: dict[str, Any]
    seed: int

    @property
    def spec(self) -> ModelParams:
        """Settings of the model, of which `sigma` and `seed` are those of the section."""
        return ModelParams(**{**self.model, "sigma": self.sigma, "seed": self.seed})


class ScalesParams(Frozen):
    """Models of one noise scale each, which the model of a range is judged by.

    `unconstrained` is what differs for one more, whose covariance may be negative.
    """

    sigmas: tuple[Positive, ...] = Field(min_length=1)
    max_steps: int = Field(ge=1)
    validate_every: int = Field(ge=1)
    unconstrained: dict[str, Any]

    def models(self, whole: ModelParams) -> dict[str, ModelParams]:
        """Return the settings of each model, by the names of their folders.

        Args:
            whole: of the model of the range.
        """
        steps = {"max_steps": self.max_steps, "validate_every": self.validate_every}
        models = {f"{sigma:g}": whole.at_scale(sigma, **steps) for sigma in self.sigmas}
        free = {**whole.model_dump(), **steps, **self.unconstrained}
        return {**models, "unconstrained": ModelParams(**free)}


class UncertaintyParams(Frozen):
    """Figures 3 and 4: how many images, noise draws and directions."""

    sigmas: tuple[Positive, ...] = Field(min_length=1)
    shown: int = Field(ge=1)
    images: int = Field(ge=2)
    mapped: int = Field(ge=2)
    draws: int = Field(ge=1)
    likelihood_draws: int = Field(ge=1)
    direction_images: int = Field(ge=1)
    direction_sigma: Positive
    iterations: tuple[Count, ...] = Field(min_length=1)
    repeats: int = Field(ge=1)
    seed: int


METHODS = {"langevin": "Langevin", "ozaki": "Ozaki", "fixed": "fixed curvature"}  # in reports


class ClassifierParams(Frozen):
    """The classifier of images: its size, and how it trains."""

    width: Count
    steps: Count
    batch_size: int = Field(ge=2)
    learning_rate: Positive
    seed: int


class DiversityParams(Frozen):
    """Figures 7 and 8: chains of images, their steps, and the search for the largest ones."""

    sigma: Positive
    noise_step: Positive
    noise_iterations: Count
    step: Positive
    chains: int = Field(ge=2)
    iterations: Count
    records: int = Field(ge=2)
    times: tuple[Positive, ...] = Field(min_length=1)
    bias_bound: float = Field(gt=0, lt=1)
    bias_chains: int = Field(ge=2)
    bias_time: Positive
    repeats: int = Field(ge=1)
    seed: int
