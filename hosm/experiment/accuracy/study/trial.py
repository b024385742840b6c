"""A trial of table 1: an s1 learned once, and heads of every rank and target trained on it.

A trial trains in fits, one after another: s1, then the heads of each target, all ranks side by
side. Or in a single one: s1 by plain DSM, or s1 and s2 together. Each fit records its error on
some test points at every validation, against the seconds of training so far; the clock stands
still while errors are measured. The state of a trial holds its finished fits and the one that
runs, so that an interrupted trial continues where it was.

A fit that diverges is not tried again, for it would diverge again. Its rows say so in place of
errors, with the last metrics that were finite, and so do the rows of heads whose s1 diverged. The
other fits of the trial stand.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hosm.experiment.accuracy.study.errors import (
    autodiff_error,
    hutchinson_error,
    s1_error,
    s2_error,
)
from hosm.experiment.accuracy.study.shrinkage import shrunk
from hosm.experiment.settings import SweepParams
from hosm.experiment.shared.rows import Row
from hosm.experiment.train.training_task import Train, TrainingTask
from hosm.training import Diverged, Progress

__all__ = ["BEGAN", "DIVERGED", "ENDED", "SweepInputs", "run_trial", "task_of"]

DIVERGED = "diverged"  # the key of a row without errors, which says why
BEGAN, ENDED = "began", "ended"  # of the training of a row's fit, in seconds since 1970

CURVE_POINTS = 250  # test points behind a point of a learning curve
FIRST_ORDER = ("s1_error", "validation_dsm", "autodiff_error")


@dataclass(frozen=True)
class SweepInputs:
    """What the trials share: arrays by data set, and settings."""

    arrays: dict[str, dict[str, Any]]  # data set -> train, validation, test, std
    sweep: SweepParams


def task_of(inputs: SweepInputs, cell: Row, first: dict[str, Any]) -> TrainingTask:
    """Return the task of a cell; with the weights of an s1, that of the heads on it."""
    arrays = inputs.arrays[cell["dataset"]]
    train, validation = arrays["train"], arrays["validation"]
    shape, spec = (train.shape[1],), inputs.sweep.model(cell)
    ranks = inputs.sweep.ranks_of(cell["dataset"]) if first else ()
    common = (shape, arrays["std"], train, validation)
    return TrainingTask(cell["dataset"], spec, *common, ranks, first or None)


class _Fit:
    """A fit that runs: its task, its clock, its learning curve, and how it is judged."""

    def __init__(self, inputs: SweepInputs, cell: dict[str, Any], task: TrainingTask) -> None:
        self.cell, self.task, self.model = cell, task, task.build()
        self.diagonal = inputs.sweep.diagonal(cell["dataset"])
        self.arrays = inputs.arrays[cell["dataset"]]
        self.test = self.arrays["test"][: inputs.sweep.test_points]
        self.curve: list[Row] = []
        self.began = time.time()
        self.seconds, self.since = 0.0, time.perf_counter()

    def models(self, weights: dict[str, Tensor]) -> dict[int, Any]:
        """Return the score models of these weights by their rank."""
        self.model.load_state_dict(weights)
        if isinstance(self.model, nn.ModuleDict):
            return {int(rank): model for rank, model in self.model.items()}
        return {self.task.spec.rank: self.model}

    def error(self, model: Any, test: np.ndarray) -> float:  # noqa: ANN401
        """Return the error of a model's second-order score: its own, or by differentiation."""
        measure = autodiff_error if self.task.spec.first_order else s2_error
        return measure(model, self.cell["dataset"], test, self.diagonal)

    def shrunk_error(self, model: Any) -> Row:  # noqa: ANN401
        """Return the error of a head's s2 shrunk towards a constant, and the share that stays.

        Nothing for a head of fresh points or of columns, which is not shrunk.
        """
        if self.task.spec.regime != "finite" or not self.diagonal or self.task.first is None:
            return {}
        train, validation = (torch.tensor(self.arrays[each]) for each in ("train", "validation"))
        found = shrunk(model, train, validation, self.cell["sigma"], self.cell["seed"])
        return {"shrunk_error": self.error(found, self.test), "share": found.share}

    def _watch(self, step: int, weights: dict[str, Tensor]) -> None:
        """Stop the clock and add the errors at a step to the curve."""
        self.seconds += time.perf_counter() - self.since
        for rank, model in self.models(weights).items():
            error = self.error(model, self.test[:CURVE_POINTS])
            now = {"rank": rank, "step": step, "seconds": self.seconds, "error": error}
            self.curve.append(now)
        self.since = time.perf_counter()

    def run(self, train: Train, keep: Callable[[Any], None], state: Any) -> dict[str, Any]:  # noqa: ANN401
        """Train, from the state of an interrupted run if there is one; return what is kept."""
        if state:
            self.seconds, self.curve = state["seconds"], state["curve"]
            self.began = state.get(BEGAN, self.began)

        def report(progress: Progress) -> None:
            if progress.metrics:
                self._watch(progress.step, progress.weights())
            else:
                self.seconds += time.perf_counter() - self.since
            so_far = {"seconds": self.seconds, "curve": self.curve, BEGAN: self.began}
            keep({"state": progress.state(), **so_far})
            self.since = time.perf_counter()

        self.since = time.perf_counter()
        try:
            result = train(self.task, report, state and state["state"])
        except Diverged as error:
            return {DIVERGED: str(error), "metrics": error.last, **self._times()}
        if not self.curve:  # trained on other machines, without reports
            self._watch(result.step, result.weights)
        best = {str(self.task.spec.rank): result.best_step, **result.best_steps}
        facts = {"steps": result.step, "best_steps": best, "metrics": result.metrics}
        facts |= {"seconds": self.seconds, "curve": self.curve, **self._times()}
        return {"weights": result.weights, **facts}

    def _times(self) -> dict[str, float]:
        """Return when the training began and when it ended: now."""
        return {BEGAN: self.began, ENDED: time.time()}


