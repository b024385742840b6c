"""Nothing runs code from a file, servers listen on loopback, secrets appear nowhere."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hosm.experiment.cluster import connection
from hosm.experiment.run import tracking
from hosm.experiment.run.process import StageError, main
from hosm.experiment.run.secrets import masked
from hosm.experiment.run.tags import TAG, texts
from hosm.experiment.settings import ClusterParams

ROOT = Path(__file__).resolve().parents[2]
CODE = sorted(
    path for folder in ("hosm", "pipeline", "examples") for path in ROOT.glob(f"{folder}/**/*.py")
)
FORBIDDEN = (
    {"eval", "exec", "compile", "os.system", "os.popen", "marshal.load", "marshal.loads"}
    | {
        f"{module}.{name}"
        for module in ("pickle", "cloudpickle", "joblib", "dill", "shelve")
        for name in ("load", "loads", "Unpickler", "open")
    }
    | {
        f"yaml.{name}"
        for name in (
            "load",
            "load_all",
            "full_load",
            "unsafe_load",
            "Loader",
            "UnsafeLoader",
            "FullLoader",
        )
    }
)
DEMANDED = {
    "torch.load": ("weights_only", True),
    "np.load": ("allow_pickle", False),
    "numpy.load": ("allow_pickle", False),
    "np.save": ("allow_pickle", False),
}
RESTRICTED = {
    "hosm/experiment/data/sources.py": ["pickle.Unpickler"]
}  # of arrays alone, see test_datasets


def offences(text):
    """Names in a source that could run code from a file, or that lack what forbids it."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute | ast.Name) and ast.unparse(node) in FORBIDDEN:
            found.append(ast.unparse(node))
        if isinstance(node, ast.Call):
            options = {each.arg: getattr(each.value, "value", None) for each in node.keywords}
            name = ast.unparse(node.func)
            if name in DEMANDED:
                key, value = DEMANDED[name]
                if options.get(key) is not value:
                    found.append(f"{name} without {key}={value}")
            if options.get("shell") or options.get("allow_pickle") is True:
                found.append(f"{name} with a shell or pickle")
    return found


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_code_is_run_from_files(path):
    name = str(path.relative_to(ROOT))
    assert offences(path.read_text()) == RESTRICTED.get(name, [])


@pytest.mark.parametrize(
    "line",
    [
        "pickle.load(f)",
        "torch.load(f)",
        "torch.load(f, weights_only=False)",
        "np.load(f)",
        "np.load(f, allow_pickle=True)",
        "yaml.load(f, yaml.Loader)",
        "eval('1')",
        "exec(text)",
        "subprocess.run(line, shell=True)",
        "from_file = joblib.load",
    ],
)
def test_the_scan_sees_what_it_looks_for(line):
    assert offences(line)


def test_servers_listen_on_loopback(monkeypatch):
    asked = {}
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(connection.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(connection.ray, "init", lambda **options: asked.update(options))
    monkeypatch.setattr(
        connection.ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 2}}]
    )
    monkeypatch.setattr(connection.ray, "shutdown", lambda: None)
    with connection.connect(cluster_of(2, 1)):
        assert asked["dashboard_host"] == asked["_node_ip_address"] == "127.0.0.1"
    for name in ("Makefile", "README.md", "deploy/aws.yaml"):
        hosts = re.findall(r"--(?:dashboard-)?host[= ](\S+)", (ROOT / name).read_text())
        assert set(hosts) <= {"127.0.0.1"}, name


PORTS = """
import json, psutil
from hosm.experiment.cluster.connection import connect
from hosm.experiment.settings import ClusterParams
with connect(ClusterParams(**json.loads({sizes!r}))):
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    ports = [each for process in processes for each in process.net_connections("inet")]
    print(json.dumps([each.laddr.ip for each in ports if each.status == "LISTEN"]))
"""


@pytest.mark.cluster
def test_every_port_of_a_local_cluster_is_on_loopback():
    program = PORTS.format(sizes=cluster_of(1, 1, local_cpus=1).model_dump_json())
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=ROOT, env=clean, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) > 5 and {*found} <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


@pytest.mark.parametrize(("address", "reached"), [(None, "False"), ("10.0.0.1:6379", "True")])
def test_other_machines_reach_ray_only_where_a_cluster_is_joined(address, reached):
    program = "import hosm.experiment.cluster; from ray._private import ray_constants as ray"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    command = [sys.executable, "-c", f"{program}; print(ray.ENABLE_RAY_CLUSTER)"]
    environment = clean | ({"RAY_ADDRESS": address} if address else {})
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=120)
    assert done.stdout.decode().strip() == reached, done.stderr


