r"""Rivals: guidance of a first-order model by a measurement, with products by its Jacobian.

Each method estimates E[x | x~, y] from the denoiser m(x~) = x~ + sigma^2 s1(x~), the residual
r = y - A m and products with the transpose of J = dm / dx~, each at about the cost of another
evaluation (backward). In the variance-exploding form,

    DPS       m + zeta (1 + sigma^2 / tau^2) J^T A^T r / |r| / (1 - sigma'^2 / sigma^2)
    PiGDM     m + sigma^2 J^T A^T (rho^2 A A^T + s^2 I)^-1 r
    TMPD      m + sigma^2 J^T A^T (r / (sigma^2 A J^T A^T 1 + s^2))
    MMPS      m + sigma^2 J^T A^T (sigma^2 A J^T A^T + s^2 I)^-1 r

where tau is the standard deviation of the data, rho^2 = 1 / (1 / sigma^2 + 1 / tau^2), and sigma'
is the next noise scale. DPS moves x by zeta along the gradient of |r| after each step (Chung et
al., "Diffusion Posterior Sampling for General Noisy Inverse Problems", ICLR 2023, algorithm 1; its
variable is x~ scaled to unit variance, hence the factor of tau), which is written here as a change
of m. PiGDM: Song et al., "Pseudoinverse-Guided Diffusion Models for Inverse Problems", ICLR 2023,
equation 7. TMPD: Boys et al., "Tweedie Moment Projected Diffusions for Inverse Problems", 2023,
with row sums for the diagonal, at least 0. MMPS: Rozet et al., "Learning Diffusion Priors from
Observations by Expectation Maximization", NeurIPS 2024, with a few conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hosm.autodiff import pulled_back
from hosm.inverse.linear_operators import LinearOperator
from hosm.inverse.solver import conjugate_gradients

__all__ = ["RIVALS", "Denoised", "Problem", "differentiable", "dps", "mmps", "pigdm", "tmpd"]

Score = Callable[[Tensor, float], Tensor]


@dataclass(frozen=True)
class Problem:
    """What is known beside the noisy points: y = A x + s e, and the scale of x.

    Attributes:
        operator: A.
        y: measurements, shape (n, m).
        noise: s, above 0.
        data_std: tau, standard deviation of a coordinate of x.
        strength: factor of the guidance; zeta of DPS.
        iterations: of the conjugate gradients of MMPS.
    """

    operator: LinearOperator
    y: Tensor
    noise: float
    data_std: float
    strength: float
    iterations: int


@dataclass(frozen=True)
class Denoised:
    """A denoiser's output with its transposed Jacobian.

    Attributes:
        mean: m, shape (n, D).
        pull: returns J^T v, shape (n, D), for v of shape (n, D).
    """

    mean: Tensor
    pull: Callable[[Tensor], Tensor]


def differentiable(score: Score, x_noisy: Tensor, sigma: float) -> Denoised:
    """Return m and products with J^T, by automatic differentiation of s1.

    Args:
        score: returns s1, shape (n, D), at points (n, D) of a noise scale.
        x_noisy: noisy points, shape (n, D).
        sigma: their noise scale.
    """
    with torch.enable_grad():
        x = x_noisy.detach().requires_grad_()
        s1 = score(x, sigma)
    mean = x_noisy + sigma**2 * s1.detach()
    return Denoised(mean, lambda v: v + sigma**2 * pulled_back(s1, x, v))


def dps(given: Denoised, problem: Problem, sigma: float, following: float) -> Tensor:
    """Return the guided mean of DPS, shape (n, D); `following` is the next noise scale."""
    r = problem.y - problem.operator.forward(given.mean)
    size = r.norm(dim=1, keepdim=True).clamp_min(torch.finfo(r.dtype).tiny)
    gradient = given.pull(problem.operator.adjoint(r / size))
    growth = (1 + (sigma / problem.data_std) ** 2) / (1 - (following / sigma) ** 2)
    return given.mean + problem.strength * growth * gradient


def pigdm(given: Denoised, problem: Problem, sigma: float, following: float) -> Tensor:
    """Return the guided mean of PiGDM, shape (n, D)."""
    operator, noise = problem.operator, problem.noise
    r = problem.y - operator.forward(given.mean)
    spread = 1 / (1 / sigma**2 + 1 / problem.data_std**2)
    scale = spread * operator.squares(torch.ones_like(given.mean)) + noise**2
    solution = conjugate_gradients(
        lambda u: spread * operator.forward(operator.adjoint(u)) + noise**2 * u,
        r,
        lambda u: u / scale,
    )
    change = sigma**2 * given.pull(operator.adjoint(solution.values))
    return given.mean + problem.strength * change


def tmpd(given: Denoised, problem: Problem, sigma: float, following: float) -> Tensor:
    """Return the guided mean of TMPD, shape (n, D)."""
    operator, noise = problem.operator, problem.noise
    r = problem.y - operator.forward(given.mean)
    sums = operator.forward(given.pull(operator.adjoint(torch.ones_like(r))))
    weighted = r / (sigma**2 * sums.clamp_min(0) + noise**2)
    change = sigma**2 * given.pull(operator.adjoint(weighted))
    return given.mean + problem.strength * change


def mmps(given: Denoised, problem: Problem, sigma: float, following: float) -> Tensor:
    """Return the guided mean of MMPS, shape (n, D)."""
    operator, noise = problem.operator, problem.noise

    def product(u: Tensor) -> Tensor:
        return sigma**2 * operator.forward(given.pull(operator.adjoint(u))) + noise**2 * u

    r = problem.y - operator.forward(given.mean)
    u = conjugate_gradients(product, r, iterations=problem.iterations).values
    return given.mean + problem.strength * sigma**2 * given.pull(operator.adjoint(u))


Rival = Callable[[Denoised, Problem, float, float], Tensor]
RIVALS: dict[str, Rival] = {"dps": dps, "pigdm": pigdm, "tmpd": tmpd, "mmps": mmps}
