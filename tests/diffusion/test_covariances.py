"""Covariances of the reverse step against the exact law of x_s given x_t."""

import pytest
import torch

from hosm.diffusion import (
    Beta,
    BetaTilde,
    Diagonal,
    Exact,
    LowRank,
    OptimalIsotropic,
    VPLinear,
    reverse_covariance,
)
from hosm.diffusion.gaussian_steps import diagonal_of
from hosm.exact_scores import ExactScores
from hosm.networks import ConditionalMLP
from hosm.scores import ScoreModel
from tests.diffusion.laws import F64, gaussian, mixture, seeded
from tests.tolerances import FLOAT64, ILL_CONDITIONED, monte_carlo

LAW = mixture()
STEPS = [(2.0, 1.1), (0.6, 0.1), (0.3, 0.0)]


def noisy(sigma, n=30):
    return LAW.smoothed(sigma).sample(n, seeded(2))


def exact_moments(x, sigma, sigma_next):
    """Mean and covariance of x_s given x_t, from the posteriors of the mixture's components."""
    v, eye = sigma**2 - sigma_next**2, torch.eye(LAW.dimension, dtype=F64)
    before = LAW.covariances + sigma_next**2 * eye
    gain = before @ torch.linalg.inv(before + v * eye)
    e = x.unsqueeze(1) - LAW.means  # (n, K, D)
    means = LAW.means + torch.einsum("kab,nkb->nka", gain, e)
    within = before - gain @ before
    r = LAW.smoothed(sigma).responsibilities(x)
    mean = torch.einsum("nk,nka->na", r, means)
    d = means - mean.unsqueeze(1)
    return mean, torch.einsum("nk,nkab->nab", r, d.unsqueeze(-1) * d.unsqueeze(-2) + within)


@pytest.mark.parametrize(("sigma", "sigma_next"), STEPS)
def test_a_step_has_the_moments_of_the_exact_law(sigma, sigma_next):
    x = noisy(sigma)
    mean, covariance = exact_moments(x, sigma, sigma_next)
    for model, kind in ((ExactScores(LAW), LowRank()), (ExactScores(LAW, 4), LowRank())):
        step = kind.step(model, x, sigma, sigma_next)
        found = step.covariance
        dense = found if isinstance(found, torch.Tensor) else found.to_dense()
        torch.testing.assert_close(step.mean, mean, **ILL_CONDITIONED)
        torch.testing.assert_close(dense, covariance, **ILL_CONDITIONED)


@pytest.mark.parametrize(("sigma", "sigma_next"), STEPS)
@pytest.mark.parametrize("rank", [None, 2])
def test_the_diagonal_is_that_of_the_exact_law(sigma, sigma_next, rank):
    x = noisy(sigma)
    _, covariance = exact_moments(x, sigma, sigma_next)
    step = Diagonal().step(ExactScores(LAW, rank), x, sigma, sigma_next)
    assert step.covariance.rank == 0
    expected = covariance.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(diagonal_of(step.covariance), expected, **ILL_CONDITIONED)


def test_of_a_network_the_diagonal_comes_without_the_factor():
    torch.manual_seed(0)
    trunk = ConditionalMLP(4, 4, 16)
    model = ScoreModel(
        trunk, sigma=(0.1, 3.0), rank=2, parametrisation="denoiser", psd=True
    ).double()
    x = noisy(0.6)
    whole, part = (kind.step(model, x, 0.6, 0.1) for kind in (LowRank(), Diagonal()))
    torch.testing.assert_close(whole.mean, part.mean, **FLOAT64)
    expected = whole.covariance.diagonal()
    torch.testing.assert_close(part.covariance.diag, expected, **FLOAT64)


