"""Training: the plain PyTorch loop, which knows nothing of Ray.

`fit` minimises the joint objective of Meng, Song, Li and Ermon (NeurIPS 2021, equation 12) with
Adam (or Muon, see `hosm.training.optimizers`), a learning rate that falls linearly to zero
(Defazio et al., "Optimal Linear Decay Learning Rate Schedules and Further Refinements", 2023), an
average of the weights, and early stopping on the validation loss of the averaged weights: DSM of a
joint objective, of heads each its own (see `hosm.training.modules`). A distributed run changes it
at three points only: the shard of each global batch (`shard`), the module that averages gradients
(`wrap`) and the mean of the validation metrics over workers (`reduce`).

What a step sees depends on (seed, step) alone: the order of the samples is keyed by (seed,
epoch), their noise by (seed, epoch, global sample index). A run resumed from `TrainingState`
therefore continues as if it had never stopped.
"""

import copy
import hashlib
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from hosm.checks import values_unread
from hosm.training.keyed_batches import Batch, Points, Shard, batches, keyed_batch, prefetched
from hosm.training.modules import JointObjective
from hosm.training.optimizers import Optimizers
from hosm.training.settings import Settings

__all__ = ["Diverged", "Progress", "TrainingResult", "fit"]

NETWORKS = ("trunk", "second")  # attributes of a score model
WITH_STATE_DICT = ("objective", "averaged", "optimizers")  # attributes of a run
SAVED_VALUES = {  # name in a checkpoint -> attribute of a run
    "step": "step",
    "stale": "validations_without_gain",
    "finished": "finished",
    "best": "best",
    "history": "history",
}
VALIDATION_EPOCH = -1  # the epoch that keys the fixed noise of the validation points


class Diverged(FloatingPointError):
    """A loss is no longer finite; `last` holds the metrics of the last finite validation."""

    last: dict[str, float]


@dataclass
class Progress:
    """What `fit` reports.

    `metrics` are means over all workers, and empty between validations; `state` returns
    everything that a resumed run needs, `weights` the averaged weights as they are now.
    """

    step: int
    metrics: dict[str, float]
    state: Callable[[], dict[str, Any]]
    weights: Callable[[], dict[str, Tensor]]


@dataclass
class TrainingResult:
    """The best averaged weights, as a state dict of the model, and how they were reached.

    `best_steps` maps the name of each watched term to the step from which its part of the weights
    was taken, and `best_step` is the latest of these. `metrics` holds for a watched term its value
    at its own best step, and for any other term its value at the best step of the first watched
    one. `seconds_per_step` is wall time from this process's first step on, validations included.
    """

    weights: dict[str, Tensor]
    step: int
    best_step: int
    metrics: dict[str, float]
    history: list[dict[str, float]] = field(default_factory=list)
    best_steps: dict[str, int] = field(default_factory=dict)
    seconds_per_step: float = math.nan


def validate(objective: Any, x: Tensor, settings: Settings, shard: Shard) -> Tensor:  # noqa: ANN401
    """Return the sums of the terms and the count over this worker's validation points.

    The noise is the same at each call. Points are taken in blocks of the batch size.
    """
    totals = torch.zeros(1, dtype=torch.float64, device=x.device)
    index = torch.arange(shard.rank, len(x), shard.workers, device=x.device)
    with torch.no_grad():
        for block in index.split(settings.batch_size):
            terms = objective(*keyed_batch(x, block, settings.seed, VALIDATION_EPOCH))
            totals = totals + torch.cat([terms, terms.new_ones(1)]).double() * len(block)
    return totals


