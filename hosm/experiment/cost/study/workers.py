"""Scaling out: what Ray Train costs over the plain loop, and how a step grows with workers.

One joint step on `gaussian100`, the same batch for each worker (weak scaling). What is timed is
the loop from its first step to its last: start-up is left out, validations and checkpoints are
not. See `hosm.experiment.cost.study.communication` for what to expect of more workers.
What other processes did meanwhile is known where Ray's processes descend from this one.
"""

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from hosm.experiment.cluster.connection import connect, settled
from hosm.experiment.cluster.train import time_all_reduce, train_on_cluster
from hosm.experiment.data.datasets import law
from hosm.experiment.run.machine_load import (
    UNKNOWN,
    Watch,
    counters,
    family_counters,
    wait_until_quiet,
)
from hosm.experiment.run.provenance import hardware
from hosm.experiment.settings import Backbone, ClusterParams, ModelParams, ScalingParams
from hosm.experiment.shared.stopwatch import threads
from hosm.experiment.train.models import build_model
from hosm.experiment.train.training_task import TrainingTask, train_here
from hosm.networks import parameter_count
from hosm.training import Progress, TrainingResult, save_checkpoint

__all__ = ["time_workers"]

Train = Callable[[], TrainingResult]

ALONE = "plain loop"
LENGTHS = (1_000, 10_000, 100_000, 1_000_000, 4_000_000)


def _spec(params: ScalingParams, workers: int) -> ModelParams:
    return ModelParams(
        backbone=Backbone(kind="mlp", shared=True, width=params.width),
        sigma=0.1,
        rank=params.rank,
        learning_rate=1e-3,
        batch_size=params.batch_size * workers,
        max_steps=params.steps,
        average_width=0.1,
        validate_every=max(1, params.steps // 4),
    )


def _task(params: ScalingParams, workers: int) -> TrainingTask:
    draw = torch.Generator().manual_seed(0)
    exact = law("gaussian100")
    points = exact.sample(max(10_000, params.batch_size * workers), draw).float().numpy()
    return TrainingTask(
        "gaussian100", _spec(params, workers), (exact.dimension,), 1.0, points, points[:512]
    )


def _keep(folder: str) -> Callable[[Progress], None]:
    """Return what writes the checkpoints that Ray Train's worker writes too."""
    return lambda progress: save_checkpoint(progress.state(), Path(folder) / "alone" / "state.pt")


def _row(label: str, workers: int, run: int, train: Train) -> dict[str, Any]:
    """Train, and return the seconds of a step and what else the machine did meanwhile."""
    # what Ray does for this very run is none of the others' work
    wait_until_quiet(read=counters if label == ALONE else family_counters)
    watch = Watch(family_counters)
    seconds = train().seconds_per_step
    watch.round_ended()
    here = "RAY_ADDRESS" not in os.environ or label == ALONE
    load = watch.loads()[0] if here else UNKNOWN
    print(f"{label}, {workers} workers: {1e3 * seconds:.3g} ms a step", flush=True)
    found = {"loop": label, "workers": workers, "run": run, "seconds_per_step": seconds}
    return {**found, **load._asdict(), "machine": hardware()}


def time_workers(
    params: ScalingParams, cluster: ClusterParams
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Time the plain loop and Ray Train, and all-reduces between two workers.

    Args:
        params: the run that is timed.
        cluster: where Ray runs; its workers and CPUs for each are those of `params`.

    Returns:
        Seconds of a step by loop and workers, a row for each run; and seconds of all-reduces by
        their length (empty with one worker).
    """
    rows, reduced = [], pd.DataFrame({"length": [], "seconds": []})
    sizes: dict[str, float] = {"cpus_per_worker": params.threads, "workers": max(params.workers)}
    sizes |= {
        "checkpoint_every": 0,
        "checkpoint_seconds": 0,
    }  # the plain loop keeps its state at validations only
    with connect(cluster.model_copy(update=sizes)), tempfile.TemporaryDirectory() as folder:
        device = torch.device("cuda" if settled(cluster).use_gpu else "cpu")
        for run in range(params.repeats):
            with threads(params.threads):
                train = partial(train_here, _task(params, 1), device=device, report=_keep(folder))
                rows.append(_row(ALONE, 1, run, train))
            for workers in params.workers:
                group = cluster.model_copy(update={**sizes, "workers": workers})
                storage = f"{folder}/{run}-{workers}"
                train = partial(train_on_cluster, _task(params, workers), group, storage)
                rows.append(_row("Ray Train", workers, run, train))
        if max(params.workers) > 1:
            group = cluster.model_copy(update={**sizes, "workers": 2})
            seconds = time_all_reduce(LENGTHS, 15, group, f"{folder}/all-reduce")
            reduced = pd.DataFrame({"length": LENGTHS, "seconds": seconds})
    count = parameter_count(build_model(_spec(params, 1), (100,), 1.0))
    facts = {"steps": params.steps, "batch": params.batch_size, "threads": params.threads}
    return pd.DataFrame(rows).assign(parameters=count, **facts), reduced
