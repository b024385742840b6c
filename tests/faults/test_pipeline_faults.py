"""DVC and MLflow under faults: kills in the middle, two at once, slow and stopping servers."""

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pandas as pd
import pytest
import yaml
from mlflow import MlflowClient

from tests.faults.processes import PATIENCE, ROOT, environment, gone, start, text, wait_for

pytestmark = pytest.mark.faults
long = pytest.mark.long
MODEL = "data/models/planar/two-modes/model.safetensors"
UNKILLED = []


@pytest.fixture
def clone(tmp_path):
    """A clone of the project under the smoke profile, whose training takes some seconds."""
    folder = tmp_path / "clone"
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    settings = yaml.safe_load((folder / "params.yaml").read_text()) | {"profile": "smoke"}
    settings["train"]["planar"] |= {"max_steps": 2000, "validate_every": 200}
    settings["cluster"] |= {"cpus_per_worker": 1}
    (folder / "params.yaml").write_text(yaml.safe_dump(settings))
    (folder / "dvc.lock").unlink(missing_ok=True)
    git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "smoke"]):
        subprocess.run([*git, *command], check=True)
    yield folder
    gone(folder)


def repro(clone, log="log.txt"):
    """Start `dvc repro` of one model in a clone."""
    command = (Path(sys.executable).parent / "dvc", "repro", "train@two-modes")
    extra = {"PYTHONPATH": clone, "HOSM_STORAGE": clone / "runs" / "ray"}
    return start(clone, *command, cwd=clone, log=clone / log, **extra)


def running(clone, name="train/two-modes"):
    """Return the statuses of the MLflow runs of a name, the oldest first."""
    client = MlflowClient(tracking_uri=f"sqlite:///{clone}/runs/mlflow.db")
    (place,) = [e.experiment_id for e in client.search_experiments() if e.name == "hosm"]
    found = client.search_runs([place], f"attributes.run_name = '{name}'")
    return [run.info.status for run in sorted(found, key=lambda run: run.info.start_time)]


def logged(clone):
    """Return the steps of the validations that the finished run shows."""
    client = MlflowClient(tracking_uri=f"sqlite:///{clone}/runs/mlflow.db")
    (place,) = [e.experiment_id for e in client.search_experiments() if e.name == "hosm"]
    wanted = "attributes.run_name = 'train/two-modes' and status = 'FINISHED'"
    (run,) = client.search_runs([place], wanted)
    history = client.get_metric_history(run.info.run_id, "validation_dsm")
    return sorted({metric.step for metric in history} - {0})


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def strike(clone, process, number):
    """Send a signal to DVC, as a terminal would if it is SIGINT, amid the training."""
    wait_for(lambda: "step 600/" in text(clone), lambda: text(clone), process)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    process.wait(PATIENCE)


@long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_dvc_is_killed_and_started_again(clone, number, case):
    with case(f"dvc repro ended by {number.name}") as each:
        if not UNKILLED:
            assert repro(clone).wait(PATIENCE) == 0, text(clone)[-4000:]
            UNKILLED.append(digest(clone / MODEL))
            for place in ("runs", "data", ".dvc/cache"):
                shutil.rmtree(clone / place)
            for file in ("dvc.lock", "log.txt"):
                (clone / file).unlink()
        struck = repro(clone)
        strike(clone, struck, number)
        assert struck.returncode != 0 and not (clone / MODEL).exists()
        wait_for(lambda: "interrupted" in text(clone), lambda: text(clone))
        assert "stopped; a new start goes on" in text(clone)
        assert repro(clone).wait(PATIENCE) == 0, text(clone)[-4000:]
        assert "continuing after step" in text(clone)
        assert digest(clone / MODEL) == UNKILLED[0]
        assert running(clone) == ["KILLED", "FINISHED"]
        assert logged(clone) == list(range(200, 2001, 200))  # of both drivers
        each.note = "equal bit for bit"


def test_two_repros_of_one_clone(clone, case):
    with case("two dvc repro of one clone at once") as each:
        first = repro(clone)
        wait_for(lambda: "step 200/" in text(clone), lambda: text(clone), first)
        second = repro(clone, "second.txt")
        assert second.wait(PATIENCE) != 0
        said = " ".join(text(clone, "second.txt").split())
        assert f"(PID {first.pid})" in said and "is being blocked by" in said
        assert first.wait(PATIENCE) == 0, text(clone)[-4000:]
        assert repro(clone, "third.txt").wait(PATIENCE) == 0
        assert "up to date" in text(clone, "third.txt")
        each.note = "the second names the first"


