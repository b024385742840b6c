"""Scores of a simple law that kernels correct: exact derivatives of one function, log q.

It is a kernel exponential family (Sriperumbudur et al., JMLR 2017; see
`hosm.estimator.kernel_correction`), fitted to noisy points, so that its derivatives are the scores
of q_sigma of Meng, Song, Li and Ermon (NeurIPS 2021). It answers as `hosm.scores.ScoreModel` does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hosm.distributions import GaussianMixture
from hosm.estimator.kernel_correction import Bumps
from hosm.operators import DiagonalPlusLowRank

__all__ = ["ClosedFormModel"]

NUMBERS_PER_CHUNK = 2**23  # of dense Hessians held at once


@dataclass(frozen=True)
class ClosedFormModel:
    """s1 and s2 at standardised points; points have shape (n, D) and any floating type.

    Args:
        law: the simple law of noisy points, that is, smoothed, float64.
        bumps: its correction, or None.
        sigma: noise scale, in standard deviations.
        rank: columns of the operator that stands for s2, 0 to D. Its diagonal is exact for any;
            with D columns all entries are.
    """

    law: GaussianMixture
    bumps: Bumps | None
    sigma: float
    rank: int = 0

    @property
    def dimension(self) -> int:
        """The number of coordinates, D."""
        return self.law.dimension

    def __call__(self, x: Tensor) -> tuple[Tensor, DiagonalPlusLowRank]:
        """Return s1, shape (n, D), and s2 as an operator, at points x."""
        return self.score(x), self.second_order(x)

    def correction(self, x: Tensor) -> Tensor:
        """Return the sum of kernels at points x, (n, D), float64, shape (n,); 0 without any."""
        return x.new_zeros(len(x)) if self.bumps is None else self.bumps.value(x)

    def log_density(self, x: Tensor) -> Tensor:
        """Return log q up to a constant at points x, (n, D), shape (n,), float64."""
        y = x.double()
        return self.law.log_prob(y) + self.correction(y)

    def score(self, x: Tensor) -> Tensor:
        """Return s1 = grad log q at points x, both of shape (n, D) and of one type."""
        return torch.cat([self._score(part) for part in self._rows(x)]).to(x.dtype)

    def _rows(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return points x in parts of which the law's terms fit into memory."""
        numbers = len(self.law.weights) * self.dimension
        return x.double().split(max(1, NUMBERS_PER_CHUNK // numbers))

    def _score(self, y: Tensor) -> Tensor:
        s = self.law.score(y)
        return s if self.bumps is None else s + self.bumps.score(y)

    def diagonal(self, x: Tensor) -> Tensor:
        """Return the diagonal of s2 at points x, (n, D), float64."""
        return torch.cat([self._diagonal(part) for part in self._rows(x)])

    def _diagonal(self, y: Tensor) -> Tensor:
        h = self.law.hessian_diag(y)
        return h if self.bumps is None else h + self.bumps.hessian_diagonal(y)

    def score_and_diagonal(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return s1 and the diagonal of s2 at points x, all of shape (n, D)."""
        return self.score(x), self.diagonal(x)

    def matrices(self, x: Tensor) -> Tensor:
        """Return s2 at points x, (n, D), as dense matrices, shape (n, D, D), float64."""
        return torch.cat([self._matrices(part) for part in self._chunks(x)])

    def column(self, x: Tensor, j: int) -> Tensor:
        """Return column j, 0 to D - 1, of s2 at points x, (n, D), shape (n, D), float64."""
        return torch.cat([self._matrices(part)[:, :, j] for part in self._chunks(x)])

    def _chunks(self, x: Tensor) -> tuple[Tensor, ...]:
        return x.double().split(max(1, NUMBERS_PER_CHUNK // self.dimension**2))

    def _matrices(self, y: Tensor) -> Tensor:
        h = self.law.hessian(y)
        return h if self.bumps is None else h + self.bumps.hessian(y)

    def second_order(self, x: Tensor) -> DiagonalPlusLowRank:
        """Return s2 at points x, (n, D), as an operator of `rank` columns, float64.

        With l the largest eigenvalue, l I - s2 is positive semi-definite: the columns are its
        leading eigenvectors, which belong to the directions in which log q bends down most, and
        the diagonal makes up what they lack of that of s2.
        """
        if not self.rank:
            return DiagonalPlusLowRank.from_diagonal(self.diagonal(x))
        parts = [self._operator(self._matrices(part)) for part in self._chunks(x)]
        diag, factor = (torch.cat(each) for each in zip(*parts, strict=True))
        return DiagonalPlusLowRank(diag, factor, -factor.new_ones(self.rank))

    def _operator(self, matrices: Tensor) -> tuple[Tensor, Tensor]:
        """Return diagonals (n, D) and columns (n, D, r), to be subtracted, of matrices."""
        values, vectors = torch.linalg.eigh(matrices)
        sizes = (values[:, -1:] - values[:, : self.rank]).clamp_min(0)
        columns = vectors[:, :, : self.rank] * sizes.sqrt().unsqueeze(1)
        return matrices.diagonal(dim1=1, dim2=2) + columns.square().sum(2), columns

    def positive_second_order(self, x: Tensor) -> DiagonalPlusLowRank:
        """Return s2 at points x, (n, D), as an operator that a posterior's covariance can be of.

        That covariance is sigma^2 I + sigma^4 s2, positive semi-definite. With few columns
        `second_order` need not leave it so: what it lacks off the diagonal may count for more
        than the diagonal. There the columns are the leading eigenvectors of s2 + I / sigma^2,
        the directions that are least certain; what these lack is positive semi-definite, and its
        diagonal not negative. Either way the diagonal of s2 is exact.

        Returns:
            The operator, float64: of `rank` columns that are subtracted, and as many that are
            added, of which one kind is 0 at each point.
        """
        if self.rank in (0, self.dimension):
            return self.second_order(x)
        parts = [self._positive_operator(self._matrices(part)) for part in self._chunks(x)]
        diag, factor = (torch.cat(each) for each in zip(*parts, strict=True))
        one = factor.new_ones(self.rank)
        return DiagonalPlusLowRank(diag, factor, torch.cat([-one, one]))

    def _positive_operator(self, matrices: Tensor) -> tuple[Tensor, Tensor]:
        """Return diagonals (n, D) and columns (n, D, 2 r), of which r are to be subtracted."""
        precision = self.sigma**-2
        diag, below = self._operator(matrices)
        covariance = torch.diag_embed(diag + precision) - below @ below.mT
        indefinite = torch.linalg.eigvalsh(covariance)[:, 0] < 0
        values, vectors = torch.linalg.eigh(matrices)
        sizes = (values[:, -self.rank :] + precision).clamp_min(0)
        above = vectors[:, :, -self.rank :] * sizes.sqrt().unsqueeze(1)
        below[indefinite], above[~indefinite] = 0.0, 0.0
        diag = matrices.diagonal(dim1=1, dim2=2) + below.square().sum(2) - above.square().sum(2)
        return diag, torch.cat([below, above], 2)
