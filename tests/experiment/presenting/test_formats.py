"""How numbers look in tables."""

import math

import pytest

from hosm.experiment.presenting import formats


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [
        (7.3041, 0.0412, "7.304 ± 0.041"),
        (436.2, 12.3, "436 ± 12"),
        (1.2e-5, 2e-7, "0.0000120 ± 0.0000002"),
        (7.3041, math.nan, "7.30"),
        (7.3041, 0.0, "7.30 ± 0"),
        (math.nan, 0.1, "–"),
    ],
)
def test_a_standard_error_sets_the_digits(mean, error, text):
    assert formats.plus_minus(mean, error) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (34612.4, "34,612"), (0.0379, "0.0379"), (2e-7, "2.00e-07"), (math.inf, "∞")],
)
def test_numbers_have_three_significant_digits(value, text):
    assert formats.number(value) == text
