"""Checks of the services that other machines offer: Ray, MLflow, storage."""

import base64
import json
import os
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import ray

from hosm.experiment.cluster.connection import NO_TOKEN, settled, unreachable, worker_capacity
from hosm.experiment.doctor.this_machine import Finding
from hosm.experiment.run.exchange import Store, storage
from hosm.experiment.run.secrets import masked
from hosm.experiment.settings import load_params

__all__ = ["dashboard", "mlflow", "ray_cluster", "shared_storage"]

PATIENCE = 3.0  # seconds for one answer
PROBE = """
import json, ray
ray.init(log_to_driver=False, logging_level="error", configure_logging=False)
print(json.dumps([node["Resources"] for node in ray.nodes() if node["Alive"]]))
"""


def ray_cluster(root: Path) -> list[Finding]:
    """Check that the cluster at RAY_ADDRESS takes the workers that params.yaml asks for.

    Args:
        root: folder of the project.
    """
    address = os.environ.get("RAY_ADDRESS")
    if address is None:
        return [Finding("ok", f"{ray.__version__}; RAY_ADDRESS is not set: a local cluster")]
    if reason := unreachable(address):
        return [Finding("fix", reason)]
    try:
        command = [sys.executable, "-c", PROBE]
        done = subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE)
    except subprocess.TimeoutExpired as late:
        if b"Unauthenticated" in (late.stderr or b""):
            return [Finding("fix", NO_TOKEN)]
        text = f"RAY_ADDRESS={address} is not a Ray cluster, or hangs; see RAY_AUTH_MODE in README"
        return [Finding("fix", text)]
    if done.returncode:
        return [Finding("fix", _why(done.stderr, address))]
    nodes = json.loads(done.stdout.splitlines()[-1])
    wanted = load_params(root / "params.yaml").cluster
    cpus, gpus = (sum(node.get(key, 0) for node in nodes) for key in ("CPU", "GPU"))
    room = worker_capacity(wanted, nodes)
    text = f"{len(nodes)} nodes, {cpus:g} CPUs, {gpus:g} GPUs, room for {room}"
    asked = f"params.yaml asks for {wanted.workers} workers of {wanted.cpus_per_worker} CPUs"
    fits = room >= wanted.workers
    return [
        Finding(
            "ok" if fits else "fix",
            f"{text}; {asked}{' with GPUs' * bool(settled(wanted, nodes).use_gpu)}",
        )
    ]


def _why(output: str, address: str) -> str:
    """Return why a cluster cannot be joined, in one line."""
    if "Unauthenticated" in output or "AuthenticationError" in output:
        return NO_TOKEN
    if "Version mismatch" in output:
        versions = " ".join(output.rpartition("Version mismatch:")[2].split())
        return f"{versions}; install the same Ray and Python on both sides"
    lines = output.strip().splitlines() or ["no reason given"]
    return f"RAY_ADDRESS={address} cannot be joined: {lines[-1]}"


