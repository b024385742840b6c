r"""The scores of a known law under noise, in the form that a score model has.

A model of a range of noise scales is any callable (x_noisy, sigma) -> (s1, s2). This one is exact:
it takes a law of `hosm.distributions`, whose smoothed law q_sigma has the scores in closed form
(Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data Distribution by
Denoising", NeurIPS 2021, section 4.3), so that a sampler or a likelihood is judged apart from the
error of a network. At a rank r < D the second order is the one that a network of that rank can
have at best, up to the choice of the norm. With the eigenvalues l_1 >= .. >= l_D and eigenvectors
v of s2, and U of the columns (l_j - l_D)^(1/2) v_j for j <= r,

    s2_r = U U^T + diag(s2 - U U^T),

whose diagonal and trace are those of s2. As s2 - U U^T >= l_D I, the posterior covariance
sigma^2 (I + sigma^2 s2_r) is positive definite wherever the exact one is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hosm.checks import check_count
from hosm.distributions import Law
from hosm.noise import Scale, check_noise_scale, is_per_point
from hosm.operators import DiagonalPlusLowRank

__all__ = ["ExactScores", "truncated"]


def truncated(matrix: Tensor, rank: int) -> DiagonalPlusLowRank:
    """Return the leading factor of symmetric matrices, and a diagonal that keeps theirs.

    Args:
        matrix: A, symmetric, shape (n, D, D).
        rank: columns r of the factor, 0 to D; at r = D the result is A.

    Raises:
        ValueError: rank out of its range.
    """
    check_count("rank", rank, 0, matrix.shape[-1])
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    if rank == 0:
        return DiagonalPlusLowRank.from_diagonal(diagonal)
    values, vectors = torch.linalg.eigh(matrix)
    above = (values[:, -rank:] - values[:, :1]).clamp_min(0)
    factor = vectors[..., -rank:] * above.sqrt().unsqueeze(1)
    return DiagonalPlusLowRank(diagonal - factor.square().sum(-1), factor)


class ExactScores:
    """The scores of x + sigma z for x of a known law, as a model of every noise scale.

    Args:
        law: a law whose `smoothed(sigma)` is known: a Gaussian, a mixture of them, finite data.
        rank: columns of the factor of s2; None for s2 itself, a tensor of shape (n, D, D).

    Raises:
        ValueError: rank is not a whole number from 0 to D.
    """

    def __init__(self, law: Law, rank: int | None = None) -> None:
        if rank is not None:
            check_count("rank", rank, 0, law.dimension)
        self.law, self.rank = law, rank

    def _parts(self, x_noisy: Tensor, sigma: Scale) -> tuple[Tensor, Tensor]:
        """Return s1, shape (n, D), and s2, shape (n, D, D)."""
        check_noise_scale(sigma, len(x_noisy))
        if not is_per_point(sigma):
            law = self.law.smoothed(float(sigma))
            return law.score(x_noisy), law.hessian(x_noisy)
        s1 = torch.empty_like(x_noisy)
        s2 = x_noisy.new_empty(*x_noisy.shape, x_noisy.shape[1])
        for value in sigma.unique().tolist():
            chosen = sigma == value
            s1[chosen], s2[chosen] = self._parts(x_noisy[chosen], value)
        return s1, s2

    def score(self, x_noisy: Tensor, sigma: Scale) -> Tensor:
        """Return s1 alone, shape (n, D); arguments and errors as in a call."""
        if not is_per_point(sigma):
            return self.law.smoothed(float(sigma)).score(x_noisy)
        return self._parts(x_noisy, sigma)[0]

    def __call__(
        self, x_noisy: Tensor, sigma: Scale
    ) -> tuple[Tensor, DiagonalPlusLowRank | Tensor]:
        """Return s1, shape (n, D), and s2, an operator or, without a rank, a dense tensor.

        Args:
            x_noisy: noisy points, shape (n, D), of the law's dtype.
            sigma: noise scale, a number or one for each point, shape (n,), in the data's units.

        Raises:
            ValueError: points or scales of another shape, or not finite.
        """
        s1, s2 = self._parts(x_noisy, sigma)
        return s1, s2 if self.rank is None else truncated(s2, self.rank)