def _row(fit: _Fit, done: dict[str, Any], rank: int, model: Any, first: Row) -> Row:  # noqa: ANN401
    """Return what table 1 needs of one model of a finished fit; `first` is the row of its s1."""
    where, metrics = fit.cell["dataset"], done["metrics"]
    best = done["best_steps"][str(rank)]
    row = {**fit.cell, "rank": rank, "steps": done["steps"], "best_step": best}
    row |= {key: done[key] for key in (BEGAN, ENDED) if key in done}
    row["seconds"] = done["seconds"] + first.get("seconds", 0.0)
    if first:
        row |= {key: first[key] for key in FIRST_ORDER}
        row["validation_second"] = metrics[f"validation_{rank}"]
    else:
        measured = s1_error(model, where, fit.test), metrics["validation_dsm"]
        by_autodiff = autodiff_error(model, where, fit.test, fit.diagonal)
        row |= dict(zip(FIRST_ORDER, (*measured, by_autodiff), strict=True))
        row["validation_second"] = metrics["validation_second"]
        if fit.diagonal:
            row["hutchinson_error"] = hutchinson_error(model, where, fit.test)
    if not fit.task.spec.first_order:
        row["s2_error"] = fit.error(model, fit.test)
        row |= fit.shrunk_error(model)
    return row


def _lost(done: dict[str, Any], estimates: list[Row]) -> list[Row]:
    """Return the rows of a fit that diverged: why, and its last finite metrics."""
    last, rows = done["metrics"], []
    for estimate in estimates:
        row = {**estimate, DIVERGED: done[DIVERGED], "steps": int(last.get("step", 0))}
        second = last.get("validation_second", last.get(f"validation_{estimate['rank']}"))
        found = {"validation_dsm": last.get("validation_dsm"), "validation_second": second}
        found |= {key: done.get(key) for key in (BEGAN, ENDED)}
        rows.append({**row, **{key: value for key, value in found.items() if value is not None}})
    return rows


def run_trial(
    inputs: SweepInputs,
    cell: Row,
    train: Train,
    keep: Callable[[dict[str, Any]], None] = lambda state: None,
    state: dict[str, Any] | None = None,
) -> tuple[list[Row], list[Row]]:
    """Carry out the fits of a trial and return its rows of table 1 and its learning curves.

    Seconds of heads include those of the s1 that they stand on. A row that holds DIVERGED is of a
    fit that diverged.

    Args:
        inputs: data and settings.
        cell: of the grid.
        train: trains a task, with what to report to and the state to continue from.
        keep: takes the trial's state whenever a fit reports, and after each fit.
        state: of an interrupted trial.
    """
    state = state or {"done": {}, "running": None}
    done, running = state["done"], state["running"]
    rows: list[Row] = []
    curves: list[Row] = []
    weights: dict[str, Any] = {}
    estimates = inputs.sweep.estimates(cell)
    for target in dict.fromkeys(each["target"] for each in estimates):
        if rows and not weights:  # heads without an s1
            blocked = {DIVERGED: "its s1 diverged", "metrics": {}}
            rows += _lost(blocked, [each for each in estimates if each["target"] == target])
            continue
        first = rows[0] if weights else {}
        rank = inputs.sweep.ranks_of(cell["dataset"])[0] if first else cell["rank"]
        own = {**cell, "target": target, "rank": rank}
        fit = _Fit(inputs, own, task_of(inputs, own, weights))
        if target not in done:
            done[target] = fit.run(
                train, lambda now: keep({"done": done, "running": now}), running
            )
            keep({"done": done, "running": None})
            running = None
        if DIVERGED in done[target]:
            rows += _lost(done[target], [each for each in estimates if each["target"] == target])
            continue
        models = fit.models(done[target]["weights"])
        rows += [_row(fit, done[target], rank, model, first) for rank, model in models.items()]
        for point in done[target]["curve"]:
            curves.append(
                {**own, **point, "seconds": point["seconds"] + first.get("seconds", 0.0)}
            )
        if target == "dsm-vr":
            weights = {name: w.cpu().numpy() for name, w in done[target]["weights"].items()}
    return rows, curves
