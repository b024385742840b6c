r"""Whether a predicted posterior N(m, C) is right, judged on clean points that it has not seen.

Where m and C are the mean and the covariance of x given x_noisy, then over the data

- the squared error (x_i - m_i)^2 has the mean C_ii, also among the entries where C_ii takes a
  given value (`reliability`);
- v_j . (x - m) / lambda_j^(1/2) has mean 0 and variance 1 along each eigenvector v_j of C
  (`direction_z_scores`);
- and where the posterior is Gaussian, the region (x - m)^T C^-1 (x - m) <= q of probability p
  under N(m, C), with q the quantile of chi^2 with D degrees of freedom, holds x with frequency p
  (`coverage`), and so does each coordinate's interval (`interval_coverage`).

A covariance of the right shape and the wrong size is corrected by one number, fitted on data held
out (`fitted_scale`): the recalibration of Kuleshov, Fenner and Ermon ("Accurate Uncertainties for
Deep Learning Using Calibrated Regression", ICML 2018) with a scale for the map, by Laves et al.,
"Well-Calibrated Regression Uncertainty in Medical Imaging with Deep Learning", MIDL 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from hosm import metrics
from hosm.checks import check_count, check_one_shape, check_probabilities, checked
from hosm.uncertainty.gaussian_posterior import Posterior, leading_directions

__all__ = [
    "Reliability",
    "coverage",
    "direction_z_scores",
    "fitted_scale",
    "interval_coverage",
    "reliability",
]


class Reliability(NamedTuple):
    """Predicted variance against measured squared error, in bins of equal count.

    Attributes:
        predicted: mean predicted variance of each bin, ascending, shape (bins,).
        observed: mean squared error of each bin, shape (bins,).
        standard_error: standard error of `observed`, for independent points, shape (bins,).
        entries: number of entries in each bin, shape (bins,).
    """

    predicted: Tensor
    observed: Tensor
    standard_error: Tensor
    entries: Tensor


def coverage(law: Posterior, x: Tensor, levels: Sequence[float]) -> Tensor:
    """Return how often x lies in the ellipsoids that N(m, C) gives these probabilities.

    This is `hosm.metrics.coverage` of a posterior.

    Args:
        law: the posterior at n noisy points.
        x: the clean points, shape (n, D).
        levels: probabilities, from 0 to 1.

    Returns:
        A frequency for each level, shape (levels,), float64.

    Raises:
        ValueError: if x and the mean differ in shape, x is of integers or not finite, a level is
            not from 0 to 1, d has a zero entry, or C is not positive definite.
    """
    wanted = torch.tensor(levels, dtype=torch.float64)
    return metrics.coverage(x, law.mean, law.covariance, wanted)


def interval_coverage(law: Posterior, x: Tensor, levels: Sequence[float]) -> Tensor:
    """Return how often x_i lies in the interval that N(m_i, C_ii) gives these probabilities.

    Args:
        law: the posterior at n noisy points.
        x: the clean points, shape (n, D).
        levels: probabilities, between 0 and 1.

    Returns:
        A frequency over points and coordinates for each level, shape (levels,), float64.

    Raises:
        ValueError: if x and the mean differ in shape, x is of integers or not finite, or a level
            is not between 0 and 1.
    """
    _check_clean(law, x)
    check_probabilities("level", levels)
    z = ((x - law.mean).square() / (2 * law.variance)).sqrt().double()
    return torch.stack([(z.erf() <= level).double().mean() for level in levels])


def _check_clean(law: Posterior, x: Tensor) -> None:
    check_one_shape("(n, D)", x=x, mean=law.mean)
    checked("x", x, ...)


def fitted_scale(law: Posterior, x: Tensor) -> float:
    """Return the number that makes x likeliest under N(m_i, scale C_ii), coordinate by coordinate.

    It is the mean of (x_i - m_i)^2 / C_ii; 1 if the variances are right. Fit it on points that
    neither trained the model nor judge it, and apply it by `Posterior.scaled`.

    Args:
        law: the posterior at n noisy points.
        x: the clean points, shape (n, D).

    Raises:
        ValueError: if x and the mean differ in shape, or x is of integers or not finite.
    """
    _check_clean(law, x)
    return float(((x - law.mean).square() / law.variance).double().mean())


def direction_z_scores(law: Posterior, x: Tensor, k: int) -> Tensor:
    """Return v_j . (x - m) / lambda_j^(1/2) along the k leading directions of C.

    Of mean 0 and variance 1 over the data, direction by direction, if m and C are right.

    Args:
        law: the posterior at n noisy points.
        x: the clean points, shape (n, D).
        k: number of directions, 1 to D.

    Returns:
        The z-scores, shape (n, k).

    Raises:
        ValueError: if x and the mean differ in shape, x is of integers or not finite, or k is
            out of range.
    """
    _check_clean(law, x)
    values, directions = leading_directions(law.covariance, k)
    return (directions.mT @ (x - law.mean).unsqueeze(-1)).squeeze(-1) / values.sqrt()


def reliability(predicted_variance: Tensor, squared_error: Tensor, bins: int = 10) -> Reliability:
    """Tabulate the squared error against the variance that was predicted for it.

    Entries are sorted by predicted variance into bins of equal count (within one). Where the
    variances are right, `observed` equals `predicted` in each bin, up to its standard error, which
    takes points as independent and not their entries: one odd image errs in many pixels.

    Args:
        predicted_variance: variances, not negative, of n points, shape (n, *).
        squared_error: (x - m)^2, of the same shape.
        bins: number of bins, at most one for each two entries.

    Returns:
        The table.

    Raises:
        ValueError: if the shapes differ, a value is negative or not finite, or `bins` is out of
            range.
    """
    given = {"predicted_variance": predicted_variance, "squared_error": squared_error}
    check_one_shape("(n, *)", **given)
    for name, values in given.items():
        if checked(name, values, ...).min() < 0:
            raise ValueError(f"{name} must be at least 0, got {values.min():g}")
    check_count("bins", bins, 1, predicted_variance.numel() // 2)
    points = len(squared_error) if squared_error.ndim else 1
    owner = torch.arange(points, device=squared_error.device)
    owner = owner.repeat_interleave(squared_error.numel() // points)
    order = predicted_variance.flatten().argsort(stable=True)
    variances = predicted_variance.flatten()[order].double().tensor_split(bins)
    errors = squared_error.flatten()[order].double().tensor_split(bins)
    owners = owner[order].tensor_split(bins)
    return Reliability(
        torch.stack([part.mean() for part in variances]),
        torch.stack([part.mean() for part in errors]),
        torch.stack([_standard_error(*pair) for pair in zip(errors, owners, strict=True)]),
        torch.tensor([len(part) for part in errors]),
    )


def _standard_error(values: Tensor, owner: Tensor) -> Tensor:
    """Return the standard error of a mean over entries, which are dependent within an owner.

    Cluster-robust, after Liang and Zeger, "Longitudinal Data Analysis Using Generalized Linear
    Models", 1986.
    """
    sums = values.new_zeros(int(owner.max()) + 1).index_add(0, owner, values - values.mean())
    owners = len(owner.unique())
    return (sums.square().sum() * owners / max(owners - 1, 1)).sqrt() / len(values)
