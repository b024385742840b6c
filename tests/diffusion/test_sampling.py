"""Samplers: exact for Gaussian data, in the right order of the step size, and by their counts."""

import pytest
import torch

from hosm.diffusion import (
    EDM,
    VE,
    Beta,
    BetaTilde,
    Diagonal,
    GaussianStep,
    LowRank,
    ancestral,
    ddim,
    dpm_solver,
    heun,
    start,
)
from hosm.exact_scores import ExactScores
from hosm.metrics import sliced_wasserstein
from tests.diffusion.laws import F64, gaussian, mixture, seeded
from tests.tolerances import FLOAT64, ILL_CONDITIONED, monte_carlo

LAW = gaussian()
EYE = torch.eye(4, dtype=F64)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_gaussian_data_keep_their_law_at_any_number_of_steps(steps):
    """The moments of each step in closed form: a linear map of x and the noise of the step."""
    scales, model = VE(0.05, 6.0).grid(steps).tolist(), ExactScores(LAW)
    points = LAW.mean + torch.cat([torch.zeros(1, 4, dtype=F64), EYE])
    for sigma, sigma_next in zip(scales, scales[1:], strict=False):
        step = LowRank().step(model, points, sigma, sigma_next)
        slope = (step.mean[1:] - step.mean[:1]).mT
        before, after = (LAW.covariance + s**2 * EYE for s in (sigma, sigma_next))
        torch.testing.assert_close(step.mean[0], LAW.mean, **ILL_CONDITIONED)
        found = slope @ before @ slope.mT + step.covariance[0]
        torch.testing.assert_close(found, after, **ILL_CONDITIONED)


@pytest.mark.parametrize("steps", [1, 3])
def test_draws_of_gaussian_data(steps):
    n, sigmas = 20_000, VE(0.05, 6.0).grid(steps)
    x = LAW.smoothed(6.0).sample(n, seeded())
    draws = ancestral(ExactScores(LAW, 4), x, sigmas, LowRank(), seeded(1), last_noise=True)
    assert draws.evaluations == steps
    # four standard errors of means and of products of two coordinates
    bound = monte_carlo(n, float(2**0.5 * LAW.covariance.max()))
    assert (draws.x.mean(0) - LAW.mean).abs().max() < bound
    assert (draws.x.mT.cov() - LAW.covariance).abs().max() < bound


def test_better_covariances_come_nearer_to_a_mixture():
    law, n, sigmas = mixture(), 4000, EDM(0.05, 10.0).grid(4)
    target, distances = law.sample(n, seeded(5)), {}
    for kind in (LowRank(), Diagonal(), Beta(), BetaTilde()):
        x = start(law.mean, law.variance, 10.0, n).sample(seeded(1))
        found = ancestral(ExactScores(law), x, sigmas, kind, seeded(2), last_noise=True).x
        distances[kind] = sliced_wasserstein(found, target, seeded(3))
    same = sliced_wasserstein(law.sample(n, seeded(6)), target, seeded(3))
    values = list(distances.values())
    assert values == sorted(values)
    assert same < values[0] < 2 * same  # two samples of the law are .05 apart, Diagonal's .12


def flow_errors(sampler, steps):
    """Error of a deterministic sampler on Gaussian data, whose flow is known."""
    law, low, high = gaussian(), 0.05, 5.0
    values, vectors = torch.linalg.eigh(law.covariance)
    x = law.smoothed(high).sample(200, seeded())
    scale = ((values + low**2) / (values + high**2)).sqrt()
    at_low = law.mean + ((x - law.mean) @ vectors * scale) @ vectors.mT
    exact = at_low + low**2 * law.smoothed(low).score(at_low)  # the last step
    return float((sampler(ExactScores(law), x, EDM(low, high).grid(steps)).x - exact).norm())


@pytest.mark.parametrize(("sampler", "order"), [(ddim, 1), (dpm_solver, 2), (heun, 2)])
def test_order_of_convergence(sampler, order):
    coarse, fine = flow_errors(sampler, 100), flow_errors(sampler, 200)
    # halving the steps divides the error by 2^order, up to terms of the next order: a tenth
    assert 0.9 * 2**order < coarse / fine < 1.15 * 2**order


@pytest.mark.parametrize(("sampler", "count"), [(ddim, 9), (dpm_solver, 9), (heun, 17)])
def test_evaluations_are_counted(sampler, count):
    calls = []

    def model(x, sigma):
        calls.append(sigma)
        return -x / (1 + sigma**2), None

    draws = sampler(model, torch.ones(3, 2, dtype=F64), VE(0.1, 3.0).grid(9))
    assert draws.evaluations == len(calls) == count


def test_ddim_is_the_formula_of_the_paper_in_the_units_of_a_variance_preserving_schedule():
    x, model = LAW.sample(5, seeded()), ExactScores(LAW)
    sigma, sigma_next = 0.8, 0.3
    alphas = [(1 + s**2) ** -0.5 for s in (sigma, sigma_next)]
    mean = x + sigma**2 * model.score(x, sigma)
    noise = (x - mean) / sigma  # what a network of the noise predicts
    by_paper = alphas[1] * mean + (1 - alphas[1] ** 2) ** 0.5 * noise
    found = ddim(model, x, torch.tensor([sigma, sigma_next, 0.0], dtype=F64)).x
    at = by_paper / alphas[1]
    torch.testing.assert_close(found, at + sigma_next**2 * model.score(at, sigma_next), **FLOAT64)


def test_the_start_has_the_moments_of_noisy_data():
    step = start(LAW.mean, LAW.variance, 3.0, 5)
    assert isinstance(step, GaussianStep)
    torch.testing.assert_close(step.covariance.diag[0], LAW.variance + 9, **FLOAT64)


@pytest.mark.parametrize("sigmas", [[1.0, 0.5], [0.5, 1.0, 0.0], [0.0]])
def test_bad_noise_scales(sigmas):
    x = torch.ones(2, 4, dtype=F64)
    with pytest.raises(ValueError, match="sigmas must decrease and end at 0, got"):
        ancestral(ExactScores(LAW), x, torch.tensor(sigmas), Beta())


def test_a_start_needs_variances():
    with pytest.raises(ValueError, match="variance must be at least 0, got -1"):
        start(torch.zeros(2), torch.tensor([1.0, -1.0]), 5.0, 3)
