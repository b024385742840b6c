"""Ray Train around `training.fit`; the only importer of ray.train.

The plain loop meets Ray at three points: `wrap` is DistributedDataParallel, `shard` is the
worker's rank, `report` hands metrics and a checkpoint to Ray. One worker takes the same path as
many. Data travel by reference through Ray's object store, so no worker needs the driver's disk.
"""

import hashlib
import json
import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import ray
import ray.train
import torch
import torch.distributed
from ray.train import (
    Checkpoint,
    CheckpointConfig,
    FailureConfig,
    LoggingConfig,
    RunConfig,
    ScalingConfig,
)
from ray.train.torch import TorchConfig, TorchTrainer
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from hosm import __version__
from hosm.batches import Shard
from hosm.checkpoints import load_checkpoint, save_checkpoint
from hosm.experiment.params import ClusterParams
from hosm.experiment.process import StageError, keep_freed_memory
from hosm.experiment.tasks import TrainingTask, train_here
from hosm.experiment.tracking import RunLogger
from hosm.training import Progress, TrainingResult

__all__ = [
    "key_of",
    "last_line",
    "time_all_reduce",
    "train_on_cluster",
]


def last_line(error: BaseException | None) -> str:
    """Return the line of a remote error that says what happened."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason given"


def key_of(*parts: Any) -> str:  # noqa: ANN401
    """Return a short hash of settings and inputs: equal work, equal key."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _sum_over_workers(totals: Tensor) -> Tensor:
    """Add a vector over the workers; one worker has nothing to add."""
    if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
        torch.distributed.all_reduce(totals)
    return totals


def _wrap(device: torch.device, workers: int) -> Callable[[nn.Module], nn.Module]:
    """Return what averages gradients over workers: DDP, with more than one."""
    if workers == 1:
        return lambda module: module
    devices = [device] if device.type == "cuda" else None
    return lambda module: DistributedDataParallel(module, device_ids=devices)


def _reporter(rank: int, logger: RunLogger, total: int) -> Callable[[Progress], None]:
    """Return what hands progress to Ray; rank 0 also prints, logs and checkpoints."""

    def report(progress: Progress) -> None:
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if rank == 0:
                save_checkpoint(progress.state(), Path(folder) / "state.pt")
                checkpoint = Checkpoint.from_directory(folder)
                shown = "  ".join(
                    f"{k} {v:.4f}" for k, v in progress.metrics.items() if k != "step"
                )
                print(f"step {progress.step}/{total}  {shown}", flush=True)
                logger.log_metrics(progress.metrics, step=progress.step)
            ray.train.report({**progress.metrics}, checkpoint=checkpoint)

    return report


def _hush(package: str) -> None:
    """Silence the loggers of a package up to warnings: Ray announces each checkpoint twice."""
    path = package.replace(".", os.sep)  # some of its loggers are named after their file
    for name in [package, *logging.root.manager.loggerDict]:
        if name.startswith(package) or path in name:
            logging.getLogger(name).setLevel(logging.WARNING)


def _worker(config: dict[str, Any]) -> dict[str, Any] | None:
    """Run one Ray Train worker; rank 0 returns the result."""
    task: TrainingTask = config["task"]
    train, validation = ray.get([config["train"], config["validation"]])
    context, device = ray.train.get_context(), ray.train.torch.get_device()
    _hush("ray.train")
    rank, workers = context.get_world_rank(), context.get_world_size()
    torch.set_num_threads(config["threads"])
    keep_freed_memory()
    latest, state = ray.train.get_checkpoint(), None
    if latest is not None:
        with latest.as_directory() as folder:
            state = load_checkpoint(Path(folder) / "state.pt")
    logger = RunLogger(*config["tracking"])
    task = replace(task, train=train, validation=validation)
    result = train_here(
        task,
        device=device,
        shard=Shard(rank, workers),
        wrap=_wrap(device, workers),
        reduce=_sum_over_workers,
        report=_reporter(rank, logger, task.spec.max_steps),
        state=state,
    )
    weights = {name: value.cpu().numpy() for name, value in result.weights.items()}
    return {**asdict(result), "weights": weights} if rank == 0 else None


