r"""Sampling by going from large noise to none: ancestral, DDIM, DPM-Solver++(2M) and Heun.

All hold x in the data's units (see `hosm.diffusion.schedules`) and go along noise scales sigma_0 >
.. > sigma_N = 0, N steps. From sigma_t to sigma_s, with m = x + sigma_t^2 s1 the posterior mean:

- ancestral: x_s ~ N(mu, Sigma) with any of `hosm.diffusion.covariances`; with the exact law of a
  Gaussian's step it is exact at any number of steps;
- DDIM (Song, Meng and Ermon, "Denoising Diffusion Implicit Models", ICLR 2021, equation 12 with
  eta = 0): x_s = m + (sigma_s / sigma_t) (x - m);
- DPM-Solver++(2M) (Lu et al., "DPM-Solver++: Fast Solver for Guided Sampling of Diffusion
  Probabilistic Models", 2022, algorithm 2): the same with m + (m - m') h / (2 h') in place of m,
  where m' is that of the step before, h = log(sigma_t / sigma_s) and h' that of the step before;
  its first and last steps are DDIM's;
- Heun (Karras et al., "Elucidating the Design Space of Diffusion-Based Generative Models", NeurIPS
  2022, algorithm 1): two evaluations in each step but the last.

A step to sigma = 0 of the last three gives m. An ancestral one gives m too, or with `last_noise` a
draw of N(m, C): right where the data have a density and the last sigma is not small.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from hosm.checks import check_count, check_generator, check_number, checked
from hosm.diffusion.covariances import Covariance, Model, score_function
from hosm.diffusion.gaussian_steps import GaussianStep
from hosm.diffusion.schedules import checked_scales
from hosm.operators import DiagonalPlusLowRank
from hosm.tweedie import posterior_mean

__all__ = ["Draws", "ancestral", "ddim", "dpm_solver", "heun", "start"]


class Draws(NamedTuple):
    """Points that a sampler ended at, and what they took.

    Args:
        x: points in the data's units, shape (n, D).
        evaluations: of the network, for each point.
    """

    x: Tensor
    evaluations: int


def start(mean: Tensor, variance: Tensor, sigma: float, n: int) -> GaussianStep:
    """Return the Gaussian that stands for x + sigma z at the largest noise scale, of n points.

    Args:
        mean: of the data, shape (D,).
        variance: of each coordinate of the data, shape (D,).
        sigma: largest noise scale, above 0, in the data's units.
        n: number of points.

    Raises:
        ValueError: shapes that differ, or a value out of its range.
    """
    checked("mean", mean, "D")
    checked("variance", variance, *mean.shape)
    check_number("sigma", sigma)
    check_count("n", n)
    if not bool((variance >= 0).all()):
        raise ValueError(f"variance must be at least 0, got {float(variance.min()):g}")
    whole = (variance + sigma**2).expand(n, -1)
    return GaussianStep(mean.expand(n, -1), DiagonalPlusLowRank.from_diagonal(whole))


@torch.no_grad()
def ancestral(
    model: Model,
    x: Tensor,
    sigmas: Tensor,
    covariance: Covariance,
    generator: Generator | None = None,
    *,
    last_noise: bool = False,
) -> Draws:
    """Draw each step from its Gaussian law.

    Args:
        model: (x_noisy, sigma) -> (s1, s2).
        x: points at the largest noise scale, shape (n, D).
        sigmas: decreasing noise scales of which the last is 0, shape (N + 1,).
        covariance: of the steps.
        generator: source of the noise.
        last_noise: draw the last step too, in place of its mean.

    Raises:
        ValueError: shapes or noise scales that do not fit.
    """
    scales = checked_scales(x, sigmas)
    check_generator(generator, x.device)
    for sigma, sigma_next in zip(scales, scales[1:], strict=False):
        if sigma_next == 0 and not last_noise:
            x = posterior_mean(x, score_function(model)(x, sigma), sigma)
        else:
            x = covariance.step(model, x, sigma, sigma_next).sample(generator)
    return Draws(x, len(scales) - 1)


@torch.no_grad()
def ddim(model: Model, x: Tensor, sigmas: Tensor) -> Draws:
    """Take the deterministic steps of DDIM, the Euler steps of the flow in sigma.

    Args:
        model: (x_noisy, sigma) -> (s1, s2), or with a method `score`.
        x: points at the largest noise scale, shape (n, D).
        sigmas: decreasing noise scales of which the last is 0, shape (N + 1,).

    Raises:
        ValueError: shapes or noise scales that do not fit.
    """
    scales, score = checked_scales(x, sigmas), score_function(model)
    for sigma, sigma_next in zip(scales, scales[1:], strict=False):
        mean = posterior_mean(x, score(x, sigma), sigma)
        x = mean + sigma_next / sigma * (x - mean)
    return Draws(x, len(scales) - 1)


@torch.no_grad()
def dpm_solver(model: Model, x: Tensor, sigmas: Tensor) -> Draws:
    """Take the steps of DPM-Solver++(2M), of second order at one evaluation each.

    Args:
        model: (x_noisy, sigma) -> (s1, s2), or with a method `score`.
        x: points at the largest noise scale, shape (n, D).
        sigmas: decreasing noise scales of which the last is 0, shape (N + 1,).

    Raises:
        ValueError: shapes or noise scales that do not fit.
    """
    scales, score = checked_scales(x, sigmas), score_function(model)
    logs = torch.tensor(scales[:-1], dtype=torch.float64).log().neg().tolist()
    before = x
    for i, (sigma, sigma_next) in enumerate(zip(scales, scales[1:], strict=False)):
        mean = posterior_mean(x, score(x, sigma), sigma)
        target = mean
        if i and sigma_next:
            share = (logs[i + 1] - logs[i]) / (2 * (logs[i] - logs[i - 1]))
            target = mean + share * (mean - before)
        x, before = target + sigma_next / sigma * (x - target), mean
    return Draws(x, len(scales) - 1)


@torch.no_grad()
def heun(model: Model, x: Tensor, sigmas: Tensor) -> Draws:
    """Take the deterministic steps of Heun, of second order at two evaluations each.

    Args:
        model: (x_noisy, sigma) -> (s1, s2), or with a method `score`.
        x: points at the largest noise scale, shape (n, D).
        sigmas: decreasing noise scales of which the last is 0, shape (N + 1,).

    Raises:
        ValueError: shapes or noise scales that do not fit.
    """
    scales, score = checked_scales(x, sigmas), score_function(model)
    for sigma, sigma_next in zip(scales, scales[1:], strict=False):
        slope = -sigma * score(x, sigma)
        ahead = x + (sigma_next - sigma) * slope
        if sigma_next:
            slope = (slope - sigma_next * score(ahead, sigma_next)) / 2
            ahead = x + (sigma_next - sigma) * slope
        x = ahead
    return Draws(x, 2 * (len(scales) - 1) - 1)
