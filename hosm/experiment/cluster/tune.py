"""Ray Tune over the grid of Table 1; the only importer of ray.tune.

A trial is one cell of the grid (see `accuracy.study.trial`). With one worker it trains in place;
with more it launches Ray Train, and holds no CPU itself. The sweep's name is the hash of settings
and data, under which each trial keeps its states: a stage started again runs through the whole
grid, where finished trials hand over their tables at once and others go on where they were.

A fit that diverges costs its own rows only; a trial that crashes fails the sweep once all others
have ended.
"""

import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import ray
import torch
from ray import tune

from hosm.experiment.accuracy.study.trial import DIVERGED, SweepInputs, Train, run_trial, task_of
from hosm.experiment.cluster.saved_states import States, every
from hosm.experiment.cluster.train import key_of, last_line, train_on_cluster
from hosm.experiment.run.process import StageError, keep_freed_memory
from hosm.experiment.settings import CELL
from hosm.experiment.train.tasks import train_here

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
FINISHED = "finished"  # comes after the names of all other states


def _trainer(inputs: SweepInputs) -> Train:
    """Return what trains a task: the plain loop in place, or Ray Train with several workers."""
    workers, cpus = inputs.sweep.workers_per_trial, inputs.sweep.cpus_per_worker
    if workers == 1:
        torch.set_num_threads(cpus)
        due = every(inputs.cluster.checkpoint_every)
        return lambda task, report, state: train_here(task, report=report, due=due, state=state)
    changed = {"workers": workers, "cpus_per_worker": cpus}
    cluster = inputs.cluster.model_copy(update=changed)
    return lambda task, report, state: train_on_cluster(task, cluster, inputs.storage)


def _trial(config: dict[str, Any], inputs: SweepInputs, place: str) -> None:
    """Carry out one trial; its tables travel as text, which every logger of Ray can hold."""
    keep_freed_memory()
    states = States(f"{place}/{key_of(config['cell'])}", inputs.cluster.checkpoints_kept)
    notes: list[str] = []
    state = states.newest(tell=notes.append)
    if state is None or "tables" not in state:
        rows, curves = run_trial(
            inputs, config["cell"], _trainer(inputs), lambda now: _keep(states, now), state
        )
        state = {"tables": {"rows": json.dumps(rows), "curves": json.dumps(curves)}}
        states.save(state, FINISHED)
    tune.report({**state["tables"], "notes": "; ".join(notes), "done_training": 1})


def _keep(states: States, state: dict[str, Any]) -> None:
    """Write a trial's state under a name that orders by fits, then by steps."""
    step = state["running"]["state"]["step"] if state["running"] else 0
    states.save(state, f"{len(state['done']):03d}-{step:09d}")


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
    """Return the tuner of a sweep of that name, new or not."""
    multi = inputs.sweep.workers_per_trial > 1
    cpus = float(inputs.sweep.cpus_per_worker)
    resources = {HEAD: 0.001} if multi else {"CPU": cpus}
    place = f"{inputs.storage}/{name}/states"
    if States(place, inputs.cluster.checkpoints_kept).begun():
        print(f"continuing the sweep {name}", flush=True)
    trainable = tune.with_parameters(_trial, inputs=inputs, place=place)
    return tune.Tuner(
        tune.with_resources(trainable, resources),
        param_space={"cell": tune.grid_search(inputs.sweep.grid())},
        tune_config=tune.TuneConfig(max_concurrent_trials=_concurrency(inputs), reuse_actors=True),
        run_config=tune.RunConfig(
            name=name,
            storage_path=inputs.storage,
            verbose=0,
            callbacks=[_Announce()],
            failure_config=tune.FailureConfig(max_failures=inputs.cluster.max_failures),
        ),
    )


def _name(cell: dict[str, Any]) -> str:
    """Return a cell in words."""
    return " ".join([cell["dataset"], *(f"{key} {cell[key]}" for key in CELL[1:])])


def _shown(rows: list[dict[str, Any]]) -> str:
    """Return the errors of a trial in words: of autodiff, then of each s2, and the seconds."""
    words = []
    for row in rows:
        name = f"{row['target']} r{row['rank']}"
        if DIVERGED in row:
            words.append(f"{name} diverged")
        elif not words:
            words.append(f"autodiff {row['autodiff_error']:.3g}")
        if "s2_error" in row:
            words.append(f"{name} {row['s2_error']:.4g}")
    seconds = rows[0].get("seconds") if rows else None
    return ", ".join(words) + (f" (s1 after {seconds:.0f} s)" if seconds is not None else "")


def _frames(rows: list[Any], curves: list[Any]) -> tuple[pd.DataFrame, ...]:
    """Return the tables of the finished fits, in the order of their cells, and of the others."""
    whole = [row for row in rows if DIVERGED not in row]
    lost = [row for row in rows if DIVERGED in row]
    columns = [*CELL, "steps", "validation_dsm", "validation_second", DIVERGED]
    frames = (pd.DataFrame(whole), pd.DataFrame(curves), pd.DataFrame(lost, columns=columns))
    ordered = (frame.sort_values(list(CELL), kind="stable") for frame in frames)
    return tuple(frame.reset_index(drop=True) for frame in ordered)


def run_sweep(
    inputs: SweepInputs,
    name: str,
    tell: Callable[[dict[str, Any], dict[str, Any], str], None],
) -> tuple[pd.DataFrame, ...]:
    """Run every trial of the grid; return three tables.

    The first has a row for each estimate, the second the learning curves, the third a row for
    each estimate whose fit diverged.

    Args:
        inputs: data and settings.
        name: the sweep's key; an unfinished sweep of that name is continued.
        tell: called with (cell, metrics, status) once for each estimate of the sweep.

    Raises:
        StageError: a trial crashed, or all diverged; the others have run, and a restart tries
            those that crashed again.
    """
    grid, ended = inputs.sweep.grid(), []
    for cell in (each for trial in grid for each in inputs.sweep.estimates(trial)):
        task_of(inputs, cell, {})  # a rank that the data cannot have is named before anything runs

    def listen(cell: dict[str, Any], metrics: dict[str, Any], status: str) -> None:
        ended.append(cell)
        complete = "done_training" in metrics
        rows = json.loads(metrics["rows"]) if complete else []
        counted = f"[{len(ended)}/{len(grid)}] {_name(cell)}: {status.lower()}"
        print(f"{counted}  {_shown(rows)}", flush=True)
        if complete and metrics["notes"]:
            print(metrics["notes"], flush=True)
        estimates = inputs.sweep.estimates(cell)
        for estimate, row in zip(estimates, rows or [{}] * len(estimates), strict=True):
            tell(estimate, row, "FAILED" if DIVERGED in row else status)

    _Announce.listener = listen
    try:
        results = _tuner(inputs, name).fit()
    finally:
        _Announce.listener = None
    rows, curves, failed = [], [], []
    for result in (results[i] for i in range(len(results))):
        metrics = result.metrics or {}
        if result.error is None and "done_training" in metrics:
            rows += json.loads(metrics["rows"])
            curves += json.loads(metrics["curves"])
        else:
            failed.append(f"{_name((result.config or {})['cell'])} ({last_line(result.error)})")
    if failed or len(results) != len(grid):
        raise StageError(f"{len(failed)} of {len(grid)} trials failed: {'; '.join(failed)}")
    if all(DIVERGED in row for row in rows):
        raise StageError(f"every fit of the sweep diverged; the first: {rows[0][DIVERGED]}")
    return _frames(rows, curves)
