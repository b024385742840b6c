r"""The distribution of a finite data set: its Gaussian-smoothed version, and exact posteriors.

For a data set x_1, .., x_N the law of x~ = x + sigma z, z ~ N(0, I), has the density q_sigma that
is the mean of the N(x_i, sigma^2 I), and Bayes' rule gives the posterior that Tweedie's formula
speaks of (Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data Distribution by
Denoising", NeurIPS 2021, equation 4 and theorem 1): given x~, x is x_i with probability

    r_i = softmax_i(-|x~ - x_i|^2 / 2 sigma^2).

So m = sum_i r_i x_i and C = sum_i r_i (x_i - m) (x_i - m)^T, without a score; with the calculus of
mixtures (`hosm.distributions.base`), the components of q_sigma have g_i = (x_i - x~) / sigma^2,
grad^2 l_i = -I / sigma^2 and grad^3 l_i = 0.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from hosm.checks import check_count, check_generator, check_number, checked
from hosm.distributions.base import Mixture

__all__ = ["FiniteData", "SmoothedData"]


class SmoothedData(Mixture):
    """The law q_sigma = (1/N) sum_i N(x_i, sigma^2 I) of a data set under Gaussian noise.

    Args:
        points: x_i, shape (N, D).
        sigma: standard deviation of the noise, in the units of the points, positive.

    Raises:
        ValueError: if points are integers, empty, not finite or not of shape (N, D), or sigma is
            not one positive, finite number.
    """

    def __init__(self, points: Tensor, sigma: float) -> None:
        self.terms, dimension = checked("points", points, "N", "D").shape
        check_number("sigma", sigma)
        sigma = float(sigma)
        super().__init__(dimension, points, sigma)
        self.points, self.sigma = points, sigma
        self.mean = points.mean(0)
        self.variance = (points - self.mean).square().mean(0) + sigma**2
        root = sigma * math.sqrt(2 * math.pi)
        self._log_scale = -math.log(self.terms) - dimension * math.log(root)

    def smoothed(self, sigma: float) -> SmoothedData:
        """Return the law of x~ + sigma z, the data under both noises.

        Args:
            sigma: standard deviation of the further noise, positive; the two add in squares.

        Raises:
            ValueError: if sigma is not one positive, finite number.
        """
        check_number("sigma", sigma)
        return SmoothedData(self.points, math.hypot(self.sigma, sigma))

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        labels = torch.randint(self.terms, (n,), generator=generator, device=self.device)
        return self.points[labels] + self.sigma * self._normal(n, generator)

    def _components(self, x: Tensor) -> tuple[Tensor, Tensor]:
        u = self.points - x.unsqueeze(1)
        squares = torch.einsum("nkd,nkd->nk", u, u)
        return self._log_scale - squares / (2 * self.sigma**2), u / self.sigma**2

    def _curvature(self, x: Tensor, r: Tensor) -> Tensor:
        eye = torch.eye(self.dimension, dtype=x.dtype, device=x.device)
        return (-eye / self.sigma**2).expand(x.shape[0], -1, -1)

    def _second(self, x: Tensor) -> Tensor:
        return x.new_full((1, self.dimension), -1 / self.sigma**2)

    def _coupling(self, x: Tensor, r: Tensor, d: Tensor) -> Tensor:
        return x.new_zeros(())  # all curvatures are equal, and the mean of d is 0


class FiniteData:
    """The uniform law on N points: exact posteriors of a data set, in chunks of bounded memory.

    Args:
        points: x_i, shape (N, D).

    Raises:
        ValueError: if points are not floating-point, not finite or not of shape (N, D).
    """

    def __init__(self, points: Tensor) -> None:
        self.points = checked("points", points, "N", "D")
        self.dimension = points.shape[1]

    def to(self, *targets: torch.dtype | torch.device | str) -> FiniteData:
        """Return the same data moved to `targets`, floating-point dtypes or devices."""
        return FiniteData(self.smoothed(1.0).to(*targets).points)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return n points drawn with replacement, shape (n, D).

        Args:
            n: number of draws, 1 or more.
            generator: source of randomness, on the device of the points.

        Raises:
            ValueError: if n < 1, or the generator belongs to another device.
        """
        check_count("n", n)
        check_generator(generator, self.points.device)
        total, device = len(self.points), self.points.device
        return self.points[torch.randint(total, (n,), generator=generator, device=device)]

    def smoothed(self, sigma: float) -> SmoothedData:
        """Return q_sigma, the law of x + sigma z; ValueError unless sigma is positive, finite."""
        return SmoothedData(self.points, sigma)

    def posterior_weights(self, x_noisy: Tensor, sigma: float) -> Tensor:
        """Return r_i = P(x = x_i | x~), shape (n, N): Bayes' rule.

        Args:
            x_noisy: noisy points x~, finite, shape (n, D).
            sigma: standard deviation of the noise, positive.

        Raises:
            ValueError: if x_noisy has another shape or dtype, or sigma is not positive.
        """
        law = self.smoothed(sigma)
        return law.at(x_noisy, law.responsibilities)

    def posterior_mean(self, x_noisy: Tensor, sigma: float) -> Tensor:
        """Return m = E[x | x~], shape (n, D): Bayes' rule.

        Args:
            x_noisy: noisy points x~, finite, shape (n, D).
            sigma: standard deviation of the noise, positive.

        Raises:
            ValueError: if x_noisy has another shape or dtype, or sigma is not positive.
        """
        law = self.smoothed(sigma)
        return law.at(x_noisy, lambda x: law.responsibilities(x) @ self.points)

    def posterior_covariance(self, x_noisy: Tensor, sigma: float) -> Tensor:
        """Return C = Cov[x | x~], shape (n, D, D): Bayes' rule.

        Args:
            x_noisy: noisy points x~, finite, shape (n, D).
            sigma: standard deviation of the noise, positive.

        Raises:
            ValueError: if x_noisy has another shape or dtype, or sigma is not positive.
        """
        law = self.smoothed(sigma)

        def covariance(x: Tensor) -> Tensor:
            r, d = law.deviations(x)  # d = (x_i - m) / sigma^2
            return sigma**4 * (r.unsqueeze(-1) * d).mT @ d

        return law.at(x_noisy, covariance)
