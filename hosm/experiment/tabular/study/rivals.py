r"""What a user would reach for to estimate scores and Hessians of a table, each tuned as is usual.

Each is fitted to standardised rows and answers for the law of x + noise, the noise being Gaussian
and independent in each column; of no noise, for the law of x. Where a method has no law of noisy
points, it answers for the rows as they are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from sklearn.covariance import LedoitWolf
from sklearn.mixture import GaussianMixture as FittedMixture
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity
from torch import Tensor

from hosm import ScoreEstimator
from hosm.autodiff import autodiff_hessian
from hosm.distributions import GaussianMixture
from hosm.estimator.recipe import Recipe, learn_first

__all__ = ["RIVALS", "Answer", "Fitted", "Ours", "implicit_loss", "ours"]

DOUBLE = torch.float64
MOST_TERMS = 10  # of the mixture
BANDWIDTHS = np.logspace(-1.2, 0.4, 13)  # of the kernel density, in standard deviations
KERNEL_ROWS = 1000  # that a width is chosen on, and that Stein's kernel has
FOLDS = 3
STEIN_WIDTHS = (0.5, 1.0, 2.0, 4.0)  # in median distances
STEIN_PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)
NUMBERS = 2**24  # held at once
NETWORK_SIGMA = 0.1  # noise scale of the network that is differentiated
HELD_SHARE = 0.1  # of the rows, that stop its training


class Answer(NamedTuple):
    """Scores, shape (n, D), and Hessians, shape (n, D, D), at n points."""

    score: Tensor
    hessian: Tensor


class Fitted(Protocol):
    """A law that was fitted."""

    @property
    def smooths(self) -> bool:
        """Whether it has a law of noisy points."""

    def __call__(self, x: Tensor, noise: Tensor) -> Answer:
        """Answer at points x, shape (n, D), for noise of these variances, shape (D,)."""


@dataclass(frozen=True)
class Mixture:
    """A mixture of Gaussians, of one at least."""

    law: GaussianMixture
    smooths: bool = True

    def __call__(self, x: Tensor, noise: Tensor) -> Answer:
        """Answer exactly."""
        law = self.law
        noisy = GaussianMixture(law.weights, law.means, law.covariances + noise.diag())
        return Answer(noisy.score(x), noisy.hessian(x))


def ledoit_wolf(x: Tensor, seed: int) -> Fitted:
    """A Gaussian with the covariance of Ledoit and Wolf (2004), by scikit-learn."""
    found = LedoitWolf().fit(x.numpy())
    covariance = torch.from_numpy(found.covariance_)[None]
    return Mixture(GaussianMixture(x.new_ones(1), x.mean(0, keepdim=True), covariance))


def mixture(x: Tensor, seed: int) -> Fitted:
    """A mixture of up to ten Gaussians, of how many by Schwarz's criterion, by scikit-learn."""
    most = min(MOST_TERMS, len(x) // 2)
    tried = (FittedMixture(k, random_state=seed).fit(x.numpy()) for k in range(1, most + 1))
    found = min(tried, key=lambda each: each.bic(x.numpy()))
    parts = (found.weights_ / found.weights_.sum(), found.means_, found.covariances_)
    return Mixture(GaussianMixture(*(torch.from_numpy(part) for part in parts)))


@dataclass(frozen=True)
class Kernels:
    """A kernel density estimate: an equal mixture of Gaussians of one width around each row."""

    rows: Tensor
    width: float
    smooths: bool = True

    def __call__(self, x: Tensor, noise: Tensor) -> Answer:
        """Answer exactly, a few points at a time."""
        chunk = max(1, NUMBERS // self.rows.numel())
        parts = [self._answer(part, self.width**2 + noise) for part in x.split(chunk)]
        return Answer(*(torch.cat(each) for each in zip(*parts, strict=True)))

    def _answer(self, x: Tensor, variance: Tensor) -> Answer:
        apart = (self.rows - x.unsqueeze(1)) / variance  # (n, rows, D)
        weights = (-(apart.square() * variance).sum(2) / 2).softmax(1)
        s = torch.einsum("nm,nmd->nd", weights, apart)
        second = (apart * weights.unsqueeze(2)).mT @ apart
        outer = s.unsqueeze(2) * s.unsqueeze(1)
        return Answer(s, second - outer - variance.reciprocal().diag())


def kernel_density(x: Tensor, seed: int) -> Fitted:
    """A kernel density estimate, its bandwidth by cross-validated likelihood, by scikit-learn.

    With more rows than the bandwidth is chosen on, it shrinks as n^(-1 / (D + 4)).
    """
    some = x[:KERNEL_ROWS]
    search = GridSearchCV(KernelDensity(), {"bandwidth": BANDWIDTHS}, cv=5).fit(some.numpy())
    shrinkage = (len(some) / len(x)) ** (1 / (x.shape[1] + 4))
    return Kernels(x, float(search.best_params_["bandwidth"]) * shrinkage)


@dataclass(frozen=True)
class Stein:
    r"""Scores by Stein's identity with a Gaussian kernel, between the rows too.

    With X the rows, lambda s(x) + n^-1 sum_m k(x, x_m) s(x_m) = -n^-1 sum_m d k(x, x_m) / d x_m:
    the estimator of Li and Turner ("Gradient Estimators for Implicit Models", ICLR 2018) at the
    rows, and its extension by Zhou, Shi and Zhu ("Nonparametric Score Estimators", ICML 2020).
    """

    rows: Tensor
    width: float
    penalty: float
    scores: Tensor
    smooths: bool = False

    def __call__(self, x: Tensor, noise: Tensor) -> Answer:
        """Answer for the rows as they are; the Hessian is the symmetric part of s's Jacobian."""
        chunk = max(1, NUMBERS // self.rows.numel())
        parts = [self._answer(part) for part in x.split(chunk)]
        return Answer(*(torch.cat(each) for each in zip(*parts, strict=True)))

    def _answer(self, x: Tensor) -> Answer:
        apart = (x.unsqueeze(1) - self.rows) / self.width**2
        k = (-apart.square().sum(2) * self.width**2 / 2).exp()
        share = -1 / (self.penalty * len(self.rows))
        s = share * (torch.einsum("nm,nmd->nd", k, apart) + k @ self.scores)
        both = apart + self.scores  # what the kernel multiplies; its own slope is -apart
        slopes = -(both * k.unsqueeze(2)).mT @ apart
        own = k.sum(1) / self.width**2
        jacobian = share * (slopes + own.view(-1, 1, 1) * torch.eye(x.shape[1], dtype=x.dtype))
        return Answer(s, (jacobian + jacobian.mT) / 2)


def _stein(x: Tensor, width: float, penalties: Sequence[float]) -> list[Stein]:
    """Fit Stein's estimator to rows for several penalties."""
    square = torch.cdist(x, x).square()
    k = (-square / (2 * width**2)).exp()
    pull = (k.sum(1, keepdim=True) * x - k @ x) / width**2
    eye = torch.eye(len(x), dtype=x.dtype)
    return [Stein(x, width, p, -torch.linalg.solve(k + len(x) * p * eye, pull)) for p in penalties]


def implicit_loss(fitted: Fitted, x: Tensor) -> float:
    """Return the loss of implicit score matching (Hyvarinen, 2005) at held-out rows."""
    answer = fitted(x, torch.zeros_like(x[0]))
    trace = answer.hessian.diagonal(dim1=1, dim2=2).sum(1)
    return float((answer.score.square().sum(1) / 2 + trace).mean())


def stein(x: Tensor, seed: int) -> Fitted:
    """Stein's estimator, width and penalty by cross-validated implicit score matching."""
    x = x[:KERNEL_ROWS]
    fold = torch.arange(len(x)) % FOLDS
    median = float(torch.pdist(x).median())
    losses: dict[tuple[float, float], float] = {}
    for width in STEIN_WIDTHS:
        for k in range(FOLDS):
            held = x[fold == k]
            for each in _stein(x[fold != k], width * median, STEIN_PENALTIES):
                place = (width, each.penalty)
                losses[place] = losses.get(place, 0.0) + implicit_loss(each, held)
    width, penalty = min(losses, key=lambda place: losses[place])
    return _stein(x, width * median, [penalty])[0]


@dataclass(frozen=True)
class Network:
    """Scores by a network, and Hessians by differentiating it."""

    score: Callable[[Tensor], Tensor]
    smooths: bool = False

    def __call__(self, x: Tensor, noise: Tensor) -> Answer:
        """Answer for the noise that it was trained with."""
        points = x.float()
        with torch.no_grad():
            s = self.score(points).double()
        return Answer(s, autodiff_hessian(self.score, points).double())


def fit_network(x: Tensor, seed: int) -> Fitted:
    """A network of s1 by denoising score matching, stopped early, and then differentiated."""
    count = max(1, round(HELD_SHARE * len(x)))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    points = x[order].float()
    model, _ = learn_first(points[count:], points[:count], NETWORK_SIGMA, None, Recipe())
    return Network(model.score)


@dataclass(frozen=True)
class Ours:
    """The estimator, fitted by its defaults; it answers for the noise that it chose."""

    estimator: ScoreEstimator
    smooths: bool = True

    @property
    def noise(self) -> Tensor:
        """The variance of its noise in each column, shape (D,)."""
        return torch.from_numpy(self.estimator.noise_std_).square()

    def __call__(self, x: Tensor, noise: Tensor) -> Answer:
        """Answer for its own noise."""
        dense = self.estimator.hessian(x.numpy(), dense=True)
        return Answer(
            torch.from_numpy(self.estimator.score_function(x.numpy())),
            torch.from_numpy(np.asarray(dense)),
        )


def ours(x: Tensor, seed: int) -> Ours:
    """Fit `hosm.ScoreEstimator` with no option but the seed."""
    return Ours(ScoreEstimator(random_state=seed).fit(x.numpy()))


RIVALS: dict[str, Callable[[Tensor, int], Fitted]] = {
    "Ledoit-Wolf Gaussian": ledoit_wolf,
    "Gaussian mixture by BIC": mixture,
    "kernel density": kernel_density,
    "Stein kernel": stein,
    "differentiated network": fit_network,
}
