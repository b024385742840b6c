"""How long a sweep still takes, by a clock of the test's own and trials that end as it says."""

from types import SimpleNamespace

import pytest

from hosm.experiment.cluster import tune
from hosm.experiment.run.duration import in_words

CELLS = [{"dataset": "ring6", "seed": seed} for seed in range(4)]
TABLES = '{"trials": "[{}]"}'


@pytest.fixture
def told(monkeypatch, capsys):
    """Return what runs a grid whose trials end at given seconds, and returns the lines it told."""

    def run(*ends):
        now = [0.0]
        monkeypatch.setattr(tune, "time", SimpleNamespace(monotonic=lambda: now[0]))

        def fit():
            for cell, (now[0], kept) in zip(CELLS, ends, strict=True):
                tune._Announce.listener(cell, {"tables": TABLES, "kept": kept}, "FINISHED")
            ended = {"metrics": {"tables": TABLES}, "error": None}
            return [SimpleNamespace(**ended, config={"cell": cell}) for cell in CELLS]

        monkeypatch.setattr(tune, "_tuner", lambda grid, name: SimpleNamespace(fit=fit))
        grid = SimpleNamespace(cells=CELLS, show=lambda tables: "shown")
        tune.run_grid(grid, "sweep", lambda *_: None)
        return [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines()]

    return run


def test_it_is_by_the_mean_of_the_trials_that_have_ended(told):
    assert told((40.0, False), (50.0, False), (90.0, False), (99.0, False)) == [
        "finished, about 2 min left  shown",  # three more at 40 s
        "finished, about 50 s left  shown",  # two more at 25 s
        "finished, about 30 s left  shown",
        "finished  shown",
    ]


def test_trials_that_an_earlier_start_had_finished_tell_nothing_of_the_rest(told):
    assert told((1.0, True), (1.0, True), (60.0, False), (99.0, False)) == [
        "finished  shown",
        "finished  shown",
        "finished, about 60 s left  shown",
        "finished  shown",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0, "0 s"), (89.4, "89 s"), (90.0, "2 min"), (3600.0, "60 min")]
)
def test_a_duration_is_in_seconds_and_from_a_minute_and_a_half_on_in_minutes(seconds, words):
    assert in_words(seconds) == words
