r"""Figure 1: what variance reduction does to the training of s1 and s2 as sigma -> 0.

Meng, Song, Li and Ermon ("Estimating High Order Gradients of the Data Distribution by Denoising",
NeurIPS 2021, section 4.2): clean points x ~ N(0, I) in the plane, x_noisy = x + sigma z, so that
q_sigma = N(0, (1 + sigma^2) I) with the scores

    s1 = -x_noisy / (1 + sigma^2),    s2 = -I / (1 + sigma^2).

One network learns s1 by denoising score matching (DSM), and beside it one for each target learns
s2, with the noise removed (`antithetic`) and as it is (`none`). Of a sample's loss, DSM's noise
z / sigma leaves a variance of order sigma^-2 and (I - z z^T) / sigma^2, of the targets `moment`
(the paper's) and `residual`, one of order sigma^-4; antithetic sampling bounds both. `jacobian`
has none of its own and copies s1.

The losses omit terms that no parameter changes, so their levels mean little without their least
values, which are known here: -1/2 E ||s1||^2 of DSM, -E ||s2 + s1 s1^T||^2 of `moment`,
-E ||s2||^2 of `residual`, 0 of `jacobian`. Beside them stands what counts, the mean squared error
of the averaged weights against the exact scores of q_sigma.
"""

import copy
import hashlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from hosm.autodiff import vector_jacobian_product
from hosm.distributions import Law
from hosm.experiment.data.datasets import law
from hosm.experiment.settings import ReductionParams
from hosm.experiment.shared.finished_parts import FinishedParts
from hosm.experiment.shared.rows import Row
from hosm.metrics import hessian_error, score_error
from hosm.networks import MLP
from hosm.objectives import dsm_value, stencil
from hosm.scores import ScoreModel, outputs_per_coordinate
from hosm.training import Progress, Settings, fit, head_term

__all__ = ["SideBySide", "build", "errors", "headline", "least_losses", "study"]

LAW = "gaussian2"
REDUCTIONS = {"none": None, "antithetic": "antithetic"}
RANK = 1  # every symmetric 2 x 2 matrix is diag(alpha) + beta beta^T with a single column
BATCHES = 32  # of fresh clean points in an epoch
VALIDATION_POINTS = 256
TEST_POINTS = 2000
LEAST_POINTS = 200_000  # behind the least values of the losses
LINE = torch.arange(-30, 31) / 10  # u, of the points (u, 0) where estimates are shown

MEASURED = ("train_dsm", "train_second", "s1_error", "s2_error")
ON_LINE = ("u", "s1", "s2", "exact_s1", "exact_s2")


class SideBySide(nn.Module):
    """DSM for s1 and the term of each target for an s2 of its own, for `training.fit`.

    No term trains another's network: s1 enters the second-order terms without gradient. Adam
    treats each weight alone, so every network learns as it would in a run of its own.

    Args:
        model: target -> score model; all share one trunk and have a second network each.
        settings: sigma and variance_reduction are those of the terms.
    """

    def __init__(self, model: nn.ModuleDict, settings: Settings) -> None:
        super().__init__()
        self.model, self.settings = model, settings
        self.names = ("dsm", *model)
        self.weights = (1.0,) * len(self.names)

    def forward(self, x: Tensor, z: Tensor, v: Tensor, t: Tensor) -> Tensor:
        """Return DSM and the terms of the targets, of a batch (see `hosm.training.Batch`)."""
        models: dict[str, Any] = dict(self.model.items())
        score = next(iter(models.values())).score
        sigma: Any = self.settings.sigma
        reduction = self.settings.variance_reduction
        points = torch.cat(stencil(x, sigma, z, reduction))
        s1 = score(points)
        product = vector_jacobian_product(score, points[: len(x)], v)
        terms = [
            head_term(
                model,
                target,
                points=points,
                s1=s1.detach(),
                product=product,
                z=z,
                v=v,
                settings=self.settings,
            )
            for target, model in models.items()
        ]
        first = dsm_value(list(s1.split(len(x))), z, sigma, reduction).mean()
        return torch.stack([first, *terms])


def build(targets: Sequence[str], sigma: float, width: int, seed: int) -> nn.ModuleDict:
    """Build untrained score models by their targets: one s1, and equal networks of s2.

    Args:
        targets: of the second-order scores.
        sigma: noise scale, above 0.
        width: units of each hidden layer.
        seed: the weights depend on it alone.
    """
    dimension = law(LAW).dimension
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        trunk = MLP(dimension, 1, width)
        second = MLP(dimension, outputs_per_coordinate(RANK), width)
    models = {
        target: ScoreModel(trunk, copy.deepcopy(second), sigma=sigma, rank=RANK)
        for target in targets
    }
    return nn.ModuleDict(models)


