"""MLflow's pages of a sweep, in a real browser: estimates compared by sigma and rank, listed."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

import pytest
from mlflow import MlflowClient

from hosm.experiment.accuracy.study.logged import describe, log_estimate
from hosm.experiment.run.tracking import open_tracker
from hosm.experiment.settings import load_params
from tests.experiment.accuracy.estimates import estimate

BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
ROOT = Path(__file__).resolve().parents[3]
ARTIFACTS, PARAMS = ROOT / "build" / "test-artifacts", ROOT / "params.yaml"
ERRORS = (7.1, 4.1, 7.5, 4.5)  # of the made-up estimates
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
    pytest.mark.timeout(600),  # a server and a browser start, perhaps on a busy machine
    pytest.mark.skipif(BROWSER is None, reason="needs a Chromium browser"),
]


def wait_for_port(port, seconds=200):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise AssertionError("MLflow's server did not start")


def log_sweep(root):
    """Log a sweep of four estimates below a folder; return the ids of their runs by name."""
    tracker, sweep = open_tracker(None, "hosm", root), load_params(PARAMS).sweep
    with tracker.run("sweep") as parent:
        describe(tracker, parent)
        for sigma in (0.01, 0.05):
            for rank in (15, 30):
                made = estimate(sigma=sigma, rank=rank)
                log_estimate(tracker, parent, sweep, "key", {}, made)
    client = MlflowClient(tracking_uri=tracker.uri)
    runs = client.search_runs([tracker.experiment_id], "tags.stage = 'trial'")
    return {run.info.run_name: run.info.run_id for run in runs}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("mlflow")


@pytest.fixture(scope="module")
def served(place):
    """A store with a sweep of four estimates, served on loopback; its port and run ids."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        ids = log_sweep(place)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--workers", "1"]
    command += ["--port", str(port), "--backend-store-uri", f"sqlite:///{place}/runs/mlflow.db"]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        wait_for_port(port)
        yield port, ids
    finally:
        server.terminate()
        server.wait(120)


@pytest.fixture(scope="module")
def seen(served, place):
    """What a browser shows of a page of the store: its document; the picture is kept."""
    port, _ = served
    ARTIFACTS.mkdir(parents=True, exist_ok=True)

    def seen(page, name):
        url, picture = f"http://127.0.0.1:{port}/#/{page}", ARTIFACTS / f"{name}.png"
        shot = [BROWSER, *FLAGS, f"--user-data-dir={place}/a", f"--screenshot={picture}", url]
        subprocess.run(shot, check=True, timeout=240, capture_output=True)
        assert picture.stat().st_size > 50_000
        dump = [BROWSER, *FLAGS, f"--user-data-dir={place}/b", "--dump-dom", url]
        done = subprocess.run(dump, check=True, timeout=240, capture_output=True, text=True)
        return done.stdout

    return seen


def axes(page):
    """The names of the axes of the parallel coordinates, from left to right."""
    return re.findall(r'class="axis-title"[^>]*>([^<]+)<', page)


def test_the_comparison_opens_by_rank_and_sigma_with_the_one_error_of_all(served, seen):
    _, ids = served
    runs = urllib.parse.quote(json.dumps(list(ids.values())))
    page = seen(f"compare-runs?runs={runs}&experiments=%5B%221%22%5D", "mlflow-compared")
    assert "Comparing 4 Runs" in page and "Parallel Coordinates" in page
    assert axes(page) == ["rank", "sigma", "hessian_error"]
    for text in (*ids, *(f">{error}<" for error in ERRORS)):
        assert text in page


def test_the_saved_view_lists_the_estimates_with_settings_and_error(served, seen):
    page = seen("experiments/1/runs?viewStateShareKey=estimates", "mlflow-estimates")
    assert "Error loading shared view state" not in page and "4</strong> matching runs" in page
    settings = ("dataset", "rank", "sigma", "target")
    for name in ("metrics.`hessian_error`", *(f"params.`{each}`" for each in settings)):
        assert f'col-id="{name}"' in page
    errors = re.findall(r'id="cell-metrics.`hessian_error`-\d+"[^>]*>([\d.]+)<', page)
    assert [float(error) for error in errors] == sorted(ERRORS)  # the least comes first
