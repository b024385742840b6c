"""The sweep of table 1: a trial for each cell of the grid, and the tables of all of them.

A fit that diverges costs its own rows alone; the sweep fails if every fit diverges.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd

from hosm.experiment.accuracy.study.trial import (
    DIVERGED,
    SweepInputs,
    run_trial,
    task_of,
)
from hosm.experiment.cluster.tune import Cell, Grid, Tables, run_grid
from hosm.experiment.run.process import StageError
from hosm.experiment.settings import CELL, ClusterParams
from hosm.experiment.shared.rows import Row
from hosm.experiment.train.training_task import Train

__all__ = ["MEASURED", "SweepInputs", "run_sweep"]

MEASURED = (
    "s2_error",
    "shrunk_error",
    "share",
    "autodiff_error",
    "hutchinson_error",
    "s1_error",
    "validation_dsm",
    "validation_second",
    "steps",
    "best_step",
    "seconds",
)


def _trial(
    inputs: SweepInputs,
    cell: Cell,
    train: Train,
    keep: Callable[[dict[str, Any], str], None],
    state: dict[str, Any] | None,
) -> Tables:
    """Return the tables of a cell; its states are named by their fits, then by their steps."""

    def keep_state(now: dict[str, Any]) -> None:
        step = now["running"]["state"]["step"] if now["running"] else 0
        keep(now, f"{len(now['done']):03d}-{step:09d}")

    rows, curves = run_trial(inputs, cell, train, keep_state, state)
    return {"rows": rows, "curves": curves}


def _shown(tables: Tables) -> str:
    """Return the errors of a trial in words: of autodiff, then of each s2, and the seconds."""
    rows, words = tables.get("rows", []), []
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


def _frames(rows: list[Row], curves: list[Row]) -> tuple[pd.DataFrame, ...]:
    """Return the tables of the finished fits, in the order of their cells, and of the others."""
    whole = [row for row in rows if DIVERGED not in row]
    lost = [row for row in rows if DIVERGED in row]
    columns = [*CELL, "steps", "validation_dsm", "validation_second", DIVERGED]
    frames = (pd.DataFrame(whole), pd.DataFrame(curves), pd.DataFrame(lost, columns=columns))
    ordered = (frame.sort_values(list(CELL), kind="stable") for frame in frames)
    return tuple(frame.reset_index(drop=True) for frame in ordered)


def run_sweep(
    inputs: SweepInputs,
    cluster: ClusterParams,
    storage: str,
    name: str,
    tell: Callable[[Cell, Row, str], None],
) -> tuple[pd.DataFrame, ...]:
    """Run every trial of the grid; return three tables.

    The first has a row for each estimate, the second the learning curves, the third a row for
    each estimate whose fit diverged.

    Args:
        inputs: data and settings.
        cluster: restarts of a trial, and what is kept of its states.
        storage: absolute path or URI of the states.
        name: of the sweep; an unfinished sweep of that name is continued.
        tell: called with (cell, metrics, status) once for each estimate of the sweep.

    Raises:
        StageError: a trial crashed, or all diverged; the others have run, and a restart tries
            those that crashed again.
    """
    sweep = inputs.sweep
    for cell in (each for trial in sweep.grid() for each in sweep.estimates(trial)):
        task_of(inputs, cell, {})  # a rank that the data cannot have is named before anything runs

    def tell_estimates(cell: Cell, tables: Tables, status: str) -> None:
        estimates = sweep.estimates(cell)
        rows = tables.get("rows") or [{}] * len(estimates)
        for estimate, row in zip(estimates, rows, strict=True):
            tell(estimate, row, "FAILED" if DIVERGED in row else status)

    grid = Grid(sweep.grid(), partial(_trial, inputs), _shown, sweep, cluster, storage)
    found = run_grid(grid, name, tell_estimates)
    rows = [row for tables in found for row in tables["rows"]]
    curves = [point for tables in found for point in tables["curves"]]
    if all(DIVERGED in row for row in rows):
        raise StageError(f"every fit of the sweep diverged; the first: {rows[0][DIVERGED]}")
    return _frames(rows, curves)