def _get(url: str, user: str = "", token: str = "") -> tuple[int, str]:
    """Return status and text of a page.

    Args:
        url: its address, perhaps with user:password@.
        user: user:password, where the address has none.
        token: a bearer's token, where there is neither.
    """
    parts = urlsplit(url)
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    user = parts.netloc.rpartition("@")[0] or user
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if user:
        headers = {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
    try:
        request = urllib.request.Request(plain, headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, str(error.reason)


def _ray_token() -> str:
    """Return the token that Ray's own client would send; "" if it would send none."""
    if os.environ.get("RAY_AUTH_MODE") != "token":
        return ""
    given = os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token"
    file = Path(given)
    return os.environ.get("RAY_AUTH_TOKEN") or (file.read_text().strip() if file.is_file() else "")


def dashboard() -> list[Finding]:
    """Check that jobs can be submitted to the dashboard at RAY_API_SERVER_ADDRESS."""
    address = os.environ.get("RAY_API_SERVER_ADDRESS")
    if address is None:
        return [Finding("ok", "RAY_API_SERVER_ADDRESS is not set: no stage is submitted as a job")]
    try:
        status, text = _get(f"{address.rstrip('/')}/api/version", token=_ray_token())
    except (OSError, ValueError) as error:
        text = (
            f"RAY_API_SERVER_ADDRESS must be like http://host:8265, got {address}, which does not "
            f"answer ({error})"
        )
        return [Finding("fix", text)]
    if status in (401, 403):
        return [Finding("fix", NO_TOKEN)]
    if status != 200:
        return [Finding("fix", f"{address} answers {status}; is it a Ray dashboard?")]
    there = json.loads(text)["ray_version"]
    if there != ray.__version__:
        return [
            Finding("fix", f"Ray {there} at {address}, {ray.__version__} here; both must be equal")
        ]
    return [Finding("ok", f"Ray {there} at {address}")]


def shared_storage() -> list[Finding]:
    """Check that HOSM_STORAGE can be written to and read from."""
    place = storage()
    if place is None:
        return [Finding("ok", "HOSM_STORAGE is not set: checkpoints go to runs/ray")]
    store = Store(place)
    probe = f"{store.base}/.probe-{os.getpid()}"
    try:
        store.system.makedirs(store.base, exist_ok=True)
        store.system.pipe_file(probe, b"hosm")
        store.system.rm_file(probe)
    except OSError as error:
        return [Finding("fix", f"HOSM_STORAGE={place} cannot be written to: {error}")]
    return [Finding("ok", f"HOSM_STORAGE={place} can be written to")]


def mlflow(root: Path) -> list[Finding]:
    """Check that runs can be tracked: that the store exists or can be made, and answers.

    Args:
        root: folder of the project.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///runs/mlflow.db"
    if uri == "off":
        return [Finding("ok", "MLFLOW_TRACKING_URI is off: nothing is tracked")]
    if uri.startswith("sqlite:///"):
        return _sqlite(root / uri.removeprefix("sqlite:///"))
    if not uri.startswith("http"):
        return [Finding("warning", f"MLFLOW_TRACKING_URI={masked(uri)} cannot be checked here")]
    user, word = (os.environ.get(f"MLFLOW_TRACKING_{key}", "") for key in ("USERNAME", "PASSWORD"))
    login, token = f"{user}:{word}" if user else "", os.environ.get("MLFLOW_TRACKING_TOKEN", "")
    try:
        url = f"{uri.rstrip('/')}/api/2.0/mlflow/experiments/search?max_results=1"
        status, _ = _get(url, login, token)
    except (OSError, ValueError) as error:
        text = f"MLFLOW_TRACKING_URI={masked(uri)} does not answer ({error}); or set it to off"
        return [Finding("fix", text)]
    if status != 200:
        text = f"{masked(uri)} answers {status}; 401 and 403 ask for MLFLOW_TRACKING_USERNAME, ..."
        return [Finding("fix", f"{text}_PASSWORD or ..._TOKEN")]
    return [Finding("ok", f"{masked(uri)} answers")]


def _sqlite(file: Path) -> list[Finding]:
    existing = next(place for place in (file, *file.parents) if place.exists())
    if not os.access(existing, os.W_OK):
        return [Finding("fix", f"{existing} cannot be written to; MLflow's store is {file}")]
    if not file.exists():
        return [Finding("ok", f"the first run creates {file}")]
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=rw", PATIENCE, uri=True)) as store:
            store.execute("BEGIN IMMEDIATE")
            runs = store.execute("SELECT count(*) FROM runs").fetchone()[0]
            store.execute("ROLLBACK")
    except sqlite3.Error as error:
        return [
            Finding("fix", f"{file} is not a store of MLflow, or is busy: {error}; move it away")
        ]
    return [Finding("ok", f"{file} can be written to, {runs} runs")]
