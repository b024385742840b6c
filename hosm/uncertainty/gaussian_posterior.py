r"""The posterior of a clean point given a noisy one: mean, covariance, samples, credible maps.

For x~ = x + sigma z, z ~ N(0, I), first- and second-order scores at x~ give the first two
moments of x given x~ (Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data
Distribution by Denoising", NeurIPS 2021, equation 4, theorem 1 and section 4.3),

$$m = \tilde x + \sigma^2 s_1, \qquad C = \sigma^4 s_2 + \sigma^2 I,$$

and N(m, C) is the Gaussian approximation of the posterior: exact where the data are Gaussian.
With s2 = diag + low rank, so is C; its draws are m + U e + d^(1/2) e', with e and e'
independent standard normal, and `hosm.operators.inverses` has what its density needs. Draws exist
also where d holds zeros (and C may be singular); a density, a distance and a coverage do not, and
raise ValueError.

An exact C is positive semi-definite, an estimated one need not be. What is negative is
clipped, never silently: `clipped_share` is the trace that the clipping adds, tr B, over
tr B + tr C. Where D <= `DENSE_SIZE` this projects C onto the semi-definite matrices (tr B is
the sum of the negative eigenvalues); above it, `DiagonalPlusLowRank.clip_to_psd` clips d first,
and may report a share though C was positive, where U makes up for a negative d.

Units: m and x share the data's, C and the variances its square, densities are in nats. Points and
scores must be finite here, at the end of the line; `hosm.tweedie` alone lets others through.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hosm.checks import (
    check_count,
    check_generator,
    check_number,
    check_one_shape,
    check_probabilities,
    check_symmetric,
    checked,
)
from hosm.operators import DiagonalPlusLowRank
from hosm.operators.diagonal_plus_low_rank import DENSE_SIZE
from hosm.tweedie import posterior_covariance, posterior_mean

__all__ = ["Posterior", "leading_directions", "posterior"]

LEAST_RELATIVE_EIGENVALUE = (
    1e-6  # smallest eigenvalue that clipping leaves, over the mean absolute one
)

Model = Callable[[Tensor], tuple[Tensor, Any]]


@dataclass(frozen=True)
class Posterior:
    """The law N(m, C) of x given x~, for each of n noisy points.

    Attributes:
        mean: m, shape (n, D).
        covariance: C, positive definite after clipping, n matrices of shape (D, D).
        clipped_share: share of C that clipping added, shape (n,); 0 where C was kept.

    Raises:
        ValueError: if the shapes do not fit each other.
    """

    mean: Tensor
    covariance: DiagonalPlusLowRank
    clipped_share: Tensor

    def __post_init__(self) -> None:
        check_one_shape("(n, D)", mean=self.mean, covariance_diag=self.covariance.diag)
        checked("mean", self.mean, "n", "D", finite=False)
        checked("clipped_share", self.clipped_share, len(self.mean), finite=False)

    @property
    def variance(self) -> Tensor:
        """Marginal variances, the diagonal of C, shape (n, D)."""
        return self.covariance.diagonal()

    def interval(self, level: float) -> tuple[Tensor, Tensor]:
        """Return the central credible interval of each coordinate: low and high, both (n, D).

        Args:
            level: probability that N(m_i, C_ii) gives the interval, between 0 and 1.

        Raises:
            ValueError: if the level is not between 0 and 1.
        """
        check_probabilities("level", [level])
        reach = math.sqrt(2) * float(torch.erfinv(torch.tensor(level, dtype=torch.float64)))
        half = reach * self.variance.sqrt()
        return self.mean - half, self.mean + half

    def scaled(self, scale: float) -> Posterior:
        """Return N(m, scale C), as after `hosm.uncertainty.calibration.fitted_scale`.

        Args:
            scale: positive and finite.

        Raises:
            ValueError: if it is not.
        """
        check_number("scale", scale)
        return replace(self, covariance=scale * self.covariance)

    def squared_distance(self, x: Tensor) -> Tensor:
        """Return (x - m)^T C^-1 (x - m), of mean D over the data if m and C are right.

        Args:
            x: clean points, finite, shape (n, D) or (*, n, D).

        Returns:
            Squared Mahalanobis distances, without unit, shape (n,) or (*, n).

        Raises:
            ValueError: if x has another shape, is of integers or not finite, d has a zero entry,
                or C is not positive definite.
        """
        return self.covariance.squared_distance(self._offsets(x)).mT.reshape(x.shape[:-1])

    def _offsets(self, x: Tensor) -> Tensor:
        """Return x - m as columns for each noisy point, shape (n, D, m) for x of m n points."""
        if x.shape[-2:] != self.mean.shape:
            found = f"{tuple(x.shape)} for a mean of shape {tuple(self.mean.shape)}"
            raise ValueError(f"x must have shape (n, D) or (*, n, D), got {found}")
        offset = (checked("x", x, ...) - self.mean).movedim(-2, 0)
        return offset.reshape(len(self.mean), -1, self.mean.shape[-1]).mT

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw from N(m, C), also where d has zero entries.

        Args:
            n: number of draws for each noisy point.
            generator: source of the noise, on the device of the mean.

        Returns:
            The draws, shape (n, batch, D), for a mean of shape (batch, D).

        Raises:
            ValueError: if n is not positive, the generator belongs to another device, d has a
                negative entry (or, with -1 among the signs, a zero), or C is not semi-definite.
        """
        check_count("n", n)
        check_generator(generator, self.mean.device)
        m, C = self.mean, self.covariance
        if (C.diag < 0).any():
            raise ValueError(f"diag of C must be at least 0 for draws, got {C.diag.min():g}")
        sizes = (m.shape[-1],) if _has_negative(C) else (m.shape[-1], C.rank)
        e = [
            torch.randn(n, len(m), size, generator=generator, dtype=m.dtype, device=m.device)
            for size in sizes
        ]
        if len(e) == 1:
            return m + C.square_root_matvec(e[0].movedim(0, -1)).movedim(-1, 0)
        low_rank = (e[1].movedim(0, 1) @ C.factor.mT).movedim(1, 0)
        return m + C.diag.sqrt() * e[0] + low_rank

    def log_prob(self, x: Tensor) -> Tensor:
        """Return log N(x; m, C).

        Args:
            x: clean points, finite, shape (n, D) or (*, n, D).

        Returns:
            Log-densities in nats, shape (n,) or (*, n).

        Raises:
            ValueError: as `squared_distance`.
        """
        return self.covariance.log_density(self._offsets(x)).mT.reshape(x.shape[:-1])


