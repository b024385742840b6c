r"""Samples of x given y = A x + s e, from a model of both scores at every noise scale.

A chain goes down the noise scales of Karras et al. ("Elucidating the Design Space of
Diffusion-Based Generative Models", NeurIPS 2022, equation 5), and asks the network once at each:

1. s1 and s2 at x~ give N(m, C), the law of the clean x given x~;
2. x_0 is drawn from N(m, C) given y, exactly, with its covariance (`hosm.inverse.conditioning`);
3. x~ = x_0 + sigma' z, with fresh noise of the next scale; at the last, x_0 is the sample.

Step 3 is the decoupled annealing of Zhang et al. ("Improving Diffusion Inverse Problem Solving
with Decoupled Noise Annealing", CVPR 2025), whose draw in step 2 takes a chain of its own. For
Gaussian data each x_0 has the law of x given y, whatever the number of steps, but for the start at
sigma_max z in place of x + sigma_max z, whose effect falls as 1 / sigma_max. For other data
N(m, C) is an approximation, wrong where x given x~ has modes that y does not tell apart, and ever
better as sigma falls: fresh noise forgets the errors of larger scales.

`covariance` takes C as it is and `diagonal` its diagonal alone. The rivals of
`hosm.inverse.guidance` have a mean and no covariance, and take the ancestral step with the mean
that they estimate, x~ = m_y + (sigma'/sigma)^2 (x~ - m_y) + sigma' (1 - (sigma'/sigma)^2)^(1/2) z
(Ho et al., "Denoising Diffusion Probabilistic Models", NeurIPS 2020, equation 7).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from hosm.checks import (
    check_choice,
    check_count,
    check_generator,
    check_number,
    check_probabilities,
    checked,
)
from hosm.inverse.conditioning import denoised, measured
from hosm.inverse.guidance import RIVALS, Denoised, Problem, differentiable
from hosm.inverse.linear_operators import LinearOperator
from hosm.noise import check_scales, standard_normal
from hosm.operators import DiagonalPlusLowRank
from hosm.uncertainty import Posterior

__all__ = ["METHODS", "PosteriorSamples", "noise_levels", "posterior_samples"]

METHODS = ("covariance", "diagonal", *RIVALS)
CURVATURE = 7.0  # rho of Karras et al., which makes steps short at small noise scales

Model = Callable[[Tensor, float], tuple[Tensor, Any]]  # (x_noisy, sigma) -> (s1, s2)


@dataclass(frozen=True)
class PosteriorSamples:
    """Draws of x given each of b measurements, and what they took.

    Attributes:
        draws: shape (n, b, D).
        evaluations: times that the network was asked about each chain.
        products: products with its transposed Jacobian, about as dear again, for each chain.
    """

    draws: Tensor
    evaluations: int
    products: int

    @property
    def mean(self) -> Tensor:
        """The mean of x given y, shape (b, D)."""
        return self.draws.mean(0)

    @property
    def variance(self) -> Tensor:
        """The variances of its coordinates, shape (b, D)."""
        return self.draws.var(0)

    def interval(self, level: float) -> tuple[Tensor, Tensor]:
        """Return central intervals of each coordinate, low and high, both of shape (b, D).

        The ends are the quantiles of n draws at places p (n + 1), which another draw of the same
        law falls between with the probability `level` for any n (Hyndman and Fan, "Sample
        Quantiles in Statistical Packages", 1996, definition 6).

        Args:
            level: probability of the interval, between 0 and 1.

        Raises:
            ValueError: the level is not between 0 and 1, or so high that it takes more draws.
        """
        check_probabilities("level", [level])
        tail = (1 - level) / 2
        if len(self.draws) < (least := math.ceil(1 / tail - 1 - 1e-9)):
            found = f"{len(self.draws)} for level {level}"
            raise ValueError(f"draws must be {least} or more, got {found}")
        values = self.draws.cpu().numpy()
        ends = np.quantile(values, [tail, 1 - tail], axis=0, method="weibull")
        low, high = torch.as_tensor(ends).to(self.draws)
        return low, high


class _Counted:
    """A model, with the count of how often it was asked."""

    def __init__(self, model: Model) -> None:
        self.model, self.evaluations, self.products = model, 0, 0

    def scores(self, x_noisy: Tensor, sigma: float) -> tuple[Tensor, Any]:
        self.evaluations += 1
        return self.model(x_noisy, sigma)

    def denoiser(self, x_noisy: Tensor, sigma: float) -> Denoised:
        self.evaluations += 1
        alone = getattr(self.model, "score", None) or (lambda x, scale: self.model(x, scale)[0])
        given = differentiable(alone, x_noisy, sigma)
        return Denoised(given.mean, lambda v: self._pull(given, v))

    def _pull(self, given: Denoised, v: Tensor) -> Tensor:
        self.products += 1
        return given.pull(v)


def noise_levels(steps: int, sigma: tuple[float, float]) -> list[float]:
    """Return decreasing noise scales, one for each step.

    Args:
        steps: how many, 1 or more.
        sigma: least and largest noise scale, in the units of the data.

    Raises:
        ValueError: no step, or a range that is none.
    """
    check_count("steps", steps)
    check_scales(sigma)
    low, high = (scale ** (1 / CURVATURE) for scale in sigma)
    parts = [step / max(steps - 1, 1) for step in range(steps)]
    return [(high + part * (low - high)) ** CURVATURE for part in parts]


def _drawn(
    model: _Counted, problem: Problem, method: str, generator: Generator | None
) -> Callable[[Tensor, float, float], Tensor]:
    """Return the step from noisy points (k, D) of a scale to those of the next, by draws of x."""

    def step(x: Tensor, sigma: float, following: float) -> Tensor:
        law = denoised(x, *model.scores(x, sigma), sigma)
        if method == "diagonal":
            spread = DiagonalPlusLowRank.from_diagonal(law.variance)
            law = Posterior(law.mean, spread, law.clipped_share)
        clean = measured(law, problem.operator, problem.y, problem.noise).draw(generator)
        return clean + following * standard_normal(x, generator) if following else clean

    return step


def _guided(
    model: _Counted, problem: Problem, method: str, generator: Generator | None
) -> Callable[[Tensor, float, float], Tensor]:
    """Return the step from noisy points (k, D) of a scale to those of the next, by a mean of x."""

    def step(x: Tensor, sigma: float, following: float) -> Tensor:
        given = model.denoiser(x, sigma)
        clean = RIVALS[method](given, problem, sigma, following)
        kept = (following / sigma) ** 2
        spread = following * math.sqrt(1 - kept)
        mean = clean + kept * (x - clean)
        return mean + spread * standard_normal(x, generator) if following else mean

    return step


def _range(model: Model, sigma: tuple[float, float] | None) -> tuple[float, float]:
    """Return the noise scales that chains go through: those given, or all of the model's."""
    found = getattr(model, "sigma", None) if sigma is None else sigma
    if not isinstance(found, tuple):
        raise ValueError(f"sigma must be a range (low, high), as the model has none, got {found}")
    check_scales(found)
    return found


@torch.no_grad()
def posterior_samples(
    model: Model,
    operator: LinearOperator,
    y: Tensor,
    *,
    noise: float,
    method: str = "covariance",
    steps: int = 25,
    n: int = 100,
    sigma: tuple[float, float] | None = None,
    generator: Generator | None = None,
    data_std: float | None = None,
    strength: float = 1.0,
    iterations: int = 3,
) -> PosteriorSamples:
    """Draw from the law of x given y = A x + s e.

    Args:
        model: from noisy points (k, D) and their noise scale to s1 (k, D) and s2, an operator or
            dense (k, D, D), for example a `ScoreModel` of a range of sigma. The rivals take its
            method `score` where it has one, and no s2.
        operator: A.
        y: measurements, shape (b, m), in the model's dtype and on its device.
        noise: s, standard deviation of their noise, above 0.
        method: `covariance` or `diagonal` by s2, or a rival: `dps`, `pigdm`, `tmpd` or `mmps`.
        steps: noise scales, at each of which the network is asked once.
        n: draws for each measurement.
        sigma: least and largest noise scale; by default the range of the model. The largest
            should be 10 times the data's standard deviation or more, the least small beside s.
        generator: source of the noise, on the device of y.
        data_std: standard deviation of a coordinate of x, which `dps` and `pigdm` use; by default
            the model's, or 1.
        strength: factor of a rival's guidance, zeta of `dps`.
        iterations: of the conjugate gradients of `mmps`, each with a product of the Jacobian.

    Returns:
        The draws, and how often the network was asked.

    Raises:
        ValueError: a shape, number, method or noise range that is none.
    """
    check_choice("method", method, METHODS)
    for name, value in (("noise", noise), ("strength", strength)):
        check_number(name, value)
    for name, count in (("n", n), ("iterations", iterations)):
        check_count(name, count)
    checked("y", y, "b", operator.measurements)
    check_generator(generator, y.device)
    levels = noise_levels(steps, _range(model, sigma))
    tau = getattr(model, "data_std", 1.0) if data_std is None else data_std
    check_number("data_std", tau)
    repeated = y.repeat(n, 1)
    problem = Problem(operator, repeated, noise, tau, strength, iterations)
    counted = _Counted(model)
    advance = (_guided if method in RIVALS else _drawn)(counted, problem, method, generator)
    x = levels[0] * standard_normal(y.new_empty(len(repeated), operator.dimension), generator)
    for now, following in pairwise([*levels, 0.0]):
        x = advance(x, now, following)
    return PosteriorSamples(x.unflatten(0, (n, len(y))), counted.evaluations, counted.products)
