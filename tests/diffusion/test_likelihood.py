"""Likelihoods against exact densities: the bound, the flow, decoders and random traces."""

import math

import pytest
import torch

from hosm.diffusion import (
    VE,
    Beta,
    BetaTilde,
    Diagonal,
    GaussianStep,
    LowRank,
    OptimalIsotropic,
    bits_per_dimension,
    flow_log_likelihood,
    quantised_decoder,
    random_trace,
    start,
    variational_bound,
)
from hosm.distributions import Gaussian
from hosm.exact_scores import ExactScores
from hosm.operators import DiagonalPlusLowRank
from tests.diffusion.laws import F64, gaussian, mixture, seeded
from tests.tolerances import FLOAT64, monte_carlo

LAW = gaussian()
MODEL = ExactScores(LAW)
SIGMAS = torch.tensor([1.0, 0.0], dtype=F64)


def exact_prior(sigma, n):
    """The law of Gaussian data at a noise scale, of n points."""
    covariance = LAW.covariance + sigma**2 * torch.eye(4, dtype=F64)
    return GaussianStep(LAW.mean.expand(n, 4), covariance.expand(n, 4, 4))


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("rank", [None, 4])
def test_the_bound_is_the_likelihood_of_gaussian_data(steps, rank):
    n, sigmas = 20_000, VE(0.1, 4.0).grid(steps)
    x = LAW.sample(n, seeded())
    args = (sigmas, LowRank(), exact_prior(4.0, n), seeded(1))
    gap = variational_bound(ExactScores(LAW, rank), x, *args).total + LAW.log_prob(x)
    assert gap.std() > 0
    assert abs(float(gap.mean())) < monte_carlo(n, float(gap.std()))


def test_other_covariances_give_more():
    n, sigmas = 4000, VE(0.1, 4.0).grid(5)
    x, totals = LAW.sample(n, seeded()), []
    isotropic = OptimalIsotropic.fit(MODEL, LAW.sample(n, seeded(2)), sigmas, seeded(3))
    for kind in (LowRank(), Diagonal(), isotropic, BetaTilde()):
        args = (sigmas, kind, exact_prior(4.0, n), seeded(1))
        totals.append(float(variational_bound(MODEL, x, *args).total.mean()))
    assert totals == sorted(totals)
    # the noise of the gap to the exact value is about .01 nats at 4000 points
    assert totals[1] > totals[0] + 0.05


def test_the_decoder_of_levels_is_a_probability():
    decode, levels = quantised_decoder(0.25, 0.0, 1.0), torch.linspace(0, 1, 5, dtype=F64)
    n = len(levels)
    for std in (0.01, 0.3, 40.0):
        variance = torch.full((n, 1), std**2, dtype=F64)
        mean = torch.full((n, 1), 0.4, dtype=F64)
        step = GaussianStep(mean, DiagonalPlusLowRank.from_diagonal(variance))
        whole = decode(step, levels.unsqueeze(1)).exp().sum()
        torch.testing.assert_close(whole, torch.ones((), dtype=F64), **FLOAT64)
    far = GaussianStep(mean, DiagonalPlusLowRank.from_diagonal(torch.full((n, 1), 1e-6).double()))
    assert torch.isfinite(decode(far, levels.unsqueeze(1))).all()


def test_bits():
    assert bits_per_dimension(torch.tensor(math.log(2) * 30), 10) == pytest.approx(3)


def test_the_flow_has_the_exact_density_of_gaussian_data():
    x = LAW.sample(50, seeded())
    found = flow_log_likelihood(MODEL, x, (0.01, 4.0), 60, exact_prior(4.0, 50))
    assert found.evaluations == 240
    # the error of the steps, of order 4: below 1e-5 nats at 60 of them
    torch.testing.assert_close(found.log_prob, LAW.smoothed(0.01).log_prob(x), rtol=0, atol=1e-5)
    # and where the flow ends: x - mean scaled by the root of the ratio of variances
    values, vectors = torch.linalg.eigh(LAW.covariance)
    scale = ((values + 16) / (values + 1e-4)).sqrt()
    at_high = LAW.mean + ((x - LAW.mean) @ vectors * scale) @ vectors.mT
    # the same error of the steps, of points some ten times as large
    torch.testing.assert_close(found.x_high, at_high, rtol=1e-4, atol=1e-4)


def test_the_flow_of_a_mixture_is_within_a_fiftieth_of_a_nat():
    law = mixture()
    x, prior = law.sample(200, seeded()), start(law.mean, law.variance, 30.0, 200)
    found = flow_log_likelihood(ExactScores(law), x, (0.01, 30.0), 80, prior)
    error = (found.log_prob - law.log_prob(x)).abs() / 4
    # the wanted error for each dimension
    assert float(error.mean()) < 0.02


def test_random_signs_are_unbiased_and_noisier():
    law = Gaussian(LAW.mean, LAW.covariance)

    class Linear:
        """s1 of the Gaussian, which can be differentiated."""

        def score(self, x, sigma):
            eye = torch.eye(4, dtype=F64)
            return -(x - law.mean) @ torch.linalg.inv(law.covariance + sigma**2 * eye)

    n = 4000
    x, prior = law.sample(1, seeded()).expand(n, 4), exact_prior(4.0, n)
    exact = flow_log_likelihood(MODEL, x[:1], (0.05, 4.0), 15, exact_prior(4.0, 1)).log_prob
    spread = []
    for probes in (1, 10):
        trace = random_trace(probes, seeded(1))
        found = flow_log_likelihood(Linear(), x, (0.05, 4.0), 15, prior, trace=trace).log_prob
        spread.append(float(found.std()))
        assert abs(float(found.mean() - exact)) < monte_carlo(n, spread[-1])
    # ten probes have a tenth of the variance; a standard deviation of 4000 is known to 1.1 %
    assert spread[0] / spread[1] == pytest.approx(10**0.5, rel=0.06)


def test_bad_arguments():
    with pytest.raises(ValueError, match="probes must be a whole number of 1 or more, got 0"):
        random_trace(0)
    with pytest.raises(ValueError, match="width must be finite and above 0, got 0"):
        quantised_decoder(0.0, 0.0, 1.0)
    x = LAW.sample(2, seeded())
    with pytest.raises(ValueError, match="steps must be a whole number of 1 or more, got 0"):
        flow_log_likelihood(MODEL, x, (0.1, 1.0), 0, exact_prior(1.0, 2))
    assert Beta(2.0).data_std == 2.0
    with pytest.raises(ValueError, match=r"a range of sigma must be \(low, high\)"):
        flow_log_likelihood(MODEL, x, (5.0, 0.1), 4, exact_prior(5.0, 2))
    with pytest.raises(ValueError, match="sigma must be a finite number above 0, got 0"):
        flow_log_likelihood(MODEL, x, (0.0, 5.0), 4, exact_prior(5.0, 2))
    with pytest.raises(ValueError, match="prior must have shape"):
        flow_log_likelihood(MODEL, x, (0.1, 5.0), 4, exact_prior(5.0, 3))
    with pytest.raises(ValueError, match="sigmas must decrease and end at 0"):
        variational_bound(MODEL, x, torch.zeros(1), LowRank(), exact_prior(1.0, 2))
    with pytest.raises(ValueError, match="prior must have shape"):
        variational_bound(MODEL, x, SIGMAS, LowRank(), exact_prior(1.0, 3))
