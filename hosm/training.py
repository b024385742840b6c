"""Training: the plain PyTorch loop, which knows nothing of Ray.

`fit` minimises the joint objective of Meng, Song, Li and Ermon (NeurIPS 2021, equation 12) with
Adam, a cosine schedule, an exponential moving average (EMA) of the weights and early stopping
on the validation DSM loss of the averaged weights. A distributed run changes it at three points
only: the shard of each global batch (`shard`), the module that averages gradients (`wrap`) and
the mean of the validation metrics over workers (`reduce`).

What a step sees depends on (seed, step) alone: the order of the samples is keyed by (seed,
epoch), their noise by (seed, epoch, global sample index). A run resumed from `TrainingState`
therefore continues as if it had never stopped.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from hosm import noise
from hosm.batches import Points, Shard, batches
from hosm.objectives import TARGETS, Target, Terms, VarianceReduction, dsm, joint_terms

__all__ = [
    "JointObjective",
    "Progress",
    "Settings",
    "TrainingResult",
    "fit",
]

STATEFUL = ("objective", "averaged", "optimizer", "scheduler")
PLAIN = ("step", "stale", "finished", "best", "history")
VALIDATION_EPOCH = -1  # the epoch that keys the fixed noise of the validation points


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a model is trained.

    Args:
        sigma: noise scale, above 0.
        target: `moment`, `residual` or `jacobian`; `dsm` trains s1 alone.
        diagonal: fit the diagonal of s2 alone.
        variance_reduction: None, `control` or `antithetic`.
        gamma: weight of DSM beside the second-order term.
        second_order_share: share of each batch that the second-order term is evaluated on.
        jvp_step: step of the difference for J v; None for exact forward mode.
        learning_rate: of Adam in its first step; it decays to zero along a cosine.
        batch_size: size of the global batch, over all workers.
        max_steps: optimiser steps.
        ema_decay: decay of the averaged weights; smaller in the first steps.
        clip_norm: bound on the gradient's norm; None for no bound.
        validate_every: steps between validations.
        patience: validations without improvement before the run stops; None for no early stop.
        seed: keys the order of the samples and their noise.
    """

    sigma: float
    target: str = "jacobian"
    diagonal: bool = False
    variance_reduction: VarianceReduction = "antithetic"
    gamma: float = 1.0
    second_order_share: float = 1.0
    jvp_step: float | None = None
    learning_rate: float = 2e-3
    batch_size: int = 128
    max_steps: int = 4000
    ema_decay: float = 0.999
    clip_norm: float | None = None
    validate_every: int = 500
    patience: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        noise.check_sigma(self.sigma)
        if self.target not in (*TARGETS, "dsm"):
            raise ValueError(f"target must be one of {', '.join(TARGETS)}, dsm; got {self.target}")
        if not 0 < self.second_order_share <= 1:
            raise ValueError(
                f"second_order_share must lie in (0, 1], got {self.second_order_share}"
            )
        for name in ("batch_size", "max_steps", "validate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


class JointObjective(nn.Module):
    """The model and its loss in one forward pass, so that DDP can wrap both."""

    model: Any

    def __init__(self, model: nn.Module, settings: Settings) -> None:
        super().__init__()
        self.model, self.settings = model, settings

    def forward(self, x: Tensor, z: Tensor, v: Tensor) -> Terms:
        """Return the terms at clean points x, noise z and signs v, each of shape (n, D)."""
        share = 0 if self.settings.target == "dsm" else self.settings.second_order_share
        count, parts = math.ceil(share * len(x)), []
        if count:
            parts.append((count, self._joint(x[:count], z[:count], v[:count])))
        if count < len(x):
            parts.append((len(x) - count, self._first(x[count:], z[count:])))
        first = torch.stack([size * terms.first for size, terms in parts]).sum() / len(x)
        return Terms(first, parts[0][1].second)

    def _first(self, x: Tensor, z: Tensor) -> Terms:
        s = self.settings
        first = dsm(self.model.score, x, s.sigma, s.variance_reduction, z=z)
        return Terms(first, torch.zeros_like(first))

    def _joint(self, x: Tensor, z: Tensor, v: Tensor) -> Terms:
        s = self.settings
        target: Target = s.target  # type: ignore[assignment]
        options = (s.sigma, target, s.variance_reduction, s.diagonal)
        return joint_terms(self.model, x, *options, z=z, v=v, jvp_step=s.jvp_step)


@dataclass
class Progress:
    """What `fit` reports at each validation.

    `metrics` are means over all workers; `state` returns everything that a resumed run needs.
    """

    step: int
    metrics: dict[str, float]
    state: Callable[[], dict[str, Any]]


@dataclass
class TrainingResult:
    """The best averaged weights, as a state dict of the model, and how they were reached."""

    weights: dict[str, Tensor]
    step: int
    best_step: int
    metrics: dict[str, float]
    history: list[dict[str, float]] = field(default_factory=list)


def validate(objective: nn.Module, x: Tensor, settings: Settings, shard: Shard) -> Tensor:
    """Return (sum of DSM, sum of second-order loss, count) over this worker's validation points.

    The noise is the same at each call. Points are taken in blocks of the batch size.
    """
    totals = torch.zeros(3, dtype=torch.float64, device=x.device)
    index = torch.arange(shard.rank, len(x), shard.workers, device=x.device)
    keys: dict[str, Any] = {"seed": settings.seed, "epoch": VALIDATION_EPOCH, "dtype": x.dtype}
    with torch.no_grad():
        for block in index.split(settings.batch_size):
            z = noise.keyed_normal(block, x.shape[1], **keys)
            v = noise.keyed_rademacher(block, x.shape[1], **keys)
            terms = objective(x[block], z, v)
            totals += torch.stack([*terms, terms.first.new_ones(())]).double() * len(block)
    return totals


def _average(decay: float) -> Callable[..., None]:
    """Return the EMA update; the decay grows from .1 so that the first steps are forgotten."""

    def update(averaged: list[Tensor], current: list[Tensor], count: Tensor | int) -> None:
        early = (1 + int(count)) / (10 + int(count))
        torch._foreach_lerp_(averaged, current, 1 - min(decay, early))

    return update


def _schedule(settings: Settings) -> Callable[[int], float]:
    """Return step -> factor of the learning rate: half a cosine, from one to zero."""
    return lambda step: 0.5 * (1 + math.cos(math.pi * min(1.0, step / settings.max_steps)))


class _Run:
    """The mutable state of one run: weights, average, optimiser, schedule, best so far."""

    def __init__(
        self, model: nn.Module, settings: Settings, wrap: Callable[[nn.Module], nn.Module]
    ) -> None:
        self.settings = settings
        self.objective = JointObjective(model, settings)
        self.averaged = AveragedModel(self.objective, multi_avg_fn=_average(settings.ema_decay))
        self.wrapped = wrap(self.objective)
        self.optimizer = torch.optim.Adam(model.parameters(), settings.learning_rate, fused=True)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, _schedule(settings))
        self.step, self.stale, self.finished = 0, 0, False
        self.best: dict[str, Any] = {"step": 0, "metrics": {}, "weights": self._weights()}
        self.history: list[dict[str, float]] = []

    def _weights(self) -> dict[str, Tensor]:
        averaged: Any = self.averaged.module
        state = averaged.model.state_dict()
        return {name: value.detach().clone() for name, value in state.items()}

    def update(self, x: Tensor, z: Tensor, v: Tensor) -> Terms:
        """Take one optimiser step."""
        terms = self.wrapped(x, z, v)
        self.optimizer.zero_grad(set_to_none=True)
        (terms.second + self.settings.gamma * terms.first).backward()
        if self.settings.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.objective.parameters(), self.settings.clip_norm)
        self.optimizer.step()
        self.scheduler.step()
        self.averaged.update_parameters(self.objective)
        self.step += 1
        return terms

    def judge(self, metrics: dict[str, float]) -> None:
        """Keep the averaged weights if they are the best so far; decide whether to stop.

        Raises:
            FloatingPointError: the validation loss is not finite.
        """
        if not all(map(math.isfinite, metrics.values())):
            raise FloatingPointError(f"training diverged at step {self.step}: {metrics}")
        self.history.append({"step": self.step, **metrics})
        patience, loss = self.settings.patience, metrics["validation_dsm"]
        better = loss < self.best["metrics"].get("validation_dsm", math.inf)
        if better or patience is None:
            self.best = {"step": self.step, "metrics": metrics, "weights": self._weights()}
        self.stale = 0 if better else self.stale + 1
        exhausted = patience is not None and self.stale >= patience
        self.finished = exhausted or self.step >= self.settings.max_steps

    def state(self) -> dict[str, Any]:
        """Return a copy of everything that a resumed run needs."""
        state = {name: getattr(self, name).state_dict() for name in STATEFUL}
        state |= {name: getattr(self, name) for name in PLAIN}
        return copy.deepcopy({**state, "rng": torch.get_rng_state()})

    def resume(self, state: dict[str, Any]) -> None:
        """Take up the state of an earlier run."""
        for name in STATEFUL:
            getattr(self, name).load_state_dict(state[name])
        for name in PLAIN:
            setattr(self, name, copy.deepcopy(state[name]))
        torch.set_rng_state(state["rng"])


