"""Nodes of a Ray cluster that leave, that join, that are taken away, and a head that dies."""

import os
import shutil
from pathlib import Path

import pytest

from tests.experiment.cluster.nodes import Cluster
from tests.faults.injected import EVERY
from tests.faults.processes import PATIENCE, text, wait_for
from tests.faults.test_kills import agree, repeated, started, unkilled

pytestmark = [pytest.mark.faults, pytest.mark.long]
OPEN = {"RAY_AUTH_MODE": "disabled"}
# Ray's head takes half a minute to believe that a node is dead, here six seconds.
ALERT = {"RAY_health_check_period_ms": "2000", "RAY_health_check_failure_threshold": "3"}
# Before that the controller may still count on the dead node, and wait so long for it (else 60 s).
BRIEF = {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "20"}


@pytest.fixture
def cluster():
    """A head of one CPU; a short path, as sockets lie below it."""
    folder = Path(f"/tmp/hn{os.getpid()}")
    folder.mkdir()
    found = Cluster(folder, **OPEN, **ALERT)
    try:
        found.add(1)
        yield found
    finally:
        found.stop()
        shutil.rmtree(folder, ignore_errors=True)


def run(folder, cluster, **options):
    """Start a driver whose steps take long, until `hurry`; wait until some are taken."""
    log, address = folder / "steps.log", {"RAY_ADDRESS": cluster.address, **OPEN, **BRIEF}
    before = len(log.read_text().split()) if log.exists() else 0
    driver = started(folder, [(1, "slower")], **options, **address)

    def begun():
        return log.exists() and len(log.read_text().split()) >= before + EVERY + 2

    wait_for(begun, lambda: text(folder), driver)
    return driver


def hurry(folder):
    """Let all steps from now on take no longer than they must."""
    (folder / "steps.log.hurry").touch()


def says(folder, driver, words):
    """Wait until a driver has printed some words."""
    wait_for(lambda: words in text(folder), lambda: text(folder), driver)


def test_a_node_leaves_and_another_joins(cluster, tmp_path, tmp_path_factory, case):
    whole = unkilled(1, tmp_path_factory)
    with case("a node leaves, another joins", 2) as each:
        cluster.add(1)
        driver = run(tmp_path, cluster, workers=2, failures=1, fewest=1)
        cluster.kill(1)
        says(tmp_path, driver, "on 1 worker")
        cluster.add(1)
        says(tmp_path, driver, "on 2 workers")
        hurry(tmp_path)
        assert driver.wait(PATIENCE) == 0, text(tmp_path)[-4000:]
        each.repeated = repeated(tmp_path)
        each.note = agree(tmp_path, whole, exact=False)


def test_a_node_is_taken_away_with_notice(cluster, tmp_path, tmp_path_factory, case):
    """Ray calls it preemption; a state is kept at once, so that few steps are taken again."""
    whole = unkilled(1, tmp_path_factory)
    with case("a node is taken away with notice") as each:
        cluster.add(1)
        driver = run(tmp_path, cluster, workers=2, fewest=1)
        cluster.drain(seconds=20)
        says(tmp_path, driver, "on 1 worker")
        hurry(tmp_path)
        assert driver.wait(PATIENCE) == 0, text(tmp_path)[-4000:]
        each.repeated = repeated(tmp_path)
        each.note = agree(tmp_path, whole, exact=False)


def test_the_head_dies(cluster, tmp_path, tmp_path_factory, case):
    whole = unkilled(1, tmp_path_factory)
    with case("the head of the cluster dies") as each:
        driver = run(tmp_path, cluster)
        cluster.kill(0)
        assert driver.wait(PATIENCE) == 1, text(tmp_path)[-4000:]
        (line,) = [line for line in text(tmp_path).splitlines() if line.startswith("error: ")]
        assert line.startswith("error: the head of the Ray cluster at ")
        assert line.endswith(
            f":{cluster.gcs} is gone; once there is one again, a new start goes on from the last "
            "state"
        )
        cluster.nodes.clear()
        cluster.add(1)
        hurry(tmp_path)
        assert run(tmp_path, cluster).wait(PATIENCE) == 0, text(tmp_path)[-4000:]
        assert "continuing after step" in text(tmp_path)
        each.repeated, each.note = repeated(tmp_path), agree(tmp_path, whole)
