"""Ray Train around `training.fit`, as the driver sees it; `worker` is what each worker does.

One worker takes the same path as many. Data travel by reference through Ray's object store, so no
worker needs the driver's disk.
"""

import hashlib
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import ray
import ray.train
import torch
import torch.distributed
from ray.exceptions import RayError
from ray.train import (
    FailureConfig,
    LoggingConfig,
    RunConfig,
    ScalingConfig,
)
from ray.train.torch import TorchConfig, TorchTrainer
from ray.util.queue import Queue

from hosm import __version__
from hosm.experiment.cluster.connection import settled, unreachable
from hosm.experiment.cluster.pulses import hanging, watch_over
from hosm.experiment.cluster.saved_states import SavedStates
from hosm.experiment.cluster.worker import why, work
from hosm.experiment.run.process import StageError
from hosm.experiment.settings import ClusterParams
from hosm.experiment.train.training_task import TrainingTask
from hosm.training import Diverged, Progress, TrainingResult

__all__ = [
    "DivergedRun",
    "key_of",
    "time_all_reduce",
    "train_on_cluster",
]

PATIENCE = 20  # seconds that a run which is stopped has to write its state
LOOK, MISSES = 3.0, 4  # seconds between two looks whether the head answers; so many in vain
STARTS = 10  # starts, a minute each, that may wait in vain for nodes which are leaving
NEWCOMERS = 30.0  # seconds between two looks whether there is room for more workers


class DivergedRun(StageError, Diverged):
    """A run on the cluster diverged."""