@torch.no_grad()
def errors(model: Callable[[Tensor], Any], smoothed: Law, x_noisy: Tensor) -> tuple[float, float]:
    """Return the mean squared errors of s1 and of s2, in the norms of R^D and of Frobenius.

    Args:
        model: callable (n, D) -> (s1, s2).
        smoothed: the exact law q_sigma.
        x_noisy: where to compare, shape (n, D).
    """
    s1, s2 = model(x_noisy)
    first = score_error(s1, smoothed.score(x_noisy))
    return float(first), float(hessian_error(s2.to_dense(), smoothed.hessian(x_noisy)))


def least_losses(smoothed: Law) -> dict[str, float]:
    """Return the least values of DSM, `dsm`, and of each target, at the exact scores.

    Args:
        smoothed: the exact law q_sigma.
    """
    x_noisy = smoothed.sample(LEAST_POINTS, torch.Generator().manual_seed(0))
    s1, s2 = smoothed.score(x_noisy), smoothed.hessian(x_noisy)
    psi = s2 + s1.unsqueeze(2) * s1.unsqueeze(1)
    first, second = s1.square().sum(1), s2.square().sum((1, 2))
    return {
        "dsm": -float(first.mean()) / 2,
        "moment": -float(psi.square().sum((1, 2)).mean()),
        "residual": -float(second.mean()),
        "jacobian": 0.0,
    }


def _fresh(exact: Law, seed: int, size: int) -> Callable[[int], Tensor]:
    """Return epoch -> fresh clean points, the same for every sigma and reduction."""

    def draw(epoch: int) -> Tensor:
        key = int(hashlib.sha256(f"{seed}/{epoch}".encode()).hexdigest()[:15], 16)
        return exact.sample(size, torch.Generator().manual_seed(key))

    return draw


def _settings(choices: ReductionParams, cell: Row) -> Settings:
    """Return the settings of the training loop."""
    return Settings(
        sigma=cell["sigma"],
        variance_reduction=REDUCTIONS[cell["reduction"]],  # type: ignore[arg-type]
        learning_rate=choices.learning_rate,
        batch_size=choices.batch_size,
        max_steps=choices.max_steps,
        validate_every=choices.record_every,
        seed=cell["seed"],
    )


class _Recorder:
    """Takes losses and errors at each record of a run; its clock stands still meanwhile."""

    def __init__(self, cell: Row, model: nn.ModuleDict, smoothed: Law) -> None:
        self.cell, self.smoothed = cell, smoothed
        self.model = copy.deepcopy(model)  # for the averaged weights
        self.test = smoothed.sample(TEST_POINTS, torch.Generator().manual_seed(1))
        self.least = least_losses(smoothed)
        self.rows: list[Row] = []
        self.seconds, self.since = 0.0, time.perf_counter()

    def __call__(self, progress: Progress) -> None:
        """Add a row for each target."""
        self.seconds += time.perf_counter() - self.since
        self.model.load_state_dict(progress.weights())
        for target, model in self.model.items():
            losses = progress.metrics["train_dsm"], progress.metrics[f"train_{target}"]
            self._add(target, progress.step, *losses, *errors(model, self.smoothed, self.test))
        self.since = time.perf_counter()

    def diverge(self, step: int) -> None:
        """Add rows of infinite errors, at the step where a validation loss was not finite."""
        for target in self.model:
            self._add(target, step, np.nan, np.nan, np.inf, np.inf)

    def _add(self, target: str, step: int, *values: float) -> None:
        where = {**self.cell, "target": target, "step": step, "seconds": self.seconds}
        least = {"least_dsm": self.least["dsm"], "least_second": self.least[target]}
        self.rows.append(where | dict(zip(MEASURED, values, strict=True)) | least)


@torch.no_grad()
def _along_the_line(cell: Row, models: nn.ModuleDict, smoothed: Law) -> list[Row]:
    """Return the first entries of s1 and s2 at the points (u, 0), estimated and exact."""
    x_noisy = torch.stack([LINE, torch.zeros_like(LINE)], 1)
    exact = smoothed.score(x_noisy)[:, 0], smoothed.hessian(x_noisy)[:, 0, 0]
    rows = []
    for target, model in models.items():
        s1, s2 = model(x_noisy)
        columns = LINE, s1[:, 0], s2.to_dense()[:, 0, 0], *exact
        for values in zip(*(column.tolist() for column in columns), strict=True):
            rows.append({**cell, "target": target, **dict(zip(ON_LINE, values, strict=True))})
    return rows


