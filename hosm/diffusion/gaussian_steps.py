r"""Gaussian laws of a step: their draws, their densities and their divergence from q.

A step of a sampler draws x_s from N(mu, Sigma) with Sigma a diagonal plus a low-rank part or, for
small D, a dense matrix. With U = 0 and one number in the diagonal it is that of DDPM (Ho, Jain
and Abbeel, "Denoising Diffusion Probabilistic Models", NeurIPS 2020, equation 1). A draw is mu +
d^(1/2) z + U w with independent normal z and w, which takes O(D k). The divergence of N(nu, b I)
from it is

    KL = 1/2 (b tr Sigma^-1 + (nu - mu)^T Sigma^-1 (nu - mu) - D + log det Sigma - D log b),

and by the formula of Woodbury, with c the signs of U, tr Sigma^-1 = tr d^-1 -
tr (c + U^T d^-1 U)^-1 (U^T d^-2 U), which takes O(D k^2).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from hosm.noise import standard_normal
from hosm.operators import DiagonalPlusLowRank

__all__ = ["GaussianStep", "Matrix", "diagonal_of", "positive_part", "trace_of_inverse"]

Matrix = DiagonalPlusLowRank | Tensor  # covariances: operators, or dense, shape (n, D, D)
LEAST_SHARE = 1e-6  # of the mean eigenvalue, that a covariance has at least


def diagonal_of(matrix: Matrix) -> Tensor:
    """Return the diagonal, shape (n, D), of operators or of a dense matrix, shape (n, D, D)."""
    if isinstance(matrix, Tensor):
        return matrix.diagonal(dim1=-2, dim2=-1)
    return matrix.diagonal()


def positive_part(covariance: Matrix) -> Matrix:
    """Return a covariance itself where it is positive definite, else one that is, near it.

    Args:
        covariance: symmetric matrices, operators or dense, shape (n, D, D).
    """
    if not isinstance(covariance, Tensor):
        if covariance.positive and bool((covariance.diag > 0).all()):
            return covariance
        return covariance.clip_to_psd()[0]
    if not bool(torch.linalg.cholesky_ex(covariance)[1].any()):
        return covariance
    values, vectors = torch.linalg.eigh(covariance)
    least = LEAST_SHARE * values.abs().mean(-1, keepdim=True)
    return (vectors * values.maximum(least).unsqueeze(-2)) @ vectors.mT


def trace_of_inverse(covariance: Matrix) -> Tensor:
    """Return tr Sigma^-1, shape (n,).

    Args:
        covariance: Sigma, positive definite, operators or dense, shape (n, D, D).
    """
    if isinstance(covariance, Tensor):
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(covariance))
        return diagonal_of(inverse).sum(-1)
    inverse = covariance.diag.reciprocal()
    if covariance.rank == 0:
        return inverse.sum(-1)
    scaled = covariance.factor * inverse.unsqueeze(-1)
    inner = torch.diag_embed(covariance.signs) + covariance.factor.mT @ scaled
    taken = torch.linalg.solve(inner, scaled.mT @ scaled)
    return inverse.sum(-1) - taken.diagonal(dim1=-2, dim2=-1).sum(-1)


class GaussianStep(NamedTuple):
    """The law N(mu, Sigma) of each of n points.

    Args:
        mean: mu, shape (n, D).
        covariance: Sigma, positive definite, operators or dense, shape (n, D, D).
    """

    mean: Tensor
    covariance: Matrix

    def sample(self, generator: Generator | None = None) -> Tensor:
        """Return one draw for each point, shape (n, D)."""
        z, sigma = standard_normal(self.mean, generator), self.covariance
        if isinstance(sigma, Tensor):
            return self.mean + (torch.linalg.cholesky(sigma) @ z.unsqueeze(-1)).squeeze(-1)
        if not sigma.positive:
            return self.mean + sigma.square_root_matvec(z)
        draw = self.mean + sigma.diag.sqrt() * z
        if sigma.rank == 0:
            return draw
        w = standard_normal(sigma.factor[..., 0, :], generator)
        return draw + (sigma.factor @ w.unsqueeze(-1)).squeeze(-1)

    def log_density(self, x: Tensor) -> Tensor:
        """Return log N(x; mu, Sigma) in nats, shape (n,), at one point x for each, (n, D)."""
        return -0.5 * (self._quadratic(x) + x.shape[-1] * math.log(2 * math.pi))

    def divergence(self, mean: Tensor, variance: float) -> Tensor:
        """Return KL(N(nu, b I) || N(mu, Sigma)) in nats, shape (n,).

        Args:
            mean: nu, shape (n, D).
            variance: b, above 0.
        """
        size = mean.shape[-1]
        spread = variance * trace_of_inverse(self.covariance)
        return 0.5 * (spread + self._quadratic(mean) - size * (1 + math.log(variance)))

    def _quadratic(self, x: Tensor) -> Tensor:
        """Return (x - mu)^T Sigma^-1 (x - mu) + log det Sigma, shape (n,)."""
        e = x - self.mean
        if not isinstance(self.covariance, Tensor):
            constant = x.shape[-1] * math.log(2 * math.pi)
            return -2 * self.covariance.log_density(e) - constant
        factor = torch.linalg.cholesky(self.covariance)
        whitened = torch.linalg.solve_triangular(factor, e.unsqueeze(-1), upper=False)
        log_determinant = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return whitened.square().sum((-2, -1)) + log_determinant
