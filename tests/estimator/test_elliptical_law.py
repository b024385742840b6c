"""The elliptical law against laws whose scores are known, and on points that could break it."""

import numpy as np
import pytest
import torch

from hosm.estimator.elliptical_law import SCALES, elliptical_law
from hosm.estimator.simple_laws import SimpleLaw
from tests.tolerances import FLOAT64

FACTOR = torch.tensor([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, -0.5, 0.7]], dtype=torch.float64)
MEAN = torch.tensor([0.5, -1.0, 0.0], dtype=torch.float64)


def _normal(n, seed, columns=3):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, columns, generator=generator, dtype=torch.float64)


def _student(n, freedom, seed=0):
    chi = _normal(n, seed + 1, freedom).square().sum(1, keepdim=True)
    return MEAN + _normal(n, seed) @ FACTOR.mT * (freedom / chi).sqrt()


def _score(x, freedom):
    """Return the score of Student's t, -(freedom + D) P d / (freedom + d^T P d)."""
    centred = x - MEAN
    pulled = centred @ torch.cholesky_inverse(FACTOR)
    distance = (centred * pulled).sum(1, keepdim=True)
    return -(freedom + 3) * pulled / (freedom + distance)


@pytest.mark.parametrize("freedom", [2, 3, 10])
def test_it_has_the_score_of_students_t_whatever_its_degrees_of_freedom(freedom):
    x, new = _student(20_000, freedom), _student(2000, freedom, seed=5)
    truth = _score(new, freedom)
    error = (elliptical_law(x).score(new) - truth).square().sum() / truth.square().sum()
    # .001 to .012 for four seeds; a Gaussian has .07 with ten degrees of freedom, and up to 1.7
    assert error < 0.025


def test_of_gaussian_points_it_is_nearly_the_gaussian():
    x = MEAN + _normal(20_000, 0) @ FACTOR.mT
    law = elliptical_law(x)
    mean = (law.weights.unsqueeze(1) * law.means).sum(0)
    covariance = (law.weights.view(-1, 1, 1) * law.covariances).sum(0)
    # five standard errors of a mean, of that many points
    torch.testing.assert_close(mean, MEAN, rtol=0, atol=5 / 20_000**0.5)
    truth = FACTOR @ FACTOR.mT
    # five standard errors of a variance
    torch.testing.assert_close(covariance, truth, rtol=0, atol=5 * (2 / 20_000) ** 0.5)


def test_its_terms_share_mean_and_shape():
    law = elliptical_law(_student(500, 3))
    shapes = law.covariances / law.covariances[:, :1, :1]
    assert 1 < len(law.weights) <= len(SCALES)
    torch.testing.assert_close(shapes, shapes[:1].expand_as(shapes), **FLOAT64)
    torch.testing.assert_close(law.means, law.means[:1].expand_as(law.means), **FLOAT64)


def test_it_is_likelier_than_a_gaussian_where_tails_are_heavy():
    x, new = _student(500, 3), _student(500, 3, seed=7)
    gaussian = SimpleLaw(1, "shrunk").fit(x)
    assert elliptical_law(x).log_prob(new).mean() > gaussian.log_prob(new).mean()


def test_one_far_point_hardly_moves_it():
    x = _normal(300, 0)
    moved = torch.cat([x, torch.full((1, 3), 1e4, dtype=torch.float64)])
    # a mean of all points would move by 33, and a covariance by 3e5
    torch.testing.assert_close(elliptical_law(moved).means[0], x.mean(0), rtol=0, atol=0.3)


@pytest.mark.parametrize(
    "columns",
    [
        lambda z: np.c_[z[:, 0], z[:, 0]],  # equal
        lambda z: np.c_[z[:, 0], 0 * z[:, 0]],  # one that does not vary
        lambda z: np.round(z),  # few values
        lambda z: np.r_[np.zeros((40, 3)), z[:10]],  # most rows equal
        lambda z: z[:5],  # about as many rows as columns
        lambda z: np.sign(z) * np.exp(5 * abs(z)),  # tails beyond the largest scale
    ],
)
def test_points_that_fill_no_volume_give_finite_scores(columns):
    x = torch.from_numpy(columns(_normal(50, 0).numpy()))
    law = elliptical_law(x)
    assert torch.isfinite(law.score(x)).all()
    assert torch.isfinite(law.hessian_diag(x)).all()
    assert float(law.weights.sum()) == pytest.approx(1.0)
