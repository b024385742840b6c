"""Runs in a real SQLite store and at a real server; and stores that are away, slow or broken."""

import logging
import math
import os
import pickle
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch
from mlflow import MlflowClient

from hosm.experiment.run import tracking
from hosm.experiment.run.tags import standard_tags
from hosm.experiment.run.tracking import RunLogger, open_tracker

PROJECT = Path(__file__).parents[3]
AWAY = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch, tmp_path):
    """Forget the stores that other tests gave up, and what the machine's user has set."""
    monkeypatch.setattr(tracking, "_failed", set())
    monkeypatch.setattr(tracking, "_away", {})
    monkeypatch.setenv("HOSM_OUTBOX", str(tmp_path / "outbox"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One store for the tests that only add runs to it; a fresh one takes seconds."""
    root = tmp_path_factory.mktemp("project")
    return open_tracker(None, "study", root)


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING)
    return lambda: [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def stored(tracker, run):
    return MlflowClient(tracking_uri=tracker.uri).get_run(getattr(run, "run_id", run))


def python(script, *arguments):
    """Start a process that has seen nothing of MLflow's settings here."""
    known = ("MLFLOW", "PYTEST", "CI", "GITHUB_ACTIONS")  # by the latter it detects a test
    inherited = {k: value for k, value in os.environ.items() if not k.startswith(known)}
    environment = {**inherited, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)


# What is stored


def test_store_and_artifacts_lie_in_the_project_by_absolute_paths(store):
    file = Path(store.uri.removeprefix("sqlite:///"))
    assert file.is_absolute() and file.is_file() and file.parts[-2:] == ("runs", "mlflow.db")
    client = MlflowClient(tracking_uri=store.uri)
    location = client.get_experiment(store.experiment_id).artifact_location
    assert location == (file.parent / "artifacts").as_uri()


def test_what_was_logged_is_found(store, tmp_path):
    (tmp_path / "table.csv").write_text("1,2")
    with store.run("train", params={"sigma": 0.05, "rank": 20}, tags={"profile": "smoke"}) as run:
        for step in range(3):
            run.log_metrics({"loss": 1.0 / (1 + step)}, step=step)
        run.log_params({"more": True})
        run.set_tags({"profile": "laptop"})
        run.log_artifact(tmp_path / "table.csv", "tables")
    found = stored(store, run)
    assert found.info.status == "FINISHED"
    assert found.info.run_name == "train"
    assert found.data.params == {"sigma": "0.05", "rank": "20", "more": "True"}
    assert found.data.tags["profile"] == "laptop"
    client = MlflowClient(tracking_uri=store.uri)
    history = client.get_metric_history(run.run_id, "loss")
    assert [(m.step, m.value) for m in history] == [(0, 1.0), (1, 0.5), (2, 1 / 3)]
    assert [a.path for a in client.list_artifacts(run.run_id, "tables")] == ["tables/table.csv"]


def test_nested_names_limits_and_missing_values(store):
    params = {"model": {"sigma": 0.1, "net": {"width": 64}, "no": None}, "a\u03c3b": 1, "/x": 2}
    with store.run("names", params={**params, "long": "y" * 7000, "n" * 300: 3}) as run:
        run.log_metrics({"train": {"loss": 2.0}, "none": None, "\u03c3": 1.0})
        run.set_tags({"long": "z" * 9000})
    data = stored(store, run).data
    long = data.params.pop("long")
    assert len(long) == 6000 and long.endswith("y...")
    names = {"model.sigma": "0.1", "model.net.width": "64", "a_b": "1", "_x": "2", "n" * 250: "3"}
    assert data.params == names
    assert data.metrics == {"train.loss": 2.0, "_": 1.0}
    assert len(data.tags["long"]) == 5000


@pytest.mark.parametrize("name", ["", ".", "..", "../up", "a//b", "/", "a/", "x\ny", "%"])
def test_any_name_is_made_legal(store, name, warnings):
    with store.run("odd", params={name: 1}) as run:
        run.log_metrics({name: 1.0})
    assert len(stored(store, run).data.params) == 1
    assert not warnings()


def test_many_entries_at_once(store):
    values = {f"p{number}": number for number in range(1001)}
    with store.run("many", params=values) as run:
        run.log_metrics(values)
    data = stored(store, run).data
    assert len(data.params) == len(data.metrics) == 1001


def test_numbers_of_other_libraries_and_values_that_are_not_finite(store):
    with store.run("numbers") as run:
        run.log_metrics({"a": np.float32(0.5), "b": torch.tensor(2.0), "c": 3})
        run.log_metrics({"nan": math.nan, "inf": math.inf, "minus": -torch.tensor(math.inf)})
    metrics = stored(store, run).data.metrics
    assert (metrics["a"], metrics["b"], metrics["c"]) == (0.5, 2.0, 3.0)
    assert all(math.isnan(metrics[name]) for name in ("nan", "inf", "minus"))


def test_children_are_found_by_their_params(store):
    with store.run("sweep") as parent:
        for rank in (15, 20):
            params, metrics = {"sigma": 0.05, "rank": rank}, {"error": 100 / rank}
            store.finished_child(parent.run_id, f"trial-{rank}", params, metrics, {"n": 1})
        failed = store.finished_child(parent, "trial-bad", {"rank": 9}, {}, status="FAILED")
        with store.run("in place", parent_run_id=parent.run_id):
            pass
    assert stored(store, failed).info.status == "FAILED"
    client = MlflowClient(tracking_uri=store.uri)
    under = f"tags.`mlflow.parentRunId` = '{parent.run_id}'"
    search = [store.experiment_id], f"{under} and params.sigma = '0.05' and params.rank = '20'"
    (child,) = client.search_runs(*search)
    assert child.data.metrics == {"error": 5.0}
    assert child.info.status == "FINISHED" and child.info.end_time
    assert len(client.search_runs([store.experiment_id], under)) == 4
    with pytest.raises(
        ValueError, match="status must be one of FINISHED, FAILED, KILLED, got 'DONE'"
    ):
        store.finished_child(parent, "x", {}, {}, status="DONE")


def test_a_search_started_again_shows_each_finished_trial_once(store):
    with store.run("killed") as first:
        store.finished_child(first, "a", {"rank": 1}, {"error": 2.0}, key="s/a")
        store.finished_child(first, "b", {"rank": 2}, {}, status="FAILED", key="s/b")
    with store.run("again") as second:
        for name in ("a", "b"):
            store.finished_child(second, name, {}, {"error": 3.0}, key=f"s/{name}")
    client = MlflowClient(tracking_uri=store.uri)
    under = f"tags.`mlflow.parentRunId` = '{second.run_id}'"
    children = client.search_runs([store.experiment_id], under)
    assert {c.info.run_name: c.data.metrics["error"] for c in children} == {"a": 2.0, "b": 3.0}
    assert len(client.search_runs([store.experiment_id], "tags.key = 's/a'")) == 1


def test_a_trial_that_failed_alike_is_shown_once(store):
    for _ in range(2):
        with store.run("sweep") as parent:
            trial = ("t", {}, {"loss": 1.0}, {}, "FAILED", "s/t")
            child = store.finished_child(parent, *trial)
    client = MlflowClient(tracking_uri=store.uri)
    (found,) = client.search_runs([store.experiment_id], "tags.key = 's/t'")
    assert found.info.run_id == child and found.info.status == "FAILED"
    assert found.data.tags["mlflow.parentRunId"] == parent.run_id


def test_runs_whose_process_was_killed_are_closed(store, warnings):
    script = """
import os, sys
from pathlib import Path
from hosm.experiment.run.tracking import open_tracker
with open_tracker(None, "study", Path(sys.argv[1])).run("left") as run:
    print(run.run_id, flush=True)
    os.kill(os.getpid(), 9)
"""
    root = Path(store.uri.removeprefix("sqlite:///")).parents[1]
    left = python(script, root).communicate()[0].strip()
    with store.run("left") as mine:
        assert stored(store, left).info.status == stored(store, mine).info.status == "RUNNING"
        store.close_abandoned("other")
        assert stored(store, left).info.status == "RUNNING"
        store.close_abandoned("left")
        assert stored(store, left).info.status == "KILLED"
        how = "interrupted: its process ended without a word"
        assert stored(store, left).data.tags["ended"] == how
        assert stored(store, mine).info.status == "RUNNING"
    assert not warnings()


@pytest.mark.parametrize(
    ("error", "status", "how"),
    [
        (ZeroDivisionError, "FAILED", "failed: ZeroDivisionError: mine"),
        (OSError, "FAILED", "failed: OSError: mine"),
        (KeyboardInterrupt, "KILLED", "interrupted: mine"),
    ],
)
def test_an_error_in_the_body_marks_the_run_and_passes(store, error, status, how, warnings):
    with pytest.raises(error, match="mine"), store.run("bad") as run:
        raise error("mine")
    assert stored(store, run).info.status == status
    assert stored(store, run).data.tags["ended"] == how
    assert not warnings()


def test_wrong_calls_pass(store, tmp_path):
    with store.run("wrong") as run:
        with pytest.raises(TypeError, match="metric loss must be a number, got '0.5'"):
            run.log_metrics({"loss": "0.5"})
        with pytest.raises(TypeError):
            run.log_metrics({"loss": object()})
        with pytest.raises(FileNotFoundError, match="nothing.txt does not exist"):
            run.log_artifact(tmp_path / "nothing.txt")
    assert stored(store, run).info.status == "FINISHED"


def test_threads_log_to_runs_of_their_own(store):
    def work(number):
        with store.run(f"thread {number}") as run:
            run.log_metrics({"number": number})
        runs[number] = run

    runs = {}
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [stored(store, runs[n]).data.metrics["number"] for n in range(4)] == [0, 1, 2, 3]


def test_a_tracker_and_a_run_can_be_sent_to_a_worker(store):
    assert pickle.loads(pickle.dumps(store)) == store
    with store.run("sent") as run:
        pickle.loads(pickle.dumps(run)).log_metrics({"loss": 1.0})
    assert stored(store, run).data.metrics == {"loss": 1.0}


def test_the_experiment_is_created_once(store):
    root = Path(store.uri.removeprefix("sqlite:///")).parents[1]
    assert open_tracker(None, "study", root) == store
    assert open_tracker("sqlite:///runs/mlflow.db", "study", root) == store
    assert open_tracker(None, "other", root).experiment_id != store.experiment_id


def test_the_environment_overrides_and_off_is_off(store, tmp_path, monkeypatch, warnings):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store.uri)
    assert open_tracker(AWAY, "study", tmp_path) == store
    assert open_tracker("off", "study", tmp_path).uri is None
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "off")
    with open_tracker(None, "study", tmp_path).run("nothing", {"a": 1}) as run:
        run.log_metrics({"loss": 1.0})
    assert run.run_id is None
    assert not warnings() and not list(tmp_path.iterdir())


