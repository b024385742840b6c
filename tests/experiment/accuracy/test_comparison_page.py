"""MLflow's pages: a sweep's trials can be compared by sigma and rank, seen in a real browser."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

import pytest

from hosm.experiment.run.tracking import open_tracker

BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
ARTIFACTS = Path(__file__).resolve().parents[3] / "build" / "test-artifacts"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=30000",
    "--window-size=1700,1900",
]
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(BROWSER is None, reason="needs a Chromium browser"),
]


def wait_for_port(port, seconds=90):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise AssertionError("MLflow's server did not start")


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A store with one sweep of four trials, served on loopback; yields its port and run ids."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    tracker = open_tracker(None, "hosm", tmp_path)
    ids = []
    with tracker.run("sweep") as parent:
        for sigma in (0.01, 0.05):
            for rank in (15, 30):
                cell = {"sigma": sigma, "rank": rank, "target": "jacobian", "seed": 0}
                name = f"trial-{sigma}-{rank}"
                ids.append(tracker.finished_child(parent, name, cell, {"s2_error": 40.0 - rank}))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--workers", "1"]
    command += ["--port", str(port), "--backend-store-uri", f"sqlite:///{tmp_path}/runs/mlflow.db"]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        wait_for_port(port)
        yield port, ids
    finally:
        server.terminate()
        server.wait(30)


def test_trials_are_compared_by_sigma_and_rank(served, tmp_path):
    port, ids = served
    runs = urllib.parse.quote(json.dumps(ids))
    experiments = urllib.parse.quote('["1"]')
    url = f"http://127.0.0.1:{port}/#/compare-runs?runs={runs}&experiments={experiments}"
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    picture = ARTIFACTS / "mlflow-sweep.png"
    shot = [BROWSER, *FLAGS, f"--user-data-dir={tmp_path}/a", f"--screenshot={picture}", url]
    subprocess.run(shot, check=True, timeout=120, capture_output=True)
    dump = [BROWSER, *FLAGS, f"--user-data-dir={tmp_path}/b", "--dump-dom", url]
    page = subprocess.run(dump, check=True, timeout=120, capture_output=True, text=True).stdout
    assert "Comparing 4 Runs" in page
    for text in ("sigma", "rank", "trial-0.01-15", "trial-0.05-30", "s2_error", "Parallel"):
        assert text in page
    assert picture.stat().st_size > 50_000
