"""Choosing on held-out rows: the measures estimate what they should, and clear cases are clear."""

import numpy as np
import pytest
import torch

from hosm.distributions import GaussianMixture
from hosm.estimator.choice import Candidate, HeldOut, best_of, choose, deal
from hosm.estimator.simple_laws import SimpleLaw
from tests.tolerances import monte_carlo

DOUBLE = torch.float64


def _normal(n, dimension, seed=0):
    return torch.randn(n, dimension, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def test_equal_rows_are_in_one_fold_and_folds_are_even():
    x = _normal(100, 2).repeat(10, 1)
    fold = deal(x)
    assert torch.equal(fold[:100], fold[100:200])
    assert torch.bincount(fold).tolist() == [200] * 5


@pytest.fixture(scope="module")
def law():
    means = torch.tensor([[-1.0, 0.0], [1.0, 0.5]], dtype=DOUBLE)
    covariances = torch.eye(2, dtype=DOUBLE).expand(2, 2, 2) * 0.5
    return GaussianMixture(torch.tensor([0.5, 0.5], dtype=DOUBLE), means, covariances)


@pytest.mark.parametrize("tau", [0.01, 0.3])
def test_the_second_measure_is_half_the_squared_error_up_to_a_constant(law, tau):
    """Two wrong second derivatives are compared by it and by the truth, at 20,000 draws."""
    x = law.sample(20000, torch.Generator().manual_seed(0))
    held, smooth = HeldOut(x, tau, 1, 0), law.smoothed(tau)
    true = smooth.hessian_diag(held.points)
    wrong = torch.stack([0.5 * true, 4 * true + held.points.sin()], 2)
    measure = held.second(smooth.score(held.points), wrong)
    errors = (wrong - true.unsqueeze(2)).square().sum(1).view(3, -1, 2)[1:].mean(0) / 2
    difference = (measure[:, 0] - measure[:, 1]) - (errors[:, 0] - errors[:, 1])
    bound = monte_carlo(len(x), float(difference.std()))
    assert abs(float(difference.mean())) < bound
    assert bound < 0.5 * abs(float((errors[:, 0] - errors[:, 1]).mean()))


def test_the_first_measure_is_half_the_squared_error_up_to_a_constant(law):
    x = law.sample(20000, torch.Generator().manual_seed(0))
    held, smooth = HeldOut(x, 0.2, 1, 0), law.smoothed(0.2)
    s, h = smooth.score(held.points), smooth.hessian_diag(held.points)
    scores = torch.stack([0.7 * s, s], 2)
    loss = held.first(scores, torch.stack([0.7 * h, h], 2))
    expected = (0.09 * s.square().sum(1) / 2).view(3, -1)[1:].mean(0)
    difference = loss[:, 0] - loss[:, 1] - expected
    assert abs(float(difference.mean())) < monte_carlo(len(x), float(difference.std()))


def _candidate(first, second):
    return Candidate(SimpleLaw(1, "shrunk"), None, 0.0, None, 0.1, 1.0, first, second, [])


def test_the_incumbent_stays_unless_another_is_certainly_better():
    noise = _normal(400, 3)
    one = _candidate(noise[:, 0], noise[:, 1])
    same = _candidate(noise[:, 0], noise[:, 1] - 0.02 + noise[:, 2])
    better = _candidate(noise[:, 0], noise[:, 1] - 1)
    worse_scores = _candidate(noise[:, 0] + 1, noise[:, 1] - 9)
    assert best_of([one, same]) is one
    assert best_of([one, same, better]) is better
    assert best_of([one, better, worse_scores]) is better


def test_clusters_are_found_and_a_gaussian_stays_a_gaussian():
    rng = np.random.default_rng(0)
    two = torch.from_numpy(np.r_[rng.normal(size=(150, 2)), rng.normal(size=(150, 2)) * 0.5 + 4])
    two = (two - two.mean(0)) / two.std(0)
    assert choose(two, [0.1]).chosen.law.terms == 2
    assert choose(_normal(300, 2), [0.1]).constant
