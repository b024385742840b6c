r"""Schedules of diffusion: how the noise grows with time, and grids of noise scales.

A diffusion holds x_t = alpha_t (x + sigma_t z): the signal is scaled by alpha_t, and sigma_t is
the noise scale in the data's units, as a model of a range of noise scales takes it. So x_t /
alpha_t is a noisy point whatever the schedule is, and samplers and likelihoods here know sigma
alone; a schedule says at which scales they stop, and how to go to its own x_t and back. With t
from 0 to 1:

- variance preserving, alpha^2 (1 + sigma^2) = 1, for data of unit variance. Linear (Song et al.,
  "Score-Based Generative Modeling through Stochastic Differential Equations", ICLR 2021, equation
  33): log alpha = -t^2 (b1 - b0) / 4 - t b0 / 2. Cosine (Nichol and Dhariwal, "Improved Denoising
  Diffusion Probabilistic Models", ICML 2021, equation 17): alpha = cos(u(t)) / cos(u(0)), with
  u(t) = pi (t + s) / (2 (1 + s)).
- variance exploding (Song et al., equation 30): alpha = 1, sigma = low (high / low)^t.
- EDM (Karras et al., "Elucidating the Design Space of Diffusion-Based Generative Models", NeurIPS
  2022, equation 5): alpha = 1, sigma^(1/rho) linear in t.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from hosm.checks import check_count, check_number, checked

__all__ = ["EDM", "VE", "Schedule", "VPCosine", "VPLinear", "checked_scales"]


@dataclass(frozen=True)
class Schedule(ABC):
    """A schedule of noise, between a least and a largest noise scale.

    Args:
        low: least sigma that a model covers, above 0, in the data's units.
        high: largest sigma, above low.

    Raises:
        ValueError: low or high out of range.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        check_number("low", self.low)
        check_number("high", self.high)
        if not self.low < self.high:
            raise ValueError(f"high must be above low, got {self.high} and {self.low}")

    @abstractmethod
    def sigma(self, t: Tensor) -> Tensor:
        """Return sigma_t at times t from 0 to 1, of any shape."""

    @abstractmethod
    def time(self, sigma: Tensor) -> Tensor:
        """Return the time t at which the noise scale is sigma, of any shape."""

    def alpha(self, t: Tensor) -> Tensor:
        """Return alpha_t, the scale of the signal, at times t of any shape."""
        return torch.ones_like(t)

    def grid(self, steps: int) -> Tensor:
        """Return sigma_0 = high > .. > sigma_(steps - 1) = low > 0, evenly spaced in time.

        Args:
            steps: number of steps from one noise scale to the next, 1 or more.

        Returns:
            Noise scales, float64, shape (steps + 1,); the last step goes from low to 0. At one
            step it goes from high.

        Raises:
            ValueError: steps below 1.
        """
        check_count("steps", steps)
        ends = self.time(torch.tensor([self.high, self.low], dtype=torch.float64))
        share = torch.linspace(0, 1, steps, dtype=torch.float64)
        sigmas = self.sigma(ends[0] + share * (ends[1] - ends[0]))
        sigmas[0] = self.high
        if steps > 1:
            sigmas[-1] = self.low
        return torch.cat([sigmas, sigmas.new_zeros(1)])


class _VariancePreserving(Schedule):
    """A schedule with alpha^2 (1 + sigma^2) = 1."""

    def sigma(self, t: Tensor) -> Tensor:
        """Return sigma_t = (alpha_t^-2 - 1)^(1/2) at times t from 0 to 1, of any shape."""
        return torch.expm1(-2 * self.alpha(t).log()).clamp_min(0).sqrt()


