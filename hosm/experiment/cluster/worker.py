"""What each worker of Ray Train does: the plain loop, on its shard, from the newest state.

The loop meets Ray at three points: `wrap` is DistributedDataParallel, `shard` is the worker's
rank, `report` hands metrics to Ray. Rank 0 also writes the states of the run, at each validation
and every so many seconds between, in a thread beside the training. A run that has stopped goes on
from the newest of them, which rank 0 reads and hands to the others, so that no death of a worker
or of all of them costs more than the steps since. As many workers go on bit for bit, others up to
rounding.
"""

import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import partial
from typing import Any, cast

import ray
import ray.train
import ray.train.torch
import torch
import torch.distributed
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from hosm.experiment.cluster.pulses import Pulse
from hosm.experiment.cluster.saved_states import SavedStates, every, every_seconds
from hosm.experiment.run.process import keep_freed_memory
from hosm.experiment.run.tracking import RunLogger
from hosm.experiment.train.training_task import TrainingTask, train_here
from hosm.training import Diverged, Progress, Shard

__all__ = ["why", "work"]

FULL = (errno.ENOSPC, errno.EDQUOT)  # a restart would find the disk as full
WANT = ("out of memory", "OutOfMemory", "can't allocate memory", "MemoryError")
UNHEARD = ("references to the actor were removed", "The actor never ran")
ONE_MODE = (
    "Ray cancelled it before it began: the head could not ask this process whether it still "
    "waits, as where RAY_AUTH_MODE is not the same on both sides"
)
LOOK = 0.5  # seconds between two looks whether the driver requests a state
NOTICE = 3.0  # seconds between two questions to Ray whether it will take a node away
MEETING = 0.25  # seconds between two meetings of all workers, about
LONGEST_GAP = 1000  # steps between them, at most


def _several() -> bool:
    """Say whether this is one of several workers."""
    return torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1


def _sum_over_workers(totals: Tensor, pulse: Pulse) -> Tensor:
    """Add a vector over the workers; one worker has nothing to add."""
    if _several():
        with pulse.waiting():
            torch.distributed.all_reduce(totals)
    return totals


def _averaged_in_time(
    pulse: Pulse, bucket: torch.distributed.GradBucket
) -> torch.futures.Future[Tensor]:
    """Average a part of the gradients over the workers; meanwhile this one waits."""
    pulse.waits += 1

    def done(averaged: torch.futures.Future[Tensor]) -> Tensor:
        pulse.waits -= 1
        return averaged.value()

    everyone = cast("torch.distributed.ProcessGroup", torch.distributed.group.WORLD)
    return allreduce_hook(everyone, bucket).then(done)


class _Averaged(nn.Module):
    """What averages gradients over workers: DDP, which has settled how before the first step.

    DDP arranges the gradients anew after the first batch that it sees, and the order in which
    workers are added up depends on the arrangement. A first batch is therefore taken twice, once
    without a step, so that a run which goes on adds up as it did before.
    """

    def __init__(self, module: nn.Module, device: torch.device, pulse: Pulse) -> None:
        super().__init__()
        devices = [device] if device.type == "cuda" else None
        self.parallel, self.settled = DistributedDataParallel(module, device_ids=devices), False
        self.parallel.register_comm_hook(pulse, _averaged_in_time)
        self.pulse = pulse

    def no_sync(self) -> AbstractContextManager[None]:
        """Return a context in which gradients add up on each worker alone."""
        return self.parallel.no_sync()

    def forward(self, *batch: Tensor) -> Tensor:
        """Return the terms of a batch."""
        self.pulse.step += 1
        if not self.settled:
            drawn = torch.get_rng_state()
            self.parallel(*batch).sum().backward()
            self.parallel.zero_grad(set_to_none=True)
            torch.set_rng_state(drawn)
            self.settled = True
        return self.parallel(*batch)


def _wrap(device: torch.device, workers: int, pulse: Pulse) -> Callable[[nn.Module], nn.Module]:
    """Return what averages gradients over workers, if there is more than one."""
    return lambda module: module if workers == 1 else _Averaged(module, device, pulse)


