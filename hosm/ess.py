r"""Effective sample size (ESS) of Markov chains, and whether chains agree.

Table 3 of Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data Distribution
by Denoising", NeurIPS 2021, uses the estimator of Song, Zhao and Ermon, "A-NICE-MC:
Adversarial Training for MCMC", NeurIPS 2017, which knows the target's mean mu and variance v. For
chains of T draws x_t, in each dimension,

    rho_s = mean over chains and t of (x_t - mu) (x_(t+s) - mu) / v,
    tau = 1 + 2 sum_(s >= 1) 1[rho_s > .05] (1 - s/T) rho_s,     ESS = T / tau, per chain,

where the sum stops at the first lag s at which no dimension exceeds .05; report the smallest ESS.
Chains stuck in modes have one near 1. `ess_bulk` and `r_hat` know no truth: they are those of
Vehtari, Gelman, Simpson, Carpenter and Buerkner, "Rank-normalization, folding, and localization:
an improved R-hat for assessing convergence of MCMC", Bayesian Analysis 2021, by ArviZ, which the
extra `diagnostics` installs and these two alone need. No ESS tells of a bias: state a bound beside
it, such as a `kolmogorov_distance` from exact draws.

Degenerate chains, each dimension apart: draws that are not finite give NaN; chains of which none
ever moves give an ESS of 0, and an R-hat of NaN where they agree, infinity where they differ; a
single draw gives `ess_nice` 1; less than 4 draws, and for R-hat less than 2 chains, give NaN.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import torch
from torch import Tensor

from hosm.checks import check_positive, checked

__all__ = ["ess_bulk", "ess_nice", "r_hat"]

CHUNK = 2**24  # numbers in the largest temporary tensor
THRESHOLD = 0.05  # autocorrelations up to this count as 0 in `ess_nice`


def _check_draws(draws: Tensor) -> None:
    """Raise ValueError unless draws have the shape (chains, T, D); NaN and infinity are legal."""
    checked("draws", draws, "chains", "T", "D", finite=False)


def _autocorrelations(draws: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Return rho_s for s = 0 .. T - 1, shape (T, D), in float64, through one FFT per chain."""
    chains, length, dimension = draws.shape
    width = max(1, CHUNK // (4 * chains * length))
    parts = []
    for start in range(0, dimension, width):
        part = slice(start, start + width)
        centred = draws[..., part].double() - mean[part].double()
        power = torch.fft.rfft(centred, n=2 * length, dim=1).abs().square().mean(0)
        products = torch.fft.irfft(power, n=2 * length, dim=0)[:length]
        parts.append(products / variance[part].double())
    pairs = length - torch.arange(length, device=draws.device)
    return torch.cat(parts, -1) / pairs.unsqueeze(-1)


def ess_nice(draws: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Return the ESS per chain of each dimension by the true moments, as the module defines it.

    Args:
        draws: x_t of all chains, without burn-in, shape (chains, T, D).
        mean: mu, mean of the target, shape (D,).
        variance: v, variance of the target in each dimension, positive, shape (D,).

    Returns:
        Effective draws of one chain, 0 .. T, shape (D,).

    Raises:
        ValueError: if shapes do not fit or are empty, a tensor is of integers, mu is not finite,
            or v not positive and finite.
    """
    _check_draws(draws)
    _, length, dimension = draws.shape
    checked("mean", mean, dimension)
    check_positive("variance", checked("variance", variance, dimension, finite=False))
    finite, stuck = _finite_and_stuck(draws)
    rho = _autocorrelations(draws, mean, variance)[1:]
    above = (rho > THRESHOLD) & finite
    counted = above & above.any(-1, keepdim=True).cummin(0).values
    lags = torch.arange(1, length, dtype=rho.dtype, device=draws.device).unsqueeze(-1)
    tau = 1 + 2 * torch.where(counted, (1 - lags / length) * rho, 0.0).sum(0)
    ess = torch.where(stuck, 0.0, length / tau)
    return torch.where(finite, ess, math.nan).to(draws.dtype)


def _finite_and_stuck(draws: Tensor) -> tuple[Tensor, Tensor]:
    """Return where all draws are finite, and where no chain ever moves, both of shape (D,)."""
    still = (draws == draws[:, :1]).all(0).all(0) & (draws.shape[1] > 1)
    return torch.isfinite(draws).all(0).all(0), still


def _arviz() -> Any:  # noqa: ANN401
    """Return ArviZ, which takes seconds to import and which only two statistics need."""
    try:
        return importlib.import_module("arviz")
    except ImportError as error:
        need = "ess_bulk and r_hat need the package arviz"
        raise ImportError(f"{need}: pip install 'hosm[diagnostics]'") from error


def _by_dimension(
    draws: Tensor, statistic: str, method: str, stuck: float | Tensor, chains: int
) -> Tensor:
    """Return ArviZ's statistic of draws[:, :, j] for each j, shape (D,), and `stuck` where so."""
    compute = getattr(_arviz(), statistic)
    out = torch.full(draws.shape[2:], math.nan, dtype=draws.dtype, device=draws.device)
    if draws.shape[0] < chains or draws.shape[1] < 4:
        return out
    finite, still = _finite_and_stuck(draws)
    out = torch.where(finite & still, stuck, out)
    for j in (finite & ~still).nonzero().flatten().tolist():
        out[j] = float(compute(draws[:, :, j].detach().cpu().double().numpy(), method=method))
    return out


def ess_bulk(draws: Tensor) -> Tensor:
    """Return the bulk ESS of each dimension, a total over chains, shape (D,) (Vehtari et al.).

    Args:
        draws: x_t of all chains, without burn-in, shape (chains, T, D).

    Raises:
        ValueError: if draws is empty, of integers, or has another number of dimensions.
        ImportError: ArviZ is not installed.
    """
    _check_draws(draws)
    return _by_dimension(draws, "ess", "bulk", 0.0, 1)


def r_hat(draws: Tensor) -> Tensor:
    """Return the rank-normalised split R-hat, near 1 where chains agree (Vehtari et al.), (D,).

    Args:
        draws: x_t of all chains, without burn-in, shape (chains, T, D).

    Raises:
        ValueError: if draws is empty, of integers, or has another number of dimensions.
        ImportError: ArviZ is not installed.
    """
    _check_draws(draws)
    agree = (draws == draws[:1, :1]).all(0).all(0)
    stuck = torch.where(agree, math.nan, math.inf).to(draws.dtype)
    return _by_dimension(draws, "rhat", "rank", stuck, 2)
