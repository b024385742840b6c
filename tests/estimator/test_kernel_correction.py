"""Kernels on a simple law: derivatives against automatic ones, and the loss against its mean."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import grad, hessian, vmap

from hosm.estimator.kernel_correction import Bumps, bumps_at, quadratic
from tests.tolerances import FLOAT64

DOUBLE = torch.float64


def _points(n: int, dimension: int, seed: int = 0) -> Tensor:
    return torch.randn(n, dimension, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def _bumps(dimension: int, scale: float) -> Bumps:
    bumps = bumps_at(_points(60, dimension), 0.7, scale, most=20)
    return bumps.with_weights(_points(bumps.size, 1, seed=1).flatten())


def _sum_of_kernels(bumps: Bumps) -> Callable[[Tensor], Tensor]:
    """Return the sum at one point, written out."""
    w = bumps.weights[: len(bumps.centres)]
    v = bumps.weights[len(bumps.centres) :].view(bumps.knots.shape[0], -1)

    def value(x: Tensor) -> Tensor:
        k = (-(x - bumps.centres).square().sum(1) / (2 * bumps.width**2)).exp()
        total = (w * k).sum()
        if bumps.scale:
            u = (x.unsqueeze(1) - bumps.knots) / bumps.widths.unsqueeze(1)
            total = total + bumps.scale * (v * (-u.square() / 2).exp()).sum()
        return total

    return value


@pytest.mark.parametrize("scale", [0.0, 0.5])
@pytest.mark.parametrize("dimension", [1, 3])
def test_derivatives_are_those_of_the_sum(dimension: int, scale: float) -> None:
    bumps, x = _bumps(dimension, scale), _points(30, dimension, seed=2)
    value = _sum_of_kernels(bumps)
    h = vmap(hessian(value))(x)
    torch.testing.assert_close(bumps.value(x), vmap(value)(x), **FLOAT64)
    torch.testing.assert_close(bumps.score(x), vmap(grad(value))(x), **FLOAT64)
    torch.testing.assert_close(bumps.hessian(x), h, **FLOAT64)
    torch.testing.assert_close(bumps.hessian_diagonal(x), h.diagonal(dim1=1, dim2=2), **FLOAT64)


@pytest.mark.parametrize("scale", [0.0, 0.5])
def test_the_quadratic_is_the_loss_of_score_matching(scale: float) -> None:
    bumps, x, s = _bumps(3, scale), _points(40, 3, seed=2), _points(40, 3, seed=3)
    loss, u = quadratic(bumps, x, s), bumps.weights
    moved = (s + bumps.score(x)).square().sum(1) / 2 - s.square().sum(1) / 2
    expected = (moved + bumps.hessian_diagonal(x).sum(1)).mean()
    torch.testing.assert_close(u @ loss.A @ u / 2 + loss.b @ u, expected, **FLOAT64)


def test_several_vectors_of_weights_at_once_are_each_alone() -> None:
    bumps, x = _bumps(2, 0.5), _points(10, 2, seed=2)
    several = torch.stack([bumps.weights, 2 * bumps.weights], 1)
    first, second = bumps.derivatives(x, several)
    torch.testing.assert_close(first[..., 1], 2 * bumps.score(x), **FLOAT64)
    torch.testing.assert_close(second[..., 0], bumps.hessian_diagonal(x), **FLOAT64)


def test_new_kernels_change_nothing() -> None:
    x = _points(50, 4)
    bumps = bumps_at(x, 1.0, 1.0)
    assert not bumps.score(x).any()
    assert not bumps.hessian_diagonal(x).any()
    assert bumps.size == 50 + bumps.knots.numel()
