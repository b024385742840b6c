"""Local dimension: unbiased moments, known surfaces, FLIPD of exact laws, bad input."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

import hosm
from hosm.distributions import FiniteData, Gaussian, GaussianMixture
from hosm.estimator.closed_form import ClosedFormModel
from hosm.estimator.local_dimension import (
    _unbiased,
    dimension_by_rows,
    dimension_by_scores,
    kept_rows,
    local_dimension,
    standard_error,
)
from tests.tolerances import FLOAT64


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def rotated(points, dimension, seed=1):
    """Return points (n, d) in a random d-dimensional plane of R^D."""
    plane = torch.linalg.qr(normal(dimension, points.shape[1], seed=seed)).Q
    return points @ plane.mT


def sphere(n, d, seed=0):
    points = normal(n, d + 1, seed=seed)
    return points / points.norm(dim=1, keepdim=True)


def test_moments_are_means_over_distinct_rows():
    """They are the U-statistics of Himeno and Yamada, written out over distinct indices."""
    x = normal(6, 3).exp()
    pairs = [*itertools.permutations(range(6), 4)]
    i, j, k, m = torch.tensor(pairs).T
    a, b = x[i] - x[j], x[k] - x[m]
    size = (x - x.mean(0)).square().sum(1).mean() ** 2
    first = (a.square().sum(1) * b.square().sum(1)).mean() / 4
    second = (a * b).sum(1).square().mean() / 4
    found = _unbiased(x[None])
    torch.testing.assert_close(torch.cat(found) * size, torch.stack([first, second]), **FLOAT64)


def test_dimension_by_scores_of_a_gaussian():
    """For N(0, V) at the mean the trace of V (V + sigma^2)^-1 is left, and it tends to d."""
    variances = torch.tensor([1.0, 4.0, 0.0], dtype=torch.float64)
    for sigma in (1e-3, 0.5):
        law = Gaussian(torch.zeros(3).double(), torch.diag(variances + sigma**2))
        x = torch.zeros(1, 3, dtype=torch.float64)
        found = dimension_by_scores(law.score(x), law.hessian_diag(x).sum(1), sigma)
        truth = (variances / (variances + sigma**2)).sum()
        torch.testing.assert_close(found, truth[None], **FLOAT64)


def test_dimension_by_scores_is_the_slope_of_the_density():
    """D + d log q_sigma / d log sigma, by differences, of the law of rows under noise."""
    rows, x, sigma, step = FiniteData(normal(50, 3)), normal(5, 3, seed=1), 0.7, 1e-4
    law = rows.smoothed(sigma)
    found = dimension_by_scores(law.score(x), law.hessian_diag(x).sum(1), sigma)
    up, down = (rows.smoothed(sigma * np.exp(h)).log_prob(x) for h in (step, -step))
    # the error of central differences is step^2 = 1e-8 times a third derivative, O(1)
    torch.testing.assert_close(found, 3 + (up - down) / (2 * step), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("d", "D", "margin"),
    [(1, 2, 0.1), (2, 10, 0.2), (10, 40, 0.6), (20, 100, 1.0), (70, 100, 4.0)],
)
def test_planes(d, D, margin):
    """The margin is 5 % and more, twice what 1,000 rows give at the mean of the points."""
    found = local_dimension(rotated(normal(1000, d), D))
    assert abs(found.mean() - d) < margin


def test_curved_surfaces():
    t = 2 * np.pi * torch.rand(1000, generator=generator(), dtype=torch.float64)
    helix = torch.stack([t.cos(), t.sin(), t], 1)
    for points, d in ((helix, 1), (sphere(1000, 2), 2), (sphere(1000, 10), 10)):
        # 5 % of the dimension: three times what the mean over points misses here
        assert local_dimension(points).mean() == pytest.approx(d, rel=0.05)


def test_surfaces_of_two_dimensions():
    """A line and a ball apart from it: each row has the dimension of its own."""
    line = torch.nn.functional.pad(normal(300, 1), (0, 3))
    found = local_dimension(torch.cat([line, 9 + normal(300, 4, seed=2)]))
    # a tenth: no ball reaches from one to the other, so only the noise of 300 rows is left
    assert found[:300].mean() == pytest.approx(1, rel=0.1)
    # the same
    assert found[300:].mean() == pytest.approx(4, rel=0.1)


def test_units_and_rotations_do_not_matter():
    """Any units of the columns give the same answers: they are standardised first."""
    x = sphere(200, 3)
    scales = torch.tensor([1e-3, 1.0, 50.0, 7.0], dtype=torch.float64)
    # rows are held in float32, of seven digits
    np.testing.assert_allclose(local_dimension(x * scales + 5), local_dimension(x), rtol=1e-3)
    rows, turn = sphere(200, 3), torch.linalg.qr(normal(4, 4)).Q
    found = dimension_by_rows(rows @ turn, rows @ turn)
    torch.testing.assert_close(found, dimension_by_rows(rows, rows), **FLOAT64)


def test_a_row_is_no_neighbour_of_itself():
    """At a row the answer is that of the other rows; duplicates count once."""
    x = normal(60, 3)
    alone = dimension_by_rows(x[1:], x[:1], balls=1)
    torch.testing.assert_close(dimension_by_rows(x, x[:1], balls=1), alone, **FLOAT64)
    assert len(kept_rows(torch.cat([x, x[:30]]), 0)) == 60


def test_standard_errors():
    """They are as large as answers differ between tables, within a factor of two."""
    tables = [rotated(normal(400, 5, seed=s), 10) for s in range(10)]
    x = torch.zeros(1, 10, dtype=torch.float64)
    answers = torch.cat([dimension_by_rows(each, x) for each in tables])
    errors = torch.cat([standard_error(each, x) for each in tables])
    assert 0.5 < float(errors.square().mean().sqrt() / answers.std()) < 2


@pytest.fixture(scope="module")
def points():
    return rotated(normal(120, 2), 3).numpy()


@pytest.fixture(scope="module")
def estimator(points):
    settings = {"method": "network", "max_steps": 1, "rank": 1, "random_state": 0}
    with pytest.warns(UserWarning, match="determine each other"):
        return hosm.ScoreEstimator(0.1, **settings).fit(points)


def test_estimator_by_rows(estimator, points, tmp_path):
    found, error = estimator.local_dimension(points, return_std=True)
    np.testing.assert_allclose(found, hosm.local_dimension(points), rtol=1e-3)  # float32 rows
    assert found.shape == error.shape == (120,) and (error > 0).all()
    estimator.save(tmp_path / "m.hosm")
    loaded = hosm.ScoreEstimator.load(tmp_path / "m.hosm")
    assert_array_equal(loaded.local_dimension(points), found)


def by_scores(model, points):
    """Return the dimension from the derivatives that an estimator gives."""
    scale = model.scaling_.scale.numpy()
    s1, s2 = model.score_function(points) * scale, model.hessian_diag(points) * scale**2
    return 3 + model.sigma_**2 * (s2.sum(1) + (s1**2).sum(1))


def test_estimator_by_scores(estimator, points):
    found = estimator.local_dimension(points, method="scores")
    # points and scores are float32
    np.testing.assert_allclose(found, by_scores(estimator, points), rtol=1e-3)


def test_closed_form_by_scores(estimator, points):
    """A Gaussian that is fitted to a plane knows that it is one, but for sigma^2 / variance."""
    x = torch.from_numpy(points)
    y = estimator.scaling_.exactly(x)
    law = GaussianMixture(y.new_ones(1), y.mean(0)[None], y.mT.cov()[None]).smoothed(0.1)
    fitted = replace(estimator.fitted_, model=ClosedFormModel(law, None, 0.1))
    found = fitted.dimension_by_scores(x)
    # sigma^2 over a variance is 1 %, and rows far out add |s1|^2 of which the mean is small
    assert float(found.mean()) == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "x"}, "method must be one of rows, scores, got 'x'"),
        ({"method": "scores", "return_std": True}, "method must be rows for standard errors"),
        ({"neighbours": 3}, "neighbours must be a whole number of 4 or more, got 3"),
        ({"neighbours": 120}, "neighbours must be below the number of distinct rows, 120"),
        ({"balls": 0}, "balls must be a whole number of 1 or more, got 0"),
    ],
)
def test_bad_arguments(estimator, points, arguments, message):
    with pytest.raises(ValueError, match=message):
        estimator.local_dimension(points, **arguments)


def test_columns_must_agree():
    with pytest.raises(ValueError, match="X must have 3 columns, as rows do, got 2"):
        local_dimension(normal(5, 2), normal(20, 3))
