"""Every method on every task, with a learned and with the exact model, beside exact draws."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Generator, Tensor

from hosm.distributions import GaussianMixture
from hosm.exact_scores import ExactScores
from hosm.experiment.inverse.study.learning import learned
from hosm.experiment.inverse.study.problems import curves, exact_posterior, tasks
from hosm.experiment.settings import InverseParams
from hosm.experiment.shared.rows import Row
from hosm.inverse import METHODS, LinearOperator, PosteriorSamples, posterior_samples

__all__ = ["EXACT", "headline", "judged", "run_study", "sliced_distance"]

EXACT = "exact draws"
LEVELS = (0.5, 0.8, 0.95)
DIRECTIONS = 100  # of the sliced distance
JUDGES = 400  # exact draws that intervals are judged by
TUNED = ("dps", "pigdm")  # whose papers leave a factor of the guidance to the user


@dataclass(frozen=True)
class Problem:
    """Measurements of one task, and the law of x given each of them."""

    operator: LinearOperator
    y: Tensor
    posteriors: list[GaussianMixture]


def sliced_distance(x: Tensor, other: Tensor) -> float:
    """Return the mean Wasserstein-1 distance of as many draws of two laws along random directions.

    Bonneel et al., "Sliced and Radon Wasserstein Barycenters of Measures", 2015.

    Args:
        x: draws, shape (n, D).
        other: as many draws, shape (n, D).
    """
    generator = Generator().manual_seed(0)
    v = torch.randn(x.shape[1], DIRECTIONS, generator=generator, dtype=x.dtype)
    v = v / v.norm(dim=0)
    return float(((x @ v).sort(0).values - (other @ v).sort(0).values).abs().mean())


def judged(found: PosteriorSamples, posteriors: list[GaussianMixture], seed: int) -> Row:
    """Return how near draws are to exact posteriors, as means over the measurements.

    Args:
        found: n draws for each of b measurements.
        posteriors: the law of x given each of them.
        seed: of the exact draws.

    Returns:
        `mean_error`: distance of the mean to the exact one, over the exact standard deviation, as
        root mean squares; `distance`: sliced Wasserstein distance to exact draws; `coverage_p`:
        how often intervals of the level p hold exact draws.
    """
    generator = Generator().manual_seed(seed)
    draws, mean = found.draws.double(), found.mean.double()
    gaps = [(m - law.mean).square().mean() for m, law in zip(mean, posteriors, strict=True)]
    variances = [law.variance.mean() for law in posteriors]
    others = torch.stack([law.sample(len(draws), generator) for law in posteriors], 1)
    judges = torch.stack([law.sample(JUDGES, generator) for law in posteriors], 1)
    pairs = zip(draws.unbind(1), others.unbind(1), strict=True)
    distances = [sliced_distance(one, other) for one, other in pairs]
    row: Row = {
        "mean_error": float((torch.stack(gaps).sum() / torch.stack(variances).sum()) ** 0.5)
    }
    row["distance"] = sum(distances) / len(distances)
    for level in LEVELS:
        low, high = found.interval(level)
        row[f"coverage_{level:g}"] = float(((judges >= low) & (judges <= high)).double().mean())
    return row


def _problem(
    law: GaussianMixture, operator: LinearOperator, count: int, noise: float, seed: int
) -> Problem:
    """Return so many measurements of draws of the law."""
    generator = Generator().manual_seed(seed)
    seen = operator.forward(law.sample(count, generator))
    y = seen + noise * torch.randn(seen.shape, generator=generator, dtype=seen.dtype)
    return Problem(operator, y, [exact_posterior(law, operator, each, noise) for each in y])


def _sampled(
    model: Any,  # noqa: ANN401
    problem: Problem,
    method: str,
    params: InverseParams,
    strength: float = 1.0,
    draws: int | None = None,
) -> tuple[PosteriorSamples, float]:
    """Return draws and the seconds of the processor that they took."""
    own = method in ("covariance", "diagonal") or not hasattr(model, "first_order")
    asked = model if own else model.first_order()
    dtype = torch.float64 if isinstance(model, ExactScores) else torch.float32
    begun = time.process_time()
    found = posterior_samples(
        asked,
        problem.operator,
        problem.y.to(dtype),
        noise=params.noise,
        method=method,
        steps=params.steps,
        n=draws or params.draws,
        sigma=params.sigma,
        generator=Generator().manual_seed(params.seed),
        data_std=float(curves().variance.mean().sqrt()),
        strength=strength,
    )
    return found, time.process_time() - begun


def _strength(model: Any, problem: Problem, method: str, params: InverseParams) -> float:  # noqa: ANN401
    """Return the factor of the guidance whose draws are nearest to exact ones."""
    if method not in TUNED:
        return 1.0
    distances = {}
    for strength in params.strengths:
        found, _ = _sampled(model, problem, method, params, strength)
        distances[strength] = judged(found, problem.posteriors, params.seed)["distance"]
    return min(distances, key=lambda strength: distances[strength])


def _exact_row(problem: Problem, params: InverseParams) -> Row:
    """Return what as many exact draws reach."""
    generator = Generator().manual_seed(params.seed + 1)
    draws = [law.sample(params.draws, generator) for law in problem.posteriors]
    found = PosteriorSamples(torch.stack(draws, 1), 0, 0)
    about = {"model": "none", "method": EXACT, "strength": 1.0}
    return {**about, **judged(found, problem.posteriors, params.seed), **_cost(found, 0.0)}


def _cost(found: PosteriorSamples, seconds: float) -> Row:
    return {
        "evaluations": found.evaluations,
        "products": found.products,
        "seconds": seconds,
    }


def _rows(
    models: dict[str, Any], problem: Problem, separate: Problem, params: InverseParams
) -> Iterator[Row]:
    """Yield a row for each model and method, on one task."""
    yield _exact_row(problem, params)
    for name, model in models.items():
        for method in METHODS:
            strength = _strength(model, separate, method, params)
            found, seconds = _sampled(model, problem, method, params, strength)
            about = {"model": name, "method": method, "strength": strength}
            row = judged(found, problem.posteriors, params.seed)
            print(f"{name} {method}: {seconds:.1f} s", flush=True)
            yield {**about, **row, **_cost(found, seconds)}


def run_study(params: InverseParams) -> list[Row]:
    """Train a model, and judge every method on every task by the exact posterior.

    Args:
        params: sizes.

    Returns:
        A row for each task, model and method (see `judged`), with the network's evaluations, the
        products with its Jacobian, and seconds of the processor.
    """
    law = curves()
    models = {"learned": learned(law, params), "exact": ExactScores(law)}
    rows = []
    for task, operator in tasks().items():
        problem = _problem(law, operator, params.measurements, params.noise, params.seed + 1)
        separate = _problem(law, operator, params.tuning, params.noise, params.seed + 2)
        rows += [{"task": task, **row} for row in _rows(models, problem, separate, params)]
    return rows


def headline(frame: pd.DataFrame) -> dict[str, float]:
    """Return the mean over tasks of the sliced distance, by method, with the learned model."""
    part = frame[frame["model"] == "learned"]
    means = part.groupby("method", sort=False)["distance"].mean()
    return {f"distance_{name}": float(value) for name, value in means.items()}
