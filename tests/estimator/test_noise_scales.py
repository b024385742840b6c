"""Noise scales by default: finer ones where a table is thin, so that derivatives are near."""

import numpy as np
import pytest
import torch

import hosm
from hosm.estimator.noise_scales import FINER, SCALES, scales_to_try, thinnest
from tests.tolerances import ILL_CONDITIONED

SIDES = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64) / 2**0.5


def _turned(thin, n=400):
    """Points of standard deviations about 1 and exactly `thin` in two oblique directions."""
    points = torch.randn(n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    points = points - points.mean(0)
    factor = torch.linalg.cholesky(points.mT @ points / n)
    white = torch.linalg.solve_triangular(factor, points.mT, upper=False).mT
    return (white * torch.tensor([1.0, thin], dtype=torch.float64)) @ SIDES


@pytest.mark.parametrize("thin", [0.5, 0.01])
def test_the_thinnest_direction_is_found_wherever_the_points_lie(thin):
    points = _turned(thin)
    np.testing.assert_allclose(thinnest(points), thin, **ILL_CONDITIONED)
    np.testing.assert_allclose(thinnest(points + 3), thin, **ILL_CONDITIONED)


@pytest.mark.parametrize(
    ("thin", "finer"),
    [
        (0.5, ()),
        (0.11, ()),
        (0.09, (0.005,)),
        (0.03, (0.002, 0.005)),
        (0.0015, (0.001, 0.002, 0.005)),
        (0.0005, ()),  # as thin as no mixture can be: the rows fill no volume
    ],
)
def test_finer_scales_are_tried_until_one_is_small_beside_the_thinnest_direction(thin, finer):
    assert scales_to_try(_turned(thin)) == (*finer, *SCALES)
    assert set(finer) <= set(FINER)


def test_second_derivatives_of_a_thin_table_are_those_of_its_law():
    points = _turned(0.01, n=300)
    with pytest.warns(UserWarning, match="Hessian is constant"):  # as it truly is
        fitted = hosm.ScoreEstimator(random_state=0).fit(points.numpy())
    true = -torch.linalg.inv(points.mT @ points / len(points)).numpy()
    # noise of a tenth of the thin direction biases by 1 %, and the mixture's floor by as much
    np.testing.assert_allclose(fitted.hessian(points.numpy()[:5], dense=True)[0], true, rtol=0.05)
    assert fitted.sigma_ < min(SCALES)
    with pytest.warns(UserWarning, match="Hessian is constant"):
        given = hosm.ScoreEstimator(sigma=[0.01, 0.1], random_state=0).fit(points.numpy())
    assert given.sigma_ in (0.01, 0.1)
