"""Conjugate gradients against dense solves, with and without a preconditioner."""

import pytest
import torch

from hosm.inverse import conjugate_gradients
from tests.tolerances import ILL_CONDITIONED

DOUBLE = torch.float64


@pytest.fixture
def systems():
    generator = torch.Generator().manual_seed(0)
    factor = torch.randn(6, 8, 8, generator=generator, dtype=DOUBLE)
    matrices = factor @ factor.mT + torch.eye(8, dtype=DOUBLE)
    matrices[0] = torch.eye(8)  # converges at once, while the others go on
    return matrices, torch.randn(6, 8, generator=generator, dtype=DOUBLE)


def products(matrices):
    return lambda u: (matrices @ u.unsqueeze(-1)).squeeze(-1)


def test_solutions_are_those_of_a_dense_solver(systems):
    matrices, b = systems
    found = conjugate_gradients(products(matrices), b, tolerance=1e-13)
    torch.testing.assert_close(found.values, torch.linalg.solve(matrices, b), **ILL_CONDITIONED)
    # what was asked for
    assert found.converged and found.residual <= 1e-13


def test_the_right_preconditioner_takes_one_iteration(systems):
    matrices, b = systems
    found = conjugate_gradients(products(matrices), b, products(torch.linalg.inv(matrices)))
    assert found.iterations == 1 and found.converged
    torch.testing.assert_close(found.values, torch.linalg.solve(matrices, b), **ILL_CONDITIONED)


def test_a_diagonal_preconditioner_saves_iterations():
    scales = torch.logspace(0, 6, 40, dtype=DOUBLE)
    near = torch.diag(scales) + 0.1 * torch.ones(40, 40, dtype=DOUBLE)
    b = torch.ones(1, 40, dtype=DOUBLE)
    plain = conjugate_gradients(products(near[None]), b)
    found = conjugate_gradients(products(near[None]), b, lambda r: r / scales)
    assert found.converged and 3 * found.iterations < plain.iterations


def test_zero_is_the_solution_of_zero(systems):
    matrices, b = systems
    found = conjugate_gradients(products(matrices), torch.zeros_like(b))
    assert found.converged and bool((found.values == 0).all())


def test_too_few_iterations_are_told(systems):
    matrices, b = systems
    found = conjugate_gradients(products(matrices), b, iterations=2)
    assert not found.converged and found.iterations == 2
    with pytest.raises(ValueError, match="iterations must be a whole number of 1 or more, got 0"):
        conjugate_gradients(products(matrices), b, iterations=0)