def _share_of_newest(width: float) -> Callable[[int], float]:
    """Return step, from 1 -> share of its weights in the average, whose window grows with the run.

    Step i of t has a weight proportional to i^gamma, so that the average is of late steps at
    whatever step it is taken: power function averaging, Karras et al., "Analyzing and Improving
    the Training Dynamics of Diffusion Models", CVPR 2024, section 3.1.
    """
    if width == 0:
        return lambda step: 1.0
    cubic = [1, 7, 16 - width**-2, 12 - width**-2]  # of gamma, from width^2 of that weight
    gamma = float(np.roots(cubic).real.max())
    return lambda step: 1 - (1 - 1 / step) ** (gamma + 1)


def _copied(value: Any) -> Any:  # noqa: ANN401
    """Return a copy, with tensors on the CPU, of tensors, numbers and texts in dicts and lists."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_copied(each) for each in value)
    return value


def _drop_key(seed: int, step: int, rank: int) -> int:
    """Return what keys the features that dropout drops in a step of a worker."""
    digest = hashlib.sha256(f"{seed}/{step}/{rank}".encode()).digest()
    return int.from_bytes(digest[:7])


def _arranged(model: nn.Module, settings: Settings) -> nn.Module:
    """Return the model with its networks compiled and its weights laid out as is asked for."""
    if settings.channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if settings.compiled:
        owned = [getattr(each, name, None) for each in model.modules() for name in NETWORKS]
        for network in {id(each): each for each in owned if isinstance(each, nn.Module)}.values():
            network.compile()
    return model


class RunState:
    """The mutable state of one run: weights, average, optimiser, schedule, best so far.

    `sum_of_terms` is over this worker's batches since the last validation, `sums_of_all` over
    those of each worker, shape (workers, terms), as they were at the last report.
    """

    def __init__(
        self,
        objective: nn.Module,
        settings: Settings,
        wrap: Callable[[nn.Module], nn.Module],
        shard: Shard | None = None,
    ) -> None:
        self.settings, self.objective, self.shard = settings, objective, shard or Shard()
        self.names = cast("tuple[str, ...]", objective.names)
        self.weights: Any = objective.weights
        self.watched: dict[str, str] = getattr(objective, "watched", {self.names[0]: ""})
        self.averaged: Any = copy.deepcopy(objective).eval()
        self.drops = any(isinstance(m, nn.Dropout) and m.p > 0 for m in objective.modules())
        self.share_of_newest = _share_of_newest(settings.average_width)
        self.wrapped = wrap(self.objective)
        self.optimizers = Optimizers(objective, settings)
        self.step, self.validations_without_gain, self.finished = 0, 0, False
        start = {"step": 0, "metrics": {}}
        self.best: dict[str, dict[str, Any]] = {
            name: {**start, "weights": self.averaged_weights(part)}
            for name, part in self.watched.items()
        }
        self.history: list[dict[str, float]] = []
        self.sum_of_terms = torch.zeros((), dtype=torch.float64)  # once there are any: of each
        self.sums_of_all = self.sum_of_terms

    def averaged_weights(self, part: str = "") -> dict[str, Tensor]:
        """Return a copy of the averaged weights of the model, of those whose names begin so."""
        state = self.averaged.model.state_dict()
        own = {name: value for name, value in state.items() if name.startswith(part)}
        return {name: value.detach().clone() for name, value in own.items()}

    def update(self, batch: Batch) -> None:
        """Take one optimiser step, without reading a value from the device.

        Gradients are averaged over workers alike, so a worker with more samples than others has
        terms that weigh more.
        """
        if self.drops:
            torch.manual_seed(_drop_key(self.settings.seed, self.step, self.shard.rank))
        self.optimizers.zero_grad()
        parts = list(zip(*(each.chunk(self.settings.accumulate) for each in batch), strict=True))
        found = []
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            with nullcontext() if last else getattr(self.wrapped, "no_sync", nullcontext)():
                found.append(self._backward(Batch(*part)))
        if self.settings.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.objective.parameters(), self.settings.clip_norm)
        self.optimizers.step()
        self.step += 1
        self._average()
        self.sum_of_terms = self.sum_of_terms.to(found[0].device) + sum(found)

    def _backward(self, part: Batch) -> Tensor:
        """Add the gradients of a part of the batch; return its share of the terms."""
        weight = len(part.x) * self.shard.workers / self.settings.batch_size
        with values_unread():
            terms = self.wrapped(*part) * weight
        sum(w * term for w, term in zip(self.weights, terms, strict=True)).backward()
        return terms.detach()

    @torch.no_grad()
    def _average(self) -> None:
        """Take the weights of this step into the average; buffers are those of this step."""
        pair = self.averaged, self.objective
        averaged, newest = (list(module.parameters()) for module in pair)
        torch._foreach_lerp_(averaged, newest, self.share_of_newest(self.step))
        for old, new in zip(*(module.buffers() for module in pair), strict=True):
            old.copy_(new)

    def gather(self, reduce: Callable[[Tensor], Tensor]) -> None:
        """Note the sums of all workers, each of which stays as it is."""
        rows = self.sum_of_terms.new_zeros(self.shard.workers, len(self.names))
        rows[self.shard.rank] = self.sum_of_terms
        self.sums_of_all = reduce(rows)

    def record(self, metrics: dict[str, float]) -> None:
        """Keep the averaged weights of each part that is the best so far; decide whether to stop.

        Raises:
            Diverged: a loss is not finite.
        """
        self.sum_of_terms = torch.zeros_like(self.sum_of_terms)
        self.sums_of_all = self.sum_of_terms.expand(self.shard.workers, -1)
        if not all(map(math.isfinite, metrics.values())):
            error = Diverged(f"training diverged at step {self.step}: {metrics}")
            error.last = self.history[-1] if self.history else {}
            raise error
        self.history.append({"step": self.step, **metrics})
        patience = self.settings.patience
        better = [self._is_better(name, metrics) for name in self.watched]
        for gained, (name, part) in zip(better, self.watched.items(), strict=True):
            if gained or patience is None:
                weights = self.averaged_weights(part)
                self.best[name] = {"step": self.step, "metrics": metrics, "weights": weights}
        self.validations_without_gain = 0 if any(better) else self.validations_without_gain + 1
        exhausted = patience is not None and self.validations_without_gain >= patience
        self.finished = exhausted or self.step >= self.settings.max_steps

    def _is_better(self, name: str, metrics: dict[str, float]) -> bool:
        """Say whether the validation loss of a watched term is the smallest so far."""
        watched = f"validation_{name}"
        return metrics[watched] < self.best[name]["metrics"].get(watched, math.inf)

    def _best_metrics(self) -> dict[str, float]:
        """Return the metrics of each watched term at its best, of others at the first one's."""
        metrics = dict(self.best[next(iter(self.watched))]["metrics"])
        for name, best in self.best.items():
            own = (f"train_{name}", f"validation_{name}")
            metrics |= {key: best["metrics"][key] for key in own}
        return metrics

    def state(self) -> dict[str, Any]:
        """Return a copy of everything that a resumed run needs."""
        state = {name: getattr(self, name).state_dict() for name in WITH_STATE_DICT}
        state |= {name: getattr(self, attribute) for name, attribute in SAVED_VALUES.items()}
        return _copied({**state, "running": self.sums_of_all, "rng": torch.get_rng_state()})

    def result(self, seconds_per_step: float) -> TrainingResult:
        """Return the best averaged weights and how they were reached."""
        steps = {name: best["step"] for name, best in self.best.items()}
        parts = [best["weights"] for best in self.best.values()]
        return TrainingResult(
            weights={name: value for part in parts for name, value in part.items()},
            step=self.step,
            best_step=max(steps.values()),
            metrics=self._best_metrics(),
            history=self.history,
            best_steps=steps,
            seconds_per_step=seconds_per_step,
        )

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from the state of an earlier run, which stays as it is.

        As many workers as wrote it continue with their own sums, others each with the mean.
        """
        state = copy.deepcopy(state)  # the optimiser would write into the tensors it is given
        for name in WITH_STATE_DICT:
            getattr(self, name).load_state_dict(state[name])
        for name, attribute in SAVED_VALUES.items():
            setattr(self, attribute, state[name])
        self.sums_of_all, workers = state["running"], self.shard.workers
        alike = len(self.sums_of_all) == workers
        self.sum_of_terms = (
            self.sums_of_all[self.shard.rank] if alike else self.sums_of_all.mean(0)
        )
        torch.set_rng_state(state["rng"])


def _validate_run(
    run: RunState, x: Tensor, shard: Shard, reduce: Callable[[Tensor], Tensor]
) -> None:
    """Compute a run's metrics on validation points x and its batches since the last validation."""
    steps = (run.step - 1) % run.settings.validate_every + 1
    judged = validate(run.averaged, x, run.settings, shard)
    totals = reduce(torch.cat([judged, run.sum_of_terms / (steps * shard.workers)]))
    size = len(run.names)
    means = [*totals[size + 1 :].tolist(), *(totals[:size] / totals[size]).tolist()]
    labels = [f"{part}_{name}" for part in ("train", "validation") for name in run.names]
    run.record(dict(zip(labels, means, strict=True)))


