"""The covariance of a picture: windows of diagonal plus low rank, joined without seams."""

import math

import pytest
import torch

from hosm.pictures.covariance import WINDOW, draw, tapers, window_covariance

torch.manual_seed(0)
OWN = 0.1 + torch.rand(2, 40, 24, dtype=torch.float64)
SHARED = torch.randn(3, 2, 40, 24, dtype=torch.float64)


def cut(maps, top, left, height, width):
    return maps[..., top : top + height, left : left + width]


def dense(top=0, left=0, height=40, width=24):
    part = (top, left, height, width)
    return window_covariance(cut(OWN, *part), cut(SHARED, *part), top, left).to_dense()


@pytest.mark.parametrize("start, length", [(0, 1), (0, 40), (5, 16), (16, 16), (37, 99)])
def test_windows_of_an_axis_share_each_pixel_and_reach_two_grid_steps(start, length):
    found = tapers(start, length)
    assert torch.allclose(found.square().sum(0), torch.ones(length).double())
    assert (found.abs().sum(1) > 0).all() or start % WINDOW == 0
    whole = tapers(0, start + length)[:, start:]
    apart = found.T @ found, whole.T @ whole
    assert torch.allclose(*apart)


def test_the_diagonal_is_the_variance_of_each_pixel():
    variance = OWN + SHARED.square().sum(0)
    assert torch.allclose(dense().diagonal(), variance.flatten())


def test_the_law_of_a_part_is_that_of_the_whole_marginalised():
    index = cut(torch.arange(OWN.numel()).view(OWN.shape), 7, 3, 20, 18).flatten()
    assert torch.allclose(dense(7, 3, 20, 18), dense()[index][:, index])


def test_pixels_far_apart_are_independent_and_near_ones_are_not():
    matrix = dense().view(2, 40, 24, 2, 40, 24)
    assert (matrix[:, 0, 0, :, 2 * WINDOW :, :] == 0).all()
    near = (SHARED[:, 0, 0, 0] * SHARED[:, 0, 1, 0]).sum()
    # cos(pi / 32) = .995 is what the windows leave of neighbours
    assert torch.isclose(matrix[0, 0, 0, 0, 1, 0], near * math.cos(math.pi / 2 / WINDOW))


def test_draws_have_the_covariance_of_the_operator():
    part = (3, 5, 5, 4)
    own, shared = cut(OWN, *part), cut(SHARED, *part)
    generator = torch.Generator().manual_seed(1)
    drawn = draw(own, shared, 40_000, generator, top=3, left=5).flatten(1)
    wanted = dense(*part)
    scale = (wanted.diagonal().outer(wanted.diagonal()) + wanted.square()).sqrt()
    assert ((drawn.T @ drawn / len(drawn) - wanted).abs() / scale).max() < 5 / 200