@pytest.fixture
def project(tmp_path):
    """A project under the smoke profile with one prepared data set."""
    settings = yaml.safe_load((ROOT / "params.yaml").read_text()) | {"profile": "smoke"}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(settings))
    yield tmp_path
    gone(tmp_path)


def stage(project, *command, log=None, **extra):
    """Start a stage in a project."""
    name, *arguments = command
    module = (sys.executable, "-m", f"pipeline.{name}", *arguments)
    options = {"HOSM_PROJECT": project, **extra}
    return start(project, *module, log=log, **options)


def test_two_pipelines_share_a_fresh_store(project, case):
    with case("two stages at once on one fresh store"):
        names = ("two-modes", "ring6", "mog2")
        started = [stage(project, "prepare", name, log=project / f"{name}.txt") for name in names]
        assert [each.wait(PATIENCE) for each in started] == [0, 0, 0]
        for name in names:
            assert running(project, f"prepare/{name}") == ["FINISHED"]
            assert "tracking is now off" not in text(project, f"{name}.txt")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Relay:
    """Stands before a server; each answer begins so many seconds late, or never comes."""

    def __init__(self, port, delay):
        self.port, self.delay, self.cut = port, delay, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            if self.cut:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self.port))
            for source, target, delay in ((near, far, 0.0), (far, near, self.delay)):
                arguments = (source, target, delay)
                threading.Thread(target=self.carry, args=arguments, daemon=True).start()

    def carry(self, source, target, delay):
        try:
            while data := source.recv(65536):
                time.sleep(delay)
                if self.cut:
                    break
                target.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, target):
                end.close()


@pytest.fixture
def server(tmp_path):
    """A server of MLflow; its port."""
    port, folder = free_port(), tmp_path / "server"
    folder.mkdir()
    command = (sys.executable, "-m", "mlflow", "server", "--port", port, "--workers", "1")
    stores = ("--backend-store-uri", f"sqlite:///{folder}/server.db")
    stores += ("--artifacts-destination", folder / "artifacts")
    started = start(folder, *command, *stores, MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false")

    def answers():
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10).close()
        except OSError:
            return False
        return True

    wait_for(answers, process=started)
    yield port
    os.killpg(started.pid, signal.SIGTERM)
    started.wait(PATIENCE)
    gone(folder)


def test_a_server_is_slow(project, server, case):
    relay = Relay(server, 1.0)
    with case("MLflow server answers a second late") as each:
        began = time.monotonic()
        made = stage(project, "prepare", "two-modes", MLFLOW_TRACKING_URI=relay.uri)
        assert made.wait(PATIENCE) == 0, text(project)
        assert "tracking is now off" not in text(project)
        client = MlflowClient(tracking_uri=f"http://127.0.0.1:{server}")
        (place,) = [e.experiment_id for e in client.search_experiments() if e.name == "hosm"]
        assert [run.info.status for run in client.search_runs([place])] == ["FINISHED"]
        each.note = f"{time.monotonic() - began:.0f} s"


def test_a_server_stops_answering_amid_a_training(project, server, case):
    relay = Relay(server, 0.0)
    with case("MLflow server gone amid a training") as each:
        tracked = {"MLFLOW_TRACKING_URI": relay.uri}
        assert stage(project, "prepare", "two-modes", **tracked).wait(PATIENCE) == 0, text(project)
        trained = stage(project, "train", "two-modes", **tracked)
        wait_for(lambda: "step 100/" in text(project), lambda: text(project), trained)
        relay.cut = True
        assert trained.wait(PATIENCE) == 0, text(project)
        assert (project / MODEL).exists() and "so what is logged is kept in" in text(project)
        relay.cut = False
        module = (sys.executable, "-m", "hosm.experiment.run.outbox")
        assert start(project, *module, **tracked).wait(PATIENCE) == 0, text(project)[-4000:]
        client = MlflowClient(tracking_uri=f"http://127.0.0.1:{server}")
        (place,) = [e.experiment_id for e in client.search_experiments() if e.name == "hosm"]
        assert {run.info.status for run in client.search_runs([place])} == {"FINISHED"}
        each.note = "sent later"


