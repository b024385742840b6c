"""Ray Tune over the grid of Table 1; the only importer of ray.tune.

A trial is one cell: data set, regime, sigma, target, rank, seed. With one worker it trains in
place; with more it launches Ray Train, and holds no CPU itself. The run's name is the hash of
settings and data, so that a stage started again continues the unfinished sweep.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import ray
import torch
from ray import tune

from hosm.checkpoints import load_checkpoint, save_checkpoint
from hosm.experiment.accuracy import model_errors
from hosm.experiment.cluster import last_line, train_on_cluster
from hosm.experiment.models import build_model
from hosm.experiment.params import CELL, ClusterParams, SweepParams
from hosm.experiment.process import StageError
from hosm.experiment.tasks import TrainingTask, train_here
from hosm.training import Progress, TrainingResult

__all__ = ["SweepInputs", "run_sweep"]

MEASURED = (
    "s2_error",
    "autodiff_error",
    "s1_error",
    "validation_dsm",
    "validation_second",
    "steps",
    "best_step",
    "seconds",
)
HEAD = "node:__internal_head__"


@dataclass(frozen=True)
class SweepInputs:
    """What the trials share: arrays by data set, settings, and where checkpoints go."""

    arrays: dict[str, dict[str, Any]]  # data set -> train, validation, test, std
    sweep: SweepParams
    cluster: ClusterParams
    storage: str


def _task(inputs: SweepInputs, cell: dict[str, Any]) -> TrainingTask:
    arrays = inputs.arrays[cell["dataset"]]
    train, validation = arrays["train"], arrays["validation"]
    shape, spec = (train.shape[1],), inputs.sweep.model(cell)
    return TrainingTask(cell["dataset"], spec, shape, arrays["std"], train, validation)


def _report(progress: Progress) -> None:
    """Hand a trial's progress and checkpoint to Ray Tune."""
    with tempfile.TemporaryDirectory() as folder:
        save_checkpoint(progress.state(), Path(folder) / "state.pt")
        tune.report(progress.metrics, checkpoint=tune.Checkpoint.from_directory(folder))


def _train_in_place(task: TrainingTask, threads: int) -> TrainingResult:
    torch.set_num_threads(threads)
    latest, state = tune.get_checkpoint(), None
    if latest is not None:
        with latest.as_directory() as folder:
            state = load_checkpoint(Path(folder) / "state.pt")
    return train_here(task, report=_report, state=state)


def _trial(config: dict[str, Any], inputs: SweepInputs) -> None:
    """Train one cell and report its errors on the test points."""
    cell, started = config["cell"], time.perf_counter()
    task = _task(inputs, cell)
    workers = inputs.sweep.workers_per_trial
    if workers == 1:
        result = _train_in_place(task, inputs.sweep.cpus_per_worker)
    else:
        cluster = inputs.cluster.model_copy(
            update={"workers": workers, "cpus_per_worker": inputs.sweep.cpus_per_worker}
        )
        result = train_on_cluster(task, cluster, inputs.storage)
    seconds = time.perf_counter() - started
    model = build_model(task.spec, task.shape, task.data_std)
    model.load_state_dict(result.weights)
    diagonal = inputs.sweep.models[cell["dataset"]].get("rank") == 0
    test = inputs.arrays[cell["dataset"]]["test"][: inputs.sweep.test_points]
    errors = model_errors(model.eval(), cell["dataset"], test, diagonal)
    last = {**result.metrics, **errors, "steps": result.step, "best_step": result.best_step}
    tune.report({**last, "seconds": seconds, "done_training": 1})


def _concurrency(inputs: SweepInputs) -> int:
    """Return how many trials the cluster's CPUs hold at once.

    Raises:
        StageError: not even one.
    """
    each = inputs.sweep.workers_per_trial * inputs.sweep.cpus_per_worker
    there = int(ray.cluster_resources().get("CPU", 0))
    if there < each:
        raise StageError(f"a trial needs {each} CPUs; the cluster has {there}")
    fits = there // each
    return min(fits, inputs.sweep.max_concurrent) if inputs.sweep.max_concurrent else fits


