"""Posterior samples against exact posteriors: Gaussian laws, and mixtures in 10 to 100 D."""

import pytest
import torch

from hosm.distributions import Gaussian, GaussianMixture
from hosm.exact_scores import ExactScores
from hosm.inverse import (
    METHODS,
    PosteriorSamples,
    inpainting,
    noise_levels,
    posterior_samples,
    projections,
    super_resolution,
)
from hosm.networks import ConditionalMLP
from hosm.scores import ScoreModel
from tests.tolerances import monte_carlo

DOUBLE = torch.float64
WIDE = (0.01, 300.0)  # noise scales of laws of standard deviation 1


def waves(terms, dimension, seed=0):
    """A mixture of random curves of several smoothness, around means of their own."""
    generator = torch.Generator().manual_seed(seed)
    place = torch.arange(dimension, dtype=DOUBLE)
    gap = (place.unsqueeze(1) - place).square()
    covariances = [torch.exp(-gap / 2 / (2 + k) ** 2) / 4 for k in range(terms)]
    stack = torch.stack(covariances) + 0.01 * torch.eye(dimension, dtype=DOUBLE)
    means = torch.randn(terms, dimension, generator=generator, dtype=DOUBLE) / 2
    return GaussianMixture(torch.full((terms,), 1 / terms, dtype=DOUBLE), means, stack)


def exact(law, A, y, noise):
    """The law of x given y = A x + s e: a mixture with as many terms (one measurement y)."""
    V = A @ law.covariances @ A.mT + noise**2 * torch.eye(len(A), dtype=DOUBLE)
    r = y - law.means @ A.mT
    seen = torch.distributions.MultivariateNormal(torch.zeros_like(r), V).log_prob(r)
    gain = law.covariances @ A.mT @ torch.linalg.inv(V)
    means = law.means + (gain @ r.unsqueeze(-1)).squeeze(-1)
    rest = law.covariances - gain @ A @ law.covariances
    weights = (law.weights.log() + seen).softmax(0)
    return GaussianMixture(weights, means, (rest + rest.mT) / 2)


def sliced_distance(x, other, directions=200):
    """Mean over directions of the Wasserstein-1 distance of as many draws of two laws."""
    generator = torch.Generator().manual_seed(1)
    v = torch.randn(x.shape[1], directions, generator=generator, dtype=x.dtype)
    v = v / v.norm(dim=0)
    return float(((x @ v).sort(0).values - (other @ v).sort(0).values).abs().mean())


@pytest.mark.parametrize("steps", [1, 2, 10])
def test_a_gaussian_is_exact_at_any_number_of_steps(steps):
    """All but the start, sigma_max z, which matters by some 1 / 300."""
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(5, 5, generator=generator, dtype=DOUBLE) / 2
    law = Gaussian(torch.ones(5, dtype=DOUBLE), root @ root.mT + 0.1 * torch.eye(5).double())
    A, noise, n = torch.randn(2, 5, generator=generator, dtype=DOUBLE), 0.3, 4000
    y = torch.tensor([[1.0, -2.0]], dtype=DOUBLE)
    found = posterior_samples(
        ExactScores(law, 5),
        projections(A),
        y,
        noise=noise,
        steps=steps,
        n=n,
        sigma=WIDE,
        generator=generator,
    )
    mixture = GaussianMixture(y.new_ones(1), law.mean[None], law.covariance[None])
    truth = exact(mixture, A, y[0], noise)
    std = truth.variance.sqrt()
    bound = monte_carlo(n) + 0.01  # and the start
    assert float(((found.mean[0] - truth.mean) / std).abs().max()) < bound
    gap = torch.cov(found.draws[:, 0].mT) - truth.covariances[0]
    assert float((gap / std.outer(std)).abs().max()) < 2**0.5 * monte_carlo(n) + 0.01
    assert (found.evaluations, found.products) == (steps, 0)


@pytest.mark.parametrize("dimension", [10, 40, pytest.param(100, marks=pytest.mark.slow)])
def test_mixtures_are_near_their_exact_posterior(dimension):
    """A fifth as far as draws of the law without y, and calibrated within 4 points."""
    law, n, noise = waves(3, dimension), 200, 0.1
    operator = inpainting(torch.arange(dimension) % 2 == 0)
    A = torch.eye(dimension, dtype=DOUBLE)[::2]
    generator = torch.Generator().manual_seed(2)
    x = law.sample(2, generator)
    y = x @ A.mT + noise * torch.randn(2, len(A), generator=generator, dtype=DOUBLE)
    found = posterior_samples(
        ExactScores(law),
        operator,
        y,
        noise=noise,
        steps=10,
        n=n,
        sigma=(0.01, 30.0),
        generator=generator,
    )
    low, high = found.interval(0.8)
    for i, measurement in enumerate(y):
        truth = exact(law, A, measurement, noise)
        draws, others = truth.sample(n, generator), law.sample(n, generator)
        assert sliced_distance(found.draws[:, i], draws) < sliced_distance(others, draws) / 5
        inside = (draws >= low[i]) & (draws <= high[i])
        # three standard errors of shares among so many draws, of coordinates that go together
        assert float(inside.double().mean()) == pytest.approx(0.8, abs=0.04)


