"""How good the draws of Markov chains are: how far from the law, and how many effective ones.

The same for every sampler that is compared, whichever library it is of. A sampler that blurs the
modes into one blob can have good coordinates, so the distance from the mean is looked at as well.
"""

import torch
from torch import Tensor

from hosm import metrics
from hosm.laws import Law

__all__ = ["bias", "quality"]


def bias(draws: Tensor, exact: Law, reference: Tensor) -> dict[str, float]:
    """Return how far draws are from a law.

    Args:
        draws: points, shape (n, D) or (chains, T, D), n >= 2; they may be infinite or NaN.
        exact: the law that they should have.
        reference: independent draws of it, shape (m, D), m >= 2.

    Returns:
        `kolmogorov`, the largest Kolmogorov distance from `reference` over the coordinates and
        the distance |x - mu| from the law's mean, in 0 .. 1, and 1 where a draw is not finite;
        `variance_ratio`, the variance over that of `reference` in the coordinate where the
        ratio is furthest from 1 as a factor (1/2 is as far as 2), NaN where a draw is not finite.

    Raises:
        ValueError: if shapes do not fit, or there are fewer than 2 points.
    """
    flat = draws.flatten(0, -2)
    ratio = metrics.variance_ratio(flat, reference)
    worst = {"kolmogorov": 1.0, "variance_ratio": float(ratio[ratio.log().abs().argmax()])}
    if torch.isfinite(flat).all():
        both = [
            torch.cat([x, (x - exact.mean).norm(dim=1, keepdim=True)], 1)
            for x in (flat, reference)
        ]
        worst["kolmogorov"] = float(metrics.kolmogorov_distance(*both).max())
    return worst


def quality(draws: Tensor, exact: Law, reference: Tensor) -> dict[str, float]:
    """Return effective sample sizes, agreement and bias of a set of chains.

    Args:
        draws: of all chains, without burn-in, shape (chains, T, D); they may be infinite or NaN.
        exact: the law that they should have.
        reference: independent draws of it, shape (m, D), m >= 2.

    Returns:
        `ess_nice` per chain and `ess_bulk` of all chains, the smallest over dimensions; `r_hat`,
        the largest; what `bias` returns; `finite_share`, the share of points that are finite.

    Raises:
        ValueError: if shapes do not fit, or there are fewer than 2 points.
    """
    return {
        "ess_nice": float(metrics.ess_nice(draws, exact.mean, exact.variance).min()),
        "ess_bulk": float(metrics.ess_bulk(draws).min()),
        "r_hat": float(metrics.r_hat(draws).max()),
        **bias(draws, exact, reference),
        "finite_share": float(torch.isfinite(draws).all(-1).float().mean()),
    }
