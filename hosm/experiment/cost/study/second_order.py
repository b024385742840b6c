"""Table 2: time of second-order scores, by a model's s2 and by automatic differentiation.

Protocol: one process, threads stated, batch 10, untrained networks (time does not depend on the
weights), methods in turn (`stopwatch`), the median, least and largest of the repeats. Automatic
differentiation stands as the obvious loop over coordinates and as chunked `vmap` of the reverse
and of the forward mode, each at the best of several chunk sizes. Where only some rows of the
Jacobian are timed, the time is scaled to all D and `rows_timed` says so. With `compiled`, s2 and
the whole Jacobian by reverse mode stand a second time for a vector model, by `torch.compile` with
its search for the fastest kernels and weights as constants; the loop gains nothing by it.
"""

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from hosm.experiment.cost.study.ratios import speed_ratios
from hosm.experiment.cost.study.training import model_params
from hosm.experiment.settings import Backbone, SpeedParams
from hosm.experiment.shared.stopwatch import Work, devices, summary, threads, timed_in_turn
from hosm.experiment.train.models import build_backbone, build_model
from hosm.networks import parameter_count
from hosm.operators import DiagonalPlusLowRank
from hosm.scores import ScoreModel, outputs_per_coordinate

__all__ = ["headline", "time_second_order_scores"]

CHUNKS = (8, 32, 128)
REVERSE_COMPILED = "autodiff reverse, compiled"
PAPER = {  # Meng et al., table 2, seconds on a TITAN Xp: (backbone, method, rank)
    ("mlp", "autodiff loop", 0): 32.1e-3,
    ("mlp", "s2", 20): 380e-6,
    ("mlp", "s2", 50): 377e-6,
    ("mlp", "s2", 200): 546e-6,
    ("mlp", "s2", 1000): 1840e-6,
    ("unet", "autodiff loop", 0): 34.6,
    ("unet", "s2", 20): 67.9e-3,
    ("unet", "s2", 50): 72.5e-3,
    ("unet", "s2", 200): 68.8e-3,
    ("unet", "s2", 1000): 69.4e-3,
}


def _loop(model: ScoreModel, x: Tensor, rows: int) -> None:
    """Differentiate each of the first coordinates of s1 in turn."""
    x = x.detach().requires_grad_()
    s1 = model.score(x)
    for i in range(rows):
        torch.autograd.grad(s1[:, i].sum(), x, retain_graph=True)


def _reverse(model: ScoreModel, x: Tensor, rows: int, chunk: int) -> None:
    """Pull unit vectors back through s1, `chunk` at a time."""
    basis = torch.eye(x.shape[1], device=x.device)[:rows]
    with torch.no_grad():  # or each pass back would be recorded once more
        pullback = torch.func.vjp(model.score, x)[1]
        torch.func.vmap(lambda e: pullback(e.expand_as(x))[0], chunk_size=chunk)(basis)


def _forward(model: ScoreModel, x: Tensor, rows: int, chunk: int) -> None:
    """Push unit vectors forward through s1, `chunk` at a time."""
    basis = torch.eye(x.shape[1], device=x.device)[:rows]

    def push(e: Tensor) -> Tensor:
        return torch.func.jvp(model.score, (x,), (e.expand_as(x),))[1]

    with torch.no_grad():
        torch.func.vmap(push, chunk_size=chunk)(basis)


def _best_chunk(work: Callable[[int], object], rows: int, device: torch.device) -> int:
    """Return the chunk size that takes least time in two rounds."""
    sizes = sorted({min(chunk, rows) for chunk in CHUNKS})
    times = timed_in_turn({chunk: partial(work, chunk) for chunk in sizes}, 2, device, 0.0)
    return min(sizes, key=lambda chunk: min(times[chunk].seconds))


def _baselines(first: ScoreModel, x: Tensor, rows: int) -> dict[str, Work]:
    """Return the baselines: their names and what to time."""
    works: dict[str, Work] = {
        "s1": partial(_no_grad, first.score, x),
        "autodiff loop": partial(_loop, first, x, rows),
    }
    modes = {"autodiff reverse, chunked": _reverse, "autodiff forward, chunked": _forward}
    for name, mode in modes.items():
        chunk = _best_chunk(partial(mode, first, x, rows), rows, x.device)
        works[name] = partial(mode, first, x, rows, chunk)
    return works


