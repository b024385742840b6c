"""Doubts about a table: each kind is named, with its columns, and a good table has none."""

import numpy as np
import pytest
import torch

from hosm.estimator.data_checks import doubts, robust_scale
from tests.tolerances import monte_carlo

RNG = np.random.default_rng(0)
PLANE = RNG.normal(size=(500, 2))
DOUBTFUL = {
    "rows": (RNG.normal(size=(4, 3)), "4 rows of 3 columns are few"),
    "wide": (RNG.normal(size=(20, 100)), "20 rows of 100 columns are few"),
    "plane": (np.c_[PLANE, PLANE.sum(1)], "columns 0, 1, 2 determine each other"),
    "tails": (
        RNG.standard_cauchy((500, 3)),
        "far from all others in columns 0, 1, 2",
    ),
    "integers": (
        2.0**60 + RNG.integers(0, 1001, (300, 2)),
        "than float64 resolves in columns",
    ),
    "levels": (np.c_[PLANE, RNG.integers(0, 5, 500)], "few different values in column 2"),
    "constant": (np.c_[PLANE, np.ones(500)], "one value alone in column 2"),
}


def _doubts(x, names=()):
    return doubts(torch.from_numpy(np.asarray(x, dtype=np.float64)), names)


@pytest.mark.parametrize("kind", DOUBTFUL)
def test_each_doubt_is_named_with_its_columns(kind):
    x, words = DOUBTFUL[kind]
    assert any(words in each for each in _doubts(x))


def test_columns_have_their_names():
    x = np.c_[PLANE, PLANE.sum(1)]
    assert "'a', 'b', 'sum' determine each other" in _doubts(x, ["a", "b", "sum"])[0]


def test_many_columns_are_counted():
    assert "and 4 more" in _doubts(RNG.integers(0, 3, (500, 10)))[0]


@pytest.mark.parametrize("size", [(500, 3), (100, 1), (3000, 20)])
def test_draws_of_a_gaussian_are_above_doubt(size):
    assert _doubts(RNG.normal(size=size)) == []


def test_the_scale_of_the_middle_half_is_the_standard_deviation_of_a_gaussian():
    x = torch.from_numpy(RNG.normal(size=(20000, 1)) * 3)
    # a quartile of n normal draws has the standard error 1.36 n^(-1/2): two of them over 1.35
    assert abs(float(robust_scale(x)[0]) / 3 - 1) < 1.5 * monte_carlo(20000)
