"""The command around DVC: a script in its place, exit status, signals, the files left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from dvc.repo import Repo

from hosm.experiment.repro.command import reproduce
from hosm.experiment.repro.expected import REFERENCE, expected_seconds, keep_as_reference
from hosm.experiment.repro.plan import Step, planned

ROOT = Path(__file__).resolve().parents[3]
GRAPH = "stages:\n" + "".join(
    f"  {name}: {{cmd: echo {name}, deps: [{source}], outs: [{out}]}}\n"
    for name, source, out in (("first", "start", "one"), ("second", "one", "two"))
)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with params.yaml, and a function that writes what runs in the place of DVC."""
    (tmp_path / "params.yaml").write_text("profile: laptop\n")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("HOSM_PROJECT", str(tmp_path))

    def fake(text):
        script = tmp_path / "bin" / "dvc"
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
        return tmp_path

    return fake


def test_a_run_leaves_its_log_and_its_seconds(project, capsys):
    root = project('echo "$@"; echo "Running stage \'a\':"; echo "> python a"; echo over >&2')
    assert reproduce(root, ["a", "--force"]) == 0
    log = (root / "runs" / "repro.log").read_text()
    assert log == "repro a --force\nRunning stage 'a':\n> python a\nover\n"
    kept = json.loads((root / "runs" / "stage_seconds.json").read_text())
    assert kept["last_run"] == {"a": "ran"} and list(kept["seconds"]["laptop"]) == ["a"]
    assert kept["last_run_seconds"] >= kept["seconds"]["laptop"]["a"]
    assert "> python a" not in capsys.readouterr().out


def test_seconds_of_this_machine_come_before_those_of_another(project):
    root = project("echo \"Running stage 'accuracy':\"")
    reference = json.loads(REFERENCE.read_text())["seconds"]
    assert expected_seconds(root, ["accuracy", "x"]) == {"accuracy": reference["accuracy"]}
    reproduce(root, [])
    assert expected_seconds(root, ["accuracy"])["accuracy"] < reference["accuracy"]
    (root / "params.yaml").write_text("profile: paper\n")
    assert expected_seconds(root, ["accuracy", "sweep"]) == {}


def test_a_whole_run_becomes_the_reference_and_another_does_not(project, tmp_path):
    file = tmp_path / "reference.json"
    with pytest.raises(ValueError, match="got no run"):
        keep_as_reference(tmp_path, file)
    root = project("echo \"Running stage 'a':\"; sleep 1; echo \"Running stage 'b':\"")
    assert reproduce(root, []) == 0
    assert keep_as_reference(root, file) >= 1
    kept = json.loads(file.read_text())
    assert kept["all"] >= kept["seconds"]["a"]
    assert kept["profile"] == "laptop" and list(kept["seconds"]) == ["a", "b"] and kept["machine"]
    project("echo \"'a' didn't change, skipping\"; echo \"Running stage 'b':\"")
    assert reproduce(root, []) == 0
    with pytest.raises(ValueError, match="got a"):
        keep_as_reference(root, file)


def test_a_failure_keeps_the_status_and_no_seconds(project, capsys):
    root = project(
        "echo \"Running stage 'a':\"; echo why; echo \"ERROR: failed to reproduce 'a'\"; exit 255"
    )
    assert reproduce(root, []) == 255
    out = capsys.readouterr().out
    assert "stage a failed; its last lines:\n  why\n" in out
    kept = json.loads((root / "runs" / "stage_seconds.json").read_text())
    assert kept["last_run"] == {"a": "failed"} and kept["seconds"] == {"laptop": {}}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on(project, number):
    trap = f"trap 'exit {40 + number}' {int(number)}"
    code = f"{trap}; echo \"Running stage 'a':\"; while :; do sleep .1; done"
    root = project(code)
    command = [sys.executable, "-m", "hosm.experiment.repro"]
    with subprocess.Popen(
        command,
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as run:
        assert run.stdout.readline().startswith("stage 1 of ?, a")
        run.send_signal(number)
        out, _ = run.communicate(timeout=60)
    assert run.returncode == 40 + number
    assert "failed" in out


def test_the_plan_is_dvcs(tmp_path):
    first, second = Step("first"), Step("second", frozenset({"first"}))
    Repo.init(str(tmp_path), no_scm=True).close()
    (tmp_path / "dvc.yaml").write_text(GRAPH)
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert planned(tmp_path, []) == [first, second]
        assert planned(tmp_path, ["first", "--force"]) == [first]
        assert planned(tmp_path, ["--single-item", "second"]) == [Step("second")]
        assert planned(tmp_path, ["first", "--downstream"]) == [first, second]
        assert planned(tmp_path, ["none"]) == []
    finally:
        os.chdir(here)


def test_the_reference_knows_every_stage_of_the_project():
    known = json.loads(REFERENCE.read_text())["seconds"]
    assert set(known) == {step.name for step in planned(ROOT, [])}
