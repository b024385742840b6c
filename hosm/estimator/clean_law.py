r"""Draws that imitate a table: the dependence of a mixture, the values of the table's columns.

A law in closed form is fitted by score matching, which judges derivatives where the rows are and
hardly sees how much probability each region has; and any mixture of Gaussians spills over what
bounds a column. Draws of the clean law are therefore made in three steps, each of which is told:

1. A mixture of Gaussians is drawn from, without kernels. It need not be that of the scores: of
   those that were tried for them, and of mixtures of more terms, it is the one of fewest terms
   whose mean log-density at rows that were held out may be the largest.
2. A linear map, the nearest to the identity that does it, brings the correlations that the draws
   have after step 3 to those of the rows, in a few rounds (Cario and Nelson, "Modeling and
   Generating Random Vectors with Arbitrary Marginal Distributions and Correlation Matrix", 1997).
3. In each column the draws are replaced, by rank, by the quantiles of the training rows: the k-th
   smallest of n draws by the quantile (k - 1/2) / n. So each column has the values of the table:
   its range, its whole numbers, its zeros. Where few values repeat, what lies between two
   neighbours occurs too.

So a draw is a new combination of values that occur in the table or lie between two; where columns
have few values it may be that of a row by chance. The draws of one call are not independent: their
columns' distributions and correlations vary less than those of independent draws, so standard
errors must not be read off them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from hosm.distributions import GaussianMixture
from hosm.estimator.simple_laws import SimpleLaw

__all__ = ["CleanLaw", "best_density", "correlations", "fitted_clean_law"]

TERMS = (2, 3, 5, 8, 12, 20)  # of the mixtures that are tried; full covariances, a little shrunk
PRIOR = 1.0  # of their covariances
MOST_NUMBERS = 100_000  # in the covariances of a mixture, over which more terms are not tried
JUDGED = 2000  # rows that choose the mixture, at most
WORST = 0.02  # share of the rows that judge, left out
HELD = 300  # rows that judge, about; all of fewer
SMOOTHING = 0.05  # standard deviations of the noise of the rows that judge
MOST_VALUES = 2000  # quantiles of a column
FEWEST_DRAWS = 1000  # that are ranked among each other
ROUNDS = 6
SMALLEST = 1e-6  # eigenvalue of correlations


def correlations(x: Tensor) -> Tensor:
    """Return the correlations of points x, (n, D), shape (D, D); 0 with what does not vary."""
    u = _standardised(x)
    return (u.mT @ u / len(u)).fill_diagonal_(1.0)


def _standardised(x: Tensor) -> Tensor:
    u = x - x.mean(0)
    std = u.square().mean(0).sqrt()
    return u / torch.where(x.amax(0) > x.amin(0), std, torch.inf)


def _root(matrix: Tensor, power: float = 0.5) -> Tensor:
    """Return a power of a symmetric matrix whose eigenvalues are raised to 1e-6."""
    values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
    return (vectors * values.clamp_min(SMALLEST).pow(power)) @ vectors.mT


def _nearest_correlations(matrix: Tensor) -> Tensor:
    """Return correlations near a symmetric matrix."""
    positive = _root(matrix, 1.0)
    scale = positive.diagonal().rsqrt()
    return positive * scale * scale.unsqueeze(1)


@dataclass(frozen=True)
class CleanLaw:
    """What draws of clean rows are made of; see the module.

    Attributes:
        law: the mixture of standardised rows, float64.
        values: quantiles of each column, ascending, in the data's units, shape (m, D), CPU.
        correlation: of the training rows, shape (D, D), CPU.
    """

    law: GaussianMixture
    values: Tensor
    correlation: Tensor

    def draw(self, count: int, generator: Generator) -> Tensor:
        """Return draws in the data's units, shape (count, D), float64, on the CPU.

        Args:
            count: number of draws; at least 1,000 are made and ranked, and the first returned.
            generator: source of randomness, on the device of the law.
        """
        x = self.law.sample(max(count, FEWEST_DRAWS), generator).cpu()
        return self._imitation(x)[:count]

    def _imitation(self, x: Tensor) -> Tensor:
        """Return draws of the mixture with the rows' correlations and values, shape (n, D)."""
        u = _standardised(x)
        own = correlations(x)
        root, inverse = _root(own), _root(own, -0.5)
        aim, found = own, []
        for _ in range(ROUNDS):
            y = self._with_values(u @ (inverse @ _root(root @ aim @ root) @ inverse))
            error = self.correlation - correlations(y)
            found.append((float(error.square().sum()), y))
            aim = _nearest_correlations(aim + error)
        return min(found, key=lambda each: each[0])[1]

    def _with_values(self, x: Tensor) -> Tensor:
        """Return the rows' quantiles at the ranks of draws x, both of shape (n, D)."""
        share = (x.argsort(0).argsort(0).double() + 0.5) / len(x)
        last = len(self.values) - 1
        place = (share * (last + 1) - 0.5).clamp(0, last)
        below = place.floor().long()
        low = self.values.gather(0, below)
        high = self.values.gather(0, (below + 1).clamp_max(last))
        between = low + (place - below) * (high - low)
        return torch.where(self._repeats(), self.values.gather(0, place.round().long()), between)

    def _repeats(self) -> Tensor:
        """Return whether fewer than half of the values of a column differ, shape (D,)."""
        different = 1 + (self.values.diff(dim=0) > 0).sum(0)
        return different < len(self.values) / 2