class _Announce(tune.Callback):
    """Tell the driver of each trial that ends.

    Ray pickles callbacks into the state that a restored sweep reads, so this one holds nothing;
    `listener` is the driver's.
    """

    listener: Callable[[dict[str, Any], dict[str, Any], str], None] | None = None

    def _tell(self, trial: Any, status: str) -> None:  # noqa: ANN401
        if _Announce.listener is not None:
            _Announce.listener(trial.config["cell"], dict(trial.last_result or {}), status)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:  # noqa: ANN401, D102
        self._tell(trial, "FINISHED")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:  # noqa: ANN401, D102
        self._tell(trial, "FAILED")


def _tuner(inputs: SweepInputs, name: str) -> tune.Tuner:
    """Return a new tuner, or the restored one of an unfinished sweep of that name."""
    multi = inputs.sweep.workers_per_trial > 1
    cpus = float(inputs.sweep.cpus_per_worker)
    resources = {HEAD: 0.001} if multi else {"CPU": cpus}
    trainable = tune.with_resources(tune.with_parameters(_trial, inputs=inputs), resources)
    path = f"{inputs.storage}/{name}"
    if tune.Tuner.can_restore(path):
        print(f"continuing the sweep {name}", flush=True)
        return tune.Tuner.restore(path, trainable=trainable, resume_errored=True)
    return tune.Tuner(
        trainable,
        param_space={"cell": tune.grid_search(inputs.sweep.grid())},
        tune_config=tune.TuneConfig(max_concurrent_trials=_concurrency(inputs), reuse_actors=True),
        run_config=tune.RunConfig(
            name=name,
            storage_path=inputs.storage,
            verbose=0,
            callbacks=[_Announce()],
            checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
        ),
    )


def _name(cell: dict[str, Any]) -> str:
    """Return a cell in words."""
    return " ".join([cell["dataset"], *(f"{key} {cell[key]}" for key in CELL[1:])])


def _shown(metrics: dict[str, Any]) -> str:
    """Return the errors and the time of a trial in words."""
    names = ("s2_error", "autodiff_error", "seconds")
    return "  ".join(f"{name} {metrics[name]:.3g}" for name in names if name in metrics)


def run_sweep(
    inputs: SweepInputs,
    name: str,
    tell: Callable[[dict[str, Any], dict[str, Any], str], None],
) -> pd.DataFrame:
    """Run every trial of the grid and return one row for each.

    Args:
        inputs: data and settings.
        name: the sweep's key; an unfinished sweep of that name is continued.
        tell: called with (cell, metrics, status) once for each trial of the sweep.

    Raises:
        StageError: a trial failed; the others have run, and a restart tries the failed ones again.
    """
    total, ended = len([_task(inputs, cell) for cell in inputs.sweep.grid()]), []

    def listen(cell: dict[str, Any], metrics: dict[str, Any], status: str) -> None:
        ended.append(cell)
        words = f"{_name(cell)}: {status.lower()}  {_shown(metrics)}"
        print(f"[{len(ended)}/{total}] {words}", flush=True)
        tell(cell, metrics, status)

    _Announce.listener = listen
    try:
        results = _tuner(inputs, name).fit()
    finally:
        _Announce.listener = None
    rows, failed = [], []
    for result in (results[i] for i in range(len(results))):
        cell, metrics = (result.config or {})["cell"], result.metrics or {}
        complete = result.error is None and "done_training" in metrics
        if cell not in ended:  # finished before a restart
            listen(cell, metrics, "FINISHED" if complete else "FAILED")
        if complete:
            rows.append({**cell, **{key: metrics[key] for key in MEASURED if key in metrics}})
        else:
            failed.append(f"{_name(cell)} ({last_line(result.error)})")
    if failed or len(rows) != total:
        raise StageError(f"{total - len(rows)} of {total} trials failed: {'; '.join(failed)}")
    return pd.DataFrame(rows).sort_values(list(CELL)).reset_index(drop=True)
