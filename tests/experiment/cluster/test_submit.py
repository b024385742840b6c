"""The pipeline on a cluster of two nodes on loopback: by DVC on its head node, and as Ray jobs."""

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import psutil
import pytest
import ray
import yaml
from mlflow import MlflowClient
from ray._private.authentication_test_utils import reset_auth_token_state
from ray._private.runtime_env.packaging import create_package
from ray._private.worker import get_dashboard_url

from hosm.experiment.accuracy.study.sweep import SweepInputs, run_sweep
from hosm.experiment.cluster import connection, submit
from hosm.experiment.run.process import StageError
from hosm.experiment.settings import ClusterParams, load_params
from hosm.experiment.train.models import load_model
from tests.experiment.cluster.nodes import BIN, Cluster, plain_environment, wait_for

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).resolve().parents[3]
REPEATS = int(os.environ.get("HOSM_REPEATS", "2"))  # of the sweep with early stopping
SECRET = "planted-secret-word"
SHIPPED = ("hosm", "pipeline", "params.yaml", "dvc.yaml", ".rayignore", ".gitignore", "README.md")


@pytest.fixture(scope="module")
def two_nodes():
    """A head of one CPU and a second node of two; a short path, as sockets lie below it."""
    folder = Path(f"/tmp/hosm{os.getpid()}")
    folder.mkdir()
    cluster = Cluster(folder, RAY_AUTH_MODE="disabled")
    try:
        cluster.add(1)
        cluster.add(2)
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def settings(changes):
    """The settings of the project in smoke size, for three workers over both nodes."""
    raw = yaml.safe_load((ROOT / "params.yaml").read_text())
    raw["profile"] = "smoke"
    raw["cluster"] |= {"workers": 3, "cpus_per_worker": 1, "max_failures": 0, "local_cpus": 3}
    raw["train"]["planar"]["batch_size"] = 240
    changes(raw)
    return yaml.safe_dump(raw)


@pytest.fixture
def project(tmp_path):
    """Return what makes a project with prepared data: a copy of what a job needs."""

    def make(*names, changes=lambda raw: None):
        root = tmp_path / "project"
        root.mkdir()
        for each in SHIPPED:
            copy = shutil.copytree if (ROOT / each).is_dir() else shutil.copy
            copy(ROOT / each, root / each)
        (root / "params.yaml").write_text(settings(changes))
        for name in names:
            command = [sys.executable, "-m", "pipeline.prepare", name]
            off = plain_environment(MLFLOW_TRACKING_URI="off")
            subprocess.run(command, cwd=root, env=off, check=True, timeout=400)
        return root

    return make


def job_environment(cluster, tmp_path, **extra):
    return plain_environment(
        RAY_AUTH_MODE="disabled",
        RAY_API_SERVER_ADDRESS=f"http://127.0.0.1:{cluster.dashboard}",
        HOSM_STORAGE=str(tmp_path / "shared"),
        MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path}/tracked.db",
        MLFLOW_TRACKING_PASSWORD=SECRET,
        **extra,
    )


def run(root, environment, *command):
    """Run a command to its end, which a hang alone puts off so long, even on a busy machine."""
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=700
    )


def python(root, environment, *command):
    return run(root, environment, sys.executable, "-m", *command)


def runs_of(uri, name):
    client = MlflowClient(tracking_uri=uri)
    ids = [each.experiment_id for each in client.search_experiments()]
    return client.search_runs(ids, f"attributes.run_name = '{name}'")


def test_dvc_on_the_head_node_trains_on_both_nodes(two_nodes, project):
    root = project()
    environment = plain_environment(RAY_AUTH_MODE="disabled", RAY_ADDRESS=two_nodes.address)
    for command in ("git init -q .", "git add -A", "dvc init -q -f"):
        assert run(root, environment, *command.split()).returncode == 0
    done = run(root, environment, "dvc", "repro", "train@two-modes")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "step 200/200" in done.stdout
    load_model(root / "data/models/planar/two-modes")
    (tracked,) = runs_of(f"sqlite:///{root}/runs/mlflow.db", "train/two-modes")
    assert (
        tracked.info.status == "FINISHED" and tracked.data.tags["dvc.stage"] == "train@two-modes"
    )
    again = run(root, environment, "dvc", "repro", "train@two-modes")
    assert "up to date" in again.stdout