def _larger(size: int, dimension: int) -> list[SimpleLaw]:
    """Return the mixtures of more and more terms that so many rows allow."""
    return [
        SimpleLaw(terms, "full", PRIOR)
        for terms in TERMS
        if terms * dimension**2 <= MOST_NUMBERS and 4 * terms <= size
    ]


class _Judge:
    """Rows of which one part after another is held out, with a little noise."""

    def __init__(self, x: Tensor, fold: Tensor, seed: int) -> None:
        generator = Generator().manual_seed(seed)
        order = torch.randperm(len(x), generator=generator)[:JUDGED].to(x.device)
        self.x, self.fold = x[order], fold[order]
        noise = torch.randn(self.x.shape, generator=generator, dtype=x.dtype).to(x.device)
        self.noisy = self.x + SMOOTHING * noise
        count = int(fold.max()) + 1
        self.folds = range(min(count, math.ceil(HELD * count / len(self.x))))

    def density(self, law: SimpleLaw) -> Tensor:
        """Return the log-density of each held-out row, of the law fitted without its fold."""
        parts = []
        for k in self.folds:
            held = self.fold == k
            parts.append(law.fit(self.x[~held]).smoothed(SMOOTHING).log_prob(self.noisy[held]))
        return torch.cat(parts)


def best_density(x: Tensor, fold: Tensor, tried: Sequence[SimpleLaw], seed: int = 0) -> SimpleLaw:
    """Return the law of fewest terms whose density of held-out rows may be the largest.

    Densities are means of logarithms over rows with a little noise, and may be the largest if
    they are below it by no more than one standard error of the difference. The 2 % of the rows
    that the first law expects least are left out: one row whose column varies nowhere else would
    decide.

    Args:
        x: standardised points, shape (n, D), float64.
        fold: of each row, from 0, shape (n,).
        tried: laws to choose from, at least one, beside mixtures of more and more terms; those
            end where the density falls twice.
        seed: of the noise, and of which rows judge.
    """
    judge = _Judge(x, fold, seed)
    found = {law: judge.density(law) for law in dict.fromkeys(tried)}
    first = found[tried[0]]
    kept = first.argsort()[math.ceil(WORST * len(first)) :]
    falls, last = 0, -math.inf
    for law in _larger(len(judge.x), x.shape[1]):
        found[law] = judge.density(law)
        value = float(found[law][kept].mean())
        falls, last = falls + 1 if value < last else 0, value
        if falls == 2:
            break
    return _fewest_terms({law: values[kept] for law, values in found.items()})


def _fewest_terms(found: dict[SimpleLaw, Tensor]) -> SimpleLaw:
    """Return the law of fewest terms that may be best, from the values of each at the rows."""
    best = max(found.values(), key=lambda values: float(values.mean()))
    near = []
    for law, values in found.items():
        worse = best - values
        if float(worse.mean()) <= float(worse.std()) / math.sqrt(len(worse)):
            near.append(law)
    return min(near, key=lambda law: (law.terms, -float(found[law].mean())))


def fitted_clean_law(
    x: Tensor, points: Tensor, fold: Tensor, tried: Sequence[SimpleLaw], seed: int = 0
) -> CleanLaw:
    """Return what draws of clean rows are made of.

    Args:
        x: the rows in the data's units, shape (n, D), float64, CPU.
        points: the same, standardised, on the device of the law.
        fold: of each row, from 0, shape (n,).
        tried: laws to choose from, as in `best_density`.
        seed: as there.
    """
    count = min(len(x), MOST_VALUES)
    places = torch.linspace(0, len(x) - 1, count, dtype=torch.float64).round().long()
    law = best_density(points, fold, tried, seed).fit(points)
    return CleanLaw(law, x.sort(0).values[places], correlations(x))
