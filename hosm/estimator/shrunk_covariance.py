"""The covariance of few points, drawn towards a multiple of the identity.

Ledoit and Wolf, "A Well-Conditioned Estimator for Large-Dimensional Covariance Matrices", Journal
of Multivariate Analysis 2004. With few points for each column the largest eigenvalues of the plain
estimate are too large and its smallest too small; the share by which it is drawn is that of the
least expected squared error, which the points themselves tell.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["shrunk_covariance", "shrunk_second_moment"]


def shrunk_covariance(x: Tensor) -> Tensor:
    """Return the covariance of points x (n, D) by Ledoit and Wolf, shape (D, D)."""
    return shrunk_second_moment(x - x.mean(0))


def shrunk_second_moment(x: Tensor) -> Tensor:
    """Return the same of points x (n, D) whose mean is known to be 0, shape (D, D)."""
    size, dimension = x.shape
    moment = x.mT @ x / size
    target = moment.trace() / dimension * torch.eye(dimension, dtype=x.dtype, device=x.device)
    squares = x.square()
    noise = (squares.mT @ squares / size - moment.square()).sum() / size
    distance = (moment - target).square().sum().clamp_min(torch.finfo(x.dtype).tiny)
    share = (noise / distance).clamp(0, 1)
    return (1 - share) * moment + share * target
