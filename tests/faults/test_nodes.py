"""Nodes of a Ray cluster that leave, that join, that are taken away, and a head that dies."""

import os
import shutil
from pathlib import Path

import pytest

from tests.experiment.cluster.nodes import Cluster
from tests.faults.processes import gone, text, wait_for
from tests.faults.test_kills import agree, repeated, started, unkilled

pytestmark = [pytest.mark.faults, pytest.mark.long]
OPEN = {"RAY_AUTH_MODE": "disabled"}


@pytest.fixture
def cluster():
    """A head of one CPU; a short path, as sockets lie below it."""
    folder = Path(f"/tmp/hn{os.getpid()}")
    folder.mkdir()
    found = Cluster(folder, **OPEN)
    try:
        found.add(1)
        yield found
    finally:
        found.stop()
        shutil.rmtree(folder, ignore_errors=True)


def run(folder, cluster, **options):
    """Start a driver whose steps take long; wait until some are taken."""
    log, address = folder / "steps.log", {"RAY_ADDRESS": cluster.address, **OPEN}
    before = len(log.read_text().split()) if log.exists() else 0
    driver = started(folder, [(1, "slower")], **options, **address)

    def begun():
        return log.exists() and len(log.read_text().split()) >= before + 30

    wait_for(begun, 240, lambda: text(folder))
    return driver


def test_a_node_leaves_and_another_joins(cluster, tmp_path, tmp_path_factory, case):
    whole = unkilled(1, tmp_path_factory)
    with case("a node leaves, another joins", 2) as each:
        cluster.add(1)
        driver = run(tmp_path, cluster, workers=2, failures=1, fewest=1)
        cluster.kill(1)
        wait_for(lambda: "on 1 worker" in text(tmp_path), 120, lambda: text(tmp_path))
        cluster.add(1)
        wait_for(lambda: "on 2 workers" in text(tmp_path), 120, lambda: text(tmp_path))
        assert driver.wait(600) == 0, text(tmp_path)[-4000:]
        each.repeated = repeated(tmp_path)
        each.note = agree(tmp_path, whole, exact=False)


def test_a_node_is_taken_away_with_notice(cluster, tmp_path, tmp_path_factory, case):
    """Ray calls it preemption; a state is kept at once, so that few steps are taken again."""
    whole = unkilled(1, tmp_path_factory)
    with case("a node is taken away with notice") as each:
        cluster.add(1)
        driver = run(tmp_path, cluster, workers=2, fewest=1)
        cluster.drain(seconds=20)
        assert driver.wait(600) == 0, text(tmp_path)[-4000:]
        assert "on 1 worker" in text(tmp_path)
        each.repeated = repeated(tmp_path)
        each.note = agree(tmp_path, whole, exact=False)


def test_the_head_dies(cluster, tmp_path, tmp_path_factory, case):
    whole = unkilled(1, tmp_path_factory)
    with case("the head of the cluster dies") as each:
        driver = run(tmp_path, cluster)
        cluster.kill(0)
        assert driver.wait(60) == 1, text(tmp_path)[-4000:]
        (line,) = [line for line in text(tmp_path).splitlines() if line.startswith("error: ")]
        assert line.startswith("error: the head of the Ray cluster at ")
        assert line.endswith(
            f":{cluster.gcs} is gone; once there is one again, a new start goes on from the last "
            "state"
        )
        cluster.nodes.clear()
        cluster.add(1)
        assert run(tmp_path, cluster).wait(600) == 0, text(tmp_path)[-4000:]
        assert "continuing after step" in text(tmp_path)
        each.repeated, each.note = repeated(tmp_path), agree(tmp_path, whole)
        assert not gone(tmp_path, 90)
