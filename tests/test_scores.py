"""Score models and second-order scores by differentiation, against exact laws and dense twins."""

import pytest
import torch
from torch import nn

from hosm.autodiff import jacobian_vector_product
from hosm.distributions import Gaussian, GaussianMixture
from hosm.networks import MLP
from hosm.scores import (
    ScoreModel,
    autodiff_hessian,
    hutchinson_diagonal,
)

DOUBLE = torch.float64


@pytest.fixture
def mixture():
    means = torch.tensor([[-1.0, 0.5, 0.0], [1.0, 0.0, 0.3]], dtype=DOUBLE)
    covariances = torch.stack([torch.eye(3, dtype=DOUBLE), torch.eye(3, dtype=DOUBLE) * 0.5])
    return GaussianMixture(torch.tensor([0.4, 0.6], dtype=DOUBLE), means, covariances)


def points(n=5, dimension=3):
    return torch.randn(n, dimension, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)


@pytest.mark.parametrize("chunk_size", [None, 1, 2, 7])
def test_autodiff_hessian_of_an_exact_score_is_the_exact_hessian(mixture, chunk_size):
    x = points()
    estimate = autodiff_hessian(mixture.score, x, chunk_size)
    torch.testing.assert_close(estimate, mixture.hessian(x), rtol=1e-8, atol=1e-10)


def test_autodiff_hessian_is_symmetrised():
    skew = torch.tensor([[0.0, 1.0], [-3.0, 2.0]], dtype=DOUBLE)
    estimate = autodiff_hessian(lambda x: x @ skew.T, points(3, 2))
    expected = torch.tensor([[0.0, -1.0], [-1.0, 2.0]], dtype=DOUBLE)
    torch.testing.assert_close(estimate, expected.expand(3, 2, 2))


def test_jacobian_vector_product_exact_and_by_difference(mixture):
    x, v = points(), points().sign()
    expected = (mixture.hessian(x) @ v.unsqueeze(-1)).squeeze(-1)
    exact = jacobian_vector_product(mixture.score, x, v)
    torch.testing.assert_close(exact, expected, rtol=1e-9, atol=1e-11)
    for value in (None, mixture.score(x)):
        near = jacobian_vector_product(mixture.score, x, v, 1e-6, value=value)
        torch.testing.assert_close(near, expected, rtol=1e-4, atol=1e-4)


def test_hutchinson_diagonal_is_unbiased_within_four_standard_errors(mixture):
    x, generator = points(2), torch.Generator().manual_seed(0)
    draws = torch.stack([hutchinson_diagonal(mixture.score, x, 1, generator) for _ in range(2000)])
    error = draws.mean(0) - mixture.hessian_diag(x)
    assert (error.abs() <= 4 * draws.std(0) / 2000**0.5 + 1e-12).all()
    mean = hutchinson_diagonal(mixture.score, x, 50, generator)
    assert (mean - mixture.hessian_diag(x)).abs().max() < draws.std(0).max()


def model(rank=2, shared=True, **options):
    outputs = 2 + rank if shared else 1
    second = None if shared else MLP(3, 1 + rank, width=8)
    return ScoreModel(MLP(3, outputs, width=8), second, rank=rank, **options)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("rank", [0, 2])
def test_model_returns_s1_and_a_structured_s2(shared, rank):
    net = model(rank, shared, sigma=0.1)
    x = points().float()
    s1, s2 = net(x)
    assert s1.shape == (5, 3) and s2.diag.shape == (5, 3) and s2.factor.shape == (5, 3, rank)
    torch.testing.assert_close(net.score(x), s1)


def test_a_first_order_model_has_no_s2():
    net = ScoreModel(MLP(3, 1, width=8), sigma=0.1)
    assert net(points().float())[1] is None


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0])
def test_psd_head_gives_a_covariance_whatever_the_network_says(sigma):
    net = model(parametrisation="denoiser", psd=True, sigma=sigma).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(20)
        s2 = net(3 * points(50))[1].to_dense()
    precision = s2 + torch.eye(3, dtype=DOUBLE) / sigma**2
    assert torch.linalg.eigvalsh(precision).min() > -1e-6 * precision.abs().max()


@pytest.mark.parametrize("psd", [False, True])
def test_denoiser_is_exact_on_a_gaussian_when_its_network_returns_zero(psd):
    """The preconditioning's skip is the posterior of N(0, data_std^2 I)."""
    options = {"parametrisation": "denoiser", "data_std": 1.3, "psd": psd}
    net = ScoreModel(MLP(3, 3, width=4), sigma=0.7, rank=1, **options)
    nn.init.zeros_(net.trunk.layers[-1].weight)
    nn.init.zeros_(net.trunk.layers[-1].bias)
    law = Gaussian(torch.zeros(3), 1.3**2 * torch.eye(3)).smoothed(0.7)
    x = points().float()
    torch.testing.assert_close(net.score(x), law.score(x))
    torch.testing.assert_close(net(x)[1].to_dense(), law.hessian(x))


def test_illegal_use_is_named():
    net = model(sigma=0.1)
    with pytest.raises(ValueError, match=r"\(n, 3\), got \(5, 2\)"):
        net(torch.zeros(5, 2))
    with pytest.raises(ValueError, match="trained at sigma 0.1, got 0.2"):
        net(torch.zeros(5, 3), 0.2)
    with pytest.raises(ValueError, match=r"0\.\.3, got 4"):
        model(4, sigma=0.1)
    with pytest.raises(ValueError, match="psd=True needs"):
        model(sigma=0.1, psd=True)
    with pytest.raises(ValueError, match="parametrisation must be"):
        model(sigma=0.1, parametrisation="both")
    with pytest.raises(ValueError, match="data_std"):
        model(sigma=0.1, data_std=0.0)
    with pytest.raises(ValueError, match="chunk_size"):
        autodiff_hessian(net.score, torch.zeros(2, 3), 0)
    with pytest.raises(ValueError, match="shape"):
        autodiff_hessian(net.score, torch.zeros(3))
    with pytest.raises(ValueError, match="probes"):
        hutchinson_diagonal(net.score, torch.zeros(2, 3), 0)
