import math

import pytest

from hosm.experiment.presenting.judge import Claim, Pair, decisive, error_of_difference, judge


def _claim(left, comparison="<", **known):
    return Claim("name", "here", "so it is", left, comparison, 1.0, "", **known)


@pytest.mark.parametrize(
    ("left", "comparison", "verdict"),
    [
        (0.9, "<", "holds"),
        (1.0, "<", "does not hold"),
        (1.0, "<=", "holds"),
        (1.1, "<=", "does not hold"),
        (1.1, ">", "holds"),
        (1.0, ">", "does not hold"),
        (1.0, ">=", "holds"),
        (0.9, ">=", "does not hold"),
        (math.inf, "<", "does not hold"),
        (math.inf, ">", "holds"),
        (math.nan, "<", "does not hold"),
        (math.nan, ">=", "does not hold"),
    ],
)
def test_a_value_and_a_bound_are_judged_as_they_compare(left, comparison, verdict):
    claim = _claim(left, comparison)
    assert judge(claim) == claim.verdict == verdict


@pytest.mark.parametrize(
    ("left", "verdict"),
    [(0.7, "holds"), (0.8, "undecided"), (1.2, "undecided"), (1.3, "does not hold")],
)
def test_a_difference_within_two_standard_errors_decides_nothing(left, verdict):
    assert judge(_claim(left, error=0.125)) == verdict
    assert judge(_claim(2 - left, ">", error=0.125)) == verdict


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [((0.7, 0.99), "holds"), ((0.9, 1.1), "undecided"), ((1.01, 1.3), "does not hold")],
)
def test_a_range_of_repeated_times_decides_where_it_is_on_one_side(ends, verdict):
    assert judge(_claim(sum(ends) / 2, ends=ends)) == verdict


def test_a_single_seed_decides_nothing_unless_it_diverged():
    assert judge(_claim(0.1, error=math.nan)) == "undecided"
    assert judge(_claim(9.0, error=math.nan)) == "undecided"
    assert judge(_claim(math.nan, error=math.nan)) == "does not hold"
    assert judge(_claim(math.inf, error=math.nan)) == "does not hold"


@pytest.mark.parametrize("left", [0.1, 1.0, 9.0, math.nan])
def test_a_winner_that_means_nothing_makes_a_claim_vacuous(left):
    assert judge(_claim(left, sound=False)) == "vacuous"


@pytest.mark.parametrize(
    ("pairs", "decides", "verdict"),
    [
        ([(0.5, 0.1), (0.7, 0.1)], 1, "holds"),  # the one nearer to the bound
        ([(0.5, 0.1), (0.9, 0.1)], 1, "undecided"),
        ([(1.4, 0.3), (0.5, 0.1)], 0, "undecided"),  # larger, but unsure
        ([(1.4, 0.3), (1.2, 0.05)], 1, "does not hold"),  # smaller, but sure
        ([(0.5, 0.1), (math.nan, 0.1)], 1, "does not hold"),
        ([(0.5, math.nan), (0.7, 0.1)], 0, "undecided"),
    ],
)
def test_the_worst_of_several_values_decides(pairs, decides, verdict):
    every = [Pair(left, 1.0, error) for left, error in pairs]
    found = decisive("<", every)
    assert found is every[decides]
    assert judge(_claim(found.left, error=found.error)) == verdict
    mirrored = [Pair(2 - left, 1.0, error) for left, error in pairs]
    assert decisive(">", mirrored) is mirrored[decides]


def test_the_error_of_a_difference_is_unknown_where_one_is():
    assert error_of_difference(3.0, 4.0) == 5.0
    assert math.isnan(error_of_difference(3.0, math.nan))
