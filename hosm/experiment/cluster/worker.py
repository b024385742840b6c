"""What each worker of Ray Train does: the plain loop, on its shard, from the newest state.

The loop meets Ray at three points: `wrap` is DistributedDataParallel, `shard` is the worker's
rank, `report` hands metrics to Ray. Rank 0 also writes the states of the run, at each validation
and every so many steps between. A run that has stopped goes on from the newest of them, so that
no death of a worker or of all of them costs more than the steps since.
"""

import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from hosm.experiment.cluster.saved_states import SavedStates, every
from hosm.experiment.run.process import keep_freed_memory
from hosm.experiment.run.tracking import RunLogger
from hosm.experiment.train.training_task import TrainingTask, train_here
from hosm.training import Diverged, Progress, Shard

__all__ = ["work"]

FULL = (errno.ENOSPC, errno.EDQUOT)  # a restart would find the disk as full
LOOK = 0.5  # seconds between two looks whether the driver requests a state


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


class _Reporter:
    """What hands progress to Ray; that of rank 0 also prints, logs and keeps states."""

    def __init__(self, rank: int, config: dict[str, Any], states: SavedStates) -> None:
        self.rank, self.states = rank, states
        self.logger = RunLogger(*config["tracking"])
        self.total = config["task"].spec.max_steps
        self.regular = every(config["checkpoint_every"])
        self.requested = threading.Event()

    def due(self, step: int) -> bool:
        """Whether to report a step between validations."""
        return self.regular(step) or self.requested.is_set()

    def watch(self) -> None:
        """Look out for the driver's request for a state, before it stops the run."""

        def look() -> None:
            while not self.states.requested():
                time.sleep(LOOK)
            self.requested.set()

        threading.Thread(target=look, daemon=True).start()

    def take_up(self, state: dict[str, Any]) -> None:
        """Tell where the run goes on; log what the MLflow run of another driver holds."""
        print(f"continuing after step {state['step']}", flush=True)
        if state["run_id"] != self.logger.run_id:
            for metrics in state["history"]:
                self.logger.log_metrics(metrics, step=int(metrics["step"]))

    def __call__(self, progress: Progress) -> None:
        """Report a step; its metrics before its state, so that none are lost in between."""
        if self.rank == 0:
            if progress.metrics:
                self._show(progress)
            state = {**progress.state(), "run_id": self.logger.run_id}
            self.states.save(state, f"{progress.step:09d}")
            if self.requested.is_set():
                self.requested.clear()
                self.states.answer()
        if progress.metrics:
            ray.train.report({**progress.metrics})

    def _show(self, progress: Progress) -> None:
        shown = "  ".join(f"{k} {v:.4f}" for k, v in progress.metrics.items() if k != "step")
        print(f"step {progress.step}/{self.total}  {shown}", flush=True)
        self.logger.log_metrics(progress.metrics, step=progress.step)


def _hush(package: str) -> None:
    """Silence the loggers of a package up to warnings: Ray announces each checkpoint twice."""
    path = package.replace(".", os.sep)  # some of its loggers are named after their file
    for name in [package, *logging.root.manager.loggerDict]:
        if name.startswith(package) or path in name:
            logging.getLogger(name).setLevel(logging.WARNING)


def work(config: dict[str, Any]) -> dict[str, Any] | None:
    """Run one worker; rank 0 returns the result, or why there is none and will be none.

    Args:
        config: the task without its arrays, references to these, threads, the place of the states
            and how many are kept, the steps between them, MLflow's URI and run id.
    """
    task: TrainingTask = config["task"]
    train, validation = ray.get([config["train"], config["validation"]])
    context, device = ray.train.get_context(), ray.train.torch.get_device()
    _hush("ray.train")
    rank, workers = context.get_world_rank(), context.get_world_size()
    torch.set_num_threads(config["threads"])
    keep_freed_memory()
    states = SavedStates(config["states"], config["checkpoints_kept"])
    reporter = _Reporter(rank, config, states)
    state = states.newest(tell=partial(print, flush=True) if rank == 0 else lambda line: None)
    if rank == 0 and state is not None:
        reporter.take_up(state)
    if workers == 1:  # several would not see a request at the same step
        reporter.watch()
    try:
        result = train_here(
            replace(task, train=train, validation=validation),
            device=device,
            shard=Shard(rank, workers),
            wrap=_wrap(device, workers),
            reduce=_sum_over_workers,
            report=reporter,
            due=reporter.due,
            state=state,
        )
    except Diverged as error:  # on all workers at once; another start would end alike
        return {"diverged": str(error), "last": error.last} if rank == 0 else None
    except OSError as error:  # raised by one of several, only Ray can stop the others
        if workers > 1 or error.errno not in FULL:
            raise
        return {"failed": str(error)}
    weights = {name: value.cpu().numpy() for name, value in result.weights.items()}
    return {**asdict(result), "weights": weights} if rank == 0 else None