def key_of(*parts: Any) -> str:  # noqa: ANN401
    """Return a short hash of settings and inputs: equal work, equal key."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _fit(
    function: Callable[[dict[str, Any]], Any],
    config: dict[str, Any],
    params: ClusterParams,
    storage: str,
    name: str,
    what: str,
    callbacks: list[Any] | None = None,
) -> Any:  # noqa: ANN401
    """Run a function on each of a group of workers; return what the first one returned.

    With `fewest_workers` the group is as large as the cluster allows, at any time.

    Raises:
        StageError: it failed on a worker, once too often; or the head of the cluster is gone.
    """
    params = settled(params)
    group: Any = (params.fewest_workers, params.workers) if params.elastic else params.workers
    starts = STARTS if params.elastic else 1
    trainer = TorchTrainer(
        function,  # type: ignore[arg-type]
        train_loop_config=config,
        torch_config=TorchConfig(backend=None if params.backend == "auto" else params.backend),
        scaling_config=ScalingConfig(
            num_workers=group,
            elastic_resize_monitor_interval_s=NEWCOMERS,  # type: ignore[call-arg]
            use_gpu=bool(params.use_gpu),
            resources_per_worker={"CPU": params.cpus_per_worker},
        ),
        run_config=RunConfig(
            name=name,
            storage_path=storage,
            failure_config=FailureConfig(
                max_failures=params.max_failures,
                controller_failure_limit=params.max_failures + starts,  # type: ignore[call-arg]
            ),
            logging_config=LoggingConfig(log_level="WARNING"),
            callbacks=callbacks,
        ),
    )
    head = ray.get_runtime_context().gcs_address
    try:
        return _aside(trainer.fit, head).return_value
    except ray.train.TrainingFailedError as error:
        raise StageError(f"training of {what} failed: {_reason(error)}") from error
    except RayError as error:  # what carried the run out is lost, as with the node of the head
        if unreachable(head):
            raise StageError(_gone(head)) from error
        raise StageError(
            f"training of {what} failed: {why(error)}; a new start goes on from the last state"
        ) from error


def _reason(error: ray.train.TrainingFailedError) -> str:
    """Return what happened in a line, and to which worker if it happened to one."""
    failures: dict[int, Exception] = getattr(error, "worker_failures", {})
    if len(failures) != 1:
        return why(error)
    ((rank, failure),) = failures.items()
    return f"worker {rank}: {why(failure)}"


def _gone(head: str) -> str:
    """Return what to say where the head at an address no longer answers."""
    return (
        f"the head of the Ray cluster at {head} is gone; once there is one again, a new start "
        "goes on from the last state"
    )


def _aside(function: Callable[[], Any], head: str) -> Any:  # noqa: ANN401
    """Return function(), called in a thread of its own.

    In the main thread Ray would take Ctrl-C over, end the workers at once and exit as if all were
    well.

    Raises:
        StageError: the head of the cluster no longer answers; Ray itself would end the process
            without a word after a minute.
    """
    outcome: Future[Any] = Future()

    def call() -> None:
        try:
            outcome.set_result(function())
        except Exception as error:
            outcome.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    missed = 0
    while not wait([outcome], timeout=LOOK).done and missed < MISSES:
        missed = missed + 1 if unreachable(head) else 0
    if not outcome.done():
        raise StageError(_gone(head))
    return outcome.result()


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


@contextmanager
def _passed_on(
    queue: Queue | None, report: Callable[[Progress], None] | None, reported: int
) -> Iterator[None]:
    """Report what rank 0 puts into a queue, in a thread of its own, until the body ends.

    Args:
        queue: of metrics and weights of validations; None where nobody listens.
        report: is called with each of them, in the order of their steps and once for each.
        reported: the last step that was reported before.
    """
    if queue is None or report is None:
        yield
        return
    outcome: Future[None] = Future()

    def listen() -> None:
        last = reported
        try:
            while (heard := queue.get()) is not None:
                metrics, weights = heard
                step = int(metrics["step"])
                if step > last:
                    state, last = {"step": step}, step
                    report(Progress(step, metrics, lambda: state, lambda: weights))  # noqa: B023
            outcome.set_result(None)
        except Exception as error:
            outcome.set_exception(error)

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield
        queue.put(None)
        outcome.result()
    finally:
        queue.shutdown(force=True)


def _config(
    task: TrainingTask, params: ClusterParams, states: SavedStates, listens: bool
) -> dict[str, Any]:
    """Return what travels to the workers, but for where they log to (see `worker.work`)."""
    watched = params.workers > 1 and params.hang_seconds > 0
    return {
        "task": replace(task, train=None, validation=None),
        "train": ray.put(task.train),
        "validation": ray.put(task.validation),
        "threads": params.cpus_per_worker,
        "states": states.place,
        "checkpoints_kept": params.checkpoints_kept,
        "checkpoint_every": params.checkpoint_every,
        "checkpoint_seconds": params.checkpoint_seconds,
        "listener": Queue(actor_options={"num_cpus": 0}) if listens else None,
        "pulses": watch_over(params.hang_seconds) if watched else None,
        "pause": min(5.0, params.hang_seconds / 10),
    }


def _result(task: TrainingTask, answer: dict[str, Any]) -> TrainingResult:
    """Return what a run learned, by the answer of its workers.

    Raises:
        DivergedRun: a loss was not finite.
        StageError: it failed, and would again.
    """
    if "failed" in answer:
        raise StageError(f"training of {task.name} failed: {answer['failed']}")
    if "diverged" in answer:
        diverged = DivergedRun(f"training of {task.name} failed: {answer['diverged']}")
        diverged.last = answer["last"]
        raise diverged
    weights = {key: torch.tensor(value) for key, value in answer.pop("weights").items()}
    return TrainingResult(weights, **answer)


def train_on_cluster(
    task: TrainingTask,
    params: ClusterParams,
    storage: str,
    *,
    tracking: tuple[str | None, str | None] = (None, None),
    callbacks: list[Any] | None = None,
    report: Callable[[Progress], None] | None = None,
    reported: int = 0,
) -> TrainingResult:
    """Train a task by Ray Train; a run of an equal task resumes where it stopped.

    The workers may be as many as before, or more, or fewer.

    Args:
        task: what to train.
        params: workers, CPUs, GPUs and restarts.
        storage: absolute path or URI for checkpoints, outside DVC's outputs.
        tracking: MLflow URI and run id, for rank 0 to log to.
        callbacks: Ray Train callbacks.
        report: called in this process with each validation, while the run goes on. The state of
            such a progress holds the step alone, since the run keeps its states by itself.
        reported: step up to which an interrupted run has reported.

    Raises:
        DivergedRun: a loss is not finite.
        StageError: training failed.
    """
    digest = hashlib.sha256(task.fingerprint()).hexdigest()
    parts = (__version__, task.spec.model_dump(), task.ranks, digest)
    name = f"{task.name}-{key_of(*parts)}"
    states = SavedStates(f"{storage}/{name}/states", params.checkpoints_kept)
    states.answer()  # nobody waits for a state that an earlier driver asked for
    config = {**_config(task, params, states, report is not None), "tracking": tracking}
    try:
        with _passed_on(config["listener"], report, reported):
            answer = dict(_fit(work, config, params, storage, name, task.name, callbacks))
    except StageError as error:
        if named := hanging(config["pulses"]):
            raise StageError(f"training of {task.name} failed: {named}") from error
        raise
    except KeyboardInterrupt:
        if states.request(PATIENCE):
            print("stopped; a new start goes on from this very step", flush=True)
        raise
    return _result(task, answer)