def _run(choices: ReductionParams, cell: Row) -> tuple[list[Row], list[Row]]:
    """Train the models of one sigma, reduction and seed; return their curves and estimates."""
    exact = law(LAW)
    smoothed, settings = exact.smoothed(cell["sigma"]), _settings(choices, cell)  # type: ignore[attr-defined]
    model = build(choices.targets, cell["sigma"], choices.width, cell["seed"])
    validation = exact.sample(VALIDATION_POINTS, torch.Generator().manual_seed(2))
    record = _Recorder(cell, model, smoothed)
    points = _fresh(exact, cell["seed"], BATCHES * choices.batch_size)
    try:
        fit(model, settings, points, validation, objective=SideBySide, report=record)
    except FloatingPointError as error:
        print(f"{cell}: {error}", flush=True)
        last = record.rows[-1]["step"] if record.rows else 0
        record.diverge(min(last + choices.record_every, choices.max_steps))
        return record.rows, []
    return record.rows, _along_the_line(cell, record.model, smoothed)


def _numbers(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the final errors over the seeds: mean, its standard error, and median."""
    cell = ["sigma", "reduction", "target"]
    last = curves.groupby([*cell, "seed"], sort=False).last().reset_index()
    last["diverged"] = ~np.isfinite(last["s2_error"])
    parts = last.groupby(cell, sort=False)
    table = parts.agg(seeds=("seed", "count"), diverged=("diverged", "sum")).reset_index()
    for name in ("s1", "s2"):
        error = parts[f"{name}_error"]
        table[f"{name}_error"] = error.mean().to_numpy()
        table[f"{name}_standard_error"] = error.std().to_numpy() / np.sqrt(table["seeds"])
        table[f"{name}_median"] = error.median().to_numpy()
    table["seconds"] = parts["seconds"].mean().to_numpy()
    return table


def study(
    choices: ReductionParams, folder: Path | None = None
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Train with and without variance reduction at every sigma and seed.

    A run that diverges has infinite errors in its last rows and no estimates.

    Args:
        choices: the grid, and how each run trains.
        folder: where finished runs are kept by their settings, so that a study that was stopped
            goes on with those that are missing; None keeps none.

    Returns:
        Curves, a row for each sigma, reduction, seed, target and record; estimates along the line
        (u, 0), a row for each sigma, reduction, seed, target and u; and final errors, a row for
        each sigma, reduction and target.
    """
    settings = choices.model_dump(mode="json", exclude={"sigmas", "seeds"})
    finished = FinishedParts(folder, settings)
    curves: list[Row] = []
    estimates: list[Row] = []
    for sigma, reduction, seed in product(choices.sigmas, REDUCTIONS, choices.seeds):
        cell = {"sigma": sigma, "reduction": reduction, "seed": seed}
        rows, line = finished.part(cell, partial(_run, choices, cell))
        curves += rows
        estimates += line
        last = rows[-len(choices.targets) :]
        done = ", ".join(f"{row['target']} {row['s2_error']:.3g}" for row in last)
        about = f"sigma {sigma:g}, {reduction}, seed {seed}, {last[0]['seconds']:.1f} s"
        print(f"{about}: errors of s1 {last[0]['s1_error']:.3g}, of s2 {done}", flush=True)
    frame = pd.DataFrame(curves)
    columns = ["sigma", "reduction", "seed", "target", *ON_LINE]  # even where all runs diverged
    return frame, pd.DataFrame(estimates, columns=columns), _numbers(frame)


def headline(numbers: pd.DataFrame) -> dict[str, float]:
    """Return median errors with antithetic sampling, how many times larger without, if finite.

    Args:
        numbers: final errors, as `study` returns them.
    """
    found: dict[str, float] = {"diverged": int(numbers["diverged"].sum())}
    rows = {(r["sigma"], r["target"], r["reduction"]): r for r in numbers.to_dict("records")}
    for (sigma, target, reduction), row in rows.items():
        if reduction == "none":
            continue
        plain = rows[sigma, target, "none"]
        for name in ("s1", "s2"):
            reduced = row[f"{name}_median"]
            key = f"sigma{sigma:g}.{target}.{name}"
            found[f"{key}.antithetic"] = reduced
            found[f"{key}.none_over_antithetic"] = plain[f"{name}_median"] / reduced
    return {key: value for key, value in found.items() if np.isfinite(value)}
