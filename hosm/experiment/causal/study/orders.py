"""Ways to a causal order that `hosm.causal.order` is compared with.

- `score`: the variable whose second derivative varies least comes last (Rolland et al., "Score
  Matching Enables Causal Discovery of Nonlinear Additive Noise Models", ICML 2022), with the
  kernel estimate of `hosm.causal.ordering`, which is theirs.
- `nogam`: the variable comes last whose score is predicted best from its residual, which is what
  remains of it after a regression on all others (Montagna, Noceti, Rosasco, Zhang and Locatello,
  "Causal Discovery with Score Matching on Additive Models with Arbitrary Noise", CLeaR 2023).
  Both regressions are kernel ridge, penalty and inverse squared width .01, as in the code of its
  authors; they predict each of 600 rows from the others, where that code has five folds of all.
- `by_variance`: the variables sorted by their variance, which says much of simulated data and
  nothing of standardised ones (Reisach, Seiler and Weichwald, "Beware of the Simulated DAG!",
  NeurIPS 2021).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from hosm.causal.ordering import REGRESSION_ROWS, RIDGE, stein_hessian_diagonal
from hosm.io import Array

__all__ = ["by_variance", "nogam", "score"]

PENALTY = 0.01  # of kernel ridge regression, and its inverse squared width


def _leaves_last(x: Array, criterion: Callable[[Tensor], Tensor]) -> list[int]:
    """Return the order in which the variable of the least criterion comes last, again and again.

    Args:
        x: points, shape (n, D).
        criterion: of the columns that are left, (n, d) -> (d,).
    """
    left, last = [*range(x.shape[1])], []
    while len(left) > 1:
        values = criterion(torch.from_numpy(x[:, left]))
        last.append(left.pop(int(values.argmin())))
    return left + last[::-1]


def score(x: Array) -> list[int]:
    """Return SCORE's order of points x, shape (n, D), causes first."""
    return _leaves_last(x, lambda points: stein_hessian_diagonal(points).var(0))


def by_variance(x: Array) -> list[int]:
    """Return the columns of x, shape (n, D), by their variance."""
    order: list[int] = np.argsort(x.var(0)).tolist()
    return order


def nogam(x: Array) -> list[int]:
    """Return NoGAM's order of points x, shape (n, D), causes first."""
    return _leaves_last(x, lambda points: _unexplained(points[:REGRESSION_ROWS]))


def _unexplained(x: Tensor) -> Tensor:
    """Return the mean squared error of each score predicted from its residual, shape (d,)."""
    scores, squares = _stein_score(x), torch.cdist(x, x).square()
    errors = []
    for column, s in zip(x.unbind(1), scores.unbind(1), strict=True):
        residual = _missed(squares - (column.unsqueeze(1) - column).square(), column)
        errors.append(_missed((residual.unsqueeze(1) - residual).square(), s).square().mean())
    return torch.stack(errors)


def _stein_score(x: Tensor) -> Tensor:
    """Return the score at points x by Stein's identity, both (n, D) (Rolland et al., eq. 8)."""
    s = torch.pdist(x).median()
    K = (torch.cdist(x, x).square() / (-2 * s**2)).exp()
    gradient = (x * K.sum(1, keepdim=True) - K @ x) / s**2
    return torch.linalg.solve(K + RIDGE * torch.eye(len(x), dtype=x.dtype), -gradient)


def _missed(squares: Tensor, y: Tensor) -> Tensor:
    """Return what kernel ridge regression on the other rows misses of each y, shape (n,).

    Args:
        squares: squared distances of the rows, shape (n, n).
        y: what is predicted, shape (n,).
    """
    K = (-PENALTY * squares).exp() + PENALTY * torch.eye(len(y), dtype=y.dtype)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(K))
    return (inverse @ y) / inverse.diagonal()