def _agreed(value: Any, device: torch.device, pulse: Pulse) -> Any:  # noqa: ANN401
    """Return what rank 0 holds, on every worker."""
    if not _several():
        return value
    held = [value]
    with pulse.waiting():
        torch.distributed.broadcast_object_list(held, src=0, device=device)
    return held[0]


class _Reporter:
    """What hands progress to Ray; that of rank 0 also prints, logs and keeps states.

    Between validations states are kept every so many steps, every so many seconds, when the driver
    requests one, and when Ray gives notice that a node will be taken away. The first apart, this
    is up to rank 0: some times in a second all workers meet and hear whether it wants to report,
    or to ask Ray, which all must do at once, and after how many steps they meet again.
    """

    def __init__(
        self,
        rank: int,
        config: dict[str, Any],
        states: SavedStates,
        agreed: Callable[[Any], Any] = lambda value: value,
        notice: Callable[[], bool] = lambda: False,
    ) -> None:
        self.rank, self.states, self.agreed, self.notice = rank, states, agreed, notice
        self.asked = every_seconds(NOTICE)
        self.logger, self.listener = RunLogger(*config["tracking"]), config["listener"]
        self.writer = ThreadPoolExecutor(1)
        self.written: Future[None] | None = None
        self.total = config["task"].spec.max_steps
        self.regular = every(config["checkpoint_every"])
        self.passed = every_seconds(config["checkpoint_seconds"])
        self.requested = threading.Event()
        self.met_at = time.monotonic()
        self.met, self.meeting = 0, 0  # steps of the last meeting and of the next

    def due(self, step: int) -> bool:
        """Whether to report a step between validations; alike on all workers."""
        return self.regular(step) or (step >= self.meeting and self._meet(step))

    def _meet(self, step: int) -> bool:
        """Return whether rank 0 wants to report this step; note when to meet again."""
        now = time.monotonic()
        pace = (now - self.met_at) / max(step - self.met, 1)
        gap = min(max(1, int(MEETING / max(pace, 1e-9))), LONGEST_GAP)
        wanted = self.requested.is_set() or self.passed()
        wanted, gap, ask = self.agreed((wanted, gap, self.asked()))
        self.met_at, self.met, self.meeting = now, step, step + gap
        return wanted or (ask and self.notice())

    def watch(self) -> None:
        """Look out for the driver's request for a state, before it stops the run."""

        def look() -> None:
            while True:
                if self.states.requested():
                    self.requested.set()
                time.sleep(LOOK)

        threading.Thread(target=look, daemon=True).start()

    def take_up(self, state: dict[str, Any], workers: int) -> None:
        """Tell where the run goes on; log what the MLflow run of another driver holds."""
        group = f" on {workers} worker{'s' * (workers > 1)}"
        print(f"continuing after step {state['step']}{group}", flush=True)
        if state["run_id"] != self.logger.run_id:
            for metrics in state["history"]:
                self.logger.log_metrics(metrics, step=int(metrics["step"]))
        if state["history"] and state["history"][-1]["step"] == state["step"]:
            named = {name.partition("."): weight for name, weight in state["averaged"].items()}
            weights = {
                name: weight for (part, _, name), weight in named.items() if part == "model"
            }
            self._let_hear(state["history"][-1], weights)

    def __call__(self, progress: Progress) -> None:
        """Report a step; its metrics before its state, so that none are lost in between."""
        if self.rank == 0:
            if progress.metrics:
                self._show(progress)
            self.wait()
            state = {**progress.state(), "run_id": self.logger.run_id}
            answers = self.requested.is_set()
            self.written = self.writer.submit(self._write, state, progress.step, answers)
        if progress.metrics:
            ray.train.report({**progress.metrics})

    def wait(self) -> None:
        """Wait until the last state is written.

        Raises:
            OSError: it could not be.
        """
        if self.written is not None:
            self.written.result()

    def _write(self, state: dict[str, Any], step: int, answers: bool) -> None:
        """Write a state, beside the training, and tell the driver if it waits for it."""
        self.states.save(state, f"{step:09d}")
        if answers:
            self.requested.clear()
            self.states.answer()

    def _let_hear(self, metrics: dict[str, float], weights: dict[str, Tensor]) -> None:
        """Hand metrics and averaged weights of a validation to who listens, if anyone does."""
        if self.listener is not None:
            self.listener.put((metrics, {name: each.cpu() for name, each in weights.items()}))

    def _show(self, progress: Progress) -> None:
        self._let_hear(progress.metrics, progress.weights())
        shown = "  ".join(f"{k} {v:.4f}" for k, v in progress.metrics.items() if k != "step")
        print(f"step {progress.step}/{self.total}  {shown}", flush=True)
        self.logger.log_metrics(progress.metrics, step=progress.step)


