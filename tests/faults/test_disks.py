"""A disk that is full when a state, an output or the report is written; and room made on it."""

import ctypes
import os
import sys
from contextlib import contextmanager

import pytest
import torch
import yaml

from hosm.experiment.train.training_task import train_here
from hosm.experiment.train.weights import read_weights
from hosm.training import load_checkpoint
from tests.experiment.report.report_inputs import write_inputs
from tests.faults.injected import task
from tests.faults.processes import PATIENCE, ROOT, gone, start, text
from tests.faults.test_kills import agree, drive

pytestmark = pytest.mark.faults
LIBC = ctypes.CDLL(None, use_errno=True)
REMOUNT = 32


@contextmanager
def disk(folder, kilobytes):
    """Mount a small disk in memory at a folder; yield what gives it another size."""
    folder.mkdir(parents=True, exist_ok=True)

    def mount(size, flags=0):
        options = f"size={size}k".encode()
        if LIBC.mount(b"tmpfs", str(folder).encode(), b"tmpfs", flags, options):
            pytest.skip(f"no disk may be mounted here: {os.strerror(ctypes.get_errno())}")

    mount(kilobytes)
    try:
        yield lambda size: mount(size, REMOUNT)
    finally:
        LIBC.umount2(str(folder).encode(), 2)


def errors(folder):
    """Return the lines that tell of an error; the program itself has said nothing else of it."""
    own = [line for line in text(folder).splitlines() if not line.startswith("(")]  # not Ray's
    assert not any("Traceback" in line for line in own), text(folder)[-4000:]
    return [line for line in own if line.startswith("error: ")]


def test_a_state_does_not_fit(tmp_path, case):
    torch.set_num_threads(1)
    whole = {name: value.numpy() for name, value in train_here(task()).weights.items()}
    with (
        case("disk full while a state is written") as each,
        disk(tmp_path / "runs", 260) as resize,
    ):
        assert drive(tmp_path, []) == 1
        (line,) = errors(tmp_path)
        assert "No space left on device" in line and ".state was not written" in line
        stored = list((tmp_path / "runs").glob("*/states/*"))
        assert stored and all(load_checkpoint(path)["step"] for path in stored)
        resize(64_000)
        assert drive(tmp_path, []) == 0, text(tmp_path)[-4000:]
        assert "continuing after step" in text(tmp_path)
        each.note = agree(tmp_path, whole, 1)
        assert not gone(tmp_path)


@pytest.fixture
def project(tmp_path):
    """A project under the smoke profile with one prepared data set."""
    settings = yaml.safe_load((ROOT / "params.yaml").read_text()) | {"profile": "smoke"}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(settings))
    assert stage(tmp_path, "prepare", "two-modes") == 0, text(tmp_path)
    return tmp_path


def stage(project, *command):
    """Run a stage in a project; return its exit status."""
    name, *arguments = command
    options = {"HOSM_PROJECT": project, "MLFLOW_TRACKING_URI": "off"}
    module = (sys.executable, "-m", f"pipeline.{name}", *arguments)
    return start(project, *module, **options).wait(PATIENCE)


def test_an_output_does_not_fit(project, case):
    models = project / "data" / "models" / "planar"
    with case("disk full while an output is written"), disk(models, 40) as resize:
        assert stage(project, "train", "two-modes") == 1
        (line,) = errors(project)
        assert "No space left on device" in line and "model.safetensors was not written" in line
        assert not list(models.iterdir())
        resize(8_000)
        assert stage(project, "train", "two-modes") == 0, text(project)
        assert "continuing after step 200" in text(project)  # nothing is trained again
        assert read_weights(models / "two-modes")[1]["data"] == "two-modes"
        assert not gone(project)


def test_a_report_does_not_fit(project, case):
    write_inputs(project)
    before = "before\n<!-- results:begin -->\n<!-- results:end -->\nafter\n"
    (project / "README.md").write_text(before)
    reports = project / "reports"
    kept = {path.relative_to(reports): path.read_bytes() for path in reports.rglob("*.*")}
    with case("disk full while the report is written"), disk(reports, 2_000) as resize:
        for name, data in kept.items():
            (reports / name).parent.mkdir(parents=True, exist_ok=True)
            (reports / name).write_bytes(data)
        assert stage(project, "report") == 1
        (line,) = errors(project)
        assert "No space left on device" in line and "was not written" in line
        assert not list(reports.rglob("*.tmp")) and (project / "README.md").read_text() == before
        resize(64_000)
        assert stage(project, "report") == 0, text(project)
        assert (reports / "index.html").read_text().rstrip().endswith("</html>")