def test_a_stage_is_submitted_and_its_results_come_back(two_nodes, project, tmp_path):
    root, environment = project("two-modes"), job_environment(two_nodes, tmp_path)
    done = python(root, environment, "hosm.experiment.cluster.submit", "train@two-modes")
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-3000:]
    assert "step 200/200" in done.stdout and "fetched: data/models/planar/two-modes" in done.stdout
    _, card = load_model(root / "data/models/planar/two-modes")
    prepared = json.loads((root / "data/prepared/two-modes/card.json").read_text())
    assert card["data_sha256"] == prepared["sha256"]
    assert (root / "data/results/training/two-modes.csv").is_file()
    assert (root / "reports/metrics/train-two-modes.json").is_file()
    assert any((tmp_path / "shared/train").iterdir())  # Ray's checkpoints
    (tracked,) = runs_of(environment["MLFLOW_TRACKING_URI"], "train/two-modes")
    assert tracked.info.status == "FINISHED" and "validation_dsm" in tracked.data.metrics
    assert SECRET not in output
    for path in [*tmp_path.rglob("*")]:
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_the_sweep_is_submitted_by_rays_own_command(two_nodes, project, tmp_path):
    def small(raw):
        raw["sweep"] |= {"datasets": ["logistic50"], "targets": ["jacobian"], "joint": []}

    names = ("gaussian100", "logistic50", "logistic80")  # as dvc.yaml says
    root, environment = project(*names, changes=small), job_environment(two_nodes, tmp_path)
    exchange = "hosm.experiment.run.exchange"
    pushed = python(root, environment, exchange, "push", "sweep")
    assert pushed.returncode == 0, pushed.stderr
    passed = {k: environment[k] for k in ("HOSM_STORAGE", "MLFLOW_TRACKING_URI")}
    command = [str(BIN / "ray"), "job", "submit", "--working-dir", ".", "--runtime-env-json"]
    command += [json.dumps({"env_vars": passed}), "--", "python", "-m", "pipeline.sweep"]
    done = run(root, environment, *command)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert not (root / "data/results").exists()
    assert python(root, environment, exchange, "pull", "sweep").returncode == 0
    assert len((root / "data/results/sweep/trials.csv").read_text().splitlines()) == 3
    (tracked,) = runs_of(environment["MLFLOW_TRACKING_URI"], "sweep")
    assert tracked.info.status == "FINISHED"


def diverging(raw):
    raw["train"]["planar"] |= {"learning_rate": 1e30, "target": "moment", "clip_norm": 0.0}


def greedy(raw):
    raw["cluster"] |= {"workers": 9, "local_cpus": 9}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [(diverging, "diverged"), (greedy, "and the nodes of the cluster have 1, 2 CPUs")],
)
def test_a_job_that_fails_says_why_and_leaves_earlier_results(
    two_nodes, project, tmp_path, changes, reason
):
    root, environment = project("two-modes", changes=changes), job_environment(two_nodes, tmp_path)
    earlier = root / "data/models/planar/two-modes/card.json"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("{}")
    done = python(root, environment, "hosm.experiment.cluster.submit", "train@two-modes")
    assert done.returncode == 1
    assert sum("error: " in line and reason in line for line in done.stdout.splitlines()) == 1
    assert [line for line in done.stderr.splitlines() if "ended as FAILED" in line]
    assert "Traceback" not in done.stderr and earlier.read_text() == "{}"
    (tracked,) = runs_of(environment["MLFLOW_TRACKING_URI"], "train/two-modes")
    assert tracked.info.status == "FAILED"


def needs(workers):
    base = {"use_gpu": False, "backend": "auto", "local_cpus": 64, "object_store_mb": 100}
    base |= {"max_failures": 0, "checkpoint_every": 0, "checkpoints_kept": 2}
    return ClusterParams(**base, workers=workers, cpus_per_worker=1)


