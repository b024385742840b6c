r"""The elliptical law: contours of a Gaussian, and tails as heavy as those of the data.

A point is the mean plus a Gaussian step whose size is drawn too, so that the law is a mixture of
Gaussians about one mean whose covariances are multiples of one matrix,

    q(x) = sum_k w_k N(x; m, c_k C)

(Andrews and Mallows, "Scale Mixtures of Normal Distributions", JRSS B 1974). Student's t, whatever
its degrees of freedom, is the limit of such mixtures, and so is the law of Laplace. The c_k are a
fixed grid; m, C and the w_k are those of largest likelihood, found by the EM algorithm as for
Student's t (Lange, Little and Taylor, "Robust Statistical Modeling Using the t Distribution", JASA
1989), but that C is drawn towards a multiple of the identity as Ledoit and Wolf do. Far points
weigh little in m and C, which is what makes these robust.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hosm.distributions import GaussianMixture
from hosm.estimator.shrunk_covariance import shrunk_covariance, shrunk_second_moment

__all__ = ["SCALES", "elliptical_law"]

SCALES = tuple(3.0**k for k in range(-2, 6))  # c_k, in variances
ITERATIONS = 100
TOLERANCE = 1e-5  # of the mean log-density of a point, in nats, at which EM ends
FLOOR = 1e-6  # on the variances of standardised points, as scikit-learn's mixtures have
SMALLEST_WEIGHT = 1e-4  # of a term that is kept


def elliptical_law(x: Tensor) -> GaussianMixture:
    """Return the elliptical law that fits points best.

    Args:
        x: standardised points, shape (n, D), float64.

    Returns:
        A mixture of up to `len(SCALES)` Gaussians; those that hardly any point needs are left out.
    """
    scales = x.new_tensor(SCALES)
    weights = torch.full_like(scales, 1 / len(scales))
    mean, shape = x.median(0).values, _raised(shrunk_covariance(x))
    last = -math.inf
    for _ in range(ITERATIONS):
        joint = weights.log() + _log_densities(x - mean, shape, scales)
        density = torch.logsumexp(joint, 1, keepdim=True)
        if float(density.mean()) - last < TOLERANCE:
            break
        last = float(density.mean())
        share = (joint - density).exp()  # of each term in each point, (n, K)
        weights = share.mean(0)
        trust = (share / scales).sum(1, keepdim=True)  # what a point weighs in mean and shape
        mean = (trust * x).sum(0) / trust.sum()
        shape = _raised(shrunk_second_moment(trust.sqrt() * (x - mean)))
    kept = weights > SMALLEST_WEIGHT
    weights, scales = weights[kept], scales[kept]
    means = mean.expand(len(weights), -1).clone()
    return GaussianMixture(weights / weights.sum(), means, scales.view(-1, 1, 1) * shape)


def _raised(matrix: Tensor) -> Tensor:
    """Return a covariance with the least variance that points may have added to its diagonal."""
    return matrix + FLOOR * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)


def _log_densities(x: Tensor, shape: Tensor, scales: Tensor) -> Tensor:
    """Return log N(x; 0, c_k C) of centred points x (n, D) for each scale, shape (n, K)."""
    factor = torch.linalg.cholesky(shape)
    whitened = torch.linalg.solve_triangular(factor, x.mT, upper=False)
    distance = whitened.square().sum(0).unsqueeze(1)
    volume = 2 * factor.diagonal().log().sum() + x.shape[1] * (2 * math.pi * scales).log()
    return -(distance / scales + volume) / 2
