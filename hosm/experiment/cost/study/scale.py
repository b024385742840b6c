r"""Strong and weak scaling for 1 to 64 workers, from the times of one: by formula, by simulation.

A step of P workers with b samples each is taken to last

$$t(P, b) = \max\{(c_0 + c_1 b) (1 + s m_P) k_P, \; b l, \; P b w / R\} + a_P,$$

computation c_0 + c_1 b with a relative spread s from step to step, of which the largest of P
counts (m_P is the mean of the largest of P standard normal numbers), times
k_P = max(1, P / processors) where workers share processors; reading of l seconds a sample, beside
the computation; a storage that gives R bytes a second to all, w bytes a sample; and an all-reduce,
of which nothing is hidden:

$$a_P = 2 (P - 1) / P \cdot 4 N / B + 2 (P - 1) L.$$

The simulation lets each worker compute, read ahead and wait by itself, with random times of the
same means: it knows queues and stragglers, and checks what the formula leaves out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

__all__ = ["Costs", "Link", "fit_computation", "largest_of", "scaling", "seconds_of", "simulated"]

STATE_SECONDS = 20.0  # between two states of a run


@dataclass(frozen=True)
class Link:
    """What joins up to `most` workers: bytes a second of an all-reduce, seconds of latency."""

    most: int
    bandwidth: float
    latency: float


@dataclass(frozen=True)
class Costs:
    """What one worker costs, in seconds, bytes and numbers.

    `fixed` and `sample` are the computation of a step and of each of its samples, `spread` the
    standard deviation of a step over its mean, `reading` the seconds a sample takes to be read,
    `size` its bytes, `storage` the bytes a second that all workers get, `numbers` the float32
    numbers that are added up, `links` by rising size, and `processors` how many workers have one
    of their own. A worker dies once in `lifetime` seconds, and a start takes `restart` seconds.
    """

    fixed: float
    sample: float
    spread: float
    numbers: int
    links: tuple[Link, ...]
    reading: float = 0.0
    size: float = 0.0
    storage: float = math.inf
    processors: float = math.inf
    lifetime: float = math.inf
    restart: float = 0.0


def largest_of(count: int) -> float:
    """Return the mean of the largest of so many standard normal numbers."""
    grid = np.linspace(-9.0, 9.0, 4001)
    below = np.array([0.5 * math.erfc(-each / math.sqrt(2)) for each in grid])
    density = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
    return float(np.trapezoid(grid * count * density * below ** (count - 1), grid))


def fit_computation(sizes: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Return the seconds of a step that are fixed and those of each sample.

    Args:
        sizes: samples of the steps that were timed.
        seconds: of each of these steps; relative errors count alike.
    """
    weights = 1 / np.asarray(seconds)
    design = np.stack([np.ones(len(sizes)), np.asarray(sizes, float)], 1) * weights[:, None]
    fixed, sample = np.linalg.lstsq(design, np.ones(len(sizes)), rcond=None)[0]
    if fixed < 0:  # a line through the origin
        return 0.0, float(design[:, 1].sum() / (design[:, 1] ** 2).sum())
    return float(fixed), float(sample)


def _all_reduce(costs: Costs, workers: int) -> float:
    """Return the seconds of adding up the gradients of all workers."""
    if workers == 1:
        return 0.0
    link = next((each for each in costs.links if each.most >= workers), costs.links[-1])
    volume = 2 * (workers - 1) / workers * 4 * costs.numbers
    return volume / link.bandwidth + 2 * (workers - 1) * link.latency


def seconds_of(costs: Costs, workers: int, share: float) -> dict[str, float]:
    """Return the seconds of the parts of a step, by the formula.

    Args:
        costs: of one worker.
        workers: P.
        share: b, samples of each worker.

    Returns:
        Computation, waiting for the slowest, reading, storage, all-reduce and the whole step.
    """
    shared = max(1.0, workers / costs.processors)
    alone = (costs.fixed + costs.sample * share) * shared
    waiting = alone * costs.spread * largest_of(workers)
    reading, storage = share * costs.reading, workers * share * costs.size / costs.storage
    summed = _all_reduce(costs, workers)
    parts = {"computation": alone, "waiting": waiting, "reading": reading, "storage": storage}
    step = max(alone + waiting, reading, storage) + summed
    return {**parts, "all_reduce": summed, "step": step}


def simulated(
    costs: Costs, workers: int, share: float, steps: int = 400, ahead: int = 2, seed: int = 0
) -> float:
    """Return the mean seconds of a step of workers that compute, read ahead and wait.

    Args:
        costs: of one worker.
        workers: P.
        share: b, samples of each worker.
        steps: that are simulated; the first tenth does not count.
        ahead: batches that a worker has read before they are used, at most.
        seed: of the random times, which are log-normal for computation and exponential for
            reading.
    """
    draw = np.random.default_rng(seed)
    parts = seconds_of(costs, workers, share)
    width = math.sqrt(math.log1p(costs.spread**2))
    shape = (steps, workers)
    computing = parts["computation"] * draw.lognormal(-(width**2) / 2, width, shape)
    reading = draw.exponential(max(parts["reading"], parts["storage"]), shape)
    ready = np.zeros(shape)  # when each batch has been read
    begun, now, ends = np.zeros(shape), 0.0, []
    for step in range(steps):
        room = begun[step - ahead - 1] if step > ahead else np.zeros(workers)
        last = ready[step - 1] if step else np.zeros(workers)
        ready[step] = np.maximum(last, room) + reading[step]
        begun[step] = np.maximum(ready[step], now)
        now = float((begun[step] + computing[step]).max()) + parts["all_reduce"]
        ends.append(now)
    first = steps // 10
    return (ends[-1] - ends[first]) / (steps - 1 - first)


def _kept(costs: Costs, workers: int) -> float:
    """Return the share of the time that is not lost to workers that die."""
    lost = STATE_SECONDS / 2 + costs.restart
    return 1 / (1 + workers / costs.lifetime * lost)


def scaling(costs: Costs, samples: int, counts: Sequence[int], weak: bool) -> pd.DataFrame:
    """Return a row for each number of workers.

    `limit` names the largest part of a step, `efficiency` is the speed over that of as many
    workers that nothing holds up, and `kept` the share of time that dying workers leave.

    Args:
        costs: of one worker.
        samples: of a step: of each worker if `weak`, else of all together.
        counts: numbers of workers.
        weak: whether the samples of a step grow with the workers.
    """
    alone = samples / seconds_of(costs, 1, samples)["step"]
    rows = []
    for workers in counts:
        share = samples if weak else samples / workers
        parts = seconds_of(costs, workers, share)
        step = parts.pop("step")
        pace = workers * share / step
        rows.append(
            {
                "workers": workers,
                "samples_each": share,
                "step": step,
                "simulated": simulated(costs, workers, share),
                "samples_per_second": pace,
                "speedup": pace / alone,
                "efficiency": pace / alone / workers,
                "limit": max(parts, key=lambda name: parts[name]),
                "kept": _kept(costs, workers),
            }
        )
    return pd.DataFrame(rows)
