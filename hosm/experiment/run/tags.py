"""Names, texts and numbers that MLflow accepts, and the tags of every run."""

import importlib.metadata
import math
import os
import platform
import posixpath
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hosm import __version__
from hosm.experiment.run.secrets import masked

__all__ = ["PARAM", "TAG", "named", "number", "standard_tags", "texts"]

NAME = 250  # characters that each back end stores of a name, a param and a tag
PARAM = 6000
TAG = 5000


def named(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested values to dotted names that MLflow accepts, without those that are None."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= named(value, f"{name}.")
        elif value is not None:
            flat[_accepted(name)] = value
    return flat


def _accepted(name: str) -> str:
    name = re.sub(r"[^\w/.\-: ]", "_", name, flags=re.ASCII)[:NAME]
    unique = posixpath.normpath(name) == name and name[0] not in "./"  # as the name of a file
    return name if unique else "_" + name[1:].replace("/", "_")


def texts(values: Mapping[str, Any], length: int) -> dict[str, str]:
    """Return values as texts of at most `length` characters, without secrets."""
    whole = {name: masked(str(value)) for name, value in named(values).items()}
    return {k: t if len(t) <= length else f"{t[: length - 3]}..." for k, t in whole.items()}


def number(name: str, value: Any) -> float:  # noqa: ANN401
    """Return a metric as a float, NaN if it is infinite; TypeError if it is not a number."""
    if isinstance(value, str | bytes):
        raise TypeError(f"the metric {name} must be a number, got {value!r}")
    finite = float(value)
    return finite if math.isfinite(finite) else math.nan


def standard_tags(root: Path, profile: str, data_hash: str | None) -> dict[str, str]:
    """Return the tags of every run: stage, commit, data, profile, hardware and versions.

    Args:
        root: folder of the project; what git does not know of it is left out.
        profile: the switch that chose the sizes.
        data_hash: hash of the data set.
    """
    commit = _output("git", "-C", str(root), "rev-parse", "HEAD")
    changes = _output("git", "-C", str(root), "status", "--porcelain", "--untracked-files=no")
    tags = {
        "dvc.stage": os.environ.get("DVC_STAGE"),
        "dvc.experiment": os.environ.get("DVC_EXP_NAME"),
        "git.commit": commit,
        "git.dirty": None if commit is None or changes is None else str(changes != "").lower(),
        "data.sha256": data_hash,
        "profile": profile,
        "hardware": _hardware(),
        "versions": _versions("torch", "numpy", "ray", "mlflow", "dvc"),
    }
    return {name: text for name, text in tags.items() if text}


def _output(*command: str) -> str | None:
    """Return what a command prints; None if it fails or there is no such command."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _hardware() -> str:
    names = (_output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader") or "").splitlines()
    devices = f"{len(names)} x {names[0]}" if names else "no GPU"
    return f"{platform.machine()}, {os.cpu_count()} CPUs, {devices}"


def _versions(*packages: str) -> str:
    found = [f"hosm {__version__}", f"python {platform.python_version()}"]
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)
