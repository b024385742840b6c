"""Joining a cluster and leaving it, without one."""

import pytest

from hosm.experiment.cluster import connection
from hosm.experiment.run.process import PROJECT, StageError
from hosm.experiment.settings import load_params


@pytest.fixture
def ended(monkeypatch):
    """How often Ray was shut down; nothing is started."""
    found = []
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(connection.ray, "init", lambda **options: None)
    monkeypatch.setattr(connection.ray, "shutdown", lambda: found.append(1))
    monkeypatch.setattr(connection, "_wait_for_capacity", lambda params, patience: None)
    return found


@pytest.mark.parametrize("error", [None, StageError("it failed"), KeyError("a bug")])
def test_a_local_cluster_ends_with_the_work(ended, error):
    def work():
        with connection.connect(load_params(PROJECT / "params.yaml").cluster):
            if error is not None:
                raise error

    if error is None:
        work()
    else:
        with pytest.raises(type(error)):
            work()
    assert ended == [1]


def test_after_an_interrupt_it_ends_with_the_process(ended):
    """A thread that still waits for Ray would else end the process before it has said so."""
    with (
        pytest.raises(KeyboardInterrupt),
        connection.connect(load_params(PROJECT / "params.yaml").cluster),
    ):
        raise KeyboardInterrupt
    assert ended == []


@pytest.mark.parametrize(
    ("words", "raised", "said"),
    [
        ("The current node timed out during startup. This", StageError, "within half a minute"),
        ("something else", RuntimeError, "something else"),
    ],
)
def test_a_machine_too_busy_for_ray_is_told_in_one_line(ended, monkeypatch, words, raised, said):
    def start(**options):
        raise RuntimeError(words)

    monkeypatch.setattr(connection.ray, "init", start)
    with (
        pytest.raises(raised, match=said),
        connection.connect(load_params(PROJECT / "params.yaml").cluster),
    ):
        raise AssertionError("connected")
