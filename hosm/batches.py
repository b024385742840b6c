"""Batches: what each step sees, as a function of (seed, step) alone.

An epoch visits its N points in an order keyed by (seed, epoch); a sample's noise is keyed by
(seed, epoch, global sample index), see `hosm.noise`. A worker takes every `workers`-th sample of
each global batch. So one worker and many see the same batches, and a run resumed at a step sees
what the uninterrupted one saw.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hosm import noise

__all__ = ["Points", "Shard", "batches"]

Points = Callable[[int], Tensor]
"""Epoch -> that epoch's clean points, shape (N, D): fresh draws or always the same data."""


@dataclass(frozen=True)
class Shard:
    """This worker's place: `rank` of `workers`."""

    rank: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.workers:
            raise ValueError(f"rank must lie in 0..{self.workers - 1}, got {self.rank}")


def batches(
    points: Points, batch_size: int, seed: int, shard: Shard, start: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield this worker's part (x, z, v) of each global batch from step `start` on.

    Raises:
        ValueError: the global batch does not divide over the workers or exceeds the data.
    """
    if batch_size % shard.workers:
        raise ValueError(f"batch_size {batch_size} is not divisible by {shard.workers}")
    step, epoch, data = start, -1, torch.empty(0)
    while True:
        size = len(data) if epoch >= 0 else len(points(0))
        per_epoch = size // batch_size
        if per_epoch < 1:
            raise ValueError(f"batch_size {batch_size} exceeds the {size} points")
        if step // per_epoch != epoch:
            epoch = step // per_epoch
            data = points(epoch)
            order = noise.keyed_permutation(len(data), seed=seed, epoch=epoch)
        first = (step % per_epoch) * batch_size
        index = order[first + shard.rank : first + batch_size : shard.workers]
        index = index.to(data.device)
        keys: dict[str, Any] = {"seed": seed, "epoch": epoch, "dtype": data.dtype}
        z = noise.keyed_normal(index, data.shape[1], **keys)
        yield data[index], z, noise.keyed_rademacher(index, data.shape[1], **keys)
        step += 1
