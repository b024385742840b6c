"""What other processes did, by made-up readings and files of Linux; bounded waiting."""

import math
import multiprocessing
import time

import psutil
import pytest

from hosm.experiment.run import machine_load
from hosm.experiment.run.machine_load import Counters, Load, Patience, counted, loads_of_rounds

STAT = """\
cpu  900 0 100 0 0 0 0 0 0 0
cpu0 {user} 200 100 5000 40 0 50 {steal} 300 0
cpu1 100 0 100 9000 0 10 0 0 0 0
btime 1
"""


def readings(*used, own=0.0, step=1.0, stolen=0.0):
    """Readings of two cores, `step` seconds apart, with what all processes have used by then."""
    return [
        Counters(step * number, 2, each, own * number, stolen * number)
        for number, each in enumerate(used)
    ]


def test_others_are_what_is_used_beyond_this_process():
    (load,) = loads_of_rounds(readings(5.0, 6.5, own=1.0))
    assert load == (pytest.approx(0.25), 0.0) and load.busy
    assert not loads_of_rounds(readings(5.0, 6.1, own=1.0))[0].busy


def test_more_of_this_process_than_of_all_is_the_rounding_of_the_counters():
    assert loads_of_rounds(readings(0.0, 0.99, own=1.0)) == [(0.0, 0.0)]


def test_a_process_of_the_family_that_ends_takes_its_count_along():
    """What it has used since it began would else be taken for the work of others in a second."""
    (load,) = loads_of_rounds(readings(5.0, 6.5, own=-4.0))
    assert math.isnan(load.others) and not load.busy


def test_a_host_that_keeps_cores_disturbs_too():
    (load,) = loads_of_rounds(readings(0.0, 1.0, own=1.0, stolen=0.2))
    assert load == (0.0, pytest.approx(0.1)) and load.busy


def test_short_rounds_share_the_load_of_a_spell_and_a_short_rest_joins_it():
    rounds = readings(0.0, 0.0, 0.0, 0.3, 0.3, 0.3, 0.3, 0.3, step=0.2)
    loads = loads_of_rounds(rounds)
    assert [load.others for load in loads[:3]] == [pytest.approx(0.3 / 1.2)] * 3
    assert [load.others for load in loads[3:]] == [0.0] * 4  # the last is no spell of its own


def test_what_is_too_short_to_count_is_unknown_and_not_busy():
    (load,) = loads_of_rounds(readings(0.0, 1.0, step=0.01))
    assert math.isnan(load.others) and not load.busy


@pytest.mark.parametrize(
    ("busy", "expected"), [("", [0, 1, 2]), ("1", [0, 2]), ("12", [0, 1, 2]), ("012", [0, 1, 2])]
)
def test_quiet_rounds_count_where_they_are_the_most(busy, expected):
    loads = [Load(0.5 if str(number) in busy else 0.0, 0.0) for number in range(3)]
    assert counted(loads) == expected


def test_counters_are_those_of_linux(monkeypatch, tmp_path):
    """User, nice, system and interrupts are used, idle and waiting are not; guests are users."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    monkeypatch.setattr(machine_load.os, "sched_getaffinity", lambda process: {0, 1})
    (tmp_path / "stat").write_text(STAT.format(user=1000, steal=70))
    found = machine_load.counters()
    assert found.cores == 2
    assert found.used == pytest.approx((1000 + 200 + 100 + 50 + 100 + 100 + 10) / 100)
    assert found.stolen == pytest.approx(0.7)


def test_cores_that_this_process_may_not_use_do_not_count(monkeypatch, tmp_path):
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    monkeypatch.setattr(machine_load.os, "sched_getaffinity", lambda process: {1})
    (tmp_path / "stat").write_text(STAT.format(user=1000, steal=70))
    found = machine_load.counters()
    assert (found.cores, found.stolen) == (1, 0.0) and found.used == pytest.approx(2.1)


def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_descendant_counts_as_own_in_a_family_alone():
    child = multiprocessing.get_context("fork").Process(target=spin, args=(0.2,))
    before, family = machine_load.counters(), machine_load.family_counters()
    child.start()
    child.join()
    assert machine_load.family_counters().own - family.own > 0.1
    assert machine_load.counters().own - before.own < 0.2


def waited(loads, seconds):
    """Wait beside made-up readings; return what was slept, and the patience that is left."""
    slept, used, clock = [], [0.0], [0.0]
    each = iter(loads)

    def sleep(duration):
        slept.append(duration)
        clock[0] += duration
        used[0] += 2 * duration * next(each, 0.0)

    patience = Patience(seconds)
    read = lambda: Counters(clock[0], 2, used[0], 0.0, 0.0)  # noqa: E731
    machine_load.wait_until_quiet(patience, read, sleep)
    return sum(slept), patience


def test_a_quiet_machine_costs_one_look_and_no_patience(capsys):
    slept, patience = waited([0.02], 60.0)
    assert slept == machine_load.CHECK and patience == Patience(60.0, False)
    assert not capsys.readouterr().out


def test_waiting_ends_with_the_load_and_is_told_once(capsys):
    slept, patience = waited([0.5, 0.5, 0.0], 60.0)
    assert slept == 3 * machine_load.CHECK
    assert patience == Patience(60.0 - 2 * machine_load.CHECK, True)
    told = capsys.readouterr().out
    assert told == (
        "the machine is busy (50% of the cores by other processes, 0% stolen): timings wait, "
        "60 s in all\n"
    )


def test_waiting_is_bounded_for_all_timings_of_a_stage():
    slept, patience = waited([0.5] * 100, 1.0)
    assert slept == 1.0 and patience.seconds <= 0
    machine_load.wait_until_quiet(patience, read=None, sleep=None)  # nothing is left to wait


def test_nothing_waits_outside_of_a_stage_or_in_the_smoke_profile():
    assert machine_load._PATIENCE.seconds == 0
    with machine_load.patience_of("smoke"):
        assert machine_load._PATIENCE.seconds == 0
    with machine_load.patience_of("laptop"):
        assert machine_load._PATIENCE.seconds == machine_load.PATIENCE
    assert machine_load._PATIENCE.seconds == 0