@pytest.fixture
def joined(two_nodes):
    """This process joins the nodes without a token.

    An earlier local cluster of the process has left it its mode and token, which Ray reads anew
    only when it is told to. The head, which sends no token, could then not ask the process whether
    it still needs an actor, and would cancel every one.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", two_nodes.address)
        patch.setenv("RAY_AUTH_MODE", "disabled")
        reset_auth_token_state()
        yield
    reset_auth_token_state()


def test_more_workers_than_there_are_are_refused(joined):
    with pytest.raises(StageError, match=r"workers must be at most 3, got 4: each needs 1 CPUs"):
        with connection.connect(needs(4)):
            raise AssertionError("connected")
    assert not ray.is_initialized()


def stopping(raw):
    model = {"backbone": {"kind": "mlp", "width": 8, "shared": False}, "learning_rate": 0.3}
    model |= {"batch_size": 32, "max_steps": 2000, "validate_every": 10, "average_width": 0.0}
    sweep = {key: value for key, value in raw["sweep"].items() if not isinstance(value, dict)}
    sweep |= {"datasets": ["gaussian2"], "sigmas": [0.1], "ranks": [1], "targets": ["jacobian"]}
    sweep |= {"joint": [], "regimes": ["finite"], "seeds": [0, 1], "test_points": 50}
    sweep |= {"workers_per_trial": 2, "common": {**model, "patience": 1}}
    raw["sweep"] = {**sweep, "gaussian2": {"first": {}}}


@pytest.fixture
def sweep_inputs(joined, tmp_path):
    """Two trials, each of runs by Ray Train on two workers that stop for want of progress."""
    (tmp_path / "params.yaml").write_text(settings(stopping))
    sweep, draw = load_params(tmp_path / "params.yaml").sweep, np.random.default_rng(0)
    arrays = {
        split: draw.normal(size=(200, 2)).astype(np.float32)
        for split in ("train", "validation", "test")
    }

    chosen = sweep.model_copy(update={"targets": ()})
    return SweepInputs({"gaussian2": {**arrays, "std": 1.0}}, chosen)


@pytest.mark.slow
@pytest.mark.timeout(REPEATS * 600 + 60)  # no more than a hang would take, on a busy machine
def test_sweeps_whose_trials_stop_early_end(sweep_inputs, tmp_path):
    """Early by patience; HOSM_REPEATS says how often in a row."""
    with connection.connect(needs(1), echo=False):
        for number in range(REPEATS):
            place = (str(tmp_path / f"storage{number}"), f"sweep{number}")
            trials, *_ = run_sweep(sweep_inputs, needs(1), *place, lambda *_: None)
            assert len(trials) == 2 and (trials["steps"] < 2000).all()
            wait_for(all_free, 120)


def all_free():
    return ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"]


def test_what_is_sent_with_a_job_is_small(project, tmp_path):
    root, package = project("two-modes"), tmp_path / "package.zip"
    create_package(str(root), package, include_gitignore=True)
    here = tmp_path / "here.zip"
    create_package(str(ROOT), here, include_gitignore=True)
    models = sum(path.stat().st_size for path in ROOT.glob("hosm/pictures/*.hosm"))
    assert package.stat().st_size < 3e6 + models and here.stat().st_size < 3e6 + models  # code: 2
    print(f"sent with a job: {here.stat().st_size / 1e6:.2f} MB")


def test_a_job_is_given_credentials_and_where_to_store_and_track(monkeypatch):
    for name in list(os.environ):
        if name in submit.PASSED:
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("HOSM_STORAGE", "s3://bucket")
    given = {"AWS_SECRET_ACCESS_KEY": SECRET, "HOSM_STORAGE": "s3://bucket"}
    assert submit.passed_on() == {"MLFLOW_TRACKING_URI": "off", **given}
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://host")
    assert submit.passed_on()["MLFLOW_TRACKING_URI"] == "http://host"


def test_a_cluster_that_asks_for_a_token_says_so(project, tmp_path):
    folder = Path(f"/tmp/hosmt{os.getpid()}")
    folder.mkdir()
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef0123456789abcdef"}
    cluster = Cluster(folder, **token)
    root = project()
    try:
        cluster.add(1)
        refused = job_environment(cluster, tmp_path)
        done = python(root, refused, "hosm.experiment.cluster.submit", "prepare@two-modes")
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert "asks for a token: set RAY_AUTH_MODE=token" in done.stderr
        done = python(root, refused | token, "hosm.experiment.cluster.submit", "prepare@two-modes")
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert (root / "data/prepared/two-modes/card.json").is_file()
        joining = refused | {"RAY_ADDRESS": cluster.address}
        done = python(root, joining, "pipeline.train", "two-modes")
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr[-2000:]
        assert "cannot be joined: not Ray, or the Ray cluster asks for a token" in done.stderr
        examined = python(root, joining, "hosm.experiment.doctor", "--json")
        found = {each["check"]: each["text"] for each in json.loads(examined.stdout)}
        assert "RAY_AUTH_MODE" in found["ray"] and "RAY_AUTH_MODE=token" in found["dashboard"]
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_the_dashboard_of_a_local_cluster_is_on_loopback_and_asks_for_a_token(monkeypatch):
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE"):
        monkeypatch.setenv(name, "restored after the test")
        monkeypatch.delenv(name)
    with connection.connect(needs(1).model_copy(update={"local_cpus": 1})):
        host, _, port = get_dashboard_url().rpartition(":")
        listening = {
            each.laddr.ip
            for process in psutil.Process().children(recursive=True)
            for each in process.net_connections()
            if each.status == psutil.CONN_LISTEN and each.laddr.port == int(port)
        }
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://{host}:{port}/api/jobs/", timeout=10)
    assert listening == {"127.0.0.1"} and refused.value.code == 401