def test_all_methods_run_and_say_what_they_take():
    law = waves(2, 8)
    y = torch.zeros(3, 4, dtype=DOUBLE)
    taken = {}
    for method in METHODS:
        found = posterior_samples(
            ExactScores(law),
            super_resolution((8,), 2),
            y,
            noise=0.2,
            method=method,
            steps=6,
            n=5,
            sigma=(0.02, 10.0),
            generator=torch.Generator().manual_seed(0),
            iterations=1,
        )
        assert found.draws.shape == (5, 3, 8) and bool(found.draws.isfinite().all())
        assert found.mean.shape == found.variance.shape == (3, 8)
        taken[method] = (found.evaluations, found.products)
    expected = {"covariance": (6, 0), "diagonal": (6, 0), "dps": (6, 6), "pigdm": (6, 6)}
    assert taken == expected | {"tmpd": (6, 12), "mmps": (6, 12)}


def test_a_rival_with_the_right_covariance_has_the_right_mean():
    """PiGDM knows that of an isotropic Gaussian; its steps are short enough for the variance."""
    law = Gaussian(torch.zeros(3, dtype=DOUBLE), 0.49 * torch.eye(3, dtype=DOUBLE))
    A = torch.tensor([[1.0, 0.5, 0.0]], dtype=DOUBLE)
    n = 1000
    found = posterior_samples(
        ExactScores(law),
        projections(A),
        torch.ones(1, 1, dtype=DOUBLE),
        noise=0.2,
        method="pigdm",
        steps=200,
        n=n,
        sigma=(0.002, 70.0),
        generator=torch.Generator().manual_seed(0),
        data_std=0.7,
    )
    mixture = GaussianMixture(torch.ones(1).double(), law.mean[None], law.covariance[None])
    truth = exact(mixture, A, torch.ones(1).double(), 0.2)
    gap = (found.mean[0] - truth.mean) / truth.variance.sqrt()
    assert float(gap.abs().max()) < monte_carlo(n) + 0.02  # and the length of 200 steps
    # an ancestral step leaves out the variance of x given x~, some 5 % at 200 steps
    torch.testing.assert_close(found.variance[0], truth.variance, rtol=0.1, atol=0)


def test_a_learned_model_gives_its_own_range_and_precision():
    torch.manual_seed(0)
    model = ScoreModel(
        ConditionalMLP(6, outputs=4),
        sigma=(0.05, 20.0),
        rank=2,
        parametrisation="denoiser",
        psd=True,
    )
    operator = inpainting(torch.arange(6) < 3)
    draws = [
        posterior_samples(
            model,
            operator,
            torch.ones(2, 3),
            noise=0.1,
            steps=5,
            n=4,
            method=method,
            generator=torch.Generator().manual_seed(1),
        ).draws
        for method in ("covariance", "covariance", "mmps")
    ]
    assert draws[0].dtype == torch.float32 and not draws[0].requires_grad
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("n", [39, 200])
def test_intervals_hold_another_draw_as_often_as_they_say(n):
    draws = torch.randn(n, 3000, 2, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    another = torch.randn(3000, 2, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)
    found = PosteriorSamples(draws, 1, 0)
    for level in (0.5, 0.8, 0.95):
        low, high = found.interval(level)
        share = float(((another >= low) & (another <= high)).double().mean())
        assert abs(share - level) < monte_carlo(6000, (level * (1 - level)) ** 0.5)


def test_the_noise_scales_are_those_of_karras():
    levels = noise_levels(18, (0.002, 80.0))
    assert levels[0] == pytest.approx(80) and levels[-1] == pytest.approx(0.002)
    assert levels[1] == pytest.approx(57.586, rel=1e-4)  # the published schedule of 18 steps
    assert noise_levels(1, (0.1, 2.0)) == [pytest.approx(2.0)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "ddrm"}, "method must be one of covariance, diagonal, dps"),
        ({"noise": 0.0}, "noise must be finite and above 0, got 0"),
        ({"steps": 0}, "steps must be a whole number of 1 or more, got 0"),
        ({"n": 0}, "n must be a whole number of 1 or more, got 0"),
        ({"sigma": None}, r"sigma must be a range \(low, high\), as the model has none"),
        ({"sigma": (1.0, 0.1)}, r"a range of sigma must be \(low, high\)"),
        ({"y": torch.zeros(1, 3, dtype=DOUBLE)}, r"y must have shape \(b, 4\)"),
        ({"strength": -1.0}, "strength must be finite and above 0, got -1"),
    ],
)
def test_bad_arguments_are_told(change, words):
    given = {"y": torch.zeros(1, 4, dtype=DOUBLE), "noise": 0.1, "sigma": (0.1, 10.0), **change}
    with pytest.raises(ValueError, match=words):
        posterior_samples(ExactScores(waves(2, 8)), super_resolution((8,), 2), **given)


def test_an_interval_that_takes_more_draws_is_told():
    few = PosteriorSamples(torch.zeros(10, 1, 2), 1, 0)
    with pytest.raises(ValueError, match="draws must be 39 or more, got 10 for level 0.95"):
        few.interval(0.95)
