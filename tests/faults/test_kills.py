"""Kill -9 of workers and drivers at random steps: every run ends as if nothing had happened."""

import json
import random
import re
import signal
import sys

import numpy as np
import pytest
import torch

from hosm.experiment.train.training_task import train_here
from hosm.training import load_checkpoint
from tests.faults.conftest import SEED
from tests.faults.injected import EVERY, STEPS, task
from tests.faults.processes import PATIENCE, gone, start, text, wait_for

pytestmark = pytest.mark.faults
long = pytest.mark.long
WHOLE = {}
MOST = 2 * EVERY  # steps taken again: a state that was being written beside the training is lost


def unkilled(workers, tmp_path_factory):
    """Return the weights of a run that nothing happens to: the plain loop, or Ray with more."""
    if workers not in WHOLE:
        torch.set_num_threads(1)
        if workers == 1:
            weights = train_here(task()).weights
            WHOLE[1] = {name: value.numpy() for name, value in weights.items()}
        else:
            folder = tmp_path_factory.mktemp("whole")
            assert drive(folder, [], workers) == 0, text(folder)
            WHOLE[workers] = dict(np.load(folder / "weights.npz"))
    return WHOLE[workers]


def started(folder, faults, workers=1, failures=0, fewest=0, **extra):
    """Start the driver."""
    command = (sys.executable, "-m", "tests.faults.drive", folder, json.dumps(faults))
    return start(folder, *command, workers, failures, fewest, **extra)


def drive(folder, faults, workers=1, failures=0):
    """Run the driver to its end; return its exit status."""
    return started(folder, faults, workers, failures).wait(PATIENCE)


def repeated(folder):
    """Return how many steps were taken again after each restart."""
    steps = [int(line) for line in (folder / "steps.log").read_text().split()]
    assert set(steps) == set(range(1, STEPS + 1))
    pairs = zip(steps, steps[1:], strict=False)
    return [before - after + 1 for before, after in pairs if after != before + 1]


def agree(folder, whole, workers=1, exact=None):
    """Check the weights against those of the run that was not killed; say how they agree."""
    found = dict(np.load(folder / "weights.npz"))
    assert found.keys() == whole.keys()
    equal = all(np.array_equal(found[name], whole[name]) for name in whole)
    if workers == 1 if exact is None else exact:
        assert equal
    for name, value in whole.items():
        gap, size = np.abs(found[name] - value).max(), np.abs(value).max()
        # two workers sum gradients in float32 in an order of their own, over 300 steps
        assert gap <= 1e-5 * max(size, 1e-30), (name, gap, size)
    history = json.loads((folder / "history.json").read_text())
    assert [entry["step"] for entry in history] == [100, 200, 300]
    return "equal bit for bit" if equal else "equal within 1e-5"


def steps_of(kind, count):
    """Return so many random steps, the same at each call with a seed; none is the last."""
    return sorted(random.Random(f"{SEED} {kind} {count}").sample(range(1, STEPS), count))


@pytest.mark.parametrize(
    ("workers", "kills"),
    [(1, 2), pytest.param(1, 10, marks=long), pytest.param(2, 10, marks=long)],
)
def test_workers_are_killed(workers, kills, tmp_path, tmp_path_factory, case):
    whole = unkilled(workers, tmp_path_factory)
    with case(f"kill -9 of a worker, of {workers}", kills) as each:
        steps = steps_of("worker", kills)
        faults = [(step, f"worker{place % workers}") for place, step in enumerate(steps)]
        assert drive(tmp_path, faults, workers, failures=kills) == 0, text(tmp_path)[-4000:]
        assert len(list(tmp_path.glob("steps.log.*"))) == kills
        each.repeated = repeated(tmp_path)
        assert len(each.repeated) <= kills and max(each.repeated, default=0) <= MOST
        each.note = agree(tmp_path, whole, workers)
        assert not gone(tmp_path)


@pytest.mark.parametrize(
    ("workers", "kills"),
    [(1, 2), pytest.param(1, 6, marks=long), pytest.param(2, 6, marks=long)],
)
def test_drivers_are_killed(workers, kills, tmp_path, tmp_path_factory, case):
    whole = unkilled(workers, tmp_path_factory)
    with case(f"kill -9 of the driver, {workers} workers", kills) as each:
        faults = [(step, "driver") for step in steps_of("driver", kills)]
        for _ in range(kills):
            assert drive(tmp_path, faults, workers) == -9, text(tmp_path)[-4000:]
        assert drive(tmp_path, faults, workers) == 0, text(tmp_path)[-4000:]
        each.repeated = repeated(tmp_path)
        assert max(each.repeated, default=0) <= MOST
        each.note = agree(tmp_path, whole, workers)