def fit(
    model: nn.Module,
    settings: Settings,
    points: Points,
    validation: Tensor,
    *,
    shard: Shard | None = None,
    wrap: Callable[[nn.Module], nn.Module] = lambda module: module,
    reduce: Callable[[Tensor], Tensor] = lambda totals: totals,
    report: Callable[[Progress], None] = lambda progress: None,
    state: dict[str, Any] | None = None,
) -> TrainingResult:
    """Train a score model; its own weights change, the averaged ones are returned.

    Args:
        model: a score model.
        settings: how to train it.
        points: epoch -> clean points, shape (N, D).
        validation: held-out clean points, shape (M, D).
        shard: this worker's place.
        wrap: makes the module that averages gradients over workers.
        reduce: sums a vector over workers.
        report: called at each validation.
        state: of an interrupted run, to continue it.

    Raises:
        ValueError: data that are empty or not finite, or a batch that does not fit them.
        FloatingPointError: the validation loss is not finite.
    """
    if len(validation) == 0 or not torch.isfinite(validation).all():
        raise ValueError(f"validation points must be finite, got shape {tuple(validation.shape)}")
    shard = shard or Shard()
    run = _Run(model, settings, wrap)
    if state is not None:
        run.resume(state)
    running = torch.zeros(2, dtype=torch.float64, device=validation.device)
    source = batches(points, settings.batch_size, settings.seed, shard, run.step)
    while not run.finished:
        terms = run.update(*next(source))
        running += torch.stack(terms).detach()
        if run.step % settings.validate_every and run.step < settings.max_steps:
            continue
        totals = reduce(validate(run.averaged, validation, settings, shard))
        count = (run.step - 1) % settings.validate_every + 1
        names = ("train_dsm", "train_second", "validation_dsm", "validation_second")
        values = [*(running / count).tolist(), *(totals[:2] / totals[2]).tolist()]
        run.judge(dict(zip(names, values, strict=True)))
        report(Progress(run.step, run.history[-1], run.state))
        running.zero_()
    return TrainingResult(
        run.best["weights"], run.step, run.best["step"], run.best["metrics"], run.history
    )
