r"""Log-likelihoods by diffusion: a variational bound, and the exact value by a flow.

The bound. With noise scales sigma_0 > .. > sigma_N = 0, x_0 = x + sigma_0 z, and p the law of an
ancestral sampler, -log p(x) is at most, over draws of x_t = x + sigma_t z,

    KL(q(x_0 | x) || p(x_0)) + sum_t E KL(q(x_s | x_t, x) || N(mu, Sigma)) - E log N(x; m, C)

(Ho, Jain and Abbeel, "Denoising Diffusion Probabilistic Models", NeurIPS 2020, equation 5), where
each divergence of Gaussians is known (see `hosm.diffusion.gaussian_steps`) and only x_t is drawn.
For Gaussian data with the exact mean and covariance, and the right law of x_0, it is -log p(x) in
the mean over x. The last term may be another decoder: `quantised_decoder` is that of data of
whole levels, whose probability is that of a bin, in each coordinate by the variance C_ii.

The flow. dx / d log sigma = -sigma^2 s1 carries q_sigma along sigma, and

    log q_low(x) = log q_high(x_high) - int sigma^2 tr s2 d log sigma

(Song et al., "Score-Based Generative Modeling through Stochastic Differential Equations", ICLR
2021, equation 39, with sigma for time). tr s2 comes with s1 from a model of both orders; without,
Hutchinson's estimator takes products with random signs v for it (Grathwohl et al., "FFJORD", ICLR
2019), unbiased for the integral and noisy. The classical method of Runge and Kutta of order 4
takes fixed steps of log sigma, without error control, so that it costs the same for every point
and stays on the device; twice the steps tell the error. Units: nats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from hosm.autodiff import pulled_back
from hosm.checks import check_count, check_number, checked
from hosm.diffusion.covariances import Covariance, Model, score_function
from hosm.diffusion.gaussian_steps import GaussianStep, diagonal_of
from hosm.diffusion.schedules import checked_scales
from hosm.noise import check_scales, rademacher, standard_normal

__all__ = [
    "Bound",
    "Decoder",
    "FlowLikelihood",
    "bits_per_dimension",
    "density_decoder",
    "flow_log_likelihood",
    "learned_trace",
    "quantised_decoder",
    "random_trace",
    "variational_bound",
]

Decoder = Callable[[GaussianStep, Tensor], Tensor]  # N(m, C) and x (n, D) -> log p in nats, (n,)
Trace = Callable[[Model, Tensor, float], tuple[Tensor, Tensor]]  # -> s1 (n, D), tr s2 (n,)


class Bound(NamedTuple):
    """The parts of a bound on -log p(x), in nats, each of shape (n,).

    Args:
        prior: divergence at the largest noise scale.
        steps: sum of the divergences of the steps.
        decoder: -log p of the last step, to the data.
    """

    prior: Tensor
    steps: Tensor
    decoder: Tensor

    @property
    def total(self) -> Tensor:
        """The bound, shape (n,)."""
        return self.prior + self.steps + self.decoder


def bits_per_dimension(nats: Tensor, dimension: int) -> Tensor:
    """Return -log p in nats, any shape, as bits for each of `dimension` coordinates."""
    return nats / (dimension * math.log(2))


def density_decoder(step: GaussianStep, x: Tensor) -> Tensor:
    """Return log N(x; m, C), shape (n,), for data x with a density, shape (n, D)."""
    return step.log_density(x)


def quantised_decoder(width: float, low: float, high: float) -> Decoder:
    """Return the decoder of data whose coordinates take levels of equal distance.

    Each level has the probability of the bin around it under the normal law of its coordinate;
    the outermost bins reach to infinity (Ho et al., equation 13).

    Args:
        width: distance of two levels, above 0, in the data's units; 1 / 255 for bytes in [0, 1].
        low: least level.
        high: largest level.

    Raises:
        ValueError: width is not a finite number above 0.
    """
    check_number("width", width)

    def decode(step: GaussianStep, x: Tensor) -> Tensor:
        std, e = diagonal_of(step.covariance).sqrt(), x - step.mean
        above = ((e + width / 2) / std).masked_fill(x > high - width / 2, math.inf)
        below = ((e - width / 2) / std).masked_fill(x < low + width / 2, -math.inf)
        return _log_mass(below, above).sum(-1)

    return decode


def _log_mass(below: Tensor, above: Tensor) -> Tensor:
    """Return log(Phi(b) - Phi(a)) for a < b, on the side where neither is near 1."""
    right = below > 0
    a, b = torch.where(right, -above, below), torch.where(right, -below, above)
    log_a, log_b = torch.special.log_ndtr(a), torch.special.log_ndtr(b)
    return log_b + torch.log1p(-(log_a - log_b).exp())


@torch.no_grad()
def variational_bound(
    model: Model,
    x: Tensor,
    sigmas: Tensor,
    covariance: Covariance,
    prior: GaussianStep,
    generator: Generator | None = None,
    *,
    decoder: Decoder = density_decoder,
) -> Bound:
    """Return the bound on -log p(x) in nats, at one draw of the noise at each scale.

    Args:
        model: (x_noisy, sigma) -> (s1, s2).
        x: clean points, shape (n, D).
        sigmas: decreasing noise scales of which the last is 0, shape (N + 1,).
        covariance: of the steps.
        prior: p(x_0), the law that sampling starts from, of n points (see `sampling.start`).
        generator: source of the noise.
        decoder: log p of the data given N(m, C), that of the last step.

    Raises:
        ValueError: shapes or noise scales that do not fit.
    """
    scales = checked_scales(x, sigmas)
    checked("prior", prior.mean, *x.shape)
    total = torch.zeros_like(x[:, 0])
    for sigma, sigma_next in zip(scales[:-2], scales[1:-1], strict=True):
        x_t = x + sigma * standard_normal(x, generator)
        step = covariance.step(model, x_t, sigma, sigma_next)
        share = 1 - (sigma_next / sigma) ** 2
        total = total + step.divergence(x_t + share * (x - x_t), sigma_next**2 * share)
    last = covariance.step(model, x + scales[-2] * standard_normal(x, generator), scales[-2], 0.0)
    return Bound(prior.divergence(x, scales[0] ** 2), total, -decoder(last, x))


class FlowLikelihood(NamedTuple):
    """Log-likelihoods by the flow.

    Args:
        log_prob: log q_low(x) in nats, shape (n,).
        x_high: where the flow ends, at the largest noise scale, shape (n, D).
        evaluations: of the model, for each point.
    """

    log_prob: Tensor
    x_high: Tensor
    evaluations: int


def learned_trace(model: Model, x: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
    """Return s1, shape (n, D), and tr s2, shape (n,), of a model of both at x, shape (n, D)."""
    if hasattr(model, "score_and_diagonal"):
        s1, diagonal = model.score_and_diagonal(x, sigma)
        return s1, diagonal.sum(-1)
    s1, s2 = model(x, sigma)
    return s1, diagonal_of(s2).sum(-1)


def random_trace(probes: int, generator: Generator | None = None) -> Trace:
    """Return Hutchinson's estimator of the trace, with fresh signs at each evaluation.

    Args:
        probes: sign vectors for each point.
        generator: their source.

    Raises:
        ValueError: probes below 1.
    """
    check_count("probes", probes)

    def trace(model: Model, x: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            at = x.detach().requires_grad_()
            s1 = score_function(model)(at, sigma)
        signs = [rademacher(x, generator) for _ in range(probes)]
        forms = [(v * pulled_back(s1, at, v)).sum(-1) for v in signs]
        return s1.detach(), torch.stack(forms).mean(0)

    return trace


@torch.no_grad()
def flow_log_likelihood(
    model: Model,
    x: Tensor,
    sigma_range: tuple[float, float],
    steps: int,
    prior: GaussianStep,
    *,
    trace: Trace = learned_trace,
) -> FlowLikelihood:
    """Return log q_low at points, by the flow from the least noise scale to the largest.

    Args:
        model: (x_noisy, sigma) -> (s1, s2).
        x: points, shape (n, D). A clean point counts as a noisy one at the least scale, whose
            density is that of the data where they are smooth at that scale.
        sigma_range: least and largest noise scale, in the data's units.
        steps: of log sigma, of four evaluations each.
        prior: law at the largest noise scale, of n points (see `sampling.start`).
        trace: where s1 and tr s2 come from.

    Raises:
        ValueError: a value out of its range, or shapes that do not fit.
    """
    checked("x", x, "n", "D")
    checked("prior", prior.mean, *x.shape)
    check_count("steps", steps)
    check_scales(sigma_range)
    low, high = sigma_range
    width = math.log(high / low) / steps
    integral = torch.zeros_like(x[:, 0])

    def slope(at: Tensor, log_ratio: float) -> tuple[Tensor, Tensor]:
        sigma = min(max(low * math.exp(log_ratio), low), high)
        s1, traces = trace(model, at, sigma)
        return -(sigma**2) * s1, sigma**2 * traces

    for i in range(steps):
        dx1, dl1 = slope(x, i * width)
        dx2, dl2 = slope(x + width / 2 * dx1, (i + 0.5) * width)
        dx3, dl3 = slope(x + width / 2 * dx2, (i + 0.5) * width)
        dx4, dl4 = slope(x + width * dx3, (i + 1) * width)
        x = x + width / 6 * (dx1 + 2 * dx2 + 2 * dx3 + dx4)
        integral = integral + width / 6 * (dl1 + 2 * dl2 + 2 * dl3 + dl4)
    return FlowLikelihood(prior.log_density(x) - integral, x, 4 * steps)
