"""Ray Tune over the grid of Table 1; the only importer of ray.tune.

A trial is one cell of the grid (see `hosm.experiment.trial`). With one worker it trains in place;
with more it launches Ray Train, and holds no CPU itself. The run's name is the hash of settings
and data, so that a stage started again continues the unfinished sweep.
"""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import ray
import torch
from ray import tune

from hosm.checkpoints import load_checkpoint, save_checkpoint
from hosm.experiment.cluster import last_line, train_on_cluster
from hosm.experiment.params import CELL
from hosm.experiment.process import StageError, keep_freed_memory
from hosm.experiment.tasks import train_here
from hosm.experiment.trial import SweepInputs, Train, run_trial, task_of

__all__ = ["SweepInputs", "run_sweep"]

MEASURED = (
    "s2_error",
    "autodiff_error",
    "hutchinson_error",
    "s1_error",
    "validation_dsm",
    "validation_second",
    "steps",
    "best_step",
    "seconds",
)
HEAD = "node:__internal_head__"


def _keep(state: dict[str, Any]) -> None:
    """Hand a trial's state to Ray Tune."""
    with tempfile.TemporaryDirectory() as folder:
        save_checkpoint(state, Path(folder) / "state.pt")
        kept = tune.Checkpoint.from_directory(folder)
        tune.report({"fits": len(state["done"])}, checkpoint=kept)


def _kept() -> dict[str, Any] | None:
    """Return the state that an interrupted trial left."""
    latest = tune.get_checkpoint()
    if latest is None:
        return None
    with latest.as_directory() as folder:
        return load_checkpoint(Path(folder) / "state.pt")


def _trainer(inputs: SweepInputs) -> Train:
    """Return what trains a task: the plain loop in place, or Ray Train with several workers."""
    workers, cpus = inputs.sweep.workers_per_trial, inputs.sweep.cpus_per_worker
    if workers == 1:
        torch.set_num_threads(cpus)
        return lambda task, report, state: train_here(task, report=report, state=state)
    changed = {"workers": workers, "cpus_per_worker": cpus}
    cluster = inputs.cluster.model_copy(update=changed)
    return lambda task, report, state: train_on_cluster(task, cluster, inputs.storage)


def _trial(config: dict[str, Any], inputs: SweepInputs) -> None:
    """Carry out one trial; its tables travel as text, which every logger of Ray can hold."""
    keep_freed_memory()
    rows, curves = run_trial(inputs, config["cell"], _trainer(inputs), _keep, _kept())
    tables = {"rows": json.dumps(rows), "curves": json.dumps(curves)}
    tune.report({**tables, "done_training": 1})


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


def _shown(rows: list[dict[str, Any]]) -> str:
    """Return the errors of a trial in words: of autodiff, then of each s2, and the seconds."""
    if not rows:
        return ""
    words = [f"autodiff {rows[0]['autodiff_error']:.3g}"]
    for row in rows:
        if "s2_error" in row:
            words.append(f"{row['target']} r{row['rank']} {row['s2_error']:.4g}")
    return f"{', '.join(words)} (s1 after {rows[0]['seconds']:.0f} s)"


def _rows(metrics: dict[str, Any], table: str) -> list[dict[str, Any]]:
    """Return a table of a finished trial; nothing of one that failed."""
    return json.loads(metrics[table]) if "done_training" in metrics else []


def run_sweep(
    inputs: SweepInputs,
    name: str,
    tell: Callable[[dict[str, Any], dict[str, Any], str], None],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run every trial of the grid; return a row for each estimate, and the learning curves.

    Args:
        inputs: data and settings.
        name: the sweep's key; an unfinished sweep of that name is continued.
        tell: called with (cell, metrics, status) once for each estimate of the sweep.

    Raises:
        StageError: a trial failed; the others have run, and a restart tries the failed ones again.
    """
    grid, ended = inputs.sweep.grid(), []
    for cell in (each for trial in grid for each in inputs.sweep.estimates(trial)):
        task_of(inputs, cell, {})  # a rank that the data cannot have is named before anything runs

    def listen(cell: dict[str, Any], metrics: dict[str, Any], status: str) -> None:
        ended.append(cell)
        rows = _rows(metrics, "rows")
        print(
            f"[{len(ended)}/{len(grid)}] {_name(cell)}: {status.lower()}  {_shown(rows)}",
            flush=True,
        )
        estimates = inputs.sweep.estimates(cell)
        for estimate, row in zip(estimates, rows or [{}] * len(estimates), strict=True):
            tell(estimate, row, status)

    _Announce.listener = listen
    try:
        results = _tuner(inputs, name).fit()
    finally:
        _Announce.listener = None
    rows, curves, failed = [], [], []
    for result in (results[i] for i in range(len(results))):
        cell, metrics = (result.config or {})["cell"], result.metrics or {}
        complete = result.error is None and "done_training" in metrics
        if cell not in ended:  # finished before a restart
            listen(cell, metrics, "FINISHED" if complete else "FAILED")
        rows += _rows(metrics, "rows") if complete else []
        curves += _rows(metrics, "curves") if complete else []
        if not complete:
            failed.append(f"{_name(cell)} ({last_line(result.error)})")
    if failed or len(results) != len(grid):
        raise StageError(f"{len(failed)} of {len(grid)} trials failed: {'; '.join(failed)}")
    tables = (
        pd.DataFrame(table).sort_values(list(CELL), kind="stable") for table in (rows, curves)
    )
    first, second = (table.reset_index(drop=True) for table in tables)
    return first, second
