"""A grid of trials on Ray Tune; the only importer of ray.tune.

A trial is what one cell of the grid says: some fits, one after another, that end in tables. With
one worker its fits train in place, on a share of a GPU where the cluster has any; with more they
launch Ray Train, and the trial itself holds no CPU. Each trial keeps its states under the name of
the grid's run, so that a run of that name which is started again goes through the whole grid:
finished trials give their tables at once, and others continue where they were.

A trial that crashes fails the run once all others have ended.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import ray
import torch
from ray import tune

from hosm.experiment.cluster.connection import settled
from hosm.experiment.cluster.saved_states import SavedStates, every, every_seconds
from hosm.experiment.cluster.train import key_of, train_on_cluster
from hosm.experiment.cluster.worker import why
from hosm.experiment.run.duration import in_words
from hosm.experiment.run.process import StageError, keep_freed_memory
from hosm.experiment.settings import ClusterParams, SweepParams
from hosm.experiment.train.training_task import Train, train_here

__all__ = ["Cell", "Grid", "Tables", "run_grid"]

Cell = dict[str, Any]
Tables = dict[str, list[dict[str, Any]]]
HEAD = "node:__internal_head__"
FINISHED = "finished"  # comes after the names of all other states


class Trial(Protocol):
    """What carries a trial out."""

    def __call__(
        self,
        cell: Cell,
        train: Train,
        keep: Callable[[dict[str, Any], str], None],
        state: dict[str, Any] | None,
    ) -> Tables:
        """Return the tables of a cell, of JSON's types.

        Args:
            cell: of the grid.
            train: trains a task, with what to report to and the state to continue from.
            keep: takes a state of the trial and a name, which must come after the names of the
                trial's earlier states in alphabetical order and before FINISHED.
            state: of an interrupted trial.
        """


@dataclass(frozen=True)
class Grid:
    """The trials of a run, and what each of them needs.

    `cells` are those of the trials, the first value of which names the data set; `trial`, which
    can be pickled, carries one out; `show` says in words what its tables hold. `sweep` holds
    workers and CPUs of a trial, and how many may run at once; `cluster` holds restarts and what is
    kept of states, which lie below `storage`, a path or URI.
    """

    cells: list[Cell]
    trial: Trial
    show: Callable[[Tables], str]
    sweep: SweepParams
    cluster: ClusterParams
    storage: str


@dataclass(frozen=True)
class _Carried:
    """What travels to the trials: their part of the grid, and the place of their states."""

    trial: Trial
    sweep: SweepParams
    cluster: ClusterParams
    storage: str
    place: str


def _trainer(carried: _Carried) -> Train:
    """Return what trains a task: the plain loop in place, or Ray Train with several workers."""
    workers, cpus = carried.sweep.workers_per_trial, carried.sweep.cpus_per_worker
    if workers == 1:
        device = _device()
        torch.set_num_threads(cpus)
        regular = every(carried.cluster.checkpoint_every)
        passed = every_seconds(carried.cluster.checkpoint_seconds)

        def due(step: int) -> bool:
            return regular(step) or passed()

        return lambda task, report, state: train_here(
            task, device=device, report=report, due=due, state=state
        )
    changed = {"workers": workers, "cpus_per_worker": cpus}
    cluster = carried.cluster.model_copy(update=changed)
    return lambda task, report, state: train_on_cluster(
        task, cluster, carried.storage, report=report, reported=state["step"] if state else 0
    )


def _device() -> torch.device:
    """Return where a trial trains: on the GPU that Ray lent it a share of, or on the CPU."""
    if not ray.get_gpu_ids():
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda")
    print("Ray lends this trial a GPU that torch cannot use; it trains on the CPU", flush=True)
    return torch.device("cpu")


def _trial(config: dict[str, Any], carried: _Carried) -> None:
    """Carry out one trial; its tables travel as text, which every logger of Ray can hold."""
    keep_freed_memory()
    cell = config["cell"]
    notes: list[str] = []
    states = SavedStates(f"{carried.place}/{key_of(cell)}", carried.cluster.checkpoints_kept)
    state = states.newest(tell=notes.append)
    kept = state is not None and "tables" in state
    if state is None or "tables" not in state:
        tables = carried.trial(cell, _trainer(carried), states.save, state)
        state = {"tables": {name: json.dumps(rows) for name, rows in tables.items()}}
        states.save(state, FINISHED)
    told = {"tables": json.dumps(state["tables"]), "notes": "; ".join(notes), "kept": kept}
    tune.report(told)


def _tables(metrics: dict[str, Any] | None) -> Tables:
    """Return the tables that a trial reported; none if it did not."""
    texts = json.loads((metrics or {}).get("tables", "{}"))
    return {name: json.loads(text) for name, text in texts.items()}


def _needs(grid: Grid) -> dict[str, float]:
    """Return what a trial holds of Ray's resources, its workers included."""
    sweep, with_gpus = grid.sweep, settled(grid.cluster).use_gpu
    workers = sweep.workers_per_trial
    share = sweep.gpus_per_trial if workers == 1 else float(workers)
    return {"CPU": float(workers * sweep.cpus_per_worker), **({"GPU": share} if with_gpus else {})}


