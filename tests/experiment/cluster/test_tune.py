"""The sweep on Ray Tune: killed in the middle and started again, it repeats nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml
from mlflow import MlflowClient

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(tmp_path):
    """A project whose sweep has three trials of two dozen seconds on one CPU."""
    raw = yaml.safe_load((ROOT / "params.yaml").read_text())
    model = {"backbone": {"kind": "mlp", "width": 16, "shared": False}, "learning_rate": 1e-3}
    model |= {"batch_size": 32, "max_steps": 3000, "validate_every": 300, "average_width": 0.1}
    models = ("gaussian100", "logistic", "logistic50", "logistic80")
    sections = {key: value for key, value in raw["sweep"].items() if key not in models}
    sections |= {"datasets": ["gaussian2"], "ranks": [1, 2], "targets": ["jacobian", "residual"]}
    sections |= {"seeds": [0, 1, 2], "joint": [], "max_concurrent": 1, "common": model}
    raw |= {"profile": "smoke", "sweep": {**sections, "gaussian2": {}}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(raw))
    run(tmp_path, "pipeline.prepare", "gaussian2").wait(400)
    return tmp_path


def run(project, *command):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "DVC_", "MLFLOW_"))}
    environment = {**kept, "HOSM_PROJECT": str(project), "PYTHONPATH": str(ROOT)}
    # As under DVC, the stage stops with its parent, and with it Ray.
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=environment,
        stdout=(project / "stage.log").open("a"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def children(project):
    """The logged estimates by their name: when each was logged, and below which run."""
    client = MlflowClient(tracking_uri=f"sqlite:///{project}/runs/mlflow.db")
    (experiment,) = [e for e in client.search_experiments() if e.name != "Default"]
    found = client.search_runs([experiment.experiment_id], "tags.stage = 'trial'")
    names = [each.info.run_name for each in found]
    assert len(set(names)) == len(names)
    return {
        each.info.run_name: (each.info.start_time, each.data.tags["mlflow.parentRunId"])
        for each in found
    }


def statuses(project):
    """Those of the sweep's own runs."""
    client = MlflowClient(tracking_uri=f"sqlite:///{project}/runs/mlflow.db")
    (experiment,) = [e for e in client.search_experiments() if e.name != "Default"]
    found = client.search_runs([experiment.experiment_id], "attributes.run_name = 'sweep'")
    return [each.info.status for each in found]


def test_a_killed_sweep_goes_on_where_it_was_and_shows_each_trial_once(project):
    stage, log = run(project, "pipeline.sweep"), project / "stage.log"
    deadline = time.monotonic() + 500
    while "[1/3]" not in log.read_text():
        assert time.monotonic() < deadline and stage.poll() is None, log.read_text()[-3000:]
        time.sleep(0.5)
    time.sleep(4)  # the second trial has begun, and its checkpoint holds a part of it
    os.killpg(stage.pid, signal.SIGKILL)
    stage.wait(120)
    before = children(project)
    assert 5 <= len(before) < 15  # an s1 and four heads for each trial

    assert run(project, "pipeline.sweep").wait(700) == 0, log.read_text()[-3000:]
    after = children(project)
    assert len(after) == 15 and len({parent for _, parent in after.values()}) == 1
    for name, (start, parent) in before.items():
        assert after[name][0] == start and after[name][1] != parent
    text = log.read_text()
    assert "continuing the sweep" in text
    assert sorted(statuses(project)) == ["FINISHED", "KILLED"]
    trials = pd.read_csv(project / "data" / "results" / "sweep" / "trials.csv")
    assert len(trials) == 15 and trials["s2_error"].notna().sum() == 12


def test_what_diverges_costs_its_own_rows_and_what_crashes_fails_the_sweep(project):
    """A head's learning rate is absurd; then an s1's too; then every fit's."""

    def sweep(**changes):
        settings = yaml.safe_load((project / "params.yaml").read_text())
        settings["sweep"]["gaussian2"] = changes
        settings["sweep"] |= {"seeds": [0], "ranks": [1]}
        settings["sweep"]["common"] |= {"max_steps": 30, "validate_every": 10}
        (project / "params.yaml").write_text(yaml.safe_dump(settings))
        return run(project, "pipeline.sweep").wait(500)

    def table(name):
        return pd.read_csv(project / "data" / "results" / "sweep" / f"{name}.csv")

    log, wild = project / "stage.log", {"learning_rate": 1e30}
    assert sweep(residual=wild) == 0, log.read_text()[-3000:]
    assert list(table("trials")["target"]) == ["dsm-vr", "jacobian"]
    (lost,) = table("diverged").to_dict("records")
    assert lost["target"] == "residual" and "diverged at step" in lost["diverged"]
    assert "residual r1 diverged" in log.read_text()
    client = MlflowClient(tracking_uri=f"sqlite:///{project}/runs/mlflow.db")
    (experiment,) = [e for e in client.search_experiments() if e.name != "Default"]
    (child,) = client.search_runs(
        [experiment.experiment_id], "tags.stage = 'trial' and status = 'FAILED'"
    )
    assert child.data.params["target"] == "residual" and "diverged" in child.data.tags

    assert sweep(first=wild, dsm={"learning_rate": 1e-3}) == 0, log.read_text()[-3000:]
    assert list(table("trials")["target"]) == ["dsm"]
    assert list(table("diverged")["target"]) == ["dsm-vr", "jacobian", "residual"]
    assert sweep(first=wild) == 1
    assert "every fit of the sweep diverged; the first: training diverged" in log.read_text()
