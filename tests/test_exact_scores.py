"""The exact model: the scores of the smoothed law, at full rank and less, with sigma per point."""

import pytest
import torch

from hosm.distributions import GaussianMixture
from hosm.exact_scores import ExactScores, truncated
from hosm.tweedie import posterior_covariance
from tests.tolerances import FLOAT64


def law(dimension=6, terms=3):
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(terms, dimension, generator=generator, dtype=torch.float64)
    roots = torch.randn(terms, dimension, dimension, generator=generator, dtype=torch.float64)
    covariances = roots @ roots.mT / dimension + 0.1 * torch.eye(dimension, dtype=torch.float64)
    return GaussianMixture(torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64), means, covariances)


LAW = law()
X = LAW.smoothed(0.7).sample(40, torch.Generator().manual_seed(1))


def test_scores_are_those_of_the_smoothed_law():
    s1, s2 = ExactScores(LAW)(X, 0.7)
    assert torch.equal(s1, LAW.smoothed(0.7).score(X))
    assert torch.equal(s2, LAW.smoothed(0.7).hessian(X))
    full = ExactScores(LAW, 6)(X, 0.7)[1].to_dense()
    torch.testing.assert_close(full, s2, **FLOAT64)


def test_one_sigma_for_each_point():
    sigma = torch.tensor([0.3, 1.5], dtype=torch.float64).repeat(20)
    s1, s2 = ExactScores(LAW, 2)(X, sigma)
    low, s2_low = ExactScores(LAW, 2)(X[::2], 0.3)
    torch.testing.assert_close(s1[::2], low, **FLOAT64)
    torch.testing.assert_close(s2[::2].to_dense(), s2_low.to_dense(), **FLOAT64)
    torch.testing.assert_close(ExactScores(LAW).score(X, sigma), s1, **FLOAT64)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_a_truncated_matrix_keeps_diagonal_and_definiteness(rank):
    exact = LAW.smoothed(0.7).hessian(X)
    s2 = truncated(exact, rank)
    torch.testing.assert_close(s2.diagonal(), exact.diagonal(dim1=1, dim2=2), **FLOAT64)
    assert s2.rank == rank
    assert (torch.linalg.eigvalsh(posterior_covariance(s2, 0.7).to_dense()) > 0).all()


def test_more_rank_is_nearer():
    exact = LAW.smoothed(0.7).hessian(X)
    gaps = [(truncated(exact, k).to_dense() - exact).square().sum() for k in (0, 2, 4, 6)]
    assert gaps == sorted(gaps, reverse=True)


def test_bad_rank():
    with pytest.raises(ValueError, match="rank must be a whole number from 0 to 6, got 7"):
        ExactScores(LAW, 7)
