"""A training task: what one run needs, from settings and data to the plain loop."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from hosm.experiment.data.datasets import DataSet, law
from hosm.experiment.data.shards import ShardedRows
from hosm.experiment.settings import ModelParams, check_rank
from hosm.experiment.train.models import build_heads, build_model
from hosm.training import (
    HeadsObjective,
    JointObjective,
    Points,
    Progress,
    Settings,
    Shard,
    TrainingResult,
    fit,
)

__all__ = ["Train", "TrainingTask", "train_here", "training_settings"]

AHEAD = 2  # batches of rows of files that are ready, at least
DERIVED = "diagonal"  # the one setting of training that follows from the model's rank


@dataclass(frozen=True)
class TrainingTask:
    """What one training run needs, all of it picklable.

    `name` is the data set, `shape` a sample's shape; `train` and `validation` are arrays or
    references to them, and `train` may be `ShardedRows`, which each worker reads from its disk. In
    the streaming regime each epoch draws as many fresh points of the law `name` as `train` has.
    With `first`, the weights of a learned s1 as arrays, the run trains heads of the `ranks` on it.
    """

    name: str
    spec: ModelParams
    shape: tuple[int, ...]
    data_std: float
    train: Any
    validation: Any
    ranks: tuple[int, ...] = ()
    first: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for rank in (self.spec.rank, *self.ranks):
            check_rank(rank, math.prod(self.shape))

    @classmethod
    def of(cls, data: DataSet, spec: ModelParams, shape: list[int], std: float) -> "TrainingTask":
        """Return the task of training `spec` on a data set."""
        return cls(data.name, spec, tuple(shape), std, data.train, data.validation)

    def fingerprint(self) -> bytes:
        """Return what tells the data and the first-order weights of this task from others."""
        return b"".join(
            each.fingerprint() if isinstance(each, ShardedRows) else each.tobytes()
            for each in (self.train, self.validation, *(self.first or {}).values())
        )

    def build(self) -> nn.Module:
        """Return the untrained model: a score model, or heads by their ranks."""
        if self.first is None:
            return build_model(self.spec, self.shape, self.data_std)
        return build_heads(self.spec, self.shape, self.data_std, self.ranks, self.first)


# Trains a task, with what to report to and the state of an interrupted run to continue from.
Train = Callable[[TrainingTask, Callable[[Progress], None], dict[str, Any] | None], TrainingResult]


def training_settings(spec: ModelParams) -> Settings:
    """Return the settings of the training loop: those of the same name, and five converted ones.

    Only the finite regime stops early; `dsm` has no variance reduction, which `dsm-vr` has.
    """
    own = {
        each.name: getattr(spec, each.name) for each in fields(Settings) if each.name != DERIVED
    }
    unreduced = spec.variance_reduction == "none" or spec.target == "dsm"
    own["target"] = "dsm" if spec.first_order else spec.target
    own["variance_reduction"] = None if unreduced else spec.variance_reduction
    own["clip_norm"] = spec.clip_norm or None
    own["patience"] = (spec.patience or None) if spec.regime == "finite" else None
    return Settings(**own, diagonal=spec.rank == 0)


def _points(task: TrainingTask, train: Tensor | ShardedRows) -> Points:
    """Return epoch -> clean points: fresh draws of the law, or the training split.

    Raises:
        ValueError: rows of files are to be flipped, or are to be drawn anew from a law.
    """
    if isinstance(train, ShardedRows):
        if task.spec.regime != "finite" or task.spec.flips:
            raise ValueError("rows of files need regime finite and flips false")
        return lambda epoch: train
    if task.spec.regime == "finite":
        return _flipped(task, train) if task.spec.flips else lambda epoch: train
    exact, seed = law(task.name), task.spec.seed

    def draw(epoch: int) -> Tensor:
        key = int(hashlib.sha256(f"{seed}/{epoch}".encode()).hexdigest()[:15], 16)
        fresh = exact.sample(len(train), torch.Generator().manual_seed(key))
        return fresh.to(train.dtype).to(train.device)

    return draw


def _flipped(task: TrainingTask, train: Tensor) -> Callable[[int], Tensor]:
    """Return epoch -> the images, of which a half, another in each epoch, is seen in a mirror.

    Raises:
        ValueError: the samples are not images (channels, height, width).
    """
    if len(task.shape) != 3:
        raise ValueError(f"flips must be of images (channels, height, width), got {task.shape}")
    images = train.view(-1, *task.shape)
    mirrored = images.flip(3).reshape(train.shape)

    def draw(epoch: int) -> Tensor:
        key = int(hashlib.sha256(f"flips/{task.spec.seed}/{epoch}".encode()).hexdigest()[:15], 16)
        chosen = torch.rand(len(train), generator=torch.Generator().manual_seed(key)) < 0.5
        return torch.where(chosen.to(train.device)[:, None], mirrored, train)

    return draw


def train_here(
    task: TrainingTask,
    *,
    device: torch.device | None = None,
    shard: Shard | None = None,
    wrap: Callable[[nn.Module], nn.Module] = lambda module: module,
    reduce: Callable[[Tensor], Tensor] = lambda totals: totals,
    report: Callable[[Progress], None] = lambda progress: None,
    due: Callable[[int], bool] = lambda step: False,
    state: dict[str, Any] | None = None,
) -> TrainingResult:
    """Train a task in this process, on the CPU by default; return weights on the CPU.

    The other options are those of `training.fit`.
    """
    device = device or torch.device("cpu")
    validation, settings = torch.tensor(task.validation).to(device), training_settings(task.spec)
    train: Tensor | ShardedRows
    if isinstance(task.train, ShardedRows):  # read beside the training, never all at once
        train, settings = (
            task.train.on(device),
            replace(settings, prefetch=max(AHEAD, settings.prefetch)),
        )
    elif settings.prefetch:  # batches follow one by one
        train = torch.tensor(task.train)
    else:
        train = torch.tensor(task.train).to(device)
    result = fit(
        task.build().to(device),
        settings,
        _points(task, train),
        validation,
        objective=JointObjective if task.first is None else HeadsObjective,
        shard=shard,
        wrap=wrap,
        reduce=reduce,
        report=report,
        due=due,
        state=state,
    )
    return replace(result, weights={name: each.cpu() for name, each in result.weights.items()})
