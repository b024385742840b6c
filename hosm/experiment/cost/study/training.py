"""What training costs: a second-order loss against its dense twin, a joint step against DSM.

The dense losses stand here as one would write them from the paper, with n matrices of D x D; they
are the baseline, and agree with the structured ones. Stages keep freed memory
(`process.keep_freed_memory`), which serves the dense losses most: as the C library comes, a large
part of their time goes into fresh pages.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from hosm.experiment.settings import Backbone, ModelParams, SpeedParams
from hosm.experiment.shared.stopwatch import (
    Work,
    devices,
    peak_bytes,
    summary,
    threads,
    timed_in_turn,
)
from hosm.experiment.train.models import build_model
from hosm.experiment.train.training_task import training_settings
from hosm.objectives import VarianceReduction, jacobian, moment
from hosm.operators import DiagonalPlusLowRank
from hosm.training import Batch, JointObjective

__all__ = ["dense_jacobian", "dense_moment", "model_params", "step_of", "time_training"]

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]

SIGMA = 0.5
RANK = 50
STEP_BATCH = 40


def dense_moment(s1: Tensor, s2: Tensor, z: Tensor, sigma: float, antithetic: bool) -> Tensor:
    """Return the objective of theorem 2 from dense matrices, without its constant, a scalar.

    Args:
        s1: first-order scores at x + sigma z, and with `antithetic` at x - sigma z and x after
            them, shape (n, D) or (3 n, D).
        s2: second-order scores there, shape (n, D, D) or (3 n, D, D).
        z: standard normal noise, shape (n, D).
        sigma: noise scale.
        antithetic: reduce the variance as in section 4.2.
    """
    psi = s2 + s1.unsqueeze(2) * s1.unsqueeze(1)
    target = (torch.eye(z.shape[1], device=z.device) - z.unsqueeze(2) * z.unsqueeze(1)) / sigma**2
    if not antithetic:
        return (psi * (psi + 2 * target)).sum((1, 2)).mean()
    plus, minus, clean = psi.split(len(z))
    even = (plus.square() + minus.square()).sum((1, 2)) / 2
    return (even + ((plus + minus - 2 * clean) * target).sum((1, 2))).mean()


def dense_jacobian(s2: Tensor, v: Tensor, product: Tensor) -> Tensor:
    """Return the `jacobian` objective from dense s2, shape (n, D, D); the rest as its own."""
    return ((s2 @ v.unsqueeze(2)).squeeze(2) - product).square().sum(1).mean()


def _losses(
    size: int, dimension: int, rank: int, device: torch.device
) -> Iterator[tuple[str, str, dict[str, Work]]]:
    """Yield target, variance reduction, and the losses with their gradients, by method."""
    draw = partial(torch.randn, generator=torch.Generator(device).manual_seed(0), device=device)
    z, product = draw(size, dimension), draw(size, dimension)
    v = product.sign()

    def work(points: int, loss: Loss) -> Work:
        s1 = draw(points * size, dimension).requires_grad_()
        alpha = draw(points * size, dimension).requires_grad_()
        beta = draw(points * size, rank, dimension).requires_grad_()
        parts = (s1, alpha, beta)
        return lambda: torch.autograd.grad(loss(*parts), parts, allow_unused=True)

    def ours(s1: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        return jacobian(DiagonalPlusLowRank(alpha, beta.mT), v, product, False).mean()

    def dense(s1: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        return dense_jacobian(torch.diag_embed(alpha) + beta.mT @ beta, v, product)

    yield "jacobian", "none", {"structured": work(1, ours), "dense": work(1, dense)}
    for name, points in (("none", 1), ("antithetic", 3)):
        works = {
            method: work(points, partial(_moment, method, z, name == "antithetic"))
            for method in ("structured", "dense")
        }
        yield "moment", name, works


def _moment(
    method: str, z: Tensor, antithetic: bool, s1: Tensor, alpha: Tensor, beta: Tensor
) -> Tensor:
    """Return the `moment` objective by one of the two methods, a scalar."""
    if method == "dense":
        s2 = torch.diag_embed(alpha) + beta.mT @ beta
        return dense_moment(s1, s2, z, SIGMA, antithetic)
    reduction: VarianceReduction = "antithetic" if antithetic else None
    return moment(s1, DiagonalPlusLowRank(alpha, beta.mT), z, SIGMA, reduction, False).mean()


def _time_losses(params: SpeedParams, device: torch.device) -> Iterator[dict[str, Any]]:
    for dimension, size in params.dense:
        rank = min(RANK, dimension)
        for target, reduction, works in _losses(size, dimension, rank, device):
            facts = {"part": "loss", "network": "none", "dimension": dimension, "batch": size}
            facts |= {"rank": rank, "target": target, "variance_reduction": reduction}
            times = timed_in_turn(works, params.repeats, device)
            for name, work in works.items():
                yield {
                    **facts,
                    "method": name,
                    **summary(times[name]),
                    **peak_bytes(work, device),
                }


def model_params(
    backbone: Backbone, rank: int, target: str, variance_reduction: str = "none"
) -> ModelParams:
    """Return settings of a model that is timed and never trained to the end."""
    denoiser = backbone.kind == "unet" and target != "dsm"
    return ModelParams(
        backbone=backbone,
        sigma=SIGMA,
        rank=rank,
        parametrisation="denoiser" if denoiser else "score",
        psd=denoiser,
        target=target,  # type: ignore[arg-type]
        variance_reduction=variance_reduction,  # type: ignore[arg-type]
        learning_rate=1e-4,
        batch_size=1,
        max_steps=1,
        average_width=0.0,
        validate_every=1,
    )


def step_of(
    spec: ModelParams,
    shape: tuple[int, ...],
    size: int,
    device: torch.device,
    layout: torch.memory_format = torch.contiguous_format,
) -> Work:
    """Return one optimiser step on a batch of `size` points: loss, gradients, Adam."""
    dimension = int(torch.Size(shape).numel())
    draw = torch.Generator().manual_seed(0)
    x, z = (torch.randn(size, dimension, generator=draw).to(device) for _ in range(2))
    batch = Batch(x, z, z.sign(), torch.zeros(size, device=device))
    model = build_model(spec, shape, 1.0).to(device).to(memory_format=layout)
    objective: Any = JointObjective(model, training_settings(spec))
    optimizer = torch.optim.AdamW(objective.parameters(), spec.learning_rate, fused=True)

    def step() -> None:
        terms = objective(*batch)
        sum(w * term for w, term in zip(objective.weights, terms, strict=True)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def _time_steps(params: SpeedParams, device: torch.device) -> Iterator[dict[str, Any]]:
    backbone, shape = Backbone(kind="unet", shared=True), (1, 28, 28)
    for reduction in ("none", "antithetic"):
        first = "dsm" if reduction == "none" else "dsm-vr"
        kinds = [(first, 0), *((name, RANK) for name in ("jacobian", "residual", "moment"))]
        kinds.append(("jacobian", 0))
        specs = {kind: model_params(backbone, kind[1], kind[0], reduction) for kind in kinds}
        works = {kind: step_of(spec, shape, STEP_BATCH, device) for kind, spec in specs.items()}
        times = timed_in_turn(works, params.repeats, device)
        for (target, rank), work in works.items():
            facts = {"part": "step", "network": "unet", "dimension": 784, "batch": STEP_BATCH}
            facts |= {"rank": rank, "target": "dsm" if target == first else target}
            facts |= {"variance_reduction": reduction, "method": "step"}
            yield {**facts, **summary(times[target, rank]), **peak_bytes(work, device)}


def _time_variants(params: SpeedParams, device: torch.device) -> Iterator[dict[str, Any]]:
    """Time the joint step of the U-Net under what often makes networks faster."""
    shape, facts = (1, 28, 28), {"part": "variant", "network": "unet", "dimension": 784}
    facts |= {"batch": STEP_BATCH, "rank": RANK, "target": "jacobian"}
    works = {}
    for name in ("float32", "bfloat16", "channels-last"):
        backbone = Backbone(kind="unet", shared=True, autocast=name == "bfloat16")
        layout = torch.channels_last if name == "channels-last" else torch.contiguous_format
        spec = model_params(backbone, RANK, "jacobian", "antithetic")
        works[name] = step_of(spec, shape, STEP_BATCH, device, layout)
    times = timed_in_turn(works, params.repeats, device)
    for name, work in works.items():
        row = {**facts, "variance_reduction": "antithetic", "method": name}
        yield {**row, **summary(times[name]), **peak_bytes(work, device)}


def time_training(params: SpeedParams) -> pd.DataFrame:
    """Return times in seconds and peak memory in bytes.

    Part `loss` is of each loss with its gradients in s1, alpha and beta, part `step` of whole
    optimiser steps of a U-Net, part `variant` of its joint step in other precisions and layouts.

    Args:
        params: sizes of the losses, repeats, threads.
    """
    rows: list[dict[str, Any]] = []
    with threads(params.threads):
        for device in devices():
            for part in (_time_losses, _time_steps, _time_variants):
                for row in part(params, device):
                    label = f"{row['part']} D = {row['dimension']} {row['target']}"
                    where = f"{row['variance_reduction']} {row['method']}"
                    print(f"{label} {where}: {row['seconds']:.3g} s", flush=True)
                    rows.append({"device": device.type, **row})
    return pd.DataFrame(rows)
