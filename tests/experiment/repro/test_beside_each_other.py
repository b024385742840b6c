"""Stages beside each other: a toy project of DVC, with a script in the place of `dvc` or with DVC.

The script notes when a stage begins and ends; stages wait for each other by files, so that what
is asserted does not depend on how fast the machine is.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml
from dvc.repo import Repo

from hosm.experiment.repro import command

ROOT = Path(__file__).resolve().parents[3]
STAGES = {  # name: what it needs, whether it is alone
    "data": ("", False),
    "left": ("data", False),
    "right": ("data", False),
    "more": ("data", False),
    "timed": ("left", True),
    "clocked": ("right", True),
    "end": ("timed clocked more", False),
}
NOTES = 'stage=$4; echo "begin $stage" >> notes; '
SHORT = """
shift 3
for stage in "$@"; do
  echo "begin $stage" >> notes
  echo "Running stage '$stage':"
  sleep .2
  echo "end $stage" >> notes
done"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project, and a function that writes what runs in the place of DVC."""
    Repo.init(str(tmp_path), no_scm=True).close()
    graph = {
        name: {"cmd": f"echo {name} > {name}", "deps": ["start", *needs.split()], "outs": [name]}
        | ({"meta": {"alone": True}} if alone else {})
        for name, (needs, alone) in STAGES.items()
    }
    (tmp_path / "dvc.yaml").write_text(yaml.safe_dump({"stages": graph}, sort_keys=False))
    (tmp_path / "params.yaml").write_text("profile: laptop\n")
    (tmp_path / "start").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "cpu_count", lambda: 2)
    monkeypatch.setenv("HOSM_PROJECT", str(tmp_path))

    def fake(text):
        script = tmp_path / "bin" / "dvc"
        script.parent.mkdir()
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        return tmp_path

    fake.root = tmp_path
    return fake


def notes(root):
    """What ran at each moment: a set for each note."""
    now, found = set(), []
    for note in (root / "notes").read_text().splitlines():
        what, name = note.split()
        (now.add if what == "begin" else now.remove)(name)
        found.append((what, name, frozenset(now)))
    return found


def test_two_run_at_once_and_the_timed_one_alone(project):
    root = project(SHORT)
    assert command.reproduce(root, []) == 0
    found = notes(root)
    begun = [name for what, name, _ in found if what == "begin"]
    assert set(begun) == set(STAGES) and begun[0] == "data" and begun[-1] == "end"
    assert set(begun[-3:-1]) == {"timed", "clocked"}
    assert max(len(now) for _, _, now in found) == 2
    assert not [now for _, _, now in found if {"timed", "clocked"} & now and len(now) > 1]
    kept = json.loads((root / "runs" / "stage_seconds.json").read_text())
    assert kept["last_run"] == dict.fromkeys(STAGES, "ran") and len(kept["seconds"]["laptop"]) == 7


def test_each_stage_is_one_dvc_that_waits_for_the_lock(project, capsys, monkeypatch):
    root = project('echo "$@, $OMP_NUM_THREADS threads"')
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert command.reproduce(root, ["timed"]) == 0
    log = (root / "runs" / "repro.log").read_text().splitlines()
    asked = "--wait-for-lock repro --single-item"
    assert log == [
        f"{name}: {asked} {name}, {count} threads"
        for name, count in (("data", 1), ("left", 1), ("timed", 2))
    ]
    assert "  left: --wait-for-lock" in capsys.readouterr().out


EACH = 'shift 3; echo "$@" >> asked; for s in "$@"; do echo "Running stage \'$s\':"; '


def test_those_that_are_alone_have_one_dvc_and_each_its_lines(project, capsys):
    root = project(f"{EACH} echo of $s; done")
    assert command.reproduce(root, []) == 0
    asked = (root / "asked").read_text().splitlines()
    assert sorted(asked[-2].split()) == ["clocked", "timed"] and asked[-1] == "end"
    log = (root / "runs" / "repro.log").read_text()
    assert "timed: of timed\n" in log and "clocked: of clocked\n" in log
    assert "stage 7 of 7, end" in capsys.readouterr().out


