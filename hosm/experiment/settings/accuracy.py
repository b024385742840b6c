"""Settings of table 1: the grid of the sweep, how each of its models trains, and the table."""

from itertools import product
from typing import Any, get_args

from pydantic import Field

from hosm.experiment.settings.model import (
    Count,
    ModelParams,
    Positive,
    Regime,
    SecondOrder,
    Section,
)

__all__ = ["ALONE", "AccuracyParams", "CELL", "KINDS", "SweepParams"]

ALONE = ("dsm-vr", "dsm", "plain")  # cells whose model is an s1 alone, the first with heads on it
HEADS = get_args(SecondOrder)
KINDS = ("first", "finite", "heads", *HEADS, "dsm", "plain", "plain-finite", "joint")
CELL = ("dataset", "regime", "sigma", "target", "rank", "seed")


class SweepParams(Section):
    """The grid of Table 1 and how each of its models trains.

    A data set's settings hold, beside those of every model, what differs for one kind of them:
    under `first` for s1 alone, under `finite` for s1 in the finite regime, under `heads` for heads
    on a frozen s1, whatever their target, and under `jacobian`, `residual` or `moment` for those
    of one target. Three more kinds are trained where a data set
    has them: `dsm`, s1 without variance reduction, `plain`, s1 by another network, in the finite
    regime with `plain-finite` besides, and `joint`, s1 and s2 together. A kind's `backbone` stands
    in place of the data set's: the two are not merged.
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
    gpus_per_trial: float = Field(default=1.0, gt=0, le=1)
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

        `dsm-vr` stands for an s1 with all the heads on it, `dsm` and `plain` for an s1 alone,
        `joint-<target>` for s1 and s2.
        """
        cells = []
        for dataset, regime, sigma, seed in product(
            self.datasets, self.regimes, self.sigmas, self.seeds
        ):
            kinds, layers = [("dsm-vr", 0)], self.models[dataset]
            kinds += [(name, 0) for name in ALONE if name in layers]
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
        finite, target = cell["regime"] == "finite", cell["target"]
        if target not in ALONE:
            return ("heads", target) if target in HEADS else ("joint",)
        first = ("first", "finite") if finite else ("first",)
        own = (target, f"{target}-finite") if finite else (target,)
        return (*first, *(kind for kind in own if kind in KINDS))

    def model(self, cell: dict[str, Any]) -> ModelParams:
        """Return the settings of the model at a cell."""
        layers, target = self.models[cell["dataset"]], cell["target"]
        merged = {key: value for key, value in layers.items() if key not in KINDS}
        for kind in self.kinds(cell):
            merged |= layers.get(kind, {})
        chosen = {key: value for key, value in cell.items() if key != "dataset"}
        loss = "dsm-vr" if target == "plain" else target.removeprefix("joint-")
        return ModelParams(**{**merged, **chosen, "target": loss})


class AccuracyParams(Section):
    """Table 1 made from the sweep."""

    constant_points: Count
