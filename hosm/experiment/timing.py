"""Table 2: time of second-order scores, by a model's s2 and by automatic differentiation.

Protocol: one process, threads stated, batch 10, untrained networks (time does not depend on the
weights), a warm-up and then the median, least and largest of the repeats. Automatic
differentiation stands as the obvious loop over coordinates and as chunked `vmap` of the reverse
and of the forward mode, each at the best of several chunk sizes. Where only some rows of the
Jacobian are timed, the time is scaled to all D and `rows_timed` says so.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from hosm.experiment.models import build_backbone, build_model
from hosm.experiment.params import Backbone, ModelParams, SpeedParams
from hosm.networks import parameter_count
from hosm.operators import DiagonalPlusLowRank
from hosm.scores import ScoreModel, outputs_per_coordinate

__all__ = ["headline", "time_second_order_scores"]

CHUNKS = (8, 32, 128)
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


def _seconds(work: Callable[[], object], repeats: int) -> list[float]:
    """Time a piece of work after one warm-up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times


def _loop(model: ScoreModel, x: Tensor, rows: int) -> None:
    """Differentiate each of the first coordinates of s1 in turn."""
    x = x.detach().requires_grad_()
    s1 = model.score(x)
    for i in range(rows):
        torch.autograd.grad(s1[:, i].sum(), x, retain_graph=True)


def _reverse(model: ScoreModel, x: Tensor, rows: int, chunk: int) -> None:
    """Pull unit vectors back through s1, `chunk` at a time."""
    pullback = torch.func.vjp(model.score, x)[1]
    basis = torch.eye(x.shape[1])[:rows]
    torch.func.vmap(lambda e: pullback(e.expand_as(x))[0], chunk_size=chunk)(basis)


def _forward(model: ScoreModel, x: Tensor, rows: int, chunk: int) -> None:
    """Push unit vectors forward through s1, `chunk` at a time."""
    basis = torch.eye(x.shape[1])[:rows]

    def push(e: Tensor) -> Tensor:
        return torch.func.jvp(model.score, (x,), (e.expand_as(x),))[1]

    with torch.no_grad():
        torch.func.vmap(push, chunk_size=chunk)(basis)


def _best_chunk(work: Callable[[int], object], rows: int) -> int:
    """Return the chunk size that takes least time in one run after a warm-up."""
    sizes = [chunk for chunk in CHUNKS if chunk <= rows] or [rows]
    return min(sizes, key=lambda chunk: _seconds(partial(work, chunk), 1)[0])


def _works(first: ScoreModel, x: Tensor, rows: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the baselines: their names and what to time."""
    yield "s1", partial(_no_grad, first.score, x)
    yield "autodiff loop", partial(_loop, first, x, rows)
    modes = {"autodiff reverse, chunked": _reverse, "autodiff forward, chunked": _forward}
    for name, mode in modes.items():
        chunk = _best_chunk(partial(mode, first, x, rows), rows)
        yield name, partial(mode, first, x, rows, chunk)


class _SecondOrder(nn.Module):
    """s2 as an operator from a network of its own; the rank may exceed D, as in the paper."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> DiagonalPlusLowRank:
        output = self.network(x)
        return DiagonalPlusLowRank(output[:, 0], output[:, 1:].transpose(1, 2))


def _heads(
    backbone: Backbone, shape: tuple[int, ...], rank: int
) -> Iterator[tuple[str, nn.Module]]:
    """Yield s2 alone, and s1 with s2 from a shared trunk."""
    width = backbone.width
    network = build_backbone(backbone, shape, outputs_per_coordinate(rank), width)
    yield "s2", _SecondOrder(network).eval()
    if rank <= torch.Size(shape).numel():
        shared = backbone.model_copy(update={"shared": True})
        yield "s1 and s2, shared trunk", build_model(_spec(shared, rank, False), shape, 1.0).eval()


def _no_grad(function: Callable[[Tensor], object], x: Tensor) -> None:
    with torch.no_grad():
        function(x)


def _spec(backbone: Backbone, rank: int, first_order: bool) -> ModelParams:
    return ModelParams(
        backbone=backbone,
        sigma=0.5,
        rank=rank,
        target="dsm" if first_order else "jacobian",
        learning_rate=1e-3,
        batch_size=1,
        max_steps=1,
        average_width=0.0,
        validate_every=1,
    )


def _row(kind: str, method: str, rank: int, times: list[float], scale: float) -> dict[str, Any]:
    return {
        "backbone": kind,
        "method": method,
        "rank": rank,
        "seconds": scale * statistics.median(times),
        "seconds_low": scale * min(times),
        "seconds_high": scale * max(times),
        "repeats": len(times),
        "paper_seconds": PAPER.get((kind, method, rank), float("nan")),
    }


def _time_backbone(
    backbone: Backbone, shape: tuple[int, ...], rows: int, params: SpeedParams
) -> list[dict[str, Any]]:
    """Time the baselines and s2 of every rank on one architecture."""
    dimension = int(torch.Size(shape).numel())
    x = torch.randn(params.batch, dimension, generator=torch.Generator().manual_seed(0))
    first = build_model(_spec(backbone, 0, True), shape, 1.0).eval()
    rows, out = min(rows, dimension), []
    for method, work in _works(first, x, rows):
        scale = 1.0 if method == "s1" else dimension / rows
        row = _row(backbone.kind, method, 0, _seconds(work, params.repeats), scale)
        timed = dimension if method == "s1" else rows
        out.append({**row, "rows_timed": timed, "parameters": parameter_count(first)})
        print(f"{backbone.kind} {method}: {row['seconds']:.3g} s", flush=True)
    for rank in params.ranks:
        for method, module in _heads(backbone, shape, rank):
            times = _seconds(partial(_no_grad, module, x), params.repeats)
            row = _row(backbone.kind, method, rank, times, 1.0)
            out.append({**row, "rows_timed": dimension, "parameters": parameter_count(module)})
            print(f"{backbone.kind} {method} r = {rank}: {row['seconds']:.3g} s", flush=True)
    return [{"dimension": dimension, "batch": params.batch, **row} for row in out]


def time_second_order_scores(params: SpeedParams) -> pd.DataFrame:
    """Return one row for each architecture and method, times in seconds for the whole batch.

    Args:
        params: batch, ranks, repeats, threads, rows of the U-Net's Jacobian to time.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(params.threads)
    try:
        mlp = Backbone(kind="mlp", shared=False, width=128, depth=3)
        unet = Backbone(kind="unet", shared=False)
        rows = _time_backbone(mlp, (100,), 100, params)
        rows += _time_backbone(unet, (1, 28, 28), params.loop_rows, params)
    finally:
        torch.set_num_threads(before)
    return pd.DataFrame(rows).assign(threads=params.threads)


def headline(times: pd.DataFrame) -> dict[str, float]:
    """Return, for each architecture and rank, how many times faster s2 is than the baselines."""
    numbers = {}
    for kind, part in times.groupby("backbone"):
        baselines = part[part["rank"] == 0].set_index("method")["seconds"]
        chunked = baselines[baselines.index.str.contains("chunked")].min()
        for row in part[part["method"] == "s2"].to_dict("records"):
            name, value = f"{kind}.r{row['rank']}", row["seconds"]
            numbers[f"{name}.loop_over_s2"] = float(baselines["autodiff loop"] / value)
            numbers[f"{name}.best_chunked_over_s2"] = float(chunked / value)
            numbers[f"{name}.s2_over_s1"] = float(value / baselines["s1"])
    return numbers
