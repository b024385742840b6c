r"""Laws for studies of accuracy and of sampling, with the numbers that they are known by.

The paper (Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data Distribution by
Denoising", NeurIPS 2021) measures accuracy on a 100-dimensional Gaussian and on mixtures of
logistic laws (section 4.4, table 1), and mixing on 2-D mixtures of Gaussians (section 6.2, table
3), without stating their parameters; those laws are reconstructions here. Each factory takes the
dtype of its law, torch's default if None; one that is not floating-point raises ValueError.

The ring has the energy ((|x| - a) / b)^2 in the plane, so that with r = |x|, e = x / r and
f(r) = -((r - a) / b)^2 the derivatives of log p = f - log Z are, with the notation of `laws`,

    s1 = f' e,   s2 = f'' e e^T + (f'/r) (I - e e^T),
    s3 = f''' e e e + ((f'' - f'/r) / r) e . (I - e e^T),   f''' = 0.

The radius has a density proportional to r e^f. Its integral from 0 to r, with t = (r - a) / b, is

    F(r) = b^2 (e^(-a^2/b^2) - e^(-t^2)) / 2 + a b sqrt(pi) (erf(t) + erf(a/b)) / 2,

so Z = 2 pi F(inf), and draws invert F by bisection.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from hosm.checks import check_count, check_number, checked
from hosm.distributions.base import Law, placements
from hosm.distributions.mixtures import Gaussian, GaussianMixture, LogisticMixture

__all__ = [
    "Ring",
    "gaussian2",
    "gaussian100",
    "logistic_mixture",
    "mog2",
    "mog6",
    "ring2d",
    "ring6",
    "ring8",
    "ring_of_gaussians",
    "two_modes",
]

PAIRS, PRECISION, COUPLING = 35, 1.1526868, 0.4195235  # of `gaussian100`: number, d and p


class Ring(Law):
    """The planar law with log-density -((|x| - a) / b)^2 - log Z.

    At the origin, where the energy has a kink, s1 is set to 0 and s2, s3 are very large.

    Args:
        radius: a, positive, shape ().
        width: b, positive, shape ().

    Raises:
        ValueError: if one of them is no floating-point tensor of shape (), or not positive.
    """

    def __init__(self, radius: Tensor, width: Tensor) -> None:
        for name, value in (("radius", radius), ("width", width)):
            checked(name, value, finite=False)
            check_number(name, value)
        super().__init__(2, radius, width)
        self.radius, self.width = radius, width
        a, b = float(radius), float(width)
        edge = 0.5 * b**2 * math.exp(-((a / b) ** 2))
        moment0 = 0.5 * math.sqrt(math.pi) * b * (1 + math.erf(a / b))  # of e^f, order 0
        moment1 = a * moment0 + edge
        moment3 = (a**2 + b**2) * moment1 + 0.5 * a * b**2 * moment0
        self._log_z = math.log(2 * math.pi * moment1)
        self.mean = radius.new_zeros(2)
        self.variance = radius.new_full((2,), 0.5 * moment3 / moment1)

    def _mass(self, r: Tensor) -> Tensor:
        """Return F(r), of any shape."""
        a, b = self.radius, self.width
        t = (r - a) / b
        rim = 0.5 * b.square() * ((-(a / b).square()).exp() - (-t.square()).exp())
        return rim + 0.5 * math.sqrt(math.pi) * a * b * (torch.erf(t) + torch.erf(a / b))

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        size = (2, n)
        uniform = torch.rand(size, generator=generator, dtype=self.dtype, device=self.device)
        share, angle = uniform
        low = torch.zeros_like(share)
        high = low + self.radius + 8 * self.width
        share = share * self._mass(high)
        for _ in range(60):
            middle = 0.5 * (low + high)
            below = self._mass(middle) < share
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        turn = 2 * math.pi * angle
        return low.unsqueeze(-1) * torch.stack((turn.cos(), turn.sin()), -1)

    def _polar(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return e, shape (n, 2), and r, f'(r), f''(r), each of shape (n, 1)."""
        r = x.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny ** 0.25)
        slope = -2 * (r - self.radius) / self.width.square()
        return x / r, r, slope, torch.full_like(r, -2.0) / self.width.square()

    def _log_prob(self, x: Tensor) -> Tensor:
        return -((x.norm(dim=-1) - self.radius) / self.width).square() - self._log_z

    def _score(self, x: Tensor) -> Tensor:
        e, _, slope, _ = self._polar(x)
        return slope * e

    def _hessian(self, x: Tensor) -> Tensor:
        e, r, slope, bend = self._polar(x)
        along = e.unsqueeze(-1) * e.unsqueeze(-2)
        return bend.unsqueeze(-1) * along + (slope / r).unsqueeze(-1) * _across(along)

    def _third_derivative(self, x: Tensor) -> Tensor:
        e, r, slope, bend = self._polar(x)
        across = _across(e.unsqueeze(-1) * e.unsqueeze(-2))
        factor = ((bend - slope / r) / r)[:, :, None, None]
        return factor * placements(e[:, :, None, None] * across.unsqueeze(1))


