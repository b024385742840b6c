"""Shrinking s2 towards a constant: shares that are known, beside exact scores."""

import math

import pytest
import torch

from hosm.distributions import GaussianMixture
from hosm.experiment.accuracy.study.shrinkage import _share, shrunk
from hosm.operators import DiagonalPlusLowRank

SIGMA = 0.3
LAW = GaussianMixture(
    torch.tensor([0.5, 0.5]).double(),
    torch.tensor([[1.2, 0.0], [-1.2, 0.5]]).double(),
    torch.tensor([[0.5, 0.3], [0.4, 0.6]]).double().diag_embed(),
)
NOISY = LAW.smoothed(SIGMA)


class Model:
    """The exact score, and a function of the exact diagonal of s2 and of the points."""

    def __init__(self, second):
        self.second = second

    def score(self, x):
        return NOISY.score(x)

    def second_order(self, x):
        return DiagonalPlusLowRank.from_diagonal(self.second(NOISY.hessian_diag(x), x))


def rows(count, seed):
    return LAW.sample(count, torch.Generator().manual_seed(seed))


def error(model):
    x = rows(2000, 9)
    x = x + SIGMA * torch.randn(x.shape, generator=torch.Generator().manual_seed(10)).double()
    return float((model.second_order(x).diagonal() - NOISY.hessian_diag(x)).square().sum(1).mean())


def fitted(second):
    return shrunk(Model(second), rows(2000, 1), rows(2000, 2), SIGMA)


def test_an_exact_s2_stays():
    found = fitted(lambda h, x: h)
    assert found.share > 0.9 and error(found) < 0.05 * error(fitted(lambda h, x: 0 * h))


def test_an_s2_that_varies_twice_too_much_about_a_wrong_mean_is_mended():
    found = fitted(lambda h, x: 2 * h + 3)
    # two to three standard errors of a share of 2,000 rows, and far from 0 and 1
    assert found.share == pytest.approx(0.5, abs=0.12)
    assert error(found) < 0.03 * error(Model(lambda h, x: 2 * h + 3))


def test_variation_that_means_nothing_goes():
    """A wave of the points that is finer than the law has nothing to do with its Hessian."""
    found = fitted(lambda h, x: 4 * torch.sin(40 * x) + 5)
    assert found.share < 0.05
    assert error(found) < 0.1 * error(found.model)


def test_the_share_is_that_of_least_squares():
    def second(h, x):
        return h + torch.cos(3 * x)

    x, model = rows(20000, 3), Model(second)
    z = torch.randn(x.shape, generator=torch.Generator().manual_seed(4)).double()
    h = NOISY.hessian_diag(x + SIGMA * z)
    f = second(h, x + SIGMA * z)
    f = f - (mean := f.mean(0))
    exact = float((f * h).sum() / f.square().sum())
    # three standard errors of a share of 20,000 rows: 16 of 10,000 rows differed by .048
    assert _share(model, mean, rows(20000, 5), SIGMA, 6) == pytest.approx(exact, abs=0.1)


def test_an_s2_that_is_constant_becomes_the_mean_target():
    found = fitted(lambda h, x: torch.ones_like(h))
    assert found.share == 0.0
    x = rows(20000, 7)
    mean = NOISY.hessian_diag(x + SIGMA * torch.randn(x.shape).double()).mean(0)
    # 2,000 rows: four standard errors
    torch.testing.assert_close(found.centre, mean, atol=4 * 1.5 / math.sqrt(2000), rtol=0)
