"""SavedStates of runs: the last few are kept, damaged ones skipped, and requests answered."""

import threading
import time

import pytest
import torch
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from hosm.experiment.cluster.saved_states import SavedStates, every


@pytest.fixture(params=["folder", "bucket"])
def states(tmp_path, request):
    """SavedStates in a folder, and in a file system of another kind, as a bucket is."""
    found = SavedStates(str(tmp_path / "states"), 3)
    if request.param == "bucket":
        found.files, found.folder = SubTreeFileSystem(str(tmp_path), LocalFileSystem()), "states"
    return found


def names(states):
    return sorted(file.base_name for file in states._stored("state"))


def save(states, *steps):
    for step in steps:
        states.save({"step": step, "weights": torch.full((50,), float(step))}, f"{step:09d}")


def test_the_newest_of_the_last_few_is_taken(states, tmp_path):
    lines = []
    assert states.newest(lines.append) is None and not states.exist() and not lines
    save(states, 1, 2, 9, 10, 11)
    assert names(states) == [f"{step:09d}.state" for step in (9, 10, 11)]
    found = states.newest(lines.append)
    assert found["step"] == 11 and torch.equal(found["weights"], torch.full((50,), 11.0))
    assert states.exist() and not lines


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-5], lambda data: b"", lambda data: data[:90] + b"x" + data[91:]]
)
def test_a_damaged_state_is_skipped_for_the_one_before(states, tmp_path, damage):
    save(states, 1, 2, 3)
    for number, left in ((3, 2), (2, 1)):
        path, lines = tmp_path / "states" / f"{number:09d}.state", []
        path.write_bytes(damage(path.read_bytes()))
        assert states.newest(lines.append)["step"] == left
        assert "3.state is damaged" in lines[0] and lines[-1].endswith("the one before is taken")
    save(states, 2)  # what is damaged does not push out what is sound
    assert names(states) == ["000000001.state", "000000002.state"]
    assert states.newest(lines.append)["step"] == 2


def test_without_a_sound_state_the_run_begins_anew(states, tmp_path):
    save(states, 7, 8, 9)
    for path in (tmp_path / "states").iterdir():
        path.write_bytes(b"nothing")
    lines = []
    assert states.newest(lines.append) is None
    assert len(lines) == 4 and lines[-1].endswith("so the run begins anew")
    save(states, 1)
    assert states.newest()["step"] == 1 and names(states) == ["000000001.state"]


def test_what_a_killed_writer_left_is_removed(states, tmp_path):
    save(states, 1)
    (tmp_path / "states" / ".000000002.state-x.tmp").write_bytes(b"half")
    assert states.newest()["step"] == 1
    save(states, 3)
    found = {path.name for path in (tmp_path / "states").iterdir()}
    assert found == {"000000001.state", "000000003.state"}


def test_a_request_is_answered_or_given_up(states):
    began = time.monotonic()
    assert not states.request(0.3)
    assert 0.3 <= time.monotonic() - began < 2 and not states.requested()

    def writer():
        while not states.requested():
            time.sleep(0.01)
        save(states, 5)
        states.answer()

    thread = threading.Thread(target=writer)
    thread.start()
    assert states.request(30)
    thread.join()
    assert time.monotonic() - began < 10 and states.newest()["step"] == 5


def test_every_so_many_steps():
    assert [step for step in range(1, 10) if every(3)(step)] == [3, 6, 9]
    assert not any(every(0)(step) for step in range(1, 10))
