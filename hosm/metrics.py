r"""Errors of scores, distances between samples, coverage, and effective sample sizes of chains.

Errors. Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data Distribution by
Denoising", NeurIPS 2021, report in table 1 the mean over test points of the squared Frobenius
error ||s2^ - s2||_F^2, summed over entries; `hessian_error` computes it.

Effective sample size (ESS) of Markov chains. Table 3 of the same paper uses the estimator of Song,
Zhao and Ermon, "A-NICE-MC: Adversarial Training for MCMC", NeurIPS 2017, which knows the target's
mean mu and variance v. For chains of T draws x_t, in each dimension,

    rho_s = mean over chains and t of (x_t - mu) (x_(t+s) - mu) / v,
    tau = 1 + 2 sum_(s >= 1) 1[rho_s > .05] (1 - s/T) rho_s,     ESS = T / tau, per chain,

where the sum stops at the first lag s at which no dimension exceeds .05. Report the smallest ESS
of the dimensions; chains stuck in modes have one near 1. `ess_bulk` and `r_hat`, whether chains
agree, know no truth: they are those of Vehtari, Gelman, Simpson, Carpenter and Buerkner,
"Rank-normalization, folding, and localization: an improved R-hat for assessing convergence of
MCMC", Bayesian Analysis 2021, computed by ArviZ, which the extra `diagnostics` installs and only
these two need. No ESS reveals a bias: report a distance from exact draws with it, such as
`kolmogorov_distance`.

Values that are not finite. Estimates, truths and posteriors must be finite, so that no error is
NaN unnoticed. Draws need not be, since a chain that diverges is a result. In each dimension,

- draws that are not finite give NaN;
- chains of which none ever moves give an ESS of 0, and an R-hat of NaN where they agree and of
  infinity where they differ;
- a single draw gives `ess_nice` 1;
- fewer than 4 draws, and for R-hat fewer than 2 chains, give NaN.
"""

from __future__ import annotations

import importlib
import math
from typing import Any, Protocol

import torch
from torch import Generator, Tensor

from hosm.checks import check_count, check_positive, check_symmetric, checked

__all__ = [
    "coverage",
    "ess_bulk",
    "ess_nice",
    "frechet_distance",
    "hessian_error",
    "kolmogorov_distance",
    "r_hat",
    "score_error",
    "sliced_wasserstein",
    "standard_error",
    "variance_ratio",
]

LARGEST_TEMPORARY = 2**24  # numbers in the largest temporary tensor
NEGLIGIBLE_AUTOCORRELATION = 0.05  # autocorrelations up to this count as 0 in `ess_nice`


class _Operator(Protocol):
    """A batch of structured D x D matrices, of shape (n, D, D): what `hosm.operators` offers."""

    def __getitem__(self, index: Any, /) -> _Operator: ...  # noqa: ANN401
    def to_dense(self) -> Tensor: ...
    def diagonal(self) -> Tensor: ...
    def squared_distance(self, b: Tensor) -> Tensor: ...


Matrices = Tensor | _Operator


def _shape(x: Matrices) -> tuple[int, ...]:
    sizes = tuple((x if isinstance(x, Tensor) else x.diagonal()).shape)
    return sizes if isinstance(x, Tensor) else (*sizes, *sizes[-1:])


def _shape_error(wanted: str, **tensors: Matrices) -> ValueError:
    names = ", ".join(tensors)
    found = ", ".join(f"{name} {_shape(x)}" for name, x in tensors.items())
    return ValueError(f"{names} must have shapes {wanted} and not be empty, got {found}")


def _dense(matrices: Matrices, rows: slice) -> Tensor:
    part = matrices[rows]
    return part if isinstance(part, Tensor) else part.to_dense()


