"""Which worker hangs, by the signs of life of all of them, on a clock that stands until moved."""

import pytest

from hosm.experiment.cluster.pulses import Pulses


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def pulses(clock):
    return Pulses(patience=10, clock=clock)


def beat(pulses, rank, step, waits, attempt=1.0):
    return pulses.beat(attempt, rank, 2, f"process {rank} on host", (step, waits))


def test_the_worker_that_does_not_wait_is_named_once_nobody_has_moved_for_long(pulses, clock):
    for clock.now in (0, 4, 8):
        assert beat(pulses, 0, 7, waits=True) == beat(pulses, 1, 7, waits=False) == ""
    clock.now = 11
    named = "worker 1 of 2 (process 1 on host) has stood still in step 7 for 10 s"
    assert [beat(pulses, 0, 7, waits=True), pulses.who()] == [named, named]


def test_a_worker_that_fell_silent_is_named_though_it_waited_when_it_spoke(pulses, clock):
    beat(pulses, 1, 7, waits=True)
    for clock.now in (0, 4, 8, 11):
        named = beat(pulses, 0, 7, waits=True)
    assert named.startswith("worker 1 of 2 (process 1 on host) has")


def test_where_all_wait_and_speak_the_link_between_them_is_named(pulses, clock):
    for clock.now in (0, 4, 8, 11):
        named = [beat(pulses, rank, 7, waits=True) for rank in (0, 1)][1]
    assert named.startswith("the link between 2 workers, which all wait, has stood still")


def test_a_slow_worker_that_moves_hangs_not(pulses, clock):
    for step, clock.now in enumerate((0, 9, 18, 27), 1):
        assert beat(pulses, 0, step, waits=True) == beat(pulses, 1, step, waits=False) == ""


def test_nobody_is_named_before_the_first_step_or_before_all_have_spoken(pulses, clock):
    for clock.now in (0, 40):
        assert beat(pulses, 0, 0, waits=True) == beat(pulses, 1, 0, waits=False) == ""
    alone = Pulses(patience=10, clock=clock)
    for clock.now in (50, 90):
        assert beat(alone, 0, 7, waits=True) == ""


def test_a_later_group_begins_anew_and_what_an_earlier_one_says_is_nothing(pulses, clock):
    for clock.now in (0, 11):
        beat(pulses, 0, 7, waits=True)
        beat(pulses, 1, 7, waits=False)
    assert pulses.who()
    assert beat(pulses, 0, 7, waits=True, attempt=2.0) == "" == pulses.who()
    assert beat(pulses, 1, 7, waits=False, attempt=1.0) == "" and [*pulses.heard] == [0]
