"""Whose turn it is, on graphs whose best order is plain to see."""

from hosm.experiment.repro.plan import Step
from hosm.experiment.repro.turns import alone_in_turn, seconds_to_end, to_begin, ways

SECONDS = {"data": 10.0, "short": 20.0, "long": 50.0, "timed": 30.0, "end": 5.0}
STEPS = [
    Step("data"),
    Step("short", frozenset({"data"})),
    Step("long", frozenset({"data"})),
    Step("timed", frozenset({"short"}), alone=True),
    Step("end", frozenset({"short", "long", "timed"})),
]
WAY = ways(STEPS, SECONDS)


def begun(done, running, room=2):
    return to_begin(STEPS, done, running, WAY, room)


def test_the_way_to_the_end_is_the_longest():
    assert WAY == {"data": 65.0, "short": 55.0, "long": 55.0, "timed": 35.0, "end": 5.0}
    assert ways(STEPS, {"end": 5.0})["data"] == 5.0


def test_a_stage_waits_for_what_it_needs():
    assert begun([], []) == ["data"]
    assert begun([], ["data"]) == []
    assert begun(["data"], []) == ["short", "long"]
    assert begun(["data", "short", "long"], ["timed"]) == []


def test_no_more_run_than_there_is_room_for():
    assert begun(["data"], [], room=1) == ["short"]
    assert begun(["data"], ["short"], room=1) == []
    assert begun(["data"], ["short"]) == ["long"]


def test_alone_means_that_nothing_runs_beside():
    assert begun(["data", "short"], ["long"]) == []
    assert begun(["data", "short", "long"], []) == ["timed"]
    assert begun(["data", "short"], ["timed"]) == []


def test_what_may_run_beside_others_comes_before_what_may_not():
    assert begun(["data", "short"], []) == ["long"]


def test_all_that_are_alone_and_can_begin_run_in_turn_the_longest_way_first():
    steps = [Step("a", alone=True), Step("b", alone=True), Step("c", frozenset("b"), alone=True)]
    way = ways(steps, {"a": 5.0, "b": 1.0, "c": 9.0})
    assert alone_in_turn(steps, [], way) == ["b", "a"]
    assert alone_in_turn(steps, ["b"], way) == ["c", "a"]
    assert alone_in_turn([*steps, Step("d")], [], {**way, "d": 1.0}) == []


def test_the_longest_way_comes_first():
    steps = [Step("a"), Step("b"), Step("c", frozenset({"b"}))]
    way = ways(steps, {"a": 5.0, "b": 1.0, "c": 9.0})
    assert to_begin(steps, [], [], way, 1) == ["b"]
    assert to_begin(steps, ["b"], [], way, 1) == ["c"]


def test_the_seconds_to_the_end_are_those_of_the_order():
    assert seconds_to_end(STEPS, set(), {}, SECONDS, 2) == 10 + 50 + 30 + 5
    assert seconds_to_end(STEPS, set(), {}, SECONDS, 1) == sum(SECONDS.values())
    assert seconds_to_end(STEPS, {"data"}, {"long": 45.0, "short": 5.0}, SECONDS, 2) == 15 + 35
    assert seconds_to_end(STEPS, {"data"}, {"long": 99.0}, SECONDS, 1) == 20 + 35
    assert seconds_to_end(STEPS, {*SECONDS}, {}, SECONDS, 2) == 0


def test_an_unknown_stage_is_not_guessed():
    assert seconds_to_end(STEPS, set(), {}, {"data": 1.0}, 2) is None