def test_importing_sets_no_environment_and_use_sets_only_what_is_not_set(tmp_path):
    script = """
import os, sys
os.environ["XDG_CONFIG_HOME"] = sys.argv[1]
from hosm.experiment.run import tracking
from mlflow.telemetry import get_telemetry_client
assert get_telemetry_client() is not None
assert not set(tracking.DEFAULTS) & set(os.environ)
os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
tracking._set_defaults()
assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "0"
assert os.environ["MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR"] == "1"
assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
assert get_telemetry_client() is None
"""
    worker = python(script, tmp_path)
    assert worker.wait() == 0, worker.stderr.read()


def test_standard_tags(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_STAGE", "train@ring6")
    monkeypatch.delenv("DVC_EXP_NAME", raising=False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    tags = standard_tags(tmp_path, "smoke", "abc")
    assert (tags["dvc.stage"], tags["profile"], tags["data.sha256"]) == (
        "train@ring6",
        "smoke",
        "abc",
    )
    assert {"dvc.experiment", "git.commit", "git.dirty"}.isdisjoint(tags)
    assert "torch" in tags["versions"] and "CPU" in tags["hardware"]


def test_standard_tags_hold_the_commit_and_whether_files_differ_from_it(tmp_path):
    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "one")
    tags = standard_tags(tmp_path, "smoke", None)
    assert (tags["git.commit"], tags["git.dirty"]) == (git("rev-parse", "HEAD"), "false")
    assert "data.sha256" not in tags
    (tmp_path / "a").write_text("2")
    assert standard_tags(tmp_path, "smoke", None)["git.dirty"] == "true"


# Failing soft


def test_server_away_costs_one_warning_and_the_body_goes_on(tmp_path, warnings):
    start = time.monotonic()
    tracker = open_tracker(AWAY, "study", tmp_path)
    done = []
    with tracker.run("train", {"a": 1}) as run:
        for step in range(100):
            run.log_metrics({"loss": 1.0}, step)
        done.append(True)
    assert tracker.finished_child(run, "trial", {}, {}) is None
    RunLogger(AWAY, "0" * 32).log_metrics({"loss": 1.0})
    assert done and run.run_id is None
    assert time.monotonic() - start < 100  # by default a single call takes 249 s
    assert len(warnings()) == 1 and AWAY in warnings()[0]
    with pytest.raises(ZeroDivisionError), tracker.run("bad"):
        raise ZeroDivisionError


def test_a_second_store_that_fails_does_not_warn_again(tmp_path, warnings):
    for uri in (AWAY, "nonsense://", str(tmp_path / "files")):
        assert open_tracker(uri, "study", tmp_path).experiment_id is None
    assert len(warnings()) == 1


def test_a_server_that_never_answers_is_given_up(tmp_path, monkeypatch, warnings):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with open_tracker(uri, "study", tmp_path).run("train") as run:
            run.log_metrics({"loss": 1.0})
    assert time.monotonic() - start < 100  # by default a single call takes 249 s
    assert len(warnings()) == 1


def test_a_store_that_breaks_in_the_middle(store, tmp_path, warnings):
    (tmp_path / "runs").mkdir()
    shutil.copy(store.uri.removeprefix("sqlite:///"), tmp_path / "runs")
    tracker = open_tracker(None, "study", tmp_path)
    done = []
    with tracker.run("train") as run:
        run.log_metrics({"loss": 1.0})
        for file in (tmp_path / "runs").glob("mlflow.db*"):
            file.write_bytes(b"no database at all " * 100)
        start = time.monotonic()
        run.log_metrics({"loss": 0.5})
        run.set_tags({"a": "b"})
        done.append(True)
    assert done and time.monotonic() - start < 2
    assert len(warnings()) == 1 and "not a database" in warnings()[0]


def test_a_locked_database_is_given_up(store, monkeypatch, warnings):
    monkeypatch.setattr(tracking, "PATIENCE", 0.2)
    with sqlite3.connect(store.uri.removeprefix("sqlite:///")) as other:
        other.execute("BEGIN EXCLUSIVE")
        with store.run("train") as run:
            run.log_metrics({"loss": 0.5})
        other.execute("ROLLBACK")
    assert run.run_id is None
    assert len(warnings()) == 1 and "locked" in warnings()[0]


def test_a_worker_creates_no_store(tmp_path, warnings):
    RunLogger(f"sqlite:///{tmp_path}/none.db", "0" * 32).log_metrics({"loss": 1.0})
    assert len(warnings()) == 1 and not list(tmp_path.iterdir())


def test_an_unknown_run_is_a_failure(store, warnings):
    RunLogger(store.uri, "0" * 32).log_metrics({"loss": 1.0})
    assert len(warnings()) == 1


def test_a_folder_that_cannot_be_made_is_a_failure(tmp_path, warnings):
    (tmp_path / "runs").write_text("a file")
    with open_tracker(None, "study", tmp_path).run("train") as run:
        pass
    assert run.run_id is None and len(warnings()) == 1


# Several processes


@pytest.mark.cluster
def test_a_worker_logs_to_the_run_of_the_driver(store):
    script = """
import sys
from hosm.experiment.run.tracking import RunLogger
RunLogger(sys.argv[1], sys.argv[2]).log_metrics({"loss": 0.25}, step=7)
"""
    with store.run("driver") as run:
        worker = python(script, store.uri, run.run_id)
        assert worker.wait() == 0, worker.stderr.read()
        assert stored(store, run).info.status == "RUNNING"
    (entry,) = MlflowClient(tracking_uri=store.uri).get_metric_history(run.run_id, "loss")
    assert (entry.step, entry.value) == (7, 0.25)
    assert not worker.stderr.read()


@pytest.mark.cluster
def test_four_processes_open_a_fresh_store_at_once(tmp_path):
    script = """
import sys, time
from pathlib import Path
from hosm.experiment.run.tracking import open_tracker
root, number = Path(sys.argv[1]), sys.argv[2]
(root / f"ready{number}").touch()
while len(list(root.glob("ready*"))) < 4:
    time.sleep(0.01)
tracker = open_tracker(None, "study", root)
with tracker.run(f"run {number}", {"number": number}) as run:
    for step in range(20):
        run.log_metrics({"loss": step}, step)
from hosm.experiment.run import tracking
assert run.run_id and not tracking._failed
print(tracker.experiment_id)
"""
    workers = [python(script, tmp_path, number) for number in range(4)]
    answers = [worker.communicate() for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 4, answers
    assert len({out for out, _ in answers}) == 1
    tracker = open_tracker(None, "study", tmp_path)
    runs = MlflowClient(tracking_uri=tracker.uri).search_runs([tracker.experiment_id])
    assert sorted(run.data.params["number"] for run in runs) == ["0", "1", "2", "3"]
    assert all(run.info.status == "FINISHED" for run in runs)
    assert all(run.data.metrics["loss"] == 19 for run in runs)


@pytest.fixture
def server(tmp_path):
    """A server of MLflow, to be stopped by the test or after it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = ["--backend-store-uri", f"sqlite:///{tmp_path}/server.db"]
    artifacts = ["--artifacts-destination", str(tmp_path / "artifacts")]
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    process = subprocess.Popen(
        [*command, *store, *artifacts],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    uri = f"http://127.0.0.1:{port}"

    def stop():
        if process.poll() is None:
            os.killpg(process.pid, 15)
            process.wait()

    for _ in range(120):
        try:
            urllib.request.urlopen(f"{uri}/health", timeout=1).close()
            break
        except OSError:
            time.sleep(0.5)
    yield uri, stop
    stop()


@pytest.mark.cluster
def test_a_server_in_use_and_gone_in_the_middle(server, tmp_path, warnings):
    uri, stop = server
    tracker = open_tracker(uri, "study", tmp_path)
    (tmp_path / "a.txt").write_text("words")
    with tracker.run("whole", {"sigma": 0.1}) as run:
        run.log_metrics({"loss": 0.5, "bad": math.inf})
        run.log_artifact(tmp_path / "a.txt")
    found = stored(tracker, run)
    assert found.info.status == "FINISHED" and found.data.params == {"sigma": "0.1"}
    assert found.data.metrics["loss"] == 0.5 and math.isnan(found.data.metrics["bad"])
    client = MlflowClient(tracking_uri=uri)
    assert [a.path for a in client.list_artifacts(run.run_id)] == ["a.txt"]
    done = []
    with tracker.run("cut") as run:
        run.log_metrics({"loss": 0.5})
        assert not warnings()
        stop()
        for step in range(50):
            run.log_metrics({"loss": 0.5}, step)
        done.append(True)
    assert done
    assert len(warnings()) == 1