def test_autodiff_gives_the_exact_covariance():
    class ScoreOnly:
        """s1 in a form that can be differentiated."""

        def score(self, x, sigma):
            smooth = LAW.smoothed(sigma)
            _, gradients = smooth._components(x)
            return (smooth.responsibilities(x).unsqueeze(-1) * gradients).sum(1)

    x = noisy(0.6, 5)
    found = Exact().step(ScoreOnly(), x, 0.6, 0.1)
    mean, covariance = exact_moments(x, 0.6, 0.1)
    torch.testing.assert_close(found.mean, mean, **ILL_CONDITIONED)
    torch.testing.assert_close(found.covariance, covariance, **ILL_CONDITIONED)


def test_constants_are_those_of_ddpm():
    """In the units of x_t = alpha_t (x + sigma_t z): beta_t and beta-tilde_t of Ho et al."""
    schedule = VPLinear()
    t = torch.tensor([0.5, 0.3], dtype=F64)
    (alpha_t, alpha_s), (sigma_t, sigma_s) = schedule.alpha(t), schedule.sigma(t).tolist()
    x, model = noisy(1.0, 2), ExactScores(LAW)
    beta = 1 - alpha_t**2 / alpha_s**2
    large = Beta().step(model, x, sigma_t, sigma_s).covariance.diag * alpha_s**2
    small = BetaTilde().step(model, x, sigma_t, sigma_s).covariance.diag * alpha_s**2
    torch.testing.assert_close(large, beta.expand(2, 4), **ILL_CONDITIONED)
    shrunk = beta * (1 - alpha_s**2) / (1 - alpha_t**2)
    torch.testing.assert_close(small, shrunk.expand(2, 4), **ILL_CONDITIONED)


def test_the_constants_bound_the_optimal_one():
    x, model, sigmas = LAW.sample(2000, seeded(3)), ExactScores(LAW), torch.tensor([0.6, 0.1])
    fitted = OptimalIsotropic.fit(model, x.double(), sigmas.double(), seeded(4))
    point, steps = noisy(0.6, 1), {}
    wide = float(LAW.variance.max()) ** 0.5
    for kind in (BetaTilde(), fitted, Beta(data_std=wide)):
        sigma, sigma_next = sigmas.double().tolist()
        steps[kind] = float(kind.step(model, point, sigma, sigma_next).covariance.diag[0, 0])
    assert list(steps.values()) == sorted(steps.values())


def test_the_isotropic_constant_is_the_mean_trace():
    law = gaussian()
    sigma = torch.tensor([0.5, 0.0], dtype=F64)
    fitted = OptimalIsotropic.fit(ExactScores(law), law.sample(20_000, seeded()), sigma, seeded(1))
    precision = torch.linalg.inv(law.covariance + 0.25 * torch.eye(4, dtype=F64))
    expected = -float(precision.trace()) / 4
    # |s1|^2 is a sum of squares of normal numbers of variances the eigenvalues of the precision
    deviation = float((2 * torch.linalg.eigvalsh(precision).square().sum()) ** 0.5) / 4
    assert abs(fitted.curvatures[0.5] - expected) < monte_carlo(20_000, deviation)


def test_a_covariance_that_is_not_positive_is_repaired():
    s2 = torch.diag_embed(torch.tensor([[-9.0, -0.5]], dtype=F64))
    repaired = reverse_covariance(s2, 1.0, 0.1)
    assert (torch.linalg.eigvalsh(repaired) > 0).all()


def test_bad_arguments():
    x, model = noisy(0.6, 2), ExactScores(LAW, 1)
    with pytest.raises(ValueError, match="sigma_next must be at least 0 and below 0.6, got 0.7"):
        LowRank().step(model, x, 0.6, 0.7)
    with pytest.raises(ValueError, match="sigma must be one of 0.5, got 0.6"):
        OptimalIsotropic({0.5: -1.0}).step(model, x, 0.6, 0.1)
    with pytest.raises(ValueError, match="must return s2, got None"):
        LowRank().step(lambda x, sigma: (x, None), x, 0.6, 0.1)
    with pytest.raises(ValueError, match="data_std must be finite and above 0, got 0"):
        Beta(0.0)