@dataclass(frozen=True)
class VPLinear(_VariancePreserving):
    """The variance-preserving schedule whose rate grows linearly, that of DDPM.

    Args:
        low: least sigma, above 0.
        high: largest sigma; 157 is that of the schedule's end.
        rate_start: b0, above 0.
        rate_end: b1, above b0.
    """

    low: float = 0.01
    high: float = 80.0
    rate_start: float = 0.1
    rate_end: float = 20.0

    def alpha(self, t: Tensor) -> Tensor:
        """Return alpha_t at times t from 0 to 1, of any shape."""
        slope = self.rate_end - self.rate_start
        return torch.exp(-(t**2) * slope / 4 - t * self.rate_start / 2)

    def time(self, sigma: Tensor) -> Tensor:
        """Return the time t at which the noise scale is sigma, of any shape."""
        whole = 2 * torch.log1p(sigma**2)  # t^2 slope + 2 t b0
        slope, start = self.rate_end - self.rate_start, self.rate_start
        return whole / (start + (start**2 + slope * whole).sqrt())


@dataclass(frozen=True)
class VPCosine(_VariancePreserving):
    """The variance-preserving schedule whose signal falls as a cosine.

    Args:
        low: least sigma, above 0.
        high: largest sigma; the cosine reaches any.
        offset: s, which keeps the first steps from being too small.
    """

    low: float = 0.01
    high: float = 80.0
    offset: float = 0.008

    def _angle(self, t: Tensor) -> Tensor:
        return math.pi / 2 * (t + self.offset) / (1 + self.offset)

    def alpha(self, t: Tensor) -> Tensor:
        """Return alpha_t at times t from 0 to 1, of any shape."""
        return self._angle(t).cos() / self._angle(torch.zeros_like(t)).cos()

    def time(self, sigma: Tensor) -> Tensor:
        """Return the time t at which the noise scale is sigma, of any shape."""
        alpha = (1 + sigma**2).rsqrt()
        angle = (alpha * self._angle(torch.zeros_like(sigma)).cos()).acos()
        return angle * 2 / math.pi * (1 + self.offset) - self.offset


@dataclass(frozen=True)
class VE(Schedule):
    """The variance-exploding schedule: even steps of log sigma.

    Args:
        low: least sigma, above 0.
        high: largest sigma, above low.
    """

    low: float = 0.01
    high: float = 50.0

    def sigma(self, t: Tensor) -> Tensor:
        """Return sigma_t at times t from 0 to 1, of any shape."""
        return self.low * (self.high / self.low) ** t

    def time(self, sigma: Tensor) -> Tensor:
        """Return the time t at which the noise scale is sigma, of any shape."""
        return (sigma / self.low).log() / math.log(self.high / self.low)


@dataclass(frozen=True)
class EDM(Schedule):
    """The schedule of Karras et al.: even steps of sigma^(1/rho).

    Args:
        low: least sigma, above 0.
        high: largest sigma, above low.
        rho: how much the steps are concentrated at small sigma, 7 in the paper.
    """

    low: float = 0.002
    high: float = 80.0
    rho: float = 7.0

    def sigma(self, t: Tensor) -> Tensor:
        """Return sigma_t at times t from 0 to 1, of any shape."""
        low, high = self.low ** (1 / self.rho), self.high ** (1 / self.rho)
        return (low + t * (high - low)) ** self.rho

    def time(self, sigma: Tensor) -> Tensor:
        """Return the time t at which the noise scale is sigma, of any shape."""
        low, high = self.low ** (1 / self.rho), self.high ** (1 / self.rho)
        return (sigma ** (1 / self.rho) - low) / (high - low)


def checked_scales(x: Tensor, sigmas: Tensor) -> list[float]:
    """Return the noise scales of steps as numbers.

    Args:
        x: points that take the steps, shape (n, D).
        sigmas: decreasing noise scales of which the last is 0, shape (N + 1,).

    Raises:
        ValueError: points of another shape, or scales that do not decrease or end elsewhere.
    """
    checked("x", x, "n", "D")
    scales = checked("sigmas", sigmas, "N").tolist()
    falls = all(low < high for high, low in zip(scales, scales[1:], strict=False))
    if len(scales) < 2 or not falls or scales[-1] != 0:
        raise ValueError(f"sigmas must decrease and end at 0, got {scales}")
    return scales
