import math

import pytest

from hosm.experiment.presenting.judge import Claim, error_of_difference, judge


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
        (math.nan, "<", "does not hold"),
        (math.nan, ">=", "does not hold"),
        (None, ">", "undecided"),
    ],
)
def test_a_value_and_a_bound_are_judged_as_they_compare(left, comparison, verdict):
    claim = Claim("name", "here", "so it is", left, comparison, 1.0, "")
    assert judge(claim) == claim.verdict == verdict


@pytest.mark.parametrize(
    ("left", "verdict"), [(0.7, "holds"), (0.8, "undecided"), (1.2, "undecided"), (1.3, "fails")]
)
def test_a_difference_within_two_standard_errors_decides_nothing(left, verdict):
    claim = Claim("name", "here", "so it is", left, "<", 1.0, "", error=0.125)
    assert judge(claim) == {"fails": "does not hold"}.get(verdict, verdict)


@pytest.mark.parametrize(
    ("left", "at_best", "verdict"),
    [(0.9, 0.7, "holds"), (1.2, 0.9, "undecided"), (1.2, 1.1, "does not hold")],
)
def test_what_only_chance_lets_fail_is_undecided(left, at_best, verdict):
    claim = Claim("name", "here", "so it is", left, "<=", 1.0, "", left_at_best=at_best)
    assert judge(claim) == verdict


def test_the_error_of_a_difference_leaves_out_what_is_unknown():
    assert error_of_difference(3.0, 4.0) == 5.0
    assert error_of_difference(3.0, math.nan) == 3.0
    assert error_of_difference(math.nan, math.nan) == 0.0
