r"""How well scores and Hessians of a law are estimated from few rows, whose derivatives are known.

Rows are standardised by their own mean and standard deviation, and all errors are those of
derivatives of the clean law with respect to standardised coordinates, at points that nothing was
fitted to. The error of a Hessian is its mean squared error over that of the best constant: the
mean of the true Hessian, which no one knows who has only rows. So an error of 1 is what a constant
can reach at best, and the Gaussian, whose Hessian is a constant too, is at 1 or above.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from hosm.experiment.shared.rows import Row
from hosm.experiment.tabular.study.laws import TabularLaw, tabular_law
from hosm.experiment.tabular.study.rivals import RIVALS, Answer, Fitted, ours

__all__ = ["OURS", "Cell", "calibration", "cell_rows", "timed"]

OURS = "ours"
Found = TypeVar("Found", bound=Fitted)
CONSTANT = 1e-9  # variance of the Hessian over its square, below which it counts as constant


@dataclass(frozen=True)
class Cell:
    """A law, its dimension, a number of rows and a seed."""

    law: str
    dimension: int
    size: int
    seed: int


@dataclass(frozen=True)
class _Truth:
    """Test points, standardised, the law's derivatives there, and what errors are divided by."""

    x: Tensor
    answer: Answer

    def errors(self, found: Answer) -> Row:
        """Return relative errors of scores, of the Hessians' diagonals and of Hessians."""
        diagonal = torch.diagonal(self.answer.hessian, dim1=1, dim2=2)
        own = torch.diagonal(found.hessian, dim1=1, dim2=2)
        return {
            "score_error": _relative(found.score, self.answer.score),
            "diagonal_error": _relative(own, diagonal),
            "hessian_error": _relative(found.hessian.flatten(1), self.answer.hessian.flatten(1)),
        }


def _relative(found: Tensor, true: Tensor) -> float:
    """Return the squared error over that of the best constant, or over the square if that is 0.

    Args:
        found: estimates, shape (n, F).
        true: of the same shape.
    """
    square = true.square().sum(1).mean()
    variance = (true - true.mean(0)).square().sum(1).mean()
    scale = variance if variance > CONSTANT * square else square
    return float((found - true).square().sum(1).mean() / scale)


def _split(law: TabularLaw, cell: Cell, test_points: int) -> tuple[Tensor, _Truth]:
    """Return rows to fit, standardised, and test points with the truth there."""
    rows, points = law.sample(cell.size, cell.seed), law.sample(test_points, cell.seed + 10_000)
    mean, std = rows.mean(0), rows.std(0)
    s, h = law.score(points) * std, law.hessian(points) * std * std.unsqueeze(1)
    return (rows - mean) / std, _Truth((points - mean) / std, Answer(s, h))


def timed(fit: Callable[[Tensor, int], Found], x: Tensor, seed: int) -> tuple[Found, float]:
    """Fit, and return the seconds that it took, too."""
    start = time.perf_counter()
    fitted = fit(x, seed)
    return fitted, time.perf_counter() - start


def calibration(fitted: Fitted, x: Tensor, noise: Tensor, seed: int) -> Row:
    """Return how well points x are denoised, shape (n, D), and what the posterior says of it.

    The posterior of Tweedie's formula has mean y + S s1 and covariance S + S s2 S, with S the
    covariance of the noise.

    Args:
        fitted: a law; one that has no noisy law gives no numbers.
        x: clean points.
        noise: variances S of the noise, shape (D,).
        seed: of the noise.

    Returns:
        `denoising_error`, the mean squared error over the noise's variance, `predicted` by the
        posterior on the same scale, and their ratio `variance_ratio`.
    """
    if not fitted.smooths:
        return {}
    generator = torch.Generator().manual_seed(seed)
    y = x + noise.sqrt() * torch.randn(x.shape, generator=generator, dtype=x.dtype)
    answer = fitted(y, noise)
    error = float((y + noise * answer.score - x).square().sum(1).mean() / noise.sum())
    bent = (noise.square() * answer.hessian.diagonal(dim1=1, dim2=2)).sum(1).mean()
    predicted = float((noise.sum() + bent) / noise.sum())
    return {
        "denoising_error": error,
        "predicted": predicted,
        "variance_ratio": predicted / error,
    }


def _row(name: str, fitted: Fitted, seconds: float, truth: _Truth, noise: Tensor) -> Row:
    errors = truth.errors(fitted(truth.x, torch.zeros_like(noise)))
    measured = calibration(fitted, truth.x, noise, seed=0)
    return {"method": name, **errors, **measured, "seconds": seconds}


def cell_rows(cell: Cell, test_points: int, rivals: tuple[str, ...] = tuple(RIVALS)) -> list[Row]:
    """Fit the estimator and its rivals to the rows of a cell, and judge them.

    Args:
        cell: what is fitted.
        test_points: number of points that judge.
        rivals: names of those of `RIVALS` that are fitted.

    Returns:
        A row for each: the cell, `method`, errors, what `calibration` gives, seconds of the fit,
        and of ours the noise scale and the choice in words.
    """
    law = tabular_law(cell.law, cell.dimension)
    x, truth = _split(law, cell, test_points)
    own, seconds = timed(ours, x, cell.seed)
    rows = [_row(OURS, own, seconds, truth, own.noise)]
    rows[0] |= {"sigma": own.estimator.sigma_, "chosen": own.estimator.report_}
    for name in rivals:
        fitted, seconds = timed(RIVALS[name], x, cell.seed)
        rows.append(_row(name, fitted, seconds, truth, own.noise))
    facts: Row = {"mixture": law.is_mixture}
    facts |= {key: getattr(cell, key) for key in ("law", "dimension", "size", "seed")}
    return [facts | row for row in rows]
