"""Settings that many stages share: the cluster that trains, and the splits of data sets."""

import os
from typing import Literal

from pydantic import Field, model_validator

from hosm.experiment.settings.model import Count, Section

__all__ = ["ClusterParams", "PrepareParams"]


class ClusterParams(Section):
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


class PrepareParams(Section):
    """Sizes of the splits."""

    seed: int
    train_points: Count
    validation_points: Count
    test_points: Count
    images: Count
    folder: str