def _check_validation(x: Tensor, shard: Shard) -> None:
    """Raise ValueError unless validation points x, shape (M, D), are finite and suffice."""
    if len(x) < shard.workers or not torch.isfinite(x).all():
        raise ValueError(
            f"validation points must be finite and one or more for each of {shard.workers} "
            f"workers, got shape {tuple(x.shape)}"
        )


def fit(
    model: nn.Module,
    settings: Settings,
    points: Points,
    validation: Tensor,
    *,
    shard: Shard | None = None,
    objective: Callable[[Any, Settings], nn.Module] = JointObjective,
    wrap: Callable[[nn.Module], nn.Module] = lambda module: module,
    reduce: Callable[[Tensor], Tensor] = lambda totals: totals,
    report: Callable[[Progress], None] = lambda progress: None,
    due: Callable[[int], bool] = lambda step: False,
    state: dict[str, Any] | None = None,
) -> TrainingResult:
    """Train a score model; its own weights change, the averaged ones are returned.

    Args:
        model: a score model.
        settings: how to train it; their `sigma` must be the model's.
        points: epoch -> clean points, shape (N, D).
        validation: held-out clean points, shape (M, D).
        shard: this worker's place.
        objective: makes the module of the loss from the model and the settings.
        wrap: makes the module that averages gradients over workers.
        reduce: sums a vector over workers.
        report: called at each validation, and at steps that are due.
        due: whether to report a step between validations; it must agree on all workers.
        state: of an interrupted run, to continue it.

    Raises:
        ValueError: data that are empty or not finite, or a batch that does not fit them.
        Diverged: a loss is not finite.
    """
    shard = shard or Shard()
    _check_validation(validation, shard)
    run = RunState(objective(_arranged(model, settings), settings), settings, wrap, shard)
    if state is not None:
        run.resume(state)
    size, seed, orthogonal = settings.batch_size, settings.seed, settings.orthogonal_noise
    source = batches(points, size, seed, shard, start=run.step, orthogonal=orthogonal)
    if settings.prefetch:
        source = prefetched(source, settings.prefetch, validation.device)
    first, began = run.step + 1, math.nan
    while not run.finished:
        run.update(next(source))
        began = time.perf_counter() if run.step == first else began
        metrics: dict[str, float] = {}
        if run.step % settings.validate_every == 0 or run.step >= settings.max_steps:
            _validate_run(run, validation, shard, reduce)
            metrics = run.history[-1]
        elif due(run.step):
            run.gather(reduce)
        else:
            continue
        report(Progress(run.step, metrics, run.state, run.averaged_weights))
    pace = (time.perf_counter() - began) / max(run.step - first, 1)
    return run.result(pace)
