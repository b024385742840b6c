r"""Covariances of the reverse step x_s | x_t, from constants to a learned diagonal plus low rank.

In the data's units (see `hosm.diffusion.schedules`) x_t = x + sigma_t z, and a step adds noise of
variance v = sigma_t^2 - sigma_s^2 to x_s. Given the clean point x,

    q(x_s | x_t, x) = N(x_t + k (x - x_t), sigma_s^2 k I),   k = v / sigma_t^2,

(Ho, Jain and Abbeel, "Denoising Diffusion Probabilistic Models", NeurIPS 2020, equation 7). Mixed
over the posterior of x given x_t, which by Tweedie's formula has the mean m = x_t + sigma_t^2 s1
and the covariance C = sigma_t^2 (I + sigma_t^2 s2), the mean and covariance of q(x_s | x_t) are

    mu = x_t + k (m - x_t) = x_t + v s1,
    Sigma = sigma_s^2 k I + k^2 C = v I + v^2 s2,

which is Tweedie's formula again, for the noise of the step alone. The Gaussian N(mu, Sigma) is the
nearest to q(x_s | x_t) of all, in KL(q || N): Bao, Li, Zhu and Zhang, "Analytic-DPM: an Analytic
Estimate of the Optimal Reverse Variance in Diffusion Probabilistic Models", ICLR 2022, theorem 1;
for diagonals Bao et al., "Estimating the Optimal Covariance with Imperfect Mean in Diffusion
Probabilistic Models", ICML 2022 (SN-DPM), and Ou et al., "Improving Probabilistic Diffusion Models
With Optimal Diagonal Covariance Matching", ICLR 2025 (OCM). What is put in the place of Sigma:

- `Beta`: that of data N(0, d^2 I), for which s2 = -I / (sigma_t^2 + d^2). With d = 1 it is the
  beta_t of Ho et al. (section 3.2) in their units.
- `BetaTilde`: that of a single clean point, C = 0. With `Beta` they bound the entropy of a step.
- `OptimalIsotropic`: the best multiple of I, the same at all points: v - v^2 E|s1|^2 / D, since
  E tr s2 = -E|s1|^2 (Analytic-DPM, equation 8), with the mean over held-out points.
- `Diagonal`: the diagonal of s2. `LowRank`: s2 as a model returns it.
- `Exact`: s2 as the Jacobian of s1 by automatic differentiation, D products for each point.

The last step has s = 0, where q(x | x_t) = N(m, C); `BetaTilde`, whose C would be 0, then takes
the constant of `Beta`, as implementations of Ho et al. do, so that there is a density.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from hosm.autodiff import autodiff_hessian
from hosm.checks import check_number, checked
from hosm.diffusion.gaussian_steps import (
    GaussianStep,
    Matrix,
    diagonal_of,
    positive_part,
)
from hosm.noise import check_sigma, standard_normal
from hosm.operators import DiagonalPlusLowRank

__all__ = [
    "Beta",
    "BetaTilde",
    "Covariance",
    "Diagonal",
    "Exact",
    "LowRank",
    "Model",
    "OptimalIsotropic",
    "reverse_covariance",
    "score_function",
]

Model = Callable[..., Any]  # (x_noisy, sigma) -> (s1, s2); s1 alone by `score`, where it has that


def score_function(model: Model) -> Callable[[Tensor, float], Tensor]:
    """Return s1 of a model, (x_noisy (n, D), sigma) -> (n, D), without its s2 where it can."""
    return getattr(model, "score", lambda x, sigma: model(x, sigma)[0])


def check_step(sigma: float, sigma_next: float) -> float:
    """Return the variance v of the noise of a step.

    Args:
        sigma: sigma_t, above 0, in the data's units.
        sigma_next: sigma_s, at least 0 and below sigma_t.

    Raises:
        ValueError: one of them is out of its range.
    """
    check_sigma(sigma)
    if not 0 <= sigma_next < sigma:
        raise ValueError(f"sigma_next must be at least 0 and below {sigma}, got {sigma_next}")
    return sigma**2 - sigma_next**2


def reverse_covariance(s2: Matrix, sigma: float, sigma_next: float) -> Matrix:
    """Return Sigma = v I + v^2 s2, made positive definite where it is not, in the form of s2.

    Args:
        s2: second-order scores at x_t, operators or dense, shape (n, D, D).
        sigma: sigma_t, above 0, in the data's units.
        sigma_next: sigma_s, at least 0 and below sigma_t.

    Raises:
        ValueError: a noise scale out of its range.
    """
    v = check_step(sigma, sigma_next)
    if isinstance(s2, Tensor):
        eye = torch.eye(s2.shape[-1], dtype=s2.dtype, device=s2.device)
        return positive_part(v * eye + v**2 * s2)
    return positive_part((s2 * v**2).add_diagonal(v))


def _isotropic(like: Tensor, variance: float) -> DiagonalPlusLowRank:
    """Return variance times I for each of n points, shape (n, D)."""
    return DiagonalPlusLowRank.from_diagonal(torch.full_like(like, variance))


class Covariance(ABC):
    """A way to have the covariance of a reverse step; `step` gives the law of x_s given x_t."""

    @abstractmethod
    def scores(self, model: Model, x: Tensor, sigma: float) -> tuple[Tensor, Matrix]:
        """Return s1, shape (n, D), and what stands for s2, at noisy points x, shape (n, D)."""

    def step(self, model: Model, x: Tensor, sigma: float, sigma_next: float) -> GaussianStep:
        """Return the Gaussian law of x_s given x_t.

        Args:
            model: (x_noisy, sigma) -> (s1, s2) at any noise scale of the step's.
            x: x_t in the data's units, shape (n, D).
            sigma: sigma_t, above 0.
            sigma_next: sigma_s, at least 0 and below sigma_t.

        Raises:
            ValueError: points or noise scales of another shape or range.
        """
        checked("x", x, "n", "D", finite=False)
        v = check_step(sigma, sigma_next)
        s1, s2 = self.scores(model, x, sigma)
        return GaussianStep(x + v * s1, reverse_covariance(s2, sigma, sigma_next))


@dataclass(frozen=True)
class Beta(Covariance):
    """The constant that is right for data N(0, d^2 I): the larger of DDPM's two.

    Args:
        data_std: d, above 0, in the data's units.

    Raises:
        ValueError: data_std is not a finite number above 0.
    """

    data_std: float = 1.0

    def __post_init__(self) -> None:
        check_number("data_std", self.data_std)

    def scores(self, model: Model, x: Tensor, sigma: float) -> tuple[Tensor, Matrix]:
        """Return s1 and the s2 of N(0, (d^2 + sigma^2) I) (see `Covariance.scores`)."""
        curvature = -1 / (sigma**2 + self.data_std**2)
        return score_function(model)(x, sigma), _isotropic(x, curvature)


@dataclass(frozen=True)
class BetaTilde(Covariance):
    """The constant that is right for a single clean point: the smaller of DDPM's two.

    Args:
        data_std: d of the last step, which goes to sigma = 0 (see `Beta`).
    """

    data_std: float = 1.0

    def scores(self, model: Model, x: Tensor, sigma: float) -> tuple[Tensor, Matrix]:
        """Return s1 and -I / sigma^2 (see `Covariance.scores`)."""
        return score_function(model)(x, sigma), _isotropic(x, -1 / sigma**2)

    def step(self, model: Model, x: Tensor, sigma: float, sigma_next: float) -> GaussianStep:
        """Return the Gaussian law of x_s given x_t (see `Covariance.step`)."""
        if sigma_next == 0:
            return Beta(self.data_std).step(model, x, sigma, sigma_next)
        v = check_step(sigma, sigma_next)
        constant = v * (sigma_next / sigma) ** 2
        return GaussianStep(x + v * score_function(model)(x, sigma), _isotropic(x, constant))


@dataclass(frozen=True, eq=False)
class OptimalIsotropic(Covariance):
    """The best multiple of I at each noise scale, as held-out points have it.

    Args:
        curvatures: sigma -> E tr s2 / D = -E|s1|^2 / D, negative.
    """

    curvatures: dict[float, float]

    @classmethod
    def fit(
        cls,
        model: Model,
        x: Tensor,
        sigmas: Tensor,
        generator: Generator | None = None,
        batch_size: int = 500,
    ) -> OptimalIsotropic:
        """Return the covariance from the mean of |s1|^2 over points with noise.

        Args:
            model: (x_noisy, sigma) -> (s1, s2), or with a method `score`.
            x: clean held-out points, shape (n, D).
            sigmas: noise scales of the steps; those of 0 are left out, shape (k,).
            generator: source of the noise.
            batch_size: points evaluated at once.

        Raises:
            ValueError: shapes that do not fit.
        """
        checked("x", x, "n", "D")
        score, curvatures = score_function(model), {}
        for sigma in filter(None, sigmas.tolist()):
            noisy = x + sigma * standard_normal(x, generator)
            with torch.no_grad():
                squares = [score(part, sigma).square().sum() for part in noisy.split(batch_size)]
            mean = float(torch.stack(squares).sum()) / x.numel()
            curvatures[sigma] = -min(mean, 1 / sigma**2)  # at most that of a single point
        return cls(curvatures)

    def scores(self, model: Model, x: Tensor, sigma: float) -> tuple[Tensor, Matrix]:
        """Return s1 and the best multiple of I for s2 (see `Covariance.scores`).

        Raises:
            ValueError: it was not fitted at this noise scale.
        """
        if sigma not in self.curvatures:
            fitted = ", ".join(f"{known:g}" for known in self.curvatures)
            raise ValueError(f"sigma must be one of {fitted}, got {sigma}")
        return score_function(model)(x, sigma), _isotropic(x, self.curvatures[sigma])


@dataclass(frozen=True)
class Diagonal(Covariance):
    """The diagonal of s2, as the model has it."""

    def scores(self, model: Model, x: Tensor, sigma: float) -> tuple[Tensor, Matrix]:
        """Return s1 and the diagonal of s2 (see `Covariance.scores`)."""
        if hasattr(model, "score_and_diagonal"):
            s1, diagonal = model.score_and_diagonal(x, sigma)
            return s1, DiagonalPlusLowRank.from_diagonal(diagonal)
        s1, s2 = model(x, sigma)
        return s1, DiagonalPlusLowRank.from_diagonal(diagonal_of(s2))


@dataclass(frozen=True)
class LowRank(Covariance):
    """s2 as the model returns it, a diagonal plus low rank from the one evaluation of s1."""

    def scores(self, model: Model, x: Tensor, sigma: float) -> tuple[Tensor, Matrix]:
        """Return s1 and s2 (see `Covariance.scores`).

        Raises:
            ValueError: the model has no second order.
        """
        s1, s2 = model(x, sigma)
        if s2 is None:
            raise ValueError("the model must return s2, got None: it is of the first order")
        return s1, s2


@dataclass(frozen=True)
class Exact(Covariance):
    """s2 as the Jacobian of s1, dense: the baseline, for small D.

    Args:
        chunk_size: rows of the Jacobian computed at once; None for all.
    """

    chunk_size: int | None = None

    def scores(self, model: Model, x: Tensor, sigma: float) -> tuple[Tensor, Matrix]:
        """Return s1 and its symmetrised Jacobian (see `Covariance.scores`)."""
        score = score_function(model)
        return score(x, sigma), autodiff_hessian(lambda y: score(y, sigma), x, self.chunk_size)
