"""The covariance of a picture: windows of diagonal plus low rank, joined without seams."""

import math

import pytest
import torch

from hosm.pictures.covariance import REACHES, draw, tapers, window_covariance

torch.manual_seed(0)
OWN = 0.1 + torch.rand(2, 40, 24, dtype=torch.float64)
COLUMNS = len(REACHES) + 2  # so that reaches come round again
SHARED = torch.randn(COLUMNS, 2, 40, 24, dtype=torch.float64)


def cut(maps, top, left, height, width):
    return maps[..., top : top + height, left : left + width]


def dense(top=0, left=0, height=40, width=24):
    part = (top, left, height, width)
    return window_covariance(cut(OWN, *part), cut(SHARED, *part), top, left).to_dense()


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("start, length", [(0, 1), (0, 40), (5, 16), (16, 16), (37, 99)])
def test_windows_of_an_axis_share_each_pixel_and_reach_two_grid_steps(start, length, reach):
    found = tapers(start, length, reach)
    assert torch.allclose(found.square().sum(0), torch.ones(length).double())
    edges = (start, start + length - 1)  # a window whose centre is one step away adds zeros
    assert (found.abs().sum(1) > 0).all() or 0 in [edge % reach for edge in edges]
    whole = tapers(0, start + length, reach)[:, start:]
    apart = found.T @ found, whole.T @ whole
    assert torch.allclose(*apart)


def test_the_diagonal_is_the_variance_of_each_pixel():
    variance = OWN + SHARED.square().sum(0)
    assert torch.allclose(dense().diagonal(), variance.flatten())


def test_the_law_of_a_part_is_that_of_the_whole_marginalised():
    index = cut(torch.arange(OWN.numel()).view(OWN.shape), 7, 3, 20, 18).flatten()
    assert torch.allclose(dense(7, 3, 20, 18), dense()[index][:, index])


@pytest.mark.parametrize("k", range(COLUMNS))
def test_pixels_further_apart_than_twice_its_reach_share_nothing_of_a_column(k):
    reach = REACHES[k % len(REACHES)]
    shared = torch.zeros_like(SHARED)
    shared[k] = SHARED[k]
    matrix = window_covariance(OWN, shared).to_dense().view(2, 40, 24, 2, 40, 24)
    assert (matrix[:, 0, 0, :, 2 * reach :, :] == 0).all()
    near = SHARED[k, 0, 0, 0] * SHARED[k, 0, 1, 0]
    # what the windows leave of neighbours, at a pixel where a window has its centre
    assert torch.isclose(matrix[0, 0, 0, 0, 1, 0], near * math.cos(math.pi / 2 / reach))


def test_draws_have_the_covariance_of_the_operator():
    part = (3, 5, 5, 4)
    own, shared = cut(OWN, *part), cut(SHARED, *part)
    generator = torch.Generator().manual_seed(1)
    drawn = draw(own, shared, 40_000, generator, top=3, left=5).flatten(1)
    wanted = dense(*part)
    scale = (wanted.diagonal().outer(wanted.diagonal()) + wanted.square()).sqrt()
    # five standard errors of that many draws
    assert ((drawn.T @ drawn / len(drawn) - wanted).abs() / scale).max() < 5 / 200
