r"""The simple laws that a table may follow: one Gaussian, one with other tails, or a mixture.

They are what anything learned has to beat, and what it starts from. One Gaussian has the
covariance of Ledoit and Wolf ("A Well-Conditioned Estimator for Large-Dimensional Covariance
Matrices", 2004), and also that of the data where there are points enough. The elliptical law has
ellipses for its contours as a Gaussian has, and tails as heavy as those of the data
(`hosm.estimator.elliptical_law`). Mixtures are fitted by scikit-learn, with full, shared or
diagonal covariances, and for each kind of covariance Schwarz's criterion (BIC, 1978) says of how
many; it also says whether the elliptical law is worth trying. Full ones are also shrunk, as by an
inverse Wishart prior: with few rows in a cluster they are too thin in some direction. Which of
these laws is taken, held-out points decide: Schwarz's criterion judges densities, and not their
derivatives.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hosm.distributions import GaussianMixture
from hosm.estimator.elliptical_law import SCALES, elliptical_law
from hosm.estimator.shrunk_covariance import shrunk_covariance

__all__ = ["SimpleLaw", "simple_laws"]

MOST_TERMS = 10
COVARIANCES = {"full": "full", "tied": "shared", "diag": "diagonal"}  # scikit-learn's name: ours
NUMBERS_PER_POINT = 4  # that a law may have, at most
POINTS = 10_000  # that the number of terms is chosen by, at most
ITERATIONS = 200
SMALL_NOISE = 1e-3  # standard deviations, with which rows that fill no volume have a density
PRIORS = (1.0, 3.0, 10.0)  # of mixtures with full covariances


@dataclass(frozen=True)
class SimpleLaw:
    """How a law is fitted to points.

    Attributes:
        terms: number of Gaussians, K.
        covariance: `shrunk` (of Ledoit and Wolf; K = 1), `multiples` (of one matrix, about one
            mean, which is the elliptical law), or as scikit-learn names them: `full`, `tied` or
            `diag`.
        prior: of `full` ones, rows over columns that speak for the halfway between the mean of
            all covariances and the diagonal of its own, 0 or more.
    """

    terms: int
    covariance: str
    prior: float = 0.0

    def __str__(self) -> str:
        if self.covariance == "shrunk":
            return "a Gaussian with the covariance of Ledoit and Wolf"
        if self.covariance == "multiples":
            return "an elliptical law with the tails of the data"
        kind = COVARIANCES[self.covariance]
        if self.terms == 1:
            return f"a Gaussian with a {kind} covariance"
        shrunk = ", shrunk" if self.prior else ""
        return f"a mixture of {self.terms} Gaussians with {kind} covariances{shrunk}"

    @property
    def means(self) -> int:
        """The number of means: one of the elliptical law, however many Gaussians it has."""
        return 1 if self.covariance == "multiples" else self.terms

    def fit(self, x: Tensor) -> GaussianMixture:
        """Return the law that fits points x, shape (n, D), float64.

        Raises:
            ValueError: the points do not determine it.
        """
        if self.covariance == "shrunk":
            one = x.new_ones(1)
            return GaussianMixture(one, x.mean(0, keepdim=True), shrunk_covariance(x)[None])
        if self.covariance == "multiples":
            return elliptical_law(x)
        return self.shrunk(_law(_fitted(x, self.terms, self.covariance, starts=2)), len(x))

    @property
    def plain(self) -> SimpleLaw:
        """The same law without a prior."""
        return replace(self, prior=0.0)

    def shrunk(self, law: GaussianMixture, size: int) -> GaussianMixture:
        """Return what `fit` gives, from what it gives without the prior, to n points."""
        return _shrunk(law, size, self.prior * law.dimension) if self.prior else law


def _fitted(x: Tensor, terms: int, covariance: str, starts: int) -> Any:  # noqa: ANN401
    """Return scikit-learn's mixture of K terms."""
    mixture = importlib.import_module("sklearn.mixture")  # a second, which networks do not need
    floor = 1e-6 if len(x) >= 200 else 1e-4  # on variances of standardised points
    fit = mixture.GaussianMixture(
        terms,
        covariance_type=covariance,
        reg_covar=floor,
        n_init=starts,
        max_iter=ITERATIONS,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of slow convergence: held-out points judge what it gives
        return fit.fit(x.cpu().numpy())


def _law(fit: Any) -> GaussianMixture:  # noqa: ANN401
    """Return the law that scikit-learn has fitted."""
    weights, means = torch.from_numpy(fit.weights_), torch.from_numpy(fit.means_)
    covariances = torch.from_numpy(fit.covariances_)
    if fit.covariance_type == "tied":
        covariances = covariances.expand(len(weights), -1, -1)
    if fit.covariance_type == "diag":
        covariances = torch.diag_embed(covariances)
    return GaussianMixture(weights / weights.sum(), means, (covariances + covariances.mT) / 2)


def _shrunk(law: GaussianMixture, size: int, prior: float) -> GaussianMixture:
    """Return a mixture with covariances as if so many more rows had spoken for their target."""
    pooled = (law.weights.view(-1, 1, 1) * law.covariances).sum(0)
    target = (pooled + torch.diag_embed(law.covariances.diagonal(dim1=1, dim2=2))) / 2
    share = (prior / (prior + size * law.weights)).view(-1, 1, 1)
    return GaussianMixture(law.weights, law.means, (1 - share) * law.covariances + share * target)


def _numbers(terms: int, covariance: str, dimension: int) -> float:
    """Return how many numbers the covariances of a mixture have."""
    square = dimension * (dimension + 1) / 2
    return {"full": terms * square, "tied": square, "diag": terms * dimension}[covariance]


def _by_criterion(x: Tensor, covariance: str) -> SimpleLaw | None:
    """Return the mixture of one kind whose BIC is least; the search ends where it grows twice."""
    best, best_value, worse, last = None, math.inf, 0, math.inf
    for terms in range(1, MOST_TERMS + 1):
        if _numbers(terms, covariance, x.shape[1]) > NUMBERS_PER_POINT * len(x):
            break
        if 2 * terms > len(x):
            break
        value = _fitted(x, terms, covariance, starts=1).bic(x.cpu().numpy())
        if value < best_value:
            best, best_value = SimpleLaw(terms, covariance), value
        worse = worse + 1 if value > last else 0
        last = value
        if worse == 2:
            break
    return best


def _elliptical(x: Tensor) -> SimpleLaw | None:
    """Return the elliptical law if its BIC is less than that of the shrunk Gaussian."""
    law = SimpleLaw(len(SCALES), "multiples")
    heavy, gaussian = (
        each.fit(x).smoothed(SMALL_NOISE).log_prob(x).sum()
        for each in (law, SimpleLaw(1, "shrunk"))
    )
    more_numbers = len(SCALES) - 1
    return law if 2 * float(heavy - gaussian) > more_numbers * math.log(len(x)) else None


def simple_laws(x: Tensor, say: Callable[[str], None] = lambda words: None) -> list[SimpleLaw]:
    """Return the laws that points x, shape (n, D), standardised, float64, may follow.

    The first is the Gaussian of Ledoit and Wolf. The elliptical law follows where tails are heavy
    or light beyond chance, then a mixture of each kind of covariance, and those with full ones
    shrunk too.

    Args:
        x: the points.
        say: called with words on the progress.
    """
    law = _elliptical(x[:POINTS])
    chosen = [law] if law else []
    for kind, name in COVARIANCES.items():
        law = _by_criterion(x[:POINTS], kind)
        say(f"mixtures with {name} covariances")
        chosen += [law] if law else []
    full = [law for law in chosen if law.covariance == "full" and law.terms > 1]
    shrunk = [replace(law, prior=prior) for law in full for prior in PRIORS]
    return [SimpleLaw(1, "shrunk"), *chosen, *shrunk]