def hessian_error(estimate: Matrices, truth: Matrices, *, per_point: bool = False) -> Tensor:
    """Return the squared Frobenius error of Hessians, summed over entries, averaged over points.

    Args:
        estimate: s2^, shape (n, D, D), or an operator of that shape, which is made dense for a
            few points at a time; or a diagonal, shape (n, D).
        truth: s2, of the same shape, dense or an operator.
        per_point: return the errors of the points instead of their mean, shape (n,).

    Returns:
        ||s2^ - s2||_F^2 (table 1), in the data's unit to the power -4, shape () or (n,).

    Raises:
        ValueError: if the shapes differ or are empty, a tensor is of integers or not finite (of
            an operator, the diagonal is looked at).
    """
    shape = _shape(estimate)
    if shape != _shape(truth) or len(shape) < 2 or 0 in shape:
        raise _shape_error("(n, D, ..), one for both,", estimate=estimate, truth=truth)
    for name, matrices in (("estimate", estimate), ("truth", truth)):
        checked(name, matrices if isinstance(matrices, Tensor) else matrices.diagonal(), ...)
    rows = max(1, LARGEST_TEMPORARY // math.prod(shape[1:]))
    parts = [slice(start, start + rows) for start in range(0, shape[0], rows)]
    differences = (_dense(estimate, part) - _dense(truth, part) for part in parts)
    errors = torch.cat([difference.square().flatten(1).sum(1) for difference in differences])
    return errors if per_point else errors.mean()


def score_error(estimate: Tensor, truth: Tensor, *, per_point: bool = False) -> Tensor:
    """Return the squared error of scores of any order, summed over entries, averaged over points.

    Args:
        estimate: s_k^, shape (n, D), or (n, D, .., D) for order k.
        truth: s_k, of the same shape.
        per_point: return the errors of the points instead of their mean, shape (n,).

    Returns:
        The squared error, in the data's unit to the power -2 k, shape () or (n,).

    Raises:
        ValueError: as in `hessian_error`.
    """
    return hessian_error(estimate, truth, per_point=per_point)


def standard_error(values: Tensor) -> Tensor:
    """Return the standard error of the mean of independent values, shape (*), in their unit.

    Args:
        values: independent replicates, shape (n, *); a single one gives NaN.

    Raises:
        ValueError: if there are none, or they are integers or not finite.
    """
    checked("values", values, "n", ...)
    n = values.shape[0]
    return ((values - values.mean(0)).square().sum(0) / (n * (n - 1))).sqrt()  # n = 1: 0 / 0


def variance_ratio(first: Tensor, second: Tensor) -> Tensor:
    """Return the variance of values over that of others, for each entry, shape (*).

    Values that are not finite, as those of chains that diverge, make their entries NaN.

    Args:
        first: replicates of an estimator, or draws, shape (n, *), n >= 2.
        second: those that they are compared with, shape (m, *), m >= 2.

    Raises:
        ValueError: if the entries differ in shape, are of integers, or there are fewer than 2
            replicates.
    """
    checked("first", first, "n", ..., finite=False)
    checked("second", second, "m", ..., finite=False)
    if first.shape[1:] != second.shape[1:] or min(len(first), len(second)) < 2:
        raise _shape_error("(n, *) and (m, *) with n, m >= 2", first=first, second=second)
    return first.var(0) / second.var(0)


def kolmogorov_distance(draws: Tensor, reference: Tensor) -> Tensor:
    """Return the largest gap of two empirical distribution functions, shape (D,).

    Args:
        draws: points of any number of chains, shape (n, D) or (chains, T, D).
        reference: points of the target, likewise.

    Returns:
        Distances in 0 .. 1, shape (D,); NaN in a dimension where a point is not finite, as those
        of a chain that diverged, which has no distribution to compare.

    Raises:
        ValueError: if the dimensions D differ, one is empty, of integers, or of another number
            of dimensions.
    """
    if draws.shape[-1:] != reference.shape[-1:] or not {draws.ndim, reference.ndim} <= {2, 3}:
        raise _shape_error("(n, D) and (m, D)", draws=draws, reference=reference)
    checked("draws", draws, ..., finite=False)
    checked("reference", reference, ..., finite=False)
    flat = [x.reshape(-1, x.shape[-1]).mT.double().contiguous() for x in (draws, reference)]
    jumps = torch.cat(flat, -1)
    ranks = [torch.searchsorted(x.sort(-1).values, jumps, right=True).double() for x in flat]
    distance = (ranks[0] / flat[0].shape[-1] - ranks[1] / flat[1].shape[-1]).abs().amax(-1)
    return torch.where(jumps.isfinite().all(-1), distance, math.nan).to(draws.dtype)


def sliced_wasserstein(
    draws: Tensor,
    reference: Tensor,
    generator: Generator | None = None,
    *,
    directions: int = 200,
) -> float:
    """Return the root of the mean squared Wasserstein-2 distance along random directions.

    Bonneel, Rabin, Peyre and Pfister, "Sliced and Radon Wasserstein Barycenters of Measures",
    2015, section 3. Two samples of n points of one law are about n^(-1/2) apart: compare with
    that distance.

    Args:
        draws: points, shape (n, D).
        reference: points of the target, as many, shape (n, D).
        generator: source of the directions.
        directions: their number.

    Raises:
        ValueError: the shapes differ, a point is not finite, or there are no directions.
    """
    checked("draws", draws, "n", "D")
    checked("reference", reference, *draws.shape)
    check_count("directions", directions)
    size = (draws.shape[1], directions)
    theta = torch.randn(size, generator=generator, dtype=draws.dtype, device=draws.device)
    theta = theta / theta.norm(dim=0)
    gaps = (draws @ theta).sort(0).values - (reference @ theta).sort(0).values
    return float(gaps.double().square().mean().sqrt())


def frechet_distance(first: Tensor, second: Tensor) -> float:
    """Return the squared Frechet distance of the Gaussians that fit two samples.

    |m1 - m2|^2 + tr(S1 + S2 - 2 (S1^(1/2) S2 S1^(1/2))^(1/2)): Dowson and Landau, "The Frechet
    Distance between Multivariate Normal Distributions", 1982, equation 4. Of features of a
    network, it compares pictures; the value depends on the network, and on the sizes of samples.

    Args:
        first: points, shape (n, D), n of 2 or more.
        second: points, shape (m, D), m of 2 or more.

    Raises:
        ValueError: the dimensions D differ, a point is not finite, or there are fewer than two.
    """
    checked("first", first, "n", "D")
    checked("second", second, "m", first.shape[1])
    if min(len(first), len(second)) < 2:
        raise _shape_error("(n, D) and (m, D) with n, m >= 2", first=first, second=second)
    a, b = first.double(), second.double()
    covariances = [torch.atleast_2d(x.mT.cov()) for x in (a, b)]
    values, vectors = torch.linalg.eigh(covariances[0])
    root = (vectors * values.clamp_min(0).sqrt()) @ vectors.mT
    mixed = torch.linalg.eigvalsh(root @ covariances[1] @ root).clamp_min(0).sqrt().sum()
    traces = covariances[0].trace() + covariances[1].trace()
    return float((a.mean(0) - b.mean(0)).square().sum() + traces - 2 * mixed)


def coverage(
    points: Tensor, mean: Tensor, covariance: Matrices, probability: float | Tensor
) -> Tensor:
    """Return the share of points inside the region of N(m, C) that holds a given probability.

    The region is {x : (x - m)^T C^-1 (x - m) <= q}, q the quantile of chi^2 with D degrees of
    freedom. A calibrated posterior covers the share `probability`, up to sqrt(p (1 - p) / n).
    `hosm.uncertainty.coverage` is the same for a `Posterior`.

    Args:
        points: x, shape (n, D).
        mean: m at each point, shape (n, D).
        covariance: C at each point, shape (n, D, D), or an operator of that shape with
            `squared_distance`.
        probability: p in [0, 1], a number, or several of shape (k,), as the result then.

    Returns:
        The share of the n points, shape () or (k,), float64.

    Raises:
        ValueError: if shapes do not fit or are empty, points or means are of integers or not
            finite, C is not symmetric and positive definite (an operator's diagonal d must also
            have no zero entry), or p is not in [0, 1].
    """
    checked("points", points, "n", "D")
    levels = torch.as_tensor(probability, dtype=torch.float64, device=points.device)
    if levels.ndim > 1 or not ((levels >= 0) & (levels <= 1)).all():
        raise ValueError(f"probability must be from 0 to 1, got {probability}")
    square = (*points.shape, *points.shape[-1:])
    if mean.shape != points.shape or _shape(covariance) != square:
        wanted = "(n, D), (n, D) and (n, D, D)"
        raise _shape_error(wanted, points=points, mean=mean, covariance=covariance)
    half = _mahalanobis(points - checked("mean", mean, "n", "D"), covariance).double() / 2
    share = torch.special.gammainc(torch.full_like(half, points.shape[-1] / 2), half)
    return (share <= levels.unsqueeze(-1)).double().mean(-1)


def _mahalanobis(centred: Tensor, covariance: Matrices) -> Tensor:
    """Return u^T C^-1 u, shape (n,), for u of shape (n, D)."""
    if isinstance(covariance, Tensor):
        check_symmetric("covariance", covariance)
        factor, info = torch.linalg.cholesky_ex(covariance)
        whitened = torch.linalg.solve_triangular(factor, centred.unsqueeze(-1), upper=False)
        distances = torch.where(info > 0, -1.0, whitened.square().sum((-2, -1)))
    else:
        distances = covariance.squared_distance(centred)
    if not (distances >= 0).all():
        found = f"squared distances down to {distances.min()}"
        raise ValueError(f"covariance must be positive definite and without NaN, got {found}")
    return distances


def _check_draws(draws: Tensor) -> None:
    """Raise ValueError unless draws have the shape (chains, T, D); NaN and infinity pass."""
    checked("draws", draws, "chains", "T", "D", finite=False)


def _autocorrelations(draws: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Return rho_s for s = 0 .. T - 1, shape (T, D), in float64, through one FFT per chain."""
    chains, length, dimension = draws.shape
    width = max(1, LARGEST_TEMPORARY // (4 * chains * length))
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
    """Return the ESS per chain of each dimension by the true moments (see the module).

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
    above = (rho > NEGLIGIBLE_AUTOCORRELATION) & finite
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
