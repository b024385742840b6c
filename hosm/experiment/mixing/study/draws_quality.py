"""How good the draws of Markov chains are: how far from the law, and how many effective ones.

The same for every sampler that is compared, whichever library it is of. A sampler that blurs the
modes, or doubles their width, can have good coordinates, for these vary by the distance of modes
far more than by their width; so the distance from the mean is looked at as well.
"""

import math

import torch
from torch import Tensor

from hosm import metrics
from hosm.distributions import Law

__all__ = ["bias", "quality", "within"]

MOST = 40_000  # draws that are looked at for a bias; neighbours in a chain say the same


def bias(draws: Tensor, exact: Law, reference: Tensor) -> dict[str, float]:
    """Return how far draws are from a law.

    Args:
        draws: points, shape (n, D) or (chains, T, D), n >= 2; they may be infinite or NaN.
        exact: the law that they should have.
        reference: independent draws of it, shape (m, D), m >= 2.

    Returns:
        Of the coordinates and the distance |x - mu| from the law's mean: `kolmogorov`, the largest
        Kolmogorov distance from `reference`, in 0 .. 1, and 1 if a draw is not finite;
        `variance_ratio`, the variance over that of `reference` where this is furthest from 1 as
        a factor (1/2 is as far as 2), NaN if a draw is not finite.

    Raises:
        ValueError: if shapes do not fit, or there are fewer than 2 points.
    """
    for name, points in (("draws", draws), ("reference", reference)):
        if points.shape[-1] != exact.dimension:
            raise ValueError(f"{name} must have D = {exact.dimension}, got D = {points.shape[-1]}")
    seen, known = (
        torch.cat([x, (x - exact.mean).norm(dim=1, keepdim=True)], 1)
        for x in (_some(draws.flatten(0, -2)), reference)
    )
    if not torch.isfinite(seen).all():
        return {"kolmogorov": 1.0, "variance_ratio": math.nan}
    ratio = metrics.variance_ratio(seen, known)
    return {
        "kolmogorov": float(metrics.kolmogorov_distance(seen, known).max()),
        "variance_ratio": float(ratio[ratio.log().abs().argmax()]),
    }


def _some(points: Tensor) -> Tensor:
    """Return up to `MOST` of the points, evenly spaced, or all if one is not finite."""
    stride = -(-len(points) // MOST)
    return points[::stride] if torch.isfinite(points).all() else points


def quality(
    draws: Tensor, exact: Law, reference: Tensor, chains: int | None = None
) -> dict[str, float]:
    """Return effective sample sizes, agreement and bias of a set of chains.

    Args:
        draws: of all chains, without burn-in, shape (n, T, D); they may be infinite or NaN.
        exact: the law that they should have.
        reference: independent draws of it, shape (m, D), m >= 2.
        chains: those of one run, where the n are of several alike; all if None.

    Returns:
        `ess_nice` per chain and `ess_bulk` of the chains of one run, the smallest over dimensions,
        means over runs, of several with `ess_bulk_standard_error`; of all chains `r_hat`, the
        largest, what `bias` returns, and `finite_share`, the share of points that are finite.

    Raises:
        ValueError: if shapes do not fit, there are fewer than 2 points, or n is no multiple of
            `chains`.
    """
    chains = len(draws) if chains is None else chains
    if len(draws) % chains:
        raise ValueError(f"the number of chains must be a multiple of {chains}, got {len(draws)}")
    nice, bulk = torch.tensor(
        [
            (
                float(metrics.ess_nice(run, exact.mean, exact.variance).min()),
                float(metrics.ess_bulk(run).min()),
            )
            for run in draws.split(chains)
        ],
        dtype=torch.float64,
    ).T
    several = len(bulk) > 1
    spread = {"ess_bulk_standard_error": float(bulk.std() / len(bulk) ** 0.5)} if several else {}
    return {
        "ess_nice": float(nice.mean()),
        "ess_bulk": float(bulk.mean()),
        **spread,
        "r_hat": float(metrics.r_hat(draws).max()),
        **bias(draws, exact, reference),
        "finite_share": float(torch.isfinite(draws).all(-1).float().mean()),
    }


def within(
    found: dict[str, float], bias_bound: float, variance_bound: float, margin: float = 0.0
) -> bool:
    """Return whether draws are within two bounds on their bias; NaN is not.

    Args:
        found: as `bias` returns it.
        bias_bound: largest Kolmogorov distance.
        variance_bound: largest ratio of variances, either way.
        margin: share of the distance and of the ratio's logarithm to stay away from these.
    """
    ratio = found["variance_ratio"]
    factor = abs(math.log(ratio)) if 0 < ratio < math.inf else math.inf
    room = 1 - margin
    return found["kolmogorov"] <= room * bias_bound and factor <= room * math.log(variance_bound)