@long
def test_a_sweep_is_killed_twice(project, case):
    model = {"backbone": {"kind": "mlp", "width": 16, "shared": False}, "learning_rate": 1e-3}
    model |= {"batch_size": 32, "max_steps": 1500, "validate_every": 500, "average_width": 0.1}
    settings = yaml.safe_load((project / "params.yaml").read_text())
    kept = {key: each for key, each in settings["sweep"].items() if "backbone" not in str(each)}
    kept |= {"datasets": ["gaussian2"], "ranks": [1], "targets": ["jacobian"], "joint": []}
    kept |= {"seeds": [0, 1, 2, 3], "max_concurrent": 1, "common": model, "gaussian2": {}}
    (project / "params.yaml").write_text(yaml.safe_dump(settings | {"sweep": kept}))
    assert stage(project, "prepare", "gaussian2").wait(PATIENCE) == 0, text(project)
    with case("kill -9 of the sweep's driver", 2) as each:
        tables, times = [], {"seconds"}
        for kills in (0, 2):
            shutil.rmtree(project / "runs")
            (project / "log.txt").unlink()
            for number in range(kills):
                killed = stage(project, "sweep")
                wait_for(
                    lambda n=number: f"[{n + 1}/4]" in text(project), lambda: text(project), killed
                )
                time.sleep(1.5)  # the next trial has begun
                os.kill(killed.pid, signal.SIGKILL)
                killed.wait(PATIENCE)
            assert stage(project, "sweep").wait(PATIENCE) == 0, text(project)[-4000:]
            frame = pd.read_csv(project / "data" / "results" / "sweep" / "trials.csv")
            tables.append(frame.drop(columns=times))
        pd.testing.assert_frame_equal(*tables, check_exact=True)
        assert running(project, "sweep") == ["KILLED", "KILLED", "FINISHED"]
        each.note = "equal to the last digit"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("train", "workers must be at most 2, got 8"),
        ("sweep", "needs 8 CPUs; the cluster has 2"),
    ],
    ids=["train", "sweep"],
)
def test_more_workers_are_asked_for_than_there_are(project, name, words, case):
    assert stage(project, "prepare", "two-modes").wait(PATIENCE) == 0
    for data in ("gaussian100", "logistic50"):
        assert name == "train" or stage(project, "prepare", data).wait(PATIENCE) == 0
    ray, port = Path(sys.executable).parent / "ray", free_port()
    options = (f"--port={port}", "--num-cpus=2", "--node-ip-address=127.0.0.1", "--block")
    options += ("--object-store-memory=100000000", "--disable-usage-stats")
    options += ("--include-dashboard=false",)
    head = start(project, ray, "start", "--head", *options, RAY_AUTH_MODE="disabled")
    settings = yaml.safe_load((project / "params.yaml").read_text())
    if name == "train":
        settings["cluster"] |= {"workers": 8, "cpus_per_worker": 1}
    else:
        settings["sweep"] |= {"workers_per_trial": 8}
    (project / "params.yaml").write_text(yaml.safe_dump(settings))
    try:
        with case(f"{name} asks for 8 CPUs of 2") as each:
            wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, process=head)
            time.sleep(5)
            began = time.monotonic()
            address = {"RAY_ADDRESS": f"127.0.0.1:{port}", "RAY_AUTH_MODE": "disabled"}
            command = ("train", "two-modes") if name == "train" else ("sweep",)
            asked = stage(project, *command, **address, log=project / "asked.txt")
            assert asked.wait(PATIENCE) == 1
            said = text(project, "asked.txt")
            (line,) = [each for each in said.splitlines() if each.startswith("error: ")]
            assert words in line and "Traceback" not in said
            each.note = f"{time.monotonic() - began:.0f} s"
    finally:
        head.send_signal(signal.SIGTERM)
        head.wait(PATIENCE)


def test_no_more_workers_than_the_local_cluster_has(project, case):
    settings = yaml.safe_load((project / "params.yaml").read_text())
    settings["cluster"] |= {"workers": 8, "cpus_per_worker": 1}
    (project / "params.yaml").write_text(yaml.safe_dump(settings))
    with case("train asks for 8 of 2 local CPUs"):
        assert stage(project, "train", "two-modes").wait(PATIENCE) == 1
        assert "error: params.yaml: cluster: workers x cpus_per_worker must be at" in text(project)
        assert environment(project)["MARK"] == str(project)
