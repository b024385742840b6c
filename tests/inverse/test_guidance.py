"""Rivals: each against its formula with dense matrices, where the denoiser is linear."""

import pytest
import torch

from hosm.distributions import Gaussian
from hosm.inverse import projections
from hosm.inverse.guidance import RIVALS, Problem, differentiable
from tests.tolerances import ILL_CONDITIONED

DOUBLE, D, SIGMA, NEXT, NOISE, TAU, ZETA = torch.float64, 6, 0.8, 0.5, 0.3, 1.3, 0.7


@pytest.fixture
def case():
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(D, D, generator=generator, dtype=DOUBLE)
    law = Gaussian(torch.ones(D, dtype=DOUBLE), root @ root.mT + torch.eye(D, dtype=DOUBLE))
    A = torch.rand(3, D, generator=generator, dtype=DOUBLE)
    x = torch.randn(4, D, generator=generator, dtype=DOUBLE)
    y = torch.randn(4, 3, generator=generator, dtype=DOUBLE)
    given = differentiable(lambda p, sigma: law.smoothed(sigma).score(p), x, SIGMA)
    J = law.covariance @ torch.linalg.inv(law.covariance + SIGMA**2 * torch.eye(D).double())
    return given, Problem(projections(A), y, NOISE, TAU, ZETA, 50), law, A, J, x, y


def test_the_denoiser_and_its_products(case):
    given, _, law, _, J, x, _ = case
    torch.testing.assert_close(given.mean, law.mean + (x - law.mean) @ J.mT, **ILL_CONDITIONED)
    v = torch.randn(4, D, dtype=DOUBLE)
    torch.testing.assert_close(given.pull(v), v @ J, **ILL_CONDITIONED)


def weights(name, A, J, r):
    """V^-1 r of each method."""
    one = torch.eye(3, dtype=DOUBLE)
    V = {
        "pigdm": A @ A.mT / (1 / SIGMA**2 + 1 / TAU**2),
        "tmpd": SIGMA**2 * torch.diag((A @ J @ A.mT).sum(0).clamp_min(0)),
        "mmps": SIGMA**2 * A @ J @ A.mT,
    }[name]
    return torch.linalg.solve(V + NOISE**2 * one, r.mT).mT


@pytest.mark.parametrize("name", ["pigdm", "tmpd", "mmps"])
def test_the_guided_mean_is_that_of_dense_matrices(name, case):
    given, problem, _, A, J, _, y = case
    r = y - given.mean @ A.mT
    expected = given.mean + ZETA * SIGMA**2 * weights(name, A, J, r) @ A @ J
    found = RIVALS[name](given, problem, SIGMA, NEXT)
    # conjugate gradients stop at a relative residual of 4e-11
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_dps_moves_the_next_point_along_the_gradient_of_the_residual(case):
    """The ancestral step from m + change is the step from m plus the paper's move."""
    given, problem, law, A, _, x, y = case
    points = x.clone().requires_grad_()
    means = points + SIGMA**2 * law.smoothed(SIGMA).score(points)
    norms = (y - means @ A.mT).norm(dim=1)
    (gradient,) = torch.autograd.grad(norms.sum(), points)
    change = RIVALS["dps"](given, problem, SIGMA, NEXT) - given.mean
    move = (1 - (NEXT / SIGMA) ** 2) * change
    expected = -ZETA * (1 + (SIGMA / TAU) ** 2) * gradient
    torch.testing.assert_close(move, expected, **ILL_CONDITIONED)
