r"""Scaling out: what Ray Train costs over the plain loop, and how a step grows with workers.

One joint step on `gaussian100`, the same batch for each worker (weak scaling). With P workers a
step adds up gradients of N numbers over all of them, a volume of

$$V = 2 (P - 1) / P \cdot 4 N \text{ bytes}$$

for each, so that a step of t seconds of computation takes t + V / B + 2 (P - 1) l with a bandwidth
B and a latency l, if nothing overlaps: a bound, since DistributedDataParallel sends while it
computes. B and l of this machine are fitted to all-reduces of several lengths; those of clusters
are the makers' figures, and say so.
"""

import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from hosm.experiment.cluster import connect, time_all_reduce, train_on_cluster
from hosm.experiment.datasets import law
from hosm.experiment.models import build_model
from hosm.experiment.params import Backbone, ClusterParams, ModelParams, ScalingParams
from hosm.experiment.stopwatch import threads
from hosm.experiment.tasks import TrainingTask, train_here
from hosm.networks import parameter_count

__all__ = ["communication_plan", "fit_link", "time_workers"]

LENGTHS = (1_000, 10_000, 100_000, 1_000_000, 4_000_000)
LINKS = {  # workers -> what joins them, bytes per second of an all-reduce, seconds of latency
    8: ("8 GPUs of one node, NVLink, 200 GB/s", 200e9, 5e-6),
    64: ("64 GPUs of 8 nodes, 400 Gbit/s each, 40 GB/s", 40e9, 10e-6),
}
NETWORKS = {  # numbers to add up, float32
    "U-Net, channels 16 32 32, r = 50": 270_420,
    "U-Net, channels 128 256 256, r = 50": 15_700_000,
    "MLP, D = 100, width 128, r = 1000": 12_900_000,
}


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


def fit_link(lengths: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Return bandwidth (bytes a second) and latency (seconds) of all-reduces between two workers.

    Args:
        lengths: numbers in float32 that were added up.
        seconds: what it took, for each.
    """
    volume = 4.0 * np.asarray(lengths)  # 2 (P - 1) / P is 1
    weights = 1 / np.asarray(seconds)  # relative errors count alike
    design = np.stack([volume, np.ones_like(volume)], 1) * weights[:, None]
    slope, constant = np.linalg.lstsq(design, np.ones_like(volume), rcond=None)[0]
    return float(1 / slope), float(max(constant, 0.0) / 2)


def _row(label: str, workers: int, run: int, seconds: float) -> dict[str, Any]:
    print(f"{label}, {workers} workers: {1e3 * seconds:.3g} ms a step", flush=True)
    return {"loop": label, "workers": workers, "run": run, "seconds_per_step": seconds}


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
    sizes = {"cpus_per_worker": params.threads, "workers": max(params.workers)}
    with connect(cluster.model_copy(update=sizes)), tempfile.TemporaryDirectory() as folder:
        for run in range(params.repeats):
            with threads(params.threads):
                alone = train_here(_task(params, 1))
            rows.append(_row("plain loop", 1, run, alone.seconds_per_step))
            for workers in params.workers:
                group = cluster.model_copy(update={**sizes, "workers": workers})
                storage = f"{folder}/{run}-{workers}"
                result = train_on_cluster(_task(params, workers), group, storage)
                rows.append(_row("Ray Train", workers, run, result.seconds_per_step))
        if max(params.workers) > 1:
            group = cluster.model_copy(update={**sizes, "workers": 2})
            seconds = time_all_reduce(LENGTHS, 15, group, f"{folder}/all-reduce")
            reduced = pd.DataFrame({"length": LENGTHS, "seconds": seconds})
    count = parameter_count(build_model(_spec(params, 1), (100,), 1.0))
    facts = {"steps": params.steps, "batch": params.batch_size, "threads": params.threads}
    return pd.DataFrame(rows).assign(parameters=count, **facts), reduced


def communication_plan(reduced: pd.DataFrame) -> pd.DataFrame:
    """Return, for networks and links, the volume and time of a step's communication.

    `compute_for_90` is the least computation in a step, in seconds, at which 90 % of the time
    goes into it, if nothing overlaps: below it, adding workers breaks down.

    Args:
        reduced: all-reduces that were timed here, as of `time_workers`.
    """
    links = dict(LINKS)
    if len(reduced):
        bandwidth, latency = fit_link(list(reduced["length"]), list(reduced["seconds"]))
        links = {2: (f"2 processes here, gloo, {bandwidth / 1e9:.2g} GB/s", bandwidth, latency)} | links
    rows = []
    for network, numbers in NETWORKS.items():
        for workers, (link, bandwidth, latency) in links.items():
            volume = 2 * (workers - 1) / workers * 4 * numbers
            seconds = volume / bandwidth + 2 * (workers - 1) * latency
            facts = {"network": network, "numbers": numbers, "link": link, "workers": workers}
            times = {"volume": volume, "seconds": seconds, "compute_for_90": 9 * seconds}
            rows.append({**facts, **times})
    return pd.DataFrame(rows)
