"""The plan of scaling: cases that are known by hand, limits, and the simulation against it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hosm.experiment.cost.study.scale import (
    Costs,
    Link,
    fit_computation,
    largest_of,
    scaling,
    seconds_of,
    simulated,
)

PLAIN = Costs(0.0, 0.01, 0.0, 1_000_000, (Link(64, math.inf, 0.0),))
COUNTS = (1, 2, 4, 8, 16, 32, 64)


def test_the_largest_of_a_few_normal_numbers():
    known = {1: 0.0, 2: 1 / math.sqrt(math.pi), 3: 1.5 / math.sqrt(math.pi)}
    for count, mean in known.items():
        # the rule's grid
        assert largest_of(count) == pytest.approx(mean, abs=1e-6)
    draws = np.random.default_rng(0).normal(size=(20_000, 64)).max(1)
    # four standard errors of the draws
    assert largest_of(64) == pytest.approx(draws.mean(), abs=4 * draws.std() / math.sqrt(20_000))


def test_the_computation_is_found_again():
    fixed, sample = fit_computation([10, 50, 200], [0.3 + 0.02 * n for n in (10, 50, 200)])
    assert (fixed, sample) == pytest.approx((0.3, 0.02))
    assert fit_computation([10, 50, 200], [0.02 * n for n in (10, 50, 200)])[0] >= 0
    assert fit_computation([1, 10], [0.001, 0.03])[0] == 0.0  # grows faster than a line


def test_nothing_is_lost_where_nothing_is_in_the_way():
    for weak in (False, True):
        found = scaling(PLAIN, 64, COUNTS, weak)
        assert found["efficiency"].to_list() == pytest.approx([1.0] * 7)
        assert found["simulated"].to_list() == pytest.approx(found["step"].to_list())
        assert (found["limit"] == "computation").all() and (found["kept"] == 1).all()


def test_parts_of_a_step_by_hand():
    links = (Link(8, 1e9, 1e-3), Link(64, 1e8, 1e-2))
    costs = replace(PLAIN, fixed=0.1, links=links, spread=0.5, reading=0.02, size=100, storage=1e4)
    two = seconds_of(costs, 2, 10)
    assert two["computation"] == pytest.approx(0.2) and two["reading"] == pytest.approx(0.2)
    # the rule's grid
    assert two["waiting"] == pytest.approx(0.1 / math.sqrt(math.pi), rel=1e-5)
    assert two["storage"] == pytest.approx(0.2)
    assert two["all_reduce"] == pytest.approx(4e6 / 1e9 + 2e-3)
    assert two["step"] == pytest.approx(0.2 + two["waiting"] + two["all_reduce"])
    sixteen = seconds_of(costs, 16, 10)
    assert sixteen["all_reduce"] == pytest.approx(2 * 15 / 16 * 4e6 / 1e8 + 0.3)
    assert sixteen["step"] == pytest.approx(1.6 + sixteen["all_reduce"])  # the storage
    assert seconds_of(replace(costs, processors=2), 3, 10)["computation"] == pytest.approx(0.3)


def test_the_limit_is_named_and_dying_workers_cost_time():
    reading = scaling(replace(PLAIN, reading=0.05), 64, (1, 8), True)
    assert (reading["limit"] == "reading").all()
    slow = scaling(replace(PLAIN, links=(Link(64, 1e6, 0.0),)), 64, (1, 64), False)
    assert slow["limit"].to_list() == ["computation", "all_reduce"]
    assert slow["efficiency"].is_monotonic_decreasing
    dying = scaling(replace(PLAIN, lifetime=7000.0, restart=60.0), 64, (1, 64), True)
    assert dying["kept"].to_list() == pytest.approx([1 / 1.01, 1 / 1.64])


@pytest.mark.parametrize("workers", [1, 3, 16])
@pytest.mark.parametrize("reading", [0.0, 0.004, 0.05])
def test_the_simulation_agrees_with_the_formula(workers, reading):
    links = (Link(64, 1e9, 1e-4),)
    costs = replace(PLAIN, links=links, spread=0.05, reading=reading)
    said, found = seconds_of(costs, workers, 8)["step"], simulated(costs, workers, 8, steps=2000)
    if reading == 0.05:  # exponential times: the slowest of the readers holds the others up
        assert said < found < (2 + math.log(workers)) * said
    else:
        # standard errors below 1 %, and batches that are not read in time
        assert found == pytest.approx(said, rel=0.05)


def test_more_batches_read_ahead_wait_less():
    costs = replace(PLAIN, reading=0.009)
    few, many = (simulated(costs, 8, 8, steps=2000, ahead=n) for n in (1, 50))
    assert 0.08 <= many < few
