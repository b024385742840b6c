"""Batches: what each step sees, as a function of (seed, step) alone.

An epoch visits its N points in an order keyed by (seed, epoch); a sample's noise is keyed by
(seed, epoch, global sample index), see `hosm.noise`. A worker takes every `workers`-th sample of
each global batch, whose size need not be a multiple of the workers. So one worker and many see the
same batches, and a run resumed at a step sees what the uninterrupted one saw.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from hosm import noise

__all__ = ["Batch", "Points", "Rows", "Shard", "batches", "keyed_batch", "prefetched"]


class Rows(Protocol):
    """N points that need not lie in memory: a few of them are read when they are asked for."""

    device: torch.device

    def __len__(self) -> int:
        """Return N."""

    def __getitem__(self, index: Tensor) -> Tensor:
        """Return the points of n indices, shape (n, D), finite floating numbers."""


Points = Callable[[int], Tensor | Rows]
"""Epoch -> that epoch's clean points, shape (N, D): fresh draws or always the same data."""


@dataclass(frozen=True)
class Shard:
    """This worker's place: `rank` of `workers`.

    Raises:
        ValueError: rank is not one of 0, .., workers - 1.
    """

    rank: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.workers:
            raise ValueError(f"rank must lie in 0..{self.workers - 1}, got {self.rank}")


class Batch(NamedTuple):
    """What the objective sees of n samples.

    Clean points x, standard normal noise z and fair signs v, each of shape (n, D), and uniform
    numbers t, shape (n,), which choose each sample's noise scale where a model covers a range.
    """

    x: Tensor
    z: Tensor
    v: Tensor
    t: Tensor


def keyed_batch(
    x: Tensor | Rows, index: Tensor, seed: int, epoch: int, orthogonal: bool = False
) -> Batch:
    """Return the samples x[index] with the noise that belongs to them in an epoch.

    Args:
        x: clean points, shape (N, D).
        index: global sample indices, shape (n,).
        seed: the run's seed.
        epoch: the pass over the data.
        orthogonal: make the noise of the batch orthogonal (`noise.orthogonalised`).
    """
    rows = x[index]
    z = noise.keyed_normal(index, rows.shape[1], seed=seed, epoch=epoch, dtype=rows.dtype)
    z = noise.orthogonalised(z) if orthogonal else z
    v = noise.keyed_rademacher(index, rows.shape[1], seed=seed, epoch=epoch, dtype=rows.dtype)
    t = noise.keyed_uniform(index, 1, seed=seed, epoch=epoch, dtype=rows.dtype)[:, 0]
    return Batch(rows, z, v, t)


def _checked(data: Tensor | Rows) -> Tensor | Rows:
    """Return an epoch's points if they are finite floating (N, D); rows check what they read."""
    if not isinstance(data, Tensor):
        return data
    if data.ndim != 2 or not data.is_floating_point():
        raise ValueError(f"points must be floating (N, D), got {data.dtype} {tuple(data.shape)}")
    if not torch.isfinite(data).all():
        raise ValueError("points must be finite, got NaN or infinity among them")
    return data


def batches(
    points: Points,
    batch_size: int,
    seed: int,
    shard: Shard,
    start: int,
    orthogonal: bool = False,
) -> Iterator[Batch]:
    """Yield this worker's part of each global batch from step `start` on.

    Args:
        points: epoch -> clean points, shape (N, D).
        batch_size: size of the global batch.
        seed: the run's seed.
        shard: this worker's place.
        start: the first step, from 0.
        orthogonal: make the noise of each global batch orthogonal.

    Raises:
        ValueError: the global batch has less samples than there are workers or more than the data,
            or points are not finite floating numbers of shape (N, D).
    """
    if batch_size < shard.workers:
        raise ValueError(
            f"batch_size must be at least 1 for each of {shard.workers} workers, got {batch_size}"
        )
    step, epoch = start, -1
    data: Tensor | Rows = torch.empty(0)
    while True:
        size = len(data) if epoch >= 0 else len(points(0))
        per_epoch = size // batch_size
        if per_epoch < 1:
            raise ValueError(f"batch_size must be at most the {size} points, got {batch_size}")
        if step // per_epoch != epoch:
            epoch = step // per_epoch
            data = _checked(points(epoch))
            order = noise.keyed_permutation(len(data), seed=seed, epoch=epoch)
        first = (step % per_epoch) * batch_size
        index = order[first : first + batch_size].to(data.device)
        mine = slice(shard.rank, None, shard.workers)
        if orthogonal:  # a property of the global batch: every worker makes all of its noise
            whole = keyed_batch(data, index, seed, epoch, orthogonal)
            yield Batch(*(part[mine] for part in whole))
        else:
            yield keyed_batch(data, index[mine], seed, epoch)
        step += 1


def prefetched(source: Iterator[Batch], count: int, device: torch.device) -> Iterator[Batch]:
    """Yield the batches of a source on a device; a thread has some of them ready ahead.

    Args:
        source: of batches on the CPU, or on the device already; it is used in the thread alone.
        count: batches that are ready at once, at most.
        device: where they are wanted; a GPU fetches them from pinned memory meanwhile.

    Raises:
        Exception: whatever the source raised.
    """
    ready: queue.Queue[Batch | Exception] = queue.Queue(count)
    ended = threading.Event()

    def put(found: Batch | Exception) -> None:
        while not ended.is_set():
            try:
                return ready.put(found, timeout=0.1)
            except queue.Full:
                continue

    def prepare() -> None:
        try:
            while not ended.is_set():
                batch = next(source)
                if device.type == "cuda":
                    on_cpu = batch.x.device.type == "cpu"
                    batch = Batch(*(part.pin_memory() for part in batch)) if on_cpu else batch
                put(Batch(*(part.to(device, non_blocking=True) for part in batch)))
        except Exception as error:
            put(error)

    threading.Thread(target=prepare, daemon=True).start()
    try:
        while True:
            if isinstance(found := ready.get(), Exception):
                raise found
            yield found
    finally:
        ended.set()