def test_nobody_else_reads_rays_token(tmp_path):
    token = tmp_path / "auth_token"
    connection.keep_token_private(token)
    token.write_text("planted")
    token.chmod(0o644)
    connection.keep_token_private(token)
    assert token.stat().st_mode & 0o777 == 0o600


def test_each_line_of_the_threat_table_has_its_test():
    lines = (ROOT / "docs" / "security.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("| ") and "tests/" in line]
    assert len(table) >= 12
    for line in table:
        for place, name in re.findall(r"`(tests/\S+?)::(\w+)`", line):
            assert f"def {name}(" in (ROOT / place).read_text(), line
        assert re.search(r"`tests/\S+?::\w+`", line), line


def cluster_of(workers, cpus, **changes):
    base = {"use_gpu": False, "backend": "auto", "local_cpus": 64, "object_store_mb": 100}
    sizes = {"workers": workers, "cpus_per_worker": cpus, "max_failures": 0}
    sizes |= {"checkpoint_every": 0, "checkpoints_kept": 2}
    return ClusterParams(**{**base, **sizes, **changes})


NODES = [{"CPU": 1.0}, {"CPU": 2.0, "GPU": 1.0}, {}]


@pytest.mark.parametrize(
    ("cpus", "gpu", "places"), [(1, False, 3), (2, False, 1), (3, False, 0), (1, True, 1)]
)
def test_a_worker_finds_its_place_whole_on_one_node(cpus, gpu, places):
    assert connection.worker_capacity(cluster_of(1, cpus, use_gpu=gpu), NODES) == places


def test_workers_that_do_not_fit_are_refused_in_one_line(monkeypatch):
    there = [{"Alive": True, "Resources": node} for node in NODES]
    monkeypatch.setattr(connection.ray, "nodes", lambda: there)
    message = r"workers must be at most 3, got 5: .* 1, 2, 0 CPUs"
    with pytest.raises(StageError, match=message):
        connection._wait_for_capacity(cluster_of(5, 1), 0.0)


# Secrets

SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "planted/aws+key",
    "MLFLOW_TRACKING_PASSWORD": "planted-mlflow-word",
    "HF_TOKEN": "planted-hf-token",
}


@pytest.fixture
def planted(monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def test_secrets_are_masked_in_any_text(planted):
    text = "http://ada:secret@host:5000/x?token=planted-hf-token of s3://key:word@bucket"
    assert masked(text) == "http://***@host:5000/x?token=*** of s3://***@bucket"
    assert masked("http://host:5000 and a@b") == "http://host:5000 and a@b"


def test_secrets_are_masked_in_params_and_tags(planted):
    values = {"folder": "ftp://ada:secret@host/data", "note": SECRETS["HF_TOKEN"]}
    assert texts(values, TAG) == {"folder": "ftp://***@host/data", "note": "***"}


def test_secrets_are_masked_in_errors(planted, capsys):
    def stage():
        raise ValueError(f"no access with {SECRETS['AWS_SECRET_ACCESS_KEY']}\nat http://a:b@host")

    with pytest.raises(SystemExit):
        main(stage)
    assert capsys.readouterr().err == "error: no access with *** at http://***@host\n"


def test_a_tracking_uri_is_shown_without_its_password(monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(tracking, "_failed", set())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ada:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tracking.open_tracker(None, "study", tmp_path)
    assert "http://***@127.0.0.1:9 fails" in caplog.text
    assert "secret" not in caplog.text


def test_a_stage_with_tracking_writes_no_secret_anywhere(tmp_path):
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    dropped = ("MLFLOW_", "DVC_", "RAY_", "HOSM_")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    environment = {**clean, **SECRETS, "HOSM_PROJECT": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pipeline.prepare", "two-modes"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, cwd=ROOT, env=environment, timeout=120, **pipes)
    assert done.returncode == 0, done.stdout.decode()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "mlflow.db" for path in files)
    assert any(path.name == "card.json" and "artifacts" in path.parts for path in files)
    for content in (done.stdout, *(path.read_bytes() for path in files)):
        for value in SECRETS.values():
            assert value.encode() not in content
