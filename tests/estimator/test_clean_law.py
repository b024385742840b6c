"""Draws that imitate a table: its values, its correlations, and no copies of its rows."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from hosm.distributions import GaussianMixture
from hosm.estimator import clean_law
from hosm.estimator.choice import deal
from hosm.estimator.clean_law import best_density, correlations, fitted_clean_law
from hosm.estimator.simple_laws import SimpleLaw

DOUBLE = torch.float64
GAUSSIAN = SimpleLaw(1, "shrunk")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def table(n: int = 600, seed: int = 0) -> Tensor:
    """Rows of a skewed column, counts, zeros mostly, and one value; all but the last depend."""
    z = torch.randn(n, 3, generator=generator(seed), dtype=DOUBLE)
    z[:, 1:] = 0.8 * z[:, :1] + 0.6 * z[:, 1:]
    counts = (2 * z[:, 1].exp()).floor().clamp_max(9)
    zeros = (z[:, 2] - 1).clamp_min(0)
    return torch.stack([z[:, 0].exp(), counts, zeros, torch.full_like(zeros, 7.0)], 1)


def fitted(x: Tensor) -> clean_law.CleanLaw:
    scale = torch.where(x.std(0) > 0, x.std(0), 1.0)
    points = (x - x.mean(0)) / scale
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clean_law, "TERMS", (5,))
        return fitted_clean_law(x, points, deal(points), [GAUSSIAN])


@pytest.fixture(scope="module")
def rows():
    return table()


@pytest.fixture(scope="module")
def law(rows):
    return fitted(rows)


def test_draws_have_the_values_of_their_columns(law, rows):
    x = law.draw(1500, generator())
    assert (x >= rows.amin(0)).all() and (x <= rows.amax(0)).all()
    assert (x[:, 3] == 7).all()
    assert torch.isin(x[:, 1], rows[:, 1]).all()
    # each share is met to one draw and one row
    for value in rows[:, 1].unique():
        share = (x[:, 1] == value).double().mean() - (rows[:, 1] == value).double().mean()
        assert abs(share) <= 1 / 1500 + 1 / 600
    zeros = (x[:, 2] == 0).double().mean() - (rows[:, 2] == 0).double().mean()
    assert abs(zeros) <= 1 / 1500 + 1 / 600
    assert len(x[:, 0].unique()) == 1500  # many values: they lie between those of the rows


def test_draws_have_the_correlations_of_the_rows(law, rows, monkeypatch):
    def error() -> float:
        return float((correlations(law.draw(1000, generator())) - correlations(rows)).abs().max())

    assert error() < 0.03  # .01 was seen
    monkeypatch.setattr(clean_law, "ROUNDS", 1)
    assert error() > 0.03  # without the linear map: .05 was seen


def test_draws_follow_the_law_of_the_rows_and_not_their_moments_alone():
    """Of what nothing is fitted to: how often two columns are both above their medians."""
    x = fitted(table(2000)).draw(4000, generator())
    both = ((x[:, 0] > 1.0) & (x[:, 1] >= 2)).double().mean()  # medians of the law itself
    exact = 0.25 + math.asin(0.8) / (2 * math.pi)  # of two Gaussians of correlation .8
    errors = math.sqrt(exact * (1 - exact) * (1 / 2000 + 1 / 4000))
    assert abs(both - exact) < 5 * errors


def test_draws_are_no_copies_of_rows(law, rows):
    x, own = law.draw(600, generator())[:, :3], rows[:, :3]
    scale = own.std(0)
    apart = torch.cdist(own / scale, own / scale).fill_diagonal_(torch.inf).amin(1).median()
    assert torch.cdist(x / scale, own / scale).amin(1).median() > 0.5 * apart


def test_few_draws_are_the_first_of_many_and_repeat(law):
    assert torch.equal(law.draw(3, generator()), law.draw(1000, generator())[:3])


def test_more_rows_than_quantiles_keep_their_ends(rows, monkeypatch):
    monkeypatch.setattr(clean_law, "MOST_VALUES", 50)
    values = fitted(rows).values
    assert values.shape == (50, 4)
    assert torch.equal(values[0], rows.amin(0)) and torch.equal(values[-1], rows.amax(0))


def test_held_out_rows_say_how_many_terms():
    angle = 2 * math.pi * torch.rand(500, generator=generator(), dtype=DOUBLE)
    ring = torch.stack([angle.cos(), angle.sin()], 1)
    ring = ring + 0.05 * torch.randn(500, 2, generator=generator(1), dtype=DOUBLE)
    assert best_density(ring, deal(ring), [GAUSSIAN]).terms >= 8
    normal = torch.randn(500, 2, generator=generator(), dtype=DOUBLE)
    assert best_density(normal, deal(normal), [GAUSSIAN]).terms == 1


def test_one_row_whose_column_varies_nowhere_else_does_not_decide():
    two = torch.randn(300, 2, generator=generator(), dtype=DOUBLE)
    two[:150] += 6
    rare = torch.zeros(300, 1, dtype=DOUBLE)
    rare[7] = 300**0.5
    x = torch.cat([two, rare], 1)
    assert best_density(x, deal(x), [GAUSSIAN]).terms > 1


def test_a_mixture_that_has_the_rows_law_keeps_its_dependence(rows):
    """Rows that are draws of the mixture: neither map has anything to do but to remove chance."""
    means = torch.tensor([[-2.0, 0.0], [2.0, 1.0]], dtype=DOUBLE)
    covariances = torch.stack([torch.eye(2, dtype=DOUBLE), 0.3 * torch.eye(2, dtype=DOUBLE)])
    mixture = GaussianMixture(torch.tensor([0.5, 0.5], dtype=DOUBLE), means, covariances)
    x = mixture.sample(5000, generator())
    law = replace(
        fitted(x[:200]), law=mixture, values=x.sort(0).values, correlation=correlations(x)
    )
    draws, plain = law.draw(4000, generator(1)), mixture.sample(4000, generator(1))
    # quantiles of 4,000 and of 5,000 draws: in the middle of a gap they are uncertain by .3
    assert (draws - plain).abs().mean() < 0.1
