"""Checks of this machine and of the project's folder; `checklist` runs them."""

import json
import os
import platform
import shutil
import sys
import tempfile
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple

import psutil
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from hosm.experiment.run.exchange import stages
from hosm.experiment.run.process import cpu_count
from hosm.experiment.settings import SettingsError, load_params

__all__ = [
    "Finding",
    "compiler",
    "disk",
    "dvc",
    "packages",
    "python",
    "settings",
    "shared_memory",
    "threads",
]

INSTALL = "pip install -c constraints.txt -e '.[pipeline,images]'"
GB = 2**30
FREE_FOR_WARNING, FREE_AT_LEAST = 5 * GB, 1 * GB  # bytes of disk; with less, something to fix


class Finding(NamedTuple):
    """What a check finds: a status, and a text that says what to do if the status is not ok."""

    status: Literal["ok", "warning", "fix"]
    text: str


def _project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]


def python(root: Path) -> list[Finding]:
    """Check Python's version against pyproject.toml.

    Args:
        root: folder of the project, here and in the other checks.
    """
    here, wanted = platform.python_version(), _project(root)["requires-python"]
    if not SpecifierSet(wanted).contains(here, prereleases=True):
        return [Finding("fix", f"{here} runs; pyproject.toml asks for {wanted}")]
    return [Finding("ok", f"{here}; pyproject.toml asks for {wanted}")]


def packages(root: Path) -> list[Finding]:
    """Check the installed packages against pyproject.toml and constraints.txt."""
    project = _project(root)
    texts = [*project["dependencies"], *project["optional-dependencies"]["pipeline"]]
    lines = (root / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    pinned = {canonicalize_name(name): version for name, version in pins.items()}
    found = []
    for wanted in map(Requirement, texts):
        pin = pinned.get(canonicalize_name(wanted.name))
        try:
            here = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            found.append(Finding("fix", f"{wanted.name} is not installed; {INSTALL}"))
            continue
        if not wanted.specifier.contains(here, prereleases=True):
            text = f"{wanted.name} {here} is installed, but must be {wanted.specifier}; {INSTALL}"
            found.append(Finding("fix", text))
        elif here != pin:
            text = f"{wanted.name} {here} is installed, but {pin} is tested; {INSTALL}"
            found.append(Finding("warning", text))
    return found or [Finding("ok", f"all {len(texts)} at the versions of constraints.txt")]


def settings(root: Path) -> list[Finding]:
    """Check params.yaml."""
    try:
        params = load_params(root / "params.yaml")
    except SettingsError as error:
        return [Finding("fix", str(error))]
    return [Finding("ok", f"params.yaml, profile {params.profile}")]


def _cluster_setting(root: Path, key: str) -> int:
    """Return a number under `cluster` in params.yaml, whose other values may be wrong."""
    return int(yaml.safe_load((root / "params.yaml").read_text())["cluster"][key])


def threads(root: Path) -> list[Finding]:
    """Check the number of threads, and of local workers, against the processors."""
    cpus, local = cpu_count(), _cluster_setting(root, "local_cpus")
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked and not asked.isdecimal():
        return [Finding("fix", f"OMP_NUM_THREADS must be a number up to {cpus}, got {asked!r}")]
    if int(asked or 1) > cpus:
        return [Finding("warning", f"OMP_NUM_THREADS is {asked}; this machine has {cpus} CPUs")]
    if local > cpus:
        text = f"cluster.local_cpus is {local}; this machine has {cpus} CPUs, so work takes longer"
        return [Finding("warning", text)]
    return [Finding("ok", f"{cpus} CPUs, cluster.local_cpus {local}, {asked or 'any'} threads")]


def compiler() -> list[Finding]:
    """Check for the C++ compiler that torch.compile uses on a CPU: that of CXX, or its default."""
    name = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    if place := shutil.which(name):
        return [Finding("ok", place)]
    text = f"{name} is not on PATH: install it, name another in CXX, or set speed.compiled to "
    return [Finding("warning", f"{text}false and mixing.compiled to [] in params.yaml")]


def disk(root: Path) -> list[Finding]:
    """Check free disk space of the project and of temporary files."""
    found = []
    for place in dict.fromkeys((str(root), tempfile.gettempdir())):
        free = shutil.disk_usage(place).free
        text = f"{free / GB:.1f} GB free at {place}"
        if free < FREE_FOR_WARNING:
            status: Literal["warning", "fix"] = "fix" if free < FREE_AT_LEAST else "warning"
            found.append(Finding(status, f"{text}; `dvc gc -w` and `rm -r runs/ray` free some"))
        else:
            found.append(Finding("ok", text))
    return found


def shared_memory(root: Path) -> list[Finding]:
    """Check that Ray's object store fits into shared memory."""
    wanted, place = _cluster_setting(root, "object_store_mb"), Path("/dev/shm")
    if not place.is_dir():
        return [Finding("warning", f"no {place}: Ray keeps its objects on disk, which is slow")]
    free = shutil.disk_usage(place).free // 2**20
    if free < wanted:
        text = f"{free} MB free in {place}; cluster.object_store_mb asks for {wanted}"
        return [Finding("fix", f"{text}: lower that, or in a container raise --shm-size")]
    return [Finding("ok", f"{free} MB free; cluster.object_store_mb asks for {wanted}")]


def _running(root: Path) -> list[str]:
    """Return the commands of DVC that run in this project."""
    lock = root / ".dvc" / "tmp" / "rwlock"
    held = json.loads(lock.read_text() or "{}") if lock.is_file() else {}
    holders = [*held.get("write", {}).values()]
    holders += [each for readers in held.get("read", {}).values() for each in readers]
    return [each["cmd"] for each in holders if psutil.pid_exists(each["pid"])]


def dvc(root: Path) -> list[Finding]:
    """Check DVC: its command, repository, lock file, cache, and whether a command runs."""
    if shutil.which("dvc") is None:
        return [Finding("fix", f"dvc is not on PATH; {INSTALL}, then `. .venv/bin/activate`")]
    if not (root / ".dvc" / "config").is_file():
        return [
            Finding("fix", f"{root} is not a DVC repository; `dvc repro` needs a clone by git")
        ]
    if not os.access(root / ".dvc", os.W_OK):
        return [Finding("fix", f"{root / '.dvc'}, with the cache, cannot be written to")]
    if running := _running(root):
        return [Finding("warning", f"`{running[0]}` is running; a second one has to wait")]
    every, lock = stages(root), root / "dvc.lock"
    try:
        held = yaml.safe_load(lock.read_text())["stages"] if lock.is_file() else {}
    except (yaml.YAMLError, TypeError, KeyError):
        return [Finding("fix", f"{lock} is damaged; `git checkout dvc.lock`")]
    run = sum(name in held for name in every)
    return [Finding("ok", f"repository; {run} of {len(every)} stages have run, by dvc.lock")]
