"""Gaussian steps against dense algebra: draws, densities, divergences, and repair of a matrix."""

import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from hosm.diffusion.gaussian_steps import GaussianStep, positive_part, trace_of_inverse
from hosm.operators import DiagonalPlusLowRank
from tests.diffusion.laws import F64, seeded
from tests.tolerances import FLOAT64, ILL_CONDITIONED, monte_carlo


def operator(n=5, dimension=6, rank=2, signs=None):
    diag = 0.5 + torch.rand(n, dimension, generator=seeded(1), dtype=F64)
    factor = torch.randn(n, dimension, rank, generator=seeded(2), dtype=F64)
    return DiagonalPlusLowRank(diag, factor / 2 if signs is None else factor / 8, signs)


MIXED = operator(signs=torch.tensor([1.0, -1.0], dtype=F64))
OPERATORS = [operator(), operator(rank=0), MIXED]
IDS = ["low rank", "diagonal", "mixed signs"]


def dense_law(mean, covariance):
    return MultivariateNormal(mean, covariance)


@pytest.mark.parametrize("covariance", OPERATORS, ids=IDS)
def test_algebra_is_that_of_dense_matrices(covariance):
    mean, x = (torch.randn(5, 6, generator=seeded(k), dtype=F64) for k in (3, 4))
    dense = covariance.to_dense()
    law = dense_law(mean, dense)
    other = dense_law(x, 0.3 * torch.eye(6, dtype=F64).expand(5, 6, 6))
    inverse = torch.linalg.inv(dense).diagonal(dim1=1, dim2=2).sum(-1)
    for form in (covariance, dense):
        step = GaussianStep(mean, form)
        torch.testing.assert_close(trace_of_inverse(form), inverse, **ILL_CONDITIONED)
        torch.testing.assert_close(step.log_density(x), law.log_prob(x), **ILL_CONDITIONED)
        found = step.divergence(x, 0.3)
        torch.testing.assert_close(found, kl_divergence(other, law), **ILL_CONDITIONED)


@pytest.mark.parametrize("covariance", OPERATORS, ids=IDS)
@pytest.mark.parametrize("dense", [False, True])
def test_draws_have_the_law(covariance, dense):
    count = 40_000
    one = covariance[:1].to_dense()
    form = one.expand(count, 6, 6) if dense else covariance[torch.zeros(count, dtype=torch.long)]
    mean = torch.arange(6, dtype=F64)
    draws = GaussianStep(mean.expand(count, 6), form).sample(seeded())
    # four standard errors of means and of products, whose deviation is at most 2^(1/2) times that
    bound = monte_carlo(count, float(2**0.5 * one.abs().max()))
    assert (draws.mean(0) - mean).abs().max() < bound
    assert (draws.mT.cov() - one[0]).abs().max() < bound


def test_a_positive_matrix_stays_and_another_is_repaired():
    positive = operator()
    assert positive_part(positive) is positive
    dense = positive.to_dense()
    assert positive_part(dense) is dense
    wrong = positive.add_diagonal(-1.2)
    for form in (wrong, wrong.to_dense()):
        repaired = positive_part(form)
        matrix = repaired if isinstance(repaired, torch.Tensor) else repaired.to_dense()
        assert (torch.linalg.eigvalsh(matrix) > 0).all()
        torch.testing.assert_close(matrix, matrix.mT, **FLOAT64)