class _SecondOrder(nn.Module):
    """s2 as an operator from a network of its own; the rank may exceed D, as in the paper."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> DiagonalPlusLowRank:
        output = self.network(x)
        return DiagonalPlusLowRank(output[:, 0], output[:, 1:].transpose(1, 2))


def _heads(
    backbone: Backbone, shape: tuple[int, ...], rank: int, device: torch.device
) -> Iterator[tuple[str, nn.Module]]:
    """Yield s2 alone, and s1 with s2 from a shared trunk."""
    width = backbone.width
    network = build_backbone(backbone, shape, outputs_per_coordinate(rank), width)
    yield "s2", _SecondOrder(network).to(device).eval()
    if rank <= torch.Size(shape).numel():
        shared = backbone.model_copy(update={"shared": True})
        model = build_model(model_params(shared, rank, "jacobian"), shape, 1.0)
        yield "s1 and s2, shared trunk", model.to(device).eval()


def _no_grad(function: Callable[[Tensor], object], x: Tensor) -> None:
    with torch.no_grad():
        function(x)


def _compiled(module: nn.Module, x: Tensor) -> Work:
    """Return a module's evaluation with its kernels searched for, weights taken as constants."""
    fast = torch.compile(module, mode="max-autotune-no-cudagraphs")
    with torch._inductor.config.patch(freezing=True):
        _no_grad(fast, x)  # compiles
    return partial(_no_grad, fast, x)


class _Jacobian(nn.Module):
    """The whole Jacobian of s1 by vmapped reverse mode."""

    def __init__(self, first: ScoreModel) -> None:
        super().__init__()
        self.first = first

    def forward(self, x: Tensor) -> Tensor:
        return torch.func.vmap(torch.func.jacrev(lambda point: self.first.score(point[None])[0]))(
            x
        )


def _modules(
    backbone: Backbone, shape: tuple[int, ...], params: SpeedParams, device: torch.device
) -> dict[tuple[str, int], nn.Module]:
    """Return the networks whose evaluation is timed, by method and rank."""
    return {
        (method, rank): module
        for rank in params.ranks
        for method, module in _heads(backbone, shape, rank, device)
    }


def _time_backbone(
    backbone: Backbone,
    shape: tuple[int, ...],
    rows: int,
    params: SpeedParams,
    device: torch.device,
) -> list[dict[str, Any]]:
    """Time the baselines and s2 of every rank on one architecture."""
    dimension = int(torch.Size(shape).numel())
    x = torch.randn(params.batch, dimension, generator=torch.Generator().manual_seed(0)).to(device)
    first = build_model(model_params(backbone, 0, "dsm"), shape, 1.0).to(device).eval()
    rows = min(rows, dimension)
    modules = _modules(backbone, shape, params, device)
    works = {(name, 0): work for name, work in _baselines(first, x, rows).items()}
    works |= {key: partial(_no_grad, module, x) for key, module in modules.items()}
    if params.compiled and backbone.kind == "mlp":
        least = min(params.ranks)
        works[REVERSE_COMPILED, 0] = _compiled(_Jacobian(first), x)
        works["s2, compiled", least] = _compiled(modules["s2", least], x)
    times = timed_in_turn(works, params.repeats, device)
    out = []
    for method, rank in works:
        scaled = "autodiff" in method and "compiled" not in method
        taken, once = times[method, rank], statistics.median(times["s1", 0].counted)
        if scaled:  # the evaluation of s1 comes once, its derivative row by row
            whole = [once + (seconds - once) * dimension / rows for seconds in taken.seconds]
            taken = taken._replace(seconds=whole)
        found = summary(taken)
        module = modules.get((method.removesuffix(", compiled"), rank), first)
        facts = {"device": device.type, "dimension": dimension, "batch": params.batch}
        facts |= {"backbone": backbone.kind, "method": method, "rank": rank, **found}
        facts["paper_seconds"] = PAPER.get((backbone.kind, method, rank), float("nan"))
        facts["rows_timed"] = rows if scaled else dimension
        out.append({**facts, "parameters": parameter_count(module)})
        print(f"{backbone.kind} {method} r = {rank}: {found['seconds']:.3g} s", flush=True)
    return out


def time_second_order_scores(params: SpeedParams) -> pd.DataFrame:
    """Return one row for each device, architecture and method, times in seconds for the batch.

    Args:
        params: batch, ranks, repeats, threads, rows of the U-Net's Jacobian to time.
    """
    mlp = Backbone(kind="mlp", shared=False, width=128, depth=3)
    unet = Backbone(kind="unet", shared=False)
    rows: list[dict[str, Any]] = []
    with threads(params.threads):
        for device in devices():
            rows += _time_backbone(mlp, (100,), 100, params, device)
            rows += _time_backbone(unet, (1, 28, 28), params.loop_rows, params, device)
    return pd.DataFrame(rows)


def headline(times: pd.DataFrame) -> dict[str, float]:
    """Return, for each architecture and rank, how many times faster s2 is than the baselines."""
    numbers = {}
    for row in speed_ratios(times):
        name = f"{row['device']}.{row['backbone']}.r{row['rank']:.0f}"
        name += ".compiled" if row["compiled"] else ""
        numbers[f"{name}.loop_over_s2"] = float(row["loop"])
        numbers[f"{name}.best_chunked_over_s2"] = float(row["chunked"])
        numbers[f"{name}.s2_over_s1"] = float(row["s1"])
    return numbers
