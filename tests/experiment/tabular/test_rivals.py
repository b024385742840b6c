"""Simple answers: their derivatives against dense twins, differences and known laws."""

import pytest
import torch

from hosm.distributions import GaussianMixture
from hosm.estimator.shrunk_covariance import shrunk_covariance
from hosm.experiment.tabular.study import rivals
from tests.tolerances import FLOAT64

DOUBLE = torch.float64


@pytest.fixture
def rows():
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    return x * torch.tensor([1.0, 0.5, 2.0], dtype=DOUBLE) + (x[:, :1] > 0) * 2


def differences(fitted, x, noise, h=1e-5):
    """The symmetric part of the Jacobian of a score by central differences, (n, D, D)."""
    steps = h * torch.eye(x.shape[1], dtype=x.dtype)
    columns = [(fitted(x + s, noise).score - fitted(x - s, noise).score) / (2 * h) for s in steps]
    jacobian = torch.stack(columns, 2)
    return (jacobian + jacobian.mT) / 2


@pytest.mark.parametrize(
    "fit", [rivals.ledoit_wolf, rivals.mixture, rivals.kernel_density, rivals.stein]
)
def test_hessians_are_derivatives_of_the_scores(fit, rows):
    fitted, noise = fit(rows, 0), torch.tensor([0.1, 0.2, 0.3], dtype=DOUBLE)
    x = rows[:10] + 0.3
    found = fitted(x, noise).hessian
    scale = float(found.abs().max())
    # differences err by h^2 = 1e-10 times third derivatives, and by rounding over h
    torch.testing.assert_close(found, differences(fitted, x, noise), rtol=0, atol=1e-5 * scale)


def test_a_kernel_density_is_an_equal_mixture(rows):
    noise, width = torch.tensor([0.1, 0.2, 0.3], dtype=DOUBLE), 0.4
    covariances = (width**2 + noise).diag().expand(len(rows), 3, 3)
    dense = GaussianMixture(torch.full((len(rows),), 1 / len(rows)).double(), rows, covariances)
    found, x = rivals.Kernels(rows, width)(rows[:9], noise), rows[:9]
    torch.testing.assert_close(found.score, dense.score(x), **FLOAT64)
    torch.testing.assert_close(found.hessian, dense.hessian(x), **FLOAT64)


def test_the_gaussian_is_that_of_ledoit_and_wolf(rows):
    found = rivals.ledoit_wolf(rows, 0)
    inverse = torch.linalg.inv(shrunk_covariance(rows))
    answer = found(rows[:4], torch.zeros(3, dtype=DOUBLE))
    torch.testing.assert_close(answer.hessian, -inverse.expand(4, 3, 3), **FLOAT64)


def test_stein_at_the_rows_is_the_estimator_of_li_and_turner(rows):
    width, penalty = 1.3, 1e-2
    found = rivals._stein(rows, width, [penalty])[0]
    k = (-torch.cdist(rows, rows).square() / (2 * width**2)).exp()
    pull = torch.einsum("mn,mnd->md", k, rows.unsqueeze(1) - rows)
    ridge = k + len(rows) * penalty * torch.eye(len(rows), dtype=DOUBLE)
    expected = -torch.linalg.inv(ridge) @ pull / width**2
    torch.testing.assert_close(found.scores, expected, rtol=1e-7, atol=1e-9)  # of two solvers
    there = found(rows, torch.zeros(3, dtype=DOUBLE)).score
    torch.testing.assert_close(there, expected, rtol=1e-6, atol=1e-7)  # over the penalty


def test_many_rows_of_a_mixture_give_its_scores():
    law = GaussianMixture(
        torch.tensor([0.4, 0.6], dtype=DOUBLE),
        torch.tensor([[-2.0, 0.0], [2.0, 1.0]], dtype=DOUBLE),
        torch.stack([torch.eye(2, dtype=DOUBLE), 0.5 * torch.eye(2, dtype=DOUBLE)]),
    )
    x = law.sample(4000, torch.Generator().manual_seed(0))
    points, none = x[:200], torch.zeros(2, dtype=DOUBLE)
    size = float(law.score(points).square().sum(1).mean())
    for fit, bound in ((rivals.mixture, 0.02), (rivals.kernel_density, 0.5), (rivals.stein, 0.3)):
        error = (fit(x, 0)(points, none).score - law.score(points)).square().sum(1).mean()
        assert float(error) < bound * size  # of the score 0


def test_a_network_answers_by_differentiation(rows):
    fitted = rivals.Network(lambda x: -x * x.square().sum(1, keepdim=True))
    x = rows[:5]
    expected = -torch.eye(3, dtype=DOUBLE) * x.square().sum(1).view(-1, 1, 1)
    expected = expected - 2 * x.unsqueeze(2) * x.unsqueeze(1)
    found = fitted(x, torch.zeros(3, dtype=DOUBLE))
    torch.testing.assert_close(found.hessian, expected, rtol=1e-4, atol=1e-4)  # in float32
    assert found.score.dtype == DOUBLE and not fitted.smooths