def test_one_that_is_alone_and_fails_keeps_the_next_from_beginning(project, capsys):
    fails = "case $s in timed|clocked) echo \"ERROR: failed to reproduce '$s'\"; exit 7;; esac"
    root = project(f"{EACH} echo $s >> begun; {fails}; done")
    assert command.reproduce(root, []) == 7
    begun = (root / "begun").read_text().split()
    assert len({"timed", "clocked"} & {*begun}) == 1 and "end" not in begun
    kept = json.loads((root / "runs" / "stage_seconds.json").read_text())["last_run"]
    assert kept[begun[-1]] == "failed" and len(kept) == 5
    assert f"ERROR: failed to reproduce '{begun[-1]}'" in capsys.readouterr().out


def test_a_stage_that_fails_ends_the_run_and_is_named(project, capsys):
    root = project(
        f'{NOTES} test $4 = left && echo why && exit 7; sleep .3; echo "end $4" >> notes'
    )
    assert command.reproduce(root, []) == 7
    begun = {name for what, name, _ in notes(root) if what == "begin"}
    assert {"data", "left"} <= begun and not {"timed", "end"} & begun
    out = capsys.readouterr().out
    assert "stage left failed; its last lines:\n  why\n" in out
    kept = json.loads((root / "runs" / "stage_seconds.json").read_text())["last_run"]
    assert kept["left"] == "failed" and kept["data"] == "ran"
    assert "timed" not in kept


def test_options_of_dvc_and_one_processor_mean_one_dvc(project, monkeypatch):
    root = project('echo "$@" >> asked')
    assert command.reproduce(root, ["--dry", "end"]) == 0
    monkeypatch.setattr(command, "cpu_count", lambda: 1)
    assert command.reproduce(root, []) == 0
    assert (root / "asked").read_text() == "repro --dry end\nrepro\n"


def test_a_run_beside_another_is_refused_in_the_words_of_dvc(project, capsys):
    root = project("echo begun")
    with Repo(str(root)) as repo, repo.lock:
        assert command.reproduce(root, []) == 255
    out = capsys.readouterr().out
    assert out.startswith("ERROR: Unable to acquire lock") and "begun" not in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "ended", [0, 40]
)  # of stages that are told: finished anyway, or cut short
def test_a_signal_reaches_all_that_runs_and_nothing_begins_after_it(project, number, ended):
    wait = f"trap 'echo told $4 >> told; exit {ended}' {int(number)}; echo here"
    root = project(f"{NOTES} test $4 = data || {{ {wait}; while :; do sleep .1; done; }}")
    text = f"""
        from pathlib import Path
        from hosm.experiment.repro import command
        command.cpu_count = lambda: 2
        raise SystemExit(command.reproduce(Path({str(root)!r}), []))
    """
    program = [sys.executable, "-c", textwrap.dedent(text)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        program, cwd=root, stdout=subprocess.PIPE, text=True, env=environment
    ) as run:
        here = 0
        while here < 2:  # the two stages after the data wait
            here += run.stdout.readline().endswith(": here\n")
        run.send_signal(number)
        run.communicate(timeout=60)
    assert run.returncode == (ended or 128 + number)
    assert sorted((root / "told").read_text().split()) == sorted(["told"] * 2 + waiting(root))


def waiting(root):
    """The stages that had begun after the data."""
    return [name for what, name, _ in notes(root) if what == "begin" and name != "data"]


@pytest.mark.cluster
def test_real_dvc_locks_the_same_as_in_turn_and_a_second_run_does_nothing(project, capsys):
    root = project.root
    assert command.reproduce(root, []) == 0
    beside = yaml.safe_load((root / "dvc.lock").read_text())
    assert set(beside["stages"]) == set(STAGES)
    assert (root / "end").read_text() == "end\n"
    capsys.readouterr()
    assert command.reproduce(root, []) == 0
    assert capsys.readouterr().out.endswith("Data and pipelines are up to date.\n")
    (root / "dvc.lock").unlink()
    subprocess.run(["dvc", "repro", "--force", "-q"], cwd=root, check=True)
    assert yaml.safe_load((root / "dvc.lock").read_text()) == beside
