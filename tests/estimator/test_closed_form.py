"""Models in closed form: operators of any rank, columns."""

from dataclasses import replace

import pytest
import torch
from torch.func import hessian, vmap

from hosm.distributions import GaussianMixture
from hosm.estimator import closed_form
from hosm.estimator.closed_form import ClosedFormModel
from hosm.estimator.kernel_correction import bumps_at
from hosm.uncertainty import posterior
from tests.tolerances import FLOAT64, ILL_CONDITIONED

DOUBLE = torch.float64


@pytest.fixture(scope="module")
def x():
    return torch.randn(25, 3, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)


@pytest.fixture(scope="module")
def model(x):
    means = torch.tensor([[0.0, 0.0, 0.0], [1.0, -1.0, 0.5]], dtype=DOUBLE)
    covariances = (
        torch.eye(3, dtype=DOUBLE) * torch.tensor([0.5, 1.0], dtype=DOUBLE)[:, None, None]
    )
    law = GaussianMixture(torch.tensor([0.4, 0.6], dtype=DOUBLE), means, covariances)
    bumps = bumps_at(x, 1.0, 0.3, most=10)
    weights = torch.linspace(-0.5, 0.5, bumps.size, dtype=DOUBLE)
    return ClosedFormModel(law, bumps.with_weights(weights), 0.1, rank=3)


def test_matrices_are_derivatives_of_the_score(model, x):
    jacobian = vmap(torch.func.jacrev(lambda y: model.bumps.score(y[None])[0]))(x)
    jacobian = jacobian + vmap(hessian(lambda y: model.law._log_prob(y[None])[0]))(x)
    torch.testing.assert_close(model.matrices(x), jacobian, **FLOAT64)


def test_the_score_is_the_gradient_of_the_log_density(model, x):
    for each in (model, replace(model, bumps=None)):
        y = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(each.log_density(y).sum(), y)
        torch.testing.assert_close(each.score(x), gradient, **FLOAT64)


def test_the_log_density_is_that_of_the_law_and_the_kernels(model, x):
    alone = replace(model, bumps=None).log_density(x)
    torch.testing.assert_close(model.log_density(x) - alone, model.bumps.value(x), **FLOAT64)
    assert not replace(model, bumps=None).correction(x).any()


def test_an_operator_of_full_rank_is_the_matrix(model, x):
    torch.testing.assert_close(
        model.second_order(x).to_dense(), model.matrices(x), **ILL_CONDITIONED
    )


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_an_operator_of_any_rank_has_the_exact_diagonal(model, x, rank):
    operator = replace(model, rank=rank).second_order(x)
    torch.testing.assert_close(operator.diagonal(), model.diagonal(x), **ILL_CONDITIONED)
    assert operator.factor.shape == (25, 3, rank)


def test_columns_and_diagonals_are_those_of_the_matrix(model, x):
    matrices = model.matrices(x)
    torch.testing.assert_close(model.column(x, 1), matrices[:, :, 1], **FLOAT64)
    torch.testing.assert_close(model.diagonal(x), matrices.diagonal(dim1=1, dim2=2), **FLOAT64)


def test_scores_have_the_type_of_the_points(model, x):
    assert model.score(x.float()).dtype == torch.float32
    assert model.score(x).dtype == DOUBLE


def test_points_are_answered_in_parts_that_fit_into_memory(model, x, monkeypatch):
    score, diagonal = model.score(x), model.diagonal(x)
    monkeypatch.setattr(closed_form, "NUMBERS_PER_CHUNK", 24)  # four points at a time
    assert len(model._rows(x)) == 7
    torch.testing.assert_close(model.score(x), score, **FLOAT64)
    torch.testing.assert_close(model.diagonal(x), diagonal, **FLOAT64)


def _smooth_field(rank):
    """A smooth Gaussian field of 24 places under noise of .7: few directions are uncertain."""
    apart = torch.arange(24.0, dtype=DOUBLE).unsqueeze(1) - torch.arange(24.0, dtype=DOUBLE)
    clean = (-apart.square() / 32).exp() + 1e-3 * torch.eye(24, dtype=DOUBLE)
    law = GaussianMixture(torch.ones(1).double(), torch.zeros(1, 24).double(), clean[None])
    return law, ClosedFormModel(law.smoothed(0.7), None, 0.7, rank=rank)


@pytest.mark.parametrize("rank", [4, 8])
def test_a_posterior_of_few_columns_has_the_variances_of_the_law_and_clips_nothing(rank):
    clean, model = _smooth_field(rank)
    noisy = clean.smoothed(0.7).sample(5, torch.Generator().manual_seed(1))

    def both(y):
        return model.score(y), model.positive_second_order(y)

    found = posterior(both, noisy, 0.7)
    exact = 0.7**2 * torch.eye(24).double() + 0.7**4 * model.matrices(noisy)
    torch.testing.assert_close(found.variance, exact.diagonal(dim1=1, dim2=2))
    assert not found.clipped_share.any()
    before = posterior(model, noisy, 0.7)  # what few columns that are subtracted would give
    assert bool((before.clipped_share > 0.1).all())
    # off the diagonal eight columns have most of a field that has about six directions
    error = (found.covariance.to_dense() - exact).square().sum((1, 2))
    alone = (torch.diag_embed(found.variance) - exact).square().sum((1, 2))
    assert bool((error < (0.3 if rank == 4 else 0.01) * alone).all())


def test_where_columns_that_are_subtracted_leave_a_covariance_nothing_changes(model, x):
    for rank in (0, 1, 2, 3):
        each = replace(model, rank=rank)
        found, known = each.positive_second_order(x), each.second_order(x)
        torch.testing.assert_close(found.to_dense(), known.to_dense(), **ILL_CONDITIONED)
