"""What the plan of scaling is made from and judged by: times at 1, 2 and 3 workers here.

    python -m hosm.experiment.cost.study.scale_measured reports/whole/scale

times the computation of a step by its batch, all-reduces of two workers, and reading, then says
by `scale` how long a step of 1, 2 and 3 workers takes and measures it by Ray Train: with as many
samples in all (strong scaling) and with as many on each (weak). From the same costs follows the
plan for up to 64 GPUs, whose speed and links are assumed, and what a million large images need.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from hosm.experiment.cluster.connection import connect
from hosm.experiment.cluster.train import time_all_reduce, train_on_cluster
from hosm.experiment.cluster.tune import Cell, Grid, Tables, run_grid
from hosm.experiment.cost.study.communication import LINKS, fit_link
from hosm.experiment.cost.study.scale import Costs, Link, fit_computation, scaling, seconds_of
from hosm.experiment.cost.study.scale import simulated as simulated_seconds
from hosm.experiment.data.datasets import law
from hosm.experiment.data.made_images import make_folder
from hosm.experiment.data.shards import ShardedRows
from hosm.experiment.run.process import PROJECT, cpu_count, main
from hosm.experiment.run.provenance import facts
from hosm.experiment.run.stage import write_csv, write_json
from hosm.experiment.settings import Backbone, ClusterParams, ModelParams, Params, load_params
from hosm.experiment.shared.stopwatch import threads
from hosm.experiment.train.models import build_model
from hosm.experiment.train.training_task import TrainingTask, train_here, training_settings
from hosm.networks import parameter_count
from hosm.training import JointObjective, Shard, batches

__all__ = ["check", "measure", "plan"]

WORKERS, GPUS = (1, 2, 3), (1, 2, 4, 8, 16, 32, 64)
SIZES, BATCH, STEPS = (64, 128, 192, 384), 384, 60  # samples of a step; steps that are timed
LENGTHS = (1_000, 10_000, 100_000, 300_000, 1_000_000)
FASTER = {"float32": 500.0, "bfloat16": 4_000.0}  # a GPU over a core of this machine: assumed
STRONG, WEAK = 128, 64  # the paper's batch; samples of each GPU
DAY = 86_400.0
SPREAD = 0.03  # of a step of a GPU that has no other work: assumed
LIFETIME, RESTART = 30 * DAY, 60.0  # seconds between two deaths of a GPU, and of a start: assumed
LARGE = Backbone(
    kind="unet", shared=True, channels=(128, 256, 256, 256), blocks=2, attention=True
)  # 36 million weights on colour images of 32 x 32


def _spec(backbone: Backbone, batch: int, rank: int = 20) -> ModelParams:
    return ModelParams(
        backbone=backbone,
        sigma=0.1,
        rank=rank,
        regime="finite",
        learning_rate=1e-3,
        batch_size=batch,
        max_steps=STEPS,
        average_width=0.1,
        validate_every=STEPS,
    )


def _task(batch: int) -> TrainingTask:
    """Return a network of vectors on a Gaussian of 100 dimensions."""
    exact = law("gaussian100")
    points = exact.sample(4_000, torch.Generator().manual_seed(0)).float().numpy()
    spec = _spec(Backbone(kind="mlp", shared=True, width=256), batch)
    return TrainingTask("gaussian100", spec, (exact.dimension,), 1.0, points, points[:8])


def _steps(task: TrainingTask) -> list[float]:
    """Return the seconds of each step of a run in this process, but for the first ten."""
    times: list[float] = []

    def noted(step: int) -> bool:
        times.append(time.perf_counter())
        return False

    with threads(1):
        train_here(task, due=noted)
    return np.diff(times)[10:].tolist()


def _reading(side: int) -> tuple[float, float]:
    """Return the seconds of an image from files: as rows, and with the noise of a training."""
    with tempfile.TemporaryDirectory() as folder, threads(1):
        make_folder(Path(folder), 2, 64, side)
        rows, size = ShardedRows(folder, unit=127.5, low=-1.0), 16
        source = batches(lambda epoch: rows, size, 0, Shard(), 0)
        calls: list[Callable[[], Any]] = [lambda: rows[torch.arange(size)], lambda: next(source)]
        found = []
        for call in calls:
            call()
            began = time.perf_counter()
            for _ in range(6):
                call()
            found.append((time.perf_counter() - began) / (6 * size))
    return found[0], found[1]


def _sample_seconds(backbone: Backbone, side: int, size: int = 2) -> tuple[float, int]:
    """Return the seconds that a core takes for a sample of a U-Net, and the weights of it."""
    shape = (3, side, side)
    model = build_model(spec := _spec(backbone, size), shape, 0.5)
    points = torch.randn(4, 3 * side**2, generator=torch.Generator().manual_seed(0))
    objective = JointObjective(model, training_settings(spec))
    source = batches(lambda epoch: points, size, 0, Shard(), 0)
    with threads(1):
        for _ in range(2):
            began = time.perf_counter()
            objective(*next(source)).sum().backward()
            seconds = time.perf_counter() - began
    return seconds / size, parameter_count(model)


def measure(cluster: ClusterParams, storage: str) -> tuple[Costs, pd.DataFrame]:
    """Return the costs of a worker on this machine, and the times they were fitted to.

    Args:
        cluster: a joined cluster, of two workers and more.
        storage: absolute path.
    """
    rows: list[dict[str, Any]] = []
    spreads = []
    for size in SIZES:
        steps = _steps(_task(size))
        middle = statistics.median(steps)
        quarters = np.quantile(steps, [0.25, 0.75])
        spreads.append(float(quarters[1] - quarters[0]) / 1.349 / middle)
        rows.append({"what": "step", "workers": 1, "size": size, "seconds": middle})
    fixed, sample = fit_computation(SIZES, [row["seconds"] for row in rows])
    for workers in (2, 3):
        group = cluster.model_copy(update={"workers": workers})
        for length, seconds in zip(
            LENGTHS, time_all_reduce(LENGTHS, 15, group, storage), strict=True
        ):
            at = {"what": "all-reduce", "workers": workers, "size": length}
            rows.append({**at, "seconds": seconds})
    two = [row for row in rows if row["what"] == "all-reduce" and row["workers"] == 2]
    bandwidth, latency = fit_link(LENGTHS, [row["seconds"] for row in two])
    count = parameter_count(build_model(_task(1).spec, (100,), 1.0))
    links = (Link(64, bandwidth, latency),)
    costs = Costs(fixed, sample, statistics.median(spreads), count, links)
    return replace(costs, processors=cpu_count()), pd.DataFrame(rows)


def check(costs: Costs, cluster: ClusterParams, storage: str) -> pd.DataFrame:
    """Return steps as the plan has them, as the simulation has them, and as they are.

    Args:
        costs: of a worker of this machine.
        cluster: a joined cluster that has room for all of WORKERS.
        storage: absolute path.
    """
    rows = []
    for kind, shares in (("strong", [BATCH / w for w in WORKERS]), ("weak", [BATCH / 3] * 3)):
        for workers, share in zip(WORKERS, shares, strict=True):
            group = cluster.model_copy(update={"workers": workers})
            task = _task(round(share * workers))
            result = train_on_cluster(task, group, f"{storage}/{kind}-{workers}")
            said = seconds_of(costs, workers, share)["step"]
            row = {"kind": kind, "workers": workers, "samples_each": share, "formula": said}
            row["simulation"] = simulated_seconds(costs, workers, share)
            row["measured"] = result.seconds_per_step
            print({name: row[name] for name in ("kind", "workers", "formula", "measured")})
            rows.append(row)
    return pd.DataFrame(rows)


def plan(core: float, numbers: int, reading: float) -> pd.DataFrame:
    """Return strong and weak scaling of the large U-Net over GPUs.

    Args:
        core: seconds that a core here takes for a sample.
        numbers: weights of the network.
        reading: seconds that a sample takes to be read, with its noise, on a core.
    """
    links = tuple(Link(most, band, latency) for most, (_, band, latency) in LINKS.items())
    frames = []
    for precision, faster in FASTER.items():
        gpu = Costs(0.0, core / faster, SPREAD, numbers, links, reading)
        gpu = replace(gpu, lifetime=LIFETIME, restart=RESTART)
        for samples, weak in ((STRONG, False), (WEAK, True)):
            found = scaling(gpu, samples, GPUS, weak)
            kind = "weak" if weak else "strong"
            frames.append(found.assign(precision=precision, kind=kind))
    return pd.concat(frames, ignore_index=True)


class _Nothing:
    """A trial that does nothing: what it takes is what a trial costs besides its training."""

    def __call__(self, cell: Cell, train: Any, keep: Any, state: Any) -> Tables:  # noqa: ANN401
        return {"trials": [{"number": cell["number"]}]}


def _trial_seconds(params: Params, cluster: ClusterParams, storage: str) -> pd.DataFrame:
    """Return the seconds of grids of trials that do nothing, by their number."""
    rows = []
    for count in (20, 200):
        cells = [{"data": "none", "number": number} for number in range(count)]
        sweep = params.sweep.model_copy(update={"workers_per_trial": 1, "cpus_per_worker": 1})
        grid = Grid(cells, _Nothing(), lambda tables: "", sweep, cluster, storage)
        began = time.perf_counter()
        run_grid(grid, f"nothing-{count}", lambda cell, tables, status: None)
        rows.append({"trials": count, "seconds": time.perf_counter() - began})
    return pd.DataFrame(rows)


def study(folder: str) -> None:
    """Measure, check the plan and make it; write tables and a card.

    Args:
        folder: where to.
    """
    place, params = Path(folder), load_params(PROJECT / "params.yaml")
    sizes = {"workers": max(WORKERS), "cpus_per_worker": 1, "local_cpus": max(WORKERS)}
    sizes |= {"checkpoint_seconds": 0, "checkpoint_every": 0, "use_gpu": False}
    cluster = params.cluster.model_copy(update=sizes)
    with connect(cluster, echo=False), tempfile.TemporaryDirectory() as storage:
        costs, times = measure(cluster, storage)
        write_csv(times, place / "times.csv")
        write_csv(check(costs, cluster, storage), place / "check.csv")
        write_csv(_trial_seconds(params, cluster, storage), place / "trials.csv")
    (core, numbers), small, large = _sample_seconds(LARGE, 32), _reading(32), _reading(256)
    write_csv(plan(core, numbers, small[1]), place / "plan.csv")
    machine = facts(PROJECT, params.profile, params)
    card = {name: machine[name] for name in ("hardware", "cpus", "versions", "commit")}
    card |= {"fixed": costs.fixed, "sample": costs.sample, "spread": costs.spread}
    link = costs.links[0]
    card |= {"bandwidth": link.bandwidth, "latency": link.latency, "numbers": costs.numbers}
    card |= {"unet_numbers": numbers, "unet_sample": core}
    card |= {
        "load_average": os.getloadavg()[0],
        "row_32": small[0],
        "batch_32": small[1],
        "row_256": large[0],
        "batch_256": large[1],
    }
    write_json(card, place / "card.json")


if __name__ == "__main__":
    main(study, *sys.argv[1:])
