"""Arguments of make: they reach the commands that they are for. Nothing is run here."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def planned(*words):
    """The commands that make would run if nothing were made yet."""
    command = ["make", "--dry-run", "--always-make", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_port_of_mlflow_is_ours_to_choose_and_not_the_environments(monkeypatch):
    monkeypatch.setenv("PORT", "8080")
    for port, words in ((5000, ["ui"]), (5123, ["ui", "PORT=5123"])):
        (line,) = (line for line in planned(*words) if "mlflow ui" in line)
        assert f"--port {port} " in line


def test_torch_comes_from_another_index_only_where_one_is_named():
    address = "https://host/whl/cpu"
    installed = [
        line for line in planned("install", f"TORCH_INDEX={address}") if "pip install" in line
    ]
    assert installed[0].endswith(f"--no-deps --index-url {address} torch torchvision")
    plain = [line for line in planned("install", "TORCH_INDEX=") if "pip install" in line]
    assert plain == installed[1:] and "--index-url" not in "".join(plain)