def _fit(
    function: Callable[[dict[str, Any]], Any],
    config: dict[str, Any],
    params: ClusterParams,
    storage: str,
    name: str,
    what: str,
    callbacks: list[Any] | None = None,
) -> Any:  # noqa: ANN401
    """Run a function on each of a group of workers; return what the first one returned."""
    trainer = TorchTrainer(
        function,  # type: ignore[arg-type]
        train_loop_config=config,
        torch_config=TorchConfig(backend=None if params.backend == "auto" else params.backend),
        scaling_config=ScalingConfig(
            num_workers=params.workers,
            use_gpu=params.use_gpu,
            resources_per_worker={"CPU": params.cpus_per_worker},
        ),
        run_config=RunConfig(
            name=name,
            storage_path=storage,
            failure_config=FailureConfig(
                max_failures=params.max_failures,
                controller_failure_limit=1,  # type: ignore[call-arg]
            ),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
            logging_config=LoggingConfig(log_level="WARNING"),
            callbacks=callbacks,
        ),
    )
    try:
        return trainer.fit().return_value  # type: ignore[attr-defined]
    except ray.train.TrainingFailedError as error:
        raise StageError(f"training of {what} failed: {last_line(error)}") from error


def _all_reduce_seconds(config: dict[str, Any]) -> list[float]:
    """Return the median seconds that this group takes to add up vectors of each length."""
    device, out = ray.train.torch.get_device(), []
    torch.set_num_threads(config["threads"])
    for length in config["lengths"]:
        vector, times = torch.ones(length, device=device), []
        for _ in range(config["repeats"] + 2):
            torch.distributed.barrier()
            began = time.perf_counter()
            torch.distributed.all_reduce(vector)
            if device.type == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - began)
        out.append(statistics.median(times[2:]))
    return out


def time_all_reduce(
    lengths: Sequence[int], repeats: int, params: ClusterParams, storage: str
) -> list[float]:
    """Return the median seconds of an all-reduce over the workers, for each vector length.

    Args:
        lengths: numbers in float32 that are added up.
        repeats: of each, after two to warm up.
        params: workers, two or more.
        storage: absolute path or URI.
    """
    config = {"lengths": list(lengths), "repeats": repeats, "threads": params.cpus_per_worker}
    return _fit(_all_reduce_seconds, config, params, storage, "all-reduce", "nothing")


def train_on_cluster(
    task: TrainingTask,
    params: ClusterParams,
    storage: str,
    *,
    tracking: tuple[str | None, str | None] = (None, None),
    callbacks: list[Any] | None = None,
) -> TrainingResult:
    """Train a task by Ray Train; a run of equal task and workers resumes where it stopped.

    Args:
        task: what to train.
        params: workers, CPUs, GPUs and restarts.
        storage: absolute path or URI for checkpoints, outside DVC's outputs.
        tracking: MLflow URI and run id, for rank 0 to log to.
        callbacks: Ray Train callbacks.

    Raises:
        StageError: training failed.
    """
    train, validation = ray.put(task.train), ray.put(task.validation)
    arrays = [task.train, task.validation, *(task.first or {}).values()]
    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
    parts = (__version__, task.spec.model_dump(), task.ranks, params.workers, digest)
    name = f"{task.name}-{key_of(*parts)}"
    config = {
        "task": replace(task, train=None, validation=None),
        "train": train,
        "validation": validation,
        "threads": params.cpus_per_worker,
        "tracking": tracking,
    }
    answer = dict(_fit(_worker, config, params, storage, name, task.name, callbacks))
    weights = {key: torch.tensor(value) for key, value in answer.pop("weights").items()}
    return TrainingResult(weights, **answer)
