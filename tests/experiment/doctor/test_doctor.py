"""The doctor: each failure that is injected is found and named, with what to do about it."""

import http.server
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray

from hosm.experiment.doctor import checklist as doctor
from hosm.experiment.doctor import other_machines, this_machine
from hosm.experiment.doctor.this_machine import Finding

ROOT = Path(__file__).resolve().parents[3]
FILES = ("params.yaml", "pyproject.toml", "constraints.txt", "dvc.yaml", "dvc.lock", ".dvc/config")


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Forget what the machine's user has set."""
    for name in list(os.environ):
        if name.startswith(("RAY_", "MLFLOW_", "HOSM_", "OMP_")):
            monkeypatch.delenv(name)


@pytest.fixture
def project(tmp_path):
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def replace(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def the_one(found, status):
    assert [each.status for each in found] == [status], found
    return found[0].text


def test_a_healthy_project_is_ok(project):
    checks = (
        this_machine.python,
        this_machine.settings,
        other_machines.ray_cluster,
        other_machines.mlflow,
    )
    for check in checks:
        the_one(check(project), "ok")
    for check in (other_machines.dashboard, other_machines.shared_storage):
        the_one(check(), "ok")


def test_an_old_python_is_named(project, monkeypatch):
    monkeypatch.setattr(this_machine.platform, "python_version", lambda: "3.10.4")
    assert "3.10.4 runs; pyproject.toml asks for >=3.11" in the_one(
        this_machine.python(project), "fix"
    )


def test_packages_that_are_missing_or_of_another_version_are_named(project, monkeypatch):
    versions = {"mlflow": "3.18.0", "torch": "2.99.0", "tabulate": None}
    real = metadata.version

    def version(name):
        if versions.get(name, "") is None:
            raise metadata.PackageNotFoundError(name)
        return versions.get(name) or real(name)

    monkeypatch.setattr(this_machine.metadata, "version", version)
    by_status = {"fix": [], "warning": []}
    for each in this_machine.packages(project):
        by_status[each.status].append(each.text)
    assert any(
        text.startswith("mlflow 3.18.0 is installed, but must be ") for text in by_status["fix"]
    )
    assert any("tabulate is not installed; pip install -c" in text for text in by_status["fix"])
    assert any("torch 2.99.0 is installed, but" in text for text in by_status["warning"])


def test_illegal_settings_are_named(project):
    replace(project / "params.yaml", "workers: 1  ", "wokers: 1  ")
    assert "unknown key cluster.wokers" in the_one(this_machine.settings(project), "fix")


def test_a_compiler_is_looked_for_by_the_name_that_torch_takes(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    text = the_one(this_machine.compiler(), "warning")
    assert text.startswith("g++ is not on PATH") and "mixing.compiled to []" in text
    mine = tmp_path / "mine"
    mine.touch(0o755)
    monkeypatch.setenv("CXX", "mine")
    assert the_one(this_machine.compiler(), "ok") == str(mine)
    monkeypatch.setenv("CXX", "other")
    assert the_one(this_machine.compiler(), "warning").startswith("other is not on PATH")


@pytest.mark.parametrize(
    ("threads", "cpus", "status", "text"),
    [
        ("2", 4, "ok", "4 CPUs"),
        ("8", 4, "warning", "OMP_NUM_THREADS is 8; this machine has 4 CPUs"),
        ("many", 4, "fix", "OMP_NUM_THREADS must be a number up to 4, got 'many'"),
        ("1", 1, "warning", "local_cpus is 2; this machine has 1 CPUs"),
    ],
)
def test_threads_are_checked_against_processors(project, monkeypatch, threads, cpus, status, text):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    monkeypatch.setattr(this_machine, "cpu_count", lambda: cpus)
    assert text in the_one(this_machine.threads(project), status)


@pytest.mark.parametrize(("free", "status"), [(0.5, "fix"), (3, "warning"), (50, "ok")])
def test_a_full_disk_is_named(project, monkeypatch, free, status):
    usage = SimpleNamespace(free=int(free * 2**30))
    monkeypatch.setattr(this_machine.shutil, "disk_usage", lambda place: usage)
    found = this_machine.disk(project)
    assert {each.status for each in found} == {status}
    assert f"{free:.1f} GB free at {project}" in found[0].text


def test_small_shared_memory_is_named(project, monkeypatch):
    usage = SimpleNamespace(free=64 * 2**20)
    monkeypatch.setattr(this_machine.shutil, "disk_usage", lambda place: usage)
    text = the_one(this_machine.shared_memory(project), "fix")
    assert text.startswith("64 MB free") and "--shm-size" in text


def test_dvc_is_examined(project, monkeypatch):
    monkeypatch.setattr(this_machine.shutil, "which", lambda name: f"/bin/{name}")
    assert "stages have run" in the_one(this_machine.dvc(project), "ok")
    held = {"write": {"x": {"pid": os.getpid(), "cmd": "dvc repro"}}, "read": {}}
    (project / ".dvc/tmp").mkdir()
    (project / ".dvc/tmp/rwlock").write_text(json.dumps(held))
    assert "`dvc repro` is running" in the_one(this_machine.dvc(project), "warning")
    held["write"]["x"]["pid"] = 2**22 + 1  # beyond Linux's largest
    (project / ".dvc/tmp/rwlock").write_text(json.dumps(held))
    (project / "dvc.lock").write_text("schema: [")
    assert "dvc.lock is damaged; `git checkout" in the_one(this_machine.dvc(project), "fix")
    shutil.rmtree(project / ".dvc")
    assert "not a DVC repository" in the_one(this_machine.dvc(project), "fix")
    monkeypatch.setattr(this_machine.shutil, "which", lambda name: None)
    assert "dvc is not on PATH" in the_one(this_machine.dvc(project), "fix")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def server(status=200, text="{}"):
    """A server that answers all alike, and the headers that it was sent."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(dict(self.headers))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{running.server_port}", seen
    running.shutdown()
    running.server_close()


@pytest.mark.parametrize("address", ["ray://host:10001", "host", "http://host:8265", "host:port"])
def test_an_address_of_another_kind_is_named(project, monkeypatch, address):
    monkeypatch.setenv("RAY_ADDRESS", address)
    assert "must be host:port of the head node" in the_one(
        other_machines.ray_cluster(project), "fix"
    )


def test_a_cluster_that_is_away_is_named(project, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{free_port()}")
    assert "no Ray cluster answers at" in the_one(other_machines.ray_cluster(project), "fix")


def answering(code, out="", err=""):
    done = SimpleNamespace(returncode=code, stdout=out, stderr=err)
    return lambda *_, **__: done


MISMATCH = """RuntimeError: Version mismatch: The cluster was started with:
    Ray: 2.50.0
    Python: 3.12.1
This process on 127.0.0.1 was started with:
    Ray: 2.60.0
"""


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (answering(0, '[{"CPU": 1}, {"CPU": 4}]'), "ok", "2 nodes, 5 CPUs, 0 GPUs, room for 5"),
        (answering(0, '[{"CPU": 0}]'), "fix", "room for 0; params.yaml asks for 1 workers of 1"),
        (answering(1, err=MISMATCH), "fix", "Ray: 2.50.0 Python: 3.12.1 This process"),
        (answering(1, err="ray.exceptions.AuthenticationError: x"), "fix", "RAY_AUTH_MODE=token"),
        (
            answering(1, err="W: Unauthenticated: x\nConnectionError"),
            "fix",
            "RAY_AUTH_MODE=token",
        ),
        (answering(1, err="a\nConnectionError: gone\n"), "fix", "cannot be joined: Connection"),
    ],
)
def test_what_a_cluster_answers_is_read(project, monkeypatch, answer, status, text):
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    monkeypatch.setattr(other_machines.subprocess, "run", answer)
    assert text in the_one(other_machines.ray_cluster(project), status)


def test_a_cluster_that_hangs_is_named(project, monkeypatch):
    def hang(*_, **options):
        raise subprocess.TimeoutExpired("ray", options["timeout"])

    monkeypatch.setenv("RAY_ADDRESS", "auto")
    monkeypatch.setattr(other_machines.subprocess, "run", hang)
    assert "or hangs" in the_one(other_machines.ray_cluster(project), "fix")


@pytest.mark.parametrize(
    ("status", "version", "verdict", "text"),
    [
        (200, ray.__version__, "ok", f"Ray {ray.__version__} at http://"),
        (200, "2.1.0", "fix", "Ray 2.1.0 at"),
        (401, "", "fix", "asks for a token"),
        (500, "", "fix", "answers 500"),
    ],
)
def test_a_dashboard_is_examined(monkeypatch, status, version, verdict, text):
    with server(status, json.dumps({"ray_version": version})) as (address, _):
        monkeypatch.setenv("RAY_API_SERVER_ADDRESS", f"http://{address}")
        assert text in the_one(other_machines.dashboard(), verdict)


def test_a_dashboard_is_sent_the_token_and_one_that_is_away_is_named(monkeypatch):
    with server(200, json.dumps({"ray_version": ray.__version__})) as (address, seen):
        monkeypatch.setenv("RAY_API_SERVER_ADDRESS", f"http://{address}")
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        monkeypatch.setenv("RAY_AUTH_TOKEN", "the-token")
        the_one(other_machines.dashboard(), "ok")
    assert seen[0]["Authorization"] == "Bearer the-token"
    assert "does not answer" in the_one(other_machines.dashboard(), "fix")


def test_a_tracking_server_is_examined_and_its_password_masked(project, monkeypatch):
    with server() as (address, seen):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://ada:secret@{address}")
        assert "http://***@" in the_one(other_machines.mlflow(project), "ok")
        assert seen[0]["Authorization"] == "Basic YWRhOnNlY3JldA=="
    found = the_one(other_machines.mlflow(project), "fix")
    assert "does not answer" in found and "secret" not in found
    with server(403) as (address, _):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://{address}")
        assert "answers 403" in the_one(other_machines.mlflow(project), "fix")


def test_a_store_in_a_file_is_examined(project, monkeypatch):
    assert "the first run creates" in the_one(other_machines.mlflow(project), "ok")
    (project / "runs").mkdir()
    store = project / "runs/mlflow.db"
    store.write_text("no database" * 100)
    assert "is not a store of MLflow" in the_one(other_machines.mlflow(project), "fix")
    store.unlink()
    with sqlite3.connect(store) as made:
        made.execute("CREATE TABLE runs (id)")
    assert "can be written to, 0 runs" in the_one(other_machines.mlflow(project), "ok")
    monkeypatch.setattr(other_machines.os, "access", lambda *_: False)
    assert "cannot be written to" in the_one(other_machines.mlflow(project), "fix")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "off")
    assert "nothing is tracked" in the_one(other_machines.mlflow(project), "ok")


def test_a_shared_place_is_written_to(tmp_path, monkeypatch):
    monkeypatch.setenv("HOSM_STORAGE", str(tmp_path / "shared"))
    assert "can be written to" in the_one(other_machines.shared_storage(), "ok")
    assert [path.name for path in (tmp_path / "shared/files").iterdir()] == []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOSM_STORAGE", str(tmp_path / "file"))
    assert "cannot be written to" in the_one(other_machines.shared_storage(), "fix")


def broken():
    raise KeyError("bug")


def test_a_check_that_fails_or_hangs_is_told_beside_the_others():
    checks = {
        "fails": broken,
        "hangs": lambda: time.sleep(30) or [],
        "works": lambda: [Finding("ok", "fine"), Finding("warning", "nearly")],
    }
    begun = time.monotonic()
    found = doctor.examine(checks, patience=0.3)
    assert time.monotonic() - begun < 5
    assert found == [
        ("fails", Finding("fix", "the check failed: KeyError: 'bug'")),
        ("hangs", Finding("fix", "no answer within 0.3 s")),
        ("works", Finding("ok", "fine")),
        ("works", Finding("warning", "nearly")),
    ]


@pytest.mark.parametrize("status", ["ok", "fix"])
def test_the_exit_status_says_whether_there_is_something_to_fix(monkeypatch, capsys, status):
    checks = {"one": lambda: [Finding(status, "http://a:b@host\nends")]}
    monkeypatch.setattr(doctor, "CHECKS", checks)
    for options in ((), ("--json",)):
        if status == "fix":
            with pytest.raises(SystemExit) as left:
                doctor.doctor(*options)
            assert left.value.code == 1
        else:
            doctor.doctor(*options)
    text = capsys.readouterr().out
    assert text.startswith(f"{status:8} one            http://***@host ends\ndoctor: ")
    shown = json.loads(text[text.index("[") :])
    assert shown == [{"check": "one", "status": status, "text": "http://***@host\nends"}]


def test_the_doctor_is_quick_and_never_crashes(tmp_path):
    """In an empty folder, where almost every check fails."""
    environment = {**os.environ, "HOSM_PROJECT": str(tmp_path), "PYTHONPATH": str(ROOT)}
    begun = time.monotonic()
    command = [sys.executable, "-m", "hosm.experiment.doctor"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert time.monotonic() - begun < 15
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "doctor: " in done.stdout.splitlines()[-1]