def _across(along: Tensor) -> Tensor:
    """Return I - e e^T for e e^T, both of shape (n, D, D)."""
    return torch.eye(along.shape[-1], dtype=along.dtype, device=along.device) - along


def _isotropic(means: Tensor, variance: float) -> GaussianMixture:
    """Return the equal mixture of N(mu_k, variance I), for means mu of shape (K, D)."""
    terms, dimension = means.shape
    covariance = variance * torch.eye(dimension, dtype=means.dtype)
    weights = means.new_full((terms,), 1 / terms)
    return GaussianMixture(weights, means, covariance.repeat(terms, 1, 1))


def gaussian2(dtype: torch.dtype | None = None) -> Gaussian:
    """Return N(0, I) in the plane."""
    return Gaussian(torch.zeros(2, dtype=dtype), torch.eye(2, dtype=dtype))


def gaussian100(dtype: torch.dtype | None = None) -> Gaussian:
    """Return N(0, Sigma) in 100 dimensions, of unit variances: 35 pairs of correlation .36395.

    Coordinates 2 i and 2 i + 1, i < 35, have the precision block [[d, -p], [-p, d]]; the other
    30 are independent. A Hessian diag(alpha) + beta beta^T of rank r <= 35 fits r pairs exactly
    (p [[1, 1], [1, 1]] is of rank 1) and leaves 2 p^2 of each other one, so the best has the
    squared Frobenius error .352 (35 - r).
    """
    precision = torch.eye(100, dtype=torch.float64)
    first = torch.arange(0, 2 * PAIRS, 2)
    precision[first, first] = precision[first + 1, first + 1] = PRECISION
    precision[first, first + 1] = precision[first + 1, first] = -COUPLING
    covariance = torch.linalg.inv(precision).to(dtype or torch.get_default_dtype())
    return Gaussian(covariance.new_zeros(100), covariance)


def logistic_mixture(
    dimension: int, seed: int = 0, dtype: torch.dtype | None = None
) -> LogisticMixture:
    """Return the equal mixture of 20 product-logistic laws, of scale .5 around N(0, 4) draws.

    Where the components lie apart, as they do at D = 50 and 80, the diagonal of the Hessian is
    -8 y (1 - y) in each coordinate, with y uniform on (0, 1). The best constant predictor
    then has the squared error 64 / 180 D, summed over coordinates: 17.8 at D = 50.

    Args:
        dimension: D, 1 or more.
        seed: fixes the locations, on every device.
        dtype: dtype of the law; torch's default if None.

    Raises:
        ValueError: if dimension < 1.
    """
    check_count("dimension", dimension)
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randn(20, dimension, generator=generator, dtype=torch.float64)
    locations = (2 * draws).to(dtype or torch.get_default_dtype())
    return LogisticMixture(locations.new_full((20,), 1 / 20), locations, 0.5)


def two_modes(dtype: torch.dtype | None = None) -> GaussianMixture:
    """Return the equal mixture of N((-2, 0), I / 2) and N((2, 0), I / 2)."""
    return _isotropic(torch.tensor([[-2.0, 0.0], [2.0, 0.0]], dtype=dtype), 0.5)


def ring_of_gaussians(
    modes: int, radius: float, std: float, dtype: torch.dtype | None = None
) -> GaussianMixture:
    """Return the equal mixture of N(mu_k, std^2 I), mu_k evenly on a circle, the first at (a, 0).

    Args:
        modes: number of components, 1 or more.
        radius: a, radius of the circle, positive.
        std: standard deviation of each, positive.
        dtype: dtype of the law; torch's default if None.

    Raises:
        ValueError: if one of the numbers is out of range.
    """
    check_count("modes", modes)
    check_number("radius", radius)
    check_number("std", std)
    turn = 2 * math.pi * torch.arange(modes, dtype=torch.float64) / modes
    means = radius * torch.stack((turn.cos(), turn.sin()), -1)
    return _isotropic(means.to(dtype or torch.get_default_dtype()), std**2)


def ring6(dtype: torch.dtype | None = None) -> GaussianMixture:
    """Return six Gaussians of std .7 on a circle of radius 4.33 (the paper's Dataset 1)."""
    return ring_of_gaussians(6, 4.33, 0.7, dtype)


def ring8(dtype: torch.dtype | None = None) -> GaussianMixture:
    """Return eight Gaussians of std 1.4 on a circle of radius 9.97 (the paper's Dataset 2)."""
    return ring_of_gaussians(8, 9.97, 1.4, dtype)


def mog2(dtype: torch.dtype | None = None) -> GaussianMixture:
    """Return two Gaussians of std .5 at (-5, 0) and (5, 0)."""
    return ring_of_gaussians(2, 5.0, 0.5, dtype)


def mog6(dtype: torch.dtype | None = None) -> GaussianMixture:
    """Return six Gaussians of std .5 on a circle of radius 5."""
    return ring_of_gaussians(6, 5.0, 0.5, dtype)


def ring2d(dtype: torch.dtype | None = None) -> Ring:
    """Return the ring of energy ((|x| - 2) / .4)^2, in the plane."""
    return Ring(torch.tensor(2.0, dtype=dtype), torch.tensor(0.4, dtype=dtype))
