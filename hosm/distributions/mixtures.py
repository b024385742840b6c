r"""Gaussian laws, mixtures of Gaussian and of logistic laws, and finite data sets.

With the calculus of mixtures of `laws`, only the components are left to state:

    Gaussian, u = x - mu:        g = -P u, grad^2 l = -P, grad^3 l = 0, with P = Sigma^-1;
    logistic, u = (x - m) / s:   l = log f(u) + log f(-u) - log s in each coordinate,
                                 l' = -tanh(u/2) / s, l'' = -2 f(u) f(-u) / s^2,
                                 l''' = -l'' tanh(u/2) / s, with f(u) = 1 / (1 + e^-u).

Smoothing. The law of x~ = x + sigma z, z ~ N(0, I), has the density q_sigma, and the estimators
of Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data Distribution by
Denoising", NeurIPS 2021, aim at the scores of q_sigma, not of p (sections 2.1 and 3). In a
Gaussian family Sigma becomes Sigma + sigma^2 I; `finite_data` treats the law of a data set.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor
from torch.nn.functional import logsigmoid

from hosm.checks import check_number, check_positive, check_symmetric, checked
from hosm.distributions.base import Law, Mixture, placements, probabilities
from hosm.distributions.finite_data import FiniteData, SmoothedData

__all__ = ["FiniteData", "Gaussian", "GaussianMixture", "LogisticMixture", "SmoothedData"]


def _cholesky(covariance: Tensor) -> Tensor:
    """Return the Cholesky factors of covariances, shape (*, D, D)."""
    check_symmetric("covariance", covariance)
    factor, info = torch.linalg.cholesky_ex(covariance)
    if info.any():
        lowest = float(torch.linalg.eigvalsh(covariance).min())
        raise ValueError(f"covariance must be positive definite, got the eigenvalue {lowest:g}")
    return factor


def _log_normaliser(factor: Tensor) -> Tensor:
    """Return log of (2 pi)^(D/2) |Sigma|^(1/2), shape (*), for factors of shape (*, D, D)."""
    log_roots = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return log_roots + 0.5 * factor.shape[-1] * math.log(2 * math.pi)


def _widened(covariance: Tensor, sigma: float) -> Tensor:
    check_number("sigma", sigma)
    eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    return covariance + sigma**2 * eye


class Gaussian(Law):
    """The normal law N(mu, Sigma).

    Args:
        mean: mu, shape (D,).
        covariance: Sigma, symmetric positive definite, shape (D, D).

    Raises:
        ValueError: if shapes do not fit, or Sigma is not symmetric positive definite.
    """

    def __init__(self, mean: Tensor, covariance: Tensor) -> None:
        dimension = checked("mean", mean, "D").shape[0]
        checked("covariance", covariance, dimension, dimension)
        super().__init__(dimension, mean, covariance)
        self.mean, self.covariance, self.variance = mean, covariance, covariance.diagonal()
        self._factor = _cholesky(covariance)
        self._precision = torch.cholesky_inverse(self._factor)
        self._log_normaliser = _log_normaliser(self._factor)

    def smoothed(self, sigma: float) -> Gaussian:
        """Return N(mu, Sigma + sigma^2 I), the law of x + sigma z.

        Args:
            sigma: standard deviation of the noise, positive.

        Raises:
            ValueError: if sigma is not one positive, finite number.
        """
        return Gaussian(self.mean, _widened(self.covariance, sigma))

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        return self.mean + self._normal(n, generator) @ self._factor.mT

    def _log_prob(self, x: Tensor) -> Tensor:
        return 0.5 * ((x - self.mean) * self._score(x)).sum(-1) - self._log_normaliser

    def _score(self, x: Tensor) -> Tensor:
        return (self.mean - x) @ self._precision

    def _hessian(self, x: Tensor) -> Tensor:
        return (-self._precision).expand(x.shape[0], -1, -1)

    def _third_derivative(self, x: Tensor) -> Tensor:
        return x.new_zeros(()).expand(x.shape[0], *(self.dimension,) * 3)


class GaussianMixture(Mixture):
    """The mixture sum_k w_k N(mu_k, Sigma_k) of K normal laws.

    Args:
        weights: w, not negative, of sum 1, shape (K,).
        means: mu, shape (K, D).
        covariances: Sigma, symmetric positive definite, shape (K, D, D).

    Raises:
        ValueError: if shapes do not fit, weights are not probabilities, or a covariance is not
            symmetric positive definite.
    """

    def __init__(self, weights: Tensor, means: Tensor, covariances: Tensor) -> None:
        self.terms, dimension = checked("means", means, "K", "D").shape
        checked("covariances", covariances, self.terms, dimension, dimension)
        super().__init__(dimension, weights, means, covariances)
        self.weights = probabilities(weights, self.terms)
        self.means, self.covariances = means, covariances
        self.mean = self.weights @ means
        spread = (means - self.mean).square() + covariances.diagonal(dim1=1, dim2=2)
        self.variance = self.weights @ spread
        self._factors = _cholesky(covariances)
        self._precisions = torch.cholesky_inverse(self._factors)
        self._log_scales = self.weights.log() - _log_normaliser(self._factors)

    def smoothed(self, sigma: float) -> GaussianMixture:
        """Return the law of x + sigma z, with Sigma_k + sigma^2 I for Sigma_k.

        Args:
            sigma: standard deviation of the noise, positive.

        Raises:
            ValueError: if sigma is not one positive, finite number.
        """
        return GaussianMixture(self.weights, self.means, _widened(self.covariances, sigma))

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        labels = torch.multinomial(self.weights, n, replacement=True, generator=generator)
        x = self._normal(n, generator)
        for k, factor in enumerate(self._factors):
            x[labels == k] = x[labels == k] @ factor.mT
        return x + self.means[labels]

    def _components(self, x: Tensor) -> tuple[Tensor, Tensor]:
        u = self.means.unsqueeze(1) - x  # -(x - mu), shape (K, n, D)
        g = u @ self._precisions
        return self._log_scales - 0.5 * (u * g).sum(-1).mT, g.transpose(0, 1)

    def _curvature(self, x: Tensor, r: Tensor) -> Tensor:
        return -(r @ self._precisions.flatten(1)).unflatten(1, (self.dimension,) * 2)

    def _second(self, x: Tensor) -> Tensor:
        return -self._precisions.diagonal(dim1=1, dim2=2)

    def _coupling(self, x: Tensor, r: Tensor, d: Tensor) -> Tensor:
        return placements(-torch.einsum("nk,nka,kbc->nabc", r, d, self._precisions))


class LogisticMixture(Mixture):
    """A mixture of K laws with independent logistic coordinates; no closed form smoothed.

    Args:
        weights: w, not negative, of sum 1, shape (K,).
        locations: m, shape (K, D).
        scales: s, positive, shape (K, D), or one number for all.

    Raises:
        ValueError: if shapes do not fit, weights are not probabilities, or a scale is not
            positive.
    """

    def __init__(self, weights: Tensor, locations: Tensor, scales: Tensor | float) -> None:
        self.terms, dimension = checked("locations", locations, "K", "D").shape
        check_positive("scales", scales)
        s = scales if isinstance(scales, Tensor) else locations.new_tensor(scales)
        if s.ndim == 0:
            s = s.expand_as(locations)
        checked("scales", s, self.terms, dimension)
        super().__init__(dimension, weights, locations, s)
        self.weights = probabilities(weights, self.terms)
        self.locations, self.scales = locations, s
        self.mean = self.weights @ locations
        spread = (locations - self.mean).square() + s.square() * (math.pi**2 / 3)
        self.variance = self.weights @ spread

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        labels = torch.multinomial(self.weights, n, replacement=True, generator=generator)
        size = (n, self.dimension)
        f = torch.rand(size, generator=generator, dtype=self.dtype, device=self.device)
        u = f.logit(torch.finfo(self.dtype).eps)
        return self.locations[labels] + self.scales[labels] * u

    def _components(self, x: Tensor) -> tuple[Tensor, Tensor]:
        u = (x.unsqueeze(1) - self.locations) / self.scales
        log_prob = logsigmoid(u) + logsigmoid(-u) - self.scales.log()
        return self.weights.log() + log_prob.sum(-1), -torch.tanh(u / 2) / self.scales

    def _second(self, x: Tensor) -> Tensor:
        u = (x.unsqueeze(1) - self.locations) / self.scales
        return -2 * torch.sigmoid(u) * torch.sigmoid(-u) / self.scales.square()

    def _curvature(self, x: Tensor, r: Tensor) -> Tensor:
        return torch.diag_embed((r.unsqueeze(1) @ self._second(x)).squeeze(1))

    def _coupling(self, x: Tensor, r: Tensor, d: Tensor) -> Tensor:
        u, second = (x.unsqueeze(1) - self.locations) / self.scales, self._second(x)
        third = torch.einsum("nk,nka->na", r, -second * torch.tanh(u / 2) / self.scales)
        pairs = torch.diag_embed(torch.einsum("nk,nka,nkb->nab", r, d, second))
        return placements(pairs) + torch.diag_embed(torch.diag_embed(third))