@pytest.mark.parametrize(
    ("workers", "later"), [(2, 2), (2, 3), pytest.param(3, 3, marks=long), (3, 1)]
)
def test_several_workers_are_stopped(workers, later, tmp_path, tmp_path_factory, case):
    """By SIGTERM, as a scheduler does before it takes the machine away."""
    whole = unkilled(workers, tmp_path_factory)
    with case(f"SIGTERM of {workers} workers, {later} go on") as each:
        driver = started(tmp_path, [(1, "slow1")], workers)  # which alone changes nothing
        log = tmp_path / "steps.log"

        def begun():
            return log.exists() and len(log.read_text().split()) > EVERY // 2

        wait_for(begun, lambda: text(tmp_path), driver)
        driver.send_signal(signal.SIGTERM)
        assert driver.wait(PATIENCE) == 130, text(tmp_path)[-4000:]
        assert "stopped; a new start goes on from this very step" in text(tmp_path)
        assert not (tmp_path / "weights.npz").exists()
        assert drive(tmp_path, [], later) == 0, text(tmp_path)[-4000:]
        assert "continuing after step" in text(tmp_path)
        each.note = agree(tmp_path, whole, exact=workers == later)


@pytest.mark.parametrize("kind", ["hung1", pytest.param("frozen1", marks=long)])
def test_a_worker_hangs(kind, tmp_path, tmp_path_factory, case):
    """It is named, and the group starts again; without a restart that is how the run ends."""
    whole = unkilled(2, tmp_path_factory)
    with case(f"a worker of 2 is {kind}") as each:
        faults = [(30, kind), (70, kind)]
        assert drive(tmp_path, faults, 2) == 1
        (line,) = [line for line in text(tmp_path).splitlines() if line.startswith("error: ")]
        assert re.fullmatch(
            r"error: training of ring6 failed: worker 1 of 2 \(process \d+ on [^ ]+\) has stood "
            r"still in step \d+ for 20 s",
            line,
        )
        assert drive(tmp_path, faults, 2, failures=1) == 0, text(tmp_path)[-4000:]
        each.repeated = repeated(tmp_path)
        each.note = agree(tmp_path, whole, exact=True)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_asks_for_more_memory_than_there_is(workers, tmp_path, case):
    with case(f"a worker of {workers} runs out of memory"):
        assert drive(tmp_path, [(30, f"greedy{workers - 1}")], workers) == 1
        (line,) = [line for line in text(tmp_path).splitlines() if line.startswith("error: ")]
        named = "" if workers == 1 else "worker 1: "
        assert line.startswith(f"error: training of ring6 failed: {named}out of memory (")
        assert line.endswith("); a smaller batch_size or more workers need less")


@long
def test_a_worker_trains_on_for_a_while_when_its_driver_is_killed(
    tmp_path, tmp_path_factory, case
):
    whole = unkilled(1, tmp_path_factory)
    with case("kill -9 of the driver, the worker trains on") as each:
        assert drive(tmp_path, [(30, "orphan")]) == -9, text(tmp_path)[-4000:]
        assert drive(tmp_path, [(30, "orphan")]) == 0, text(tmp_path)[-4000:]
        each.repeated, each.note = repeated(tmp_path), agree(tmp_path, whole, 1)


def test_a_worker_is_killed_while_it_writes_a_state(tmp_path, tmp_path_factory, case):
    whole = unkilled(1, tmp_path_factory)
    with case("kill -9 amid the writing of a state", 3) as each:
        faults = [(80, "torn"), (200, "torn"), (240, "renamed")]
        assert drive(tmp_path, faults, failures=3) == 0, text(tmp_path)[-4000:]
        assert len(list(tmp_path.glob("steps.log.*"))) == 3
        each.repeated = repeated(tmp_path)
        assert len(each.repeated) >= 2 and max(each.repeated) <= MOST
        each.note = agree(tmp_path, whole, 1)
        folder = next(tmp_path.glob("runs/*/states"))
        assert sorted(path.name for path in folder.iterdir()) == [
            f"{step:09d}.state" for step in (260, 280, 300)
        ]


def cut(path):
    path.write_bytes(path.read_bytes()[:-1000])


def flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def emptied(path):
    path.write_bytes(b"")


@pytest.mark.parametrize(
    "damage", [flipped, pytest.param(cut, marks=long), pytest.param(emptied, marks=long)]
)
def test_the_newest_state_is_damaged(damage, tmp_path, tmp_path_factory, case):
    whole = unkilled(1, tmp_path_factory)
    with case(f"the newest state is {damage.__name__}") as each:
        faults = [(150, "driver")]
        assert drive(tmp_path, faults) == -9
        newest = sorted(tmp_path.glob("runs/*/states/*.state"))[-1]
        assert newest.stem == "000000140" and load_checkpoint(newest)["step"] == 140
        damage(newest)
        assert drive(tmp_path, faults) == 0, text(tmp_path)[-4000:]
        assert "000000140.state is damaged" in text(tmp_path)
        assert "continuing after step 120" in text(tmp_path)
        each.repeated, each.note = repeated(tmp_path), agree(tmp_path, whole, 1)


@long
def test_every_state_is_damaged(tmp_path, tmp_path_factory, case):
    whole = unkilled(1, tmp_path_factory)
    with case("every state is damaged") as each:
        assert drive(tmp_path, [(150, "driver")]) == -9
        for path in tmp_path.glob("runs/*/states/*.state"):
            cut(path)
        assert drive(tmp_path, [(150, "driver")]) == 0, text(tmp_path)[-4000:]
        assert text(tmp_path).count("is sound, so the run begins anew") == 1
        each.repeated, each.note = repeated(tmp_path), agree(tmp_path, whole, 1)