def _concurrency(needs: dict[str, float], most: int) -> int:
    """Return how many trials the cluster holds at once.

    Args:
        needs: of a trial.
        most: trials that may run at once; 0 for any number.

    Raises:
        StageError: not even one.
    """
    there = ray.cluster_resources()
    fits = []
    for name, each in needs.items():
        if there.get(name, 0) < each:
            raise StageError(
                f"a trial needs {each:g} {name}s; the cluster has {there.get(name, 0):g}"
            )
        fits.append(int(there[name] / each + 1e-9))  # shares like 1 / 3 are rounded
    return min([*fits, most]) if most else min(fits)


class _Announce(tune.Callback):
    """Tell the driver of each trial that ends.

    Ray pickles callbacks into the state that a restored run reads, so this one holds nothing;
    `listener` is the driver's.
    """

    listener: Callable[[Cell, dict[str, Any], str], None] | None = None

    def _tell(self, trial: Any, status: str) -> None:  # noqa: ANN401
        if _Announce.listener is not None:
            _Announce.listener(trial.config["cell"], dict(trial.last_result or {}), status)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:  # noqa: ANN401, D102
        self._tell(trial, "FINISHED")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:  # noqa: ANN401, D102
        self._tell(trial, "FAILED")


def _tuner(grid: Grid, name: str) -> tune.Tuner:
    """Return the tuner of a run of that name, new or not."""
    multi = grid.sweep.workers_per_trial > 1
    needs = _needs(grid)
    resources = {HEAD: 0.001} if multi else needs
    place = f"{grid.storage}/{name}/states"
    if SavedStates(place, grid.cluster.checkpoints_kept).exist():
        print(f"continuing the sweep {name}", flush=True)
    carried = _Carried(grid.trial, grid.sweep, grid.cluster, grid.storage, place)
    trainable = tune.with_parameters(_trial, carried=carried)
    return tune.Tuner(
        tune.with_resources(trainable, resources),
        param_space={"cell": tune.grid_search(grid.cells)},
        tune_config=tune.TuneConfig(
            max_concurrent_trials=_concurrency(needs, grid.sweep.max_concurrent), reuse_actors=True
        ),
        run_config=tune.RunConfig(
            name=name,
            storage_path=grid.storage,
            verbose=0,
            callbacks=[_Announce()],
            failure_config=tune.FailureConfig(max_failures=grid.cluster.max_failures),
        ),
    )


def _name(cell: Cell) -> str:
    """Return a cell in words: its data set, and the names and values of the others."""
    first, *others = cell.items()
    return " ".join([str(first[1]), *(f"{key} {value}" for key, value in others)])


def run_grid(grid: Grid, name: str, tell: Callable[[Cell, Tables, str], None]) -> list[Tables]:
    """Run every trial of a grid; return their tables in the order of the cells.

    Args:
        grid: the trials.
        name: of the run, by which an unfinished one is continued.
        tell: called with (cell, tables, status) once for each trial that ends.

    Raises:
        StageError: a trial crashed; the others have run, and a restart tries it again.
    """
    ended: list[Cell] = []
    worked: list[Cell] = []  # of them, those that no earlier start had finished
    began = time.monotonic()

    def listen(cell: Cell, metrics: dict[str, Any], status: str) -> None:
        ended.append(cell)
        tables = _tables(metrics)
        counted = f"[{len(ended)}/{len(grid.cells)}] {_name(cell)}: {status.lower()}"
        if not metrics.get("kept"):
            worked.append(cell)
        if worked and (more := len(grid.cells) - len(ended)):
            left = (time.monotonic() - began) / len(worked) * more
            counted = f"{counted}, about {in_words(left)} left"
        print(f"{counted}  {grid.show(tables)}", flush=True)
        if notes := metrics.get("notes"):
            print(notes, flush=True)
        tell(cell, tables, status)

    _Announce.listener = listen
    try:
        results = _tuner(grid, name).fit()
    finally:
        _Announce.listener = None
    found, failed = [], []
    for result, cell in zip((results[i] for i in range(len(results))), grid.cells, strict=False):
        tables = _tables(result.metrics)
        if result.error is None and tables:
            found.append(tables)
        else:
            # a trial that never began has no settings of its own
            named = _name((result.config or {}).get("cell", cell))
            failed.append(f"{named} ({why(result.error)})")
    if failed or len(results) != len(grid.cells):
        raise StageError(f"{len(failed)} of {len(grid.cells)} trials failed: {'; '.join(failed)}")
    return found