def _noticed() -> Callable[[], bool]:
    """Return what says, once for each of its notices, that Ray will take nodes away."""
    known: set[tuple[str, ...]] = set()

    def notice() -> bool:
        info = ray.train.get_preemption_info()
        nodes = tuple(info.preempted_node_ids) if info else ()
        new = bool(nodes) and nodes not in known
        known.add(nodes)
        return new

    return notice


def out_of_memory(text: str) -> bool:
    """Say whether an error, as text, tells of a want of memory."""
    return any(sign in text for sign in WANT)


def why(error: BaseException | None) -> str:
    """Return the line of an error, perhaps of another process, that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if found := next((line for line in [*lines, repr(error)] if out_of_memory(line)), None):
        return f"out of memory ({found[:200]}); a smaller batch_size or more workers need less"
    if all(sign in str(error) for sign in UNHEARD):
        return ONE_MODE
    return lines[-1] if lines else "no reason given"


def _hush(package: str) -> None:
    """Silence the loggers of a package up to warnings: Ray announces each checkpoint twice."""
    path = package.replace(".", os.sep)  # some of its loggers are named after their file
    for name in [package, *logging.root.manager.loggerDict]:
        if name.startswith(package) or path in name:
            logging.getLogger(name).setLevel(logging.WARNING)


def _described(device: torch.device) -> str:
    """Return a GPU in words, and whether its float32 products are rounded to TF32."""
    rounds = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    matrices, convolutions = ("TF32" if each else "float32" for each in rounds)
    name = torch.cuda.get_device_name(device)
    return f"on {name}: products of matrices in {matrices}, convolutions in {convolutions}"


def work(config: dict[str, Any]) -> dict[str, Any] | None:
    """Run one worker; rank 0 returns the result, or why there is none and will be none.

    Args:
        config: the task without its arrays, references to these, threads, the place of the states
            and how many are kept, steps and seconds between them, who hears signs of life and
            the seconds between these, who hears validations, MLflow's URI and run id.
    """
    task: TrainingTask = config["task"]
    train, validation = ray.get([config["train"], config["validation"]])
    context, device = ray.train.get_context(), ray.train.torch.get_device()
    _hush("ray.train")
    rank, workers = context.get_world_rank(), context.get_world_size()
    torch.set_num_threads(config["threads"])
    keep_freed_memory()
    states = SavedStates(config["states"], config["checkpoints_kept"])
    pulse = Pulse()
    agreed = partial(_agreed, device=device, pulse=pulse)
    if config["pulses"] is not None and workers > 1:
        pulse.tell(config["pulses"], agreed(time.time()), rank, workers, config["pause"])
    reporter = _Reporter(rank, config, states, agreed, _noticed())
    state = agreed(states.newest(tell=partial(print, flush=True)) if rank == 0 else None)
    if rank == 0:
        if device.type == "cuda":
            print(_described(device), flush=True)
        if state is not None:
            reporter.take_up(state, workers)
        reporter.watch()
    try:
        result = train_here(
            replace(task, train=train, validation=validation),
            device=device,
            shard=Shard(rank, workers),
            wrap=_wrap(device, workers, pulse),
            reduce=partial(_sum_over_workers, pulse=pulse),
            report=reporter,
            due=reporter.due,
            state=state,
        )
        reporter.wait()
    except Diverged as error:  # on all workers at once; another start would end alike
        return {"diverged": str(error), "last": error.last} if rank == 0 else None
    except (OSError, RuntimeError, MemoryError) as error:
        final = getattr(error, "errno", None) in FULL or out_of_memory(repr(error))
        if workers > 1 or not final:  # raised by one of several, only Ray can stop the others
            raise
        return {"failed": why(error)}
    weights = {name: value.cpu().numpy() for name, value in result.weights.items()}
    return {**asdict(result), "weights": weights} if rank == 0 else None