@torch.no_grad()
def posterior(model: Model, x_noisy: Tensor, sigma: float | Tensor) -> Posterior:
    """Return the Gaussian approximation of the posterior at each noisy point.

    Args:
        model: from x~ of shape (n, D) to s1 (n, D) and s2, an operator or a dense (n, D, D);
            a noise-conditional model goes in as `lambda x: model(x, sigma)`.
        x_noisy: noisy points x~, shape (n, D).
        sigma: standard deviation of the noise, a number or shape (n,).

    Returns:
        The law N(m, C), with what was clipped (equation 4 and theorem 1).

    Raises:
        ValueError: if x_noisy, s1 or s2 (of an operator, its diagonal) have another shape, are of
            integers or not finite, a dense s2 is not symmetric, the model has no s2, or sigma is
            not positive.
    """
    s1, s2 = model(checked("x_noisy", x_noisy, "n", "D"))
    checked("s1", s1, *x_noisy.shape)
    if s2 is None:
        raise ValueError("model must return s2, got None in its place")
    if isinstance(s2, Tensor):
        check_symmetric("s2", checked("s2", s2, *x_noisy.shape, x_noisy.shape[1]))
    else:
        checked("diagonal of s2", s2.diagonal(), *x_noisy.shape)
    covariance, share = _positive(posterior_covariance(s2, sigma))
    return Posterior(posterior_mean(x_noisy, s1, sigma), covariance, share)


def _has_negative(covariance: DiagonalPlusLowRank) -> bool:
    return bool((covariance.signs < 0).any())


def _positive(covariance: DiagonalPlusLowRank | Tensor) -> tuple[DiagonalPlusLowRank, Tensor]:
    """Return a positive definite operator near a covariance, and the clipped share (n,)."""
    if isinstance(covariance, Tensor):
        return _project(covariance)
    if not _has_negative(covariance) and bool((covariance.diag > 0).all()):
        return covariance, covariance.diag.new_zeros(covariance.diag.shape[:-1])
    if covariance.diag.shape[-1] <= DENSE_SIZE:
        return _project(covariance.to_dense())
    return covariance.clip_to_psd(LEAST_RELATIVE_EIGENVALUE)


def _project(dense: Tensor) -> tuple[DiagonalPlusLowRank, Tensor]:
    """Return the projection of (n, D, D) as least * I + U U^T, and the clipped share (n,)."""
    values, vectors = torch.linalg.eigh(dense)
    total = values.abs().sum(-1, keepdim=True)
    least = values[..., :1].maximum(LEAST_RELATIVE_EIGENVALUE * total / dense.shape[-1])
    least = least.clamp_min(torch.finfo(dense.dtype).tiny)
    factor = vectors * (values - least).clamp_min(0).sqrt().unsqueeze(-2)
    rounding = torch.finfo(dense.dtype).eps * total  # such a negative value is a zero
    negative = torch.where(values < -rounding, -values, 0.0).sum(-1)
    operator = DiagonalPlusLowRank(least.expand(values.shape), factor)
    return operator, negative / total.squeeze(-1).clamp_min(torch.finfo(dense.dtype).tiny)


def leading_directions(covariance: DiagonalPlusLowRank, k: int) -> tuple[Tensor, Tensor]:
    """Return the k leading eigenpairs of each covariance, without a D x D matrix for large D.

    Args:
        covariance: n matrices of shape (D, D).
        k: number of pairs, 1 to D.

    Returns:
        Eigenvalues in descending order, shape (n, k), and directions of unit length, shape
        (n, D, k), each with its largest entry positive.

    Raises:
        ValueError: if k is out of range.
    """
    values, directions = covariance.eigenpairs(k)
    largest = directions.abs().argmax(-2, keepdim=True)
    return values, directions * directions.gather(-2, largest).sign()
