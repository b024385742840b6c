"""Settings that many stages share: the cluster that trains, and the splits of data sets."""

import os
from typing import Literal

from pydantic import Field, model_validator

from hosm.experiment.settings.model import Count, Section

__all__ = ["ClusterParams", "PrepareParams"]


class ClusterParams(Section):
    """Where Ray runs, how many workers a training run has, and when its state is kept.

    The state is kept at each validation, and between them every `checkpoint_seconds` and every
    `checkpoint_every` steps unless these are 0; the last `checkpoints_kept` stay. With
    `fewest_workers` a run goes on with so many where nodes leave, and takes those in that join.
    `use_gpu: auto` gives each worker a GPU where the cluster has any.
    Where no worker moves for `hang_seconds`, the one that the others wait for is named.
    """

    workers: Count
    fewest_workers: int = Field(default=0, ge=0)
    use_gpu: bool | Literal["auto"]
    backend: Literal["auto", "gloo", "nccl"]
    cpus_per_worker: int = Field(ge=1)
    local_cpus: int = Field(ge=1)
    object_store_mb: int = Field(ge=80)
    max_failures: int = Field(ge=0)
    hang_seconds: float = Field(default=600.0, ge=0)
    checkpoint_seconds: float = Field(default=20.0, ge=0)
    checkpoint_every: int = Field(default=0, ge=0)
    checkpoints_kept: int = Field(ge=2)

    @property
    def elastic(self) -> bool:
        """Whether the number of workers follows the cluster."""
        return 0 < self.fewest_workers < self.workers

    @model_validator(mode="after")
    def _fits(self) -> "ClusterParams":
        if self.fewest_workers > self.workers:
            raise ValueError(
                f"fewest_workers must be at most workers = {self.workers}, got "
                f"{self.fewest_workers}"
            )
        needed, here = self.workers * self.cpus_per_worker, self.local_cpus
        if "RAY_ADDRESS" not in os.environ and needed > here:
            raise ValueError(
                f"workers x cpus_per_worker must be at most local_cpus = {here}, got "
                f"{self.workers} x {self.cpus_per_worker} = {needed}"
            )
        return self


class PrepareParams(Section):
    """Sizes of the splits."""

    seed: int
    train_points: Count
    validation_points: Count
    test_points: Count
    images: Count
    folder: str
