"""Where numbers come from: profile, seeds, machine, versions, data, code, and the protocols."""

import json
import platform
import shutil
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from hosm.experiment.run.process import cpu_count
from hosm.experiment.settings import Params

__all__ = ["facts", "hardware"]

PACKAGES = ("torch", "ray", "mlflow", "dvc", "numpy", "pandas")
CODE = ("hosm", "pipeline", "dvc.yaml")  # what a result depends on, beside the settings


def _processor() -> str:
    """Return the name of the processor, by Linux's list if there is one."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text().splitlines() if listing.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@cache
def hardware() -> str:
    """Return the machine in one line: cores, processor, GPUs."""
    count = cpu_count()
    cores = f"{count} core{'s' if count > 1 else ''} of {_processor()}"
    if not torch.cuda.is_available():
        return f"{cores}, no GPU"
    return f"{cores}, {torch.cuda.device_count()} × {torch.cuda.get_device_name(0)}"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git says about the project, or None if it says nothing."""
    if shutil.which("git") is None:
        return None
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _commit(root: Path) -> str:
    """Return the commit of the code, and whether code or settings differ from it.

    The profile may: it is told apart.
    """
    commit = _git(root, "rev-parse", "--short=10", "HEAD")
    if not commit:
        return "unknown: not a git repository"
    changed = _git(root, "status", "--porcelain", "--", *CODE)
    changed = changed or _git(root, "diff", "HEAD", "-I^profile:", "--", "params.yaml")
    return f"{commit}, with changes that are not committed" if changed else commit


def _data(root: Path) -> dict[str, str]:
    """Return the sha256 of each prepared data set."""
    cards = sorted((root / "data" / "prepared").glob("*/card.json"))
    read = [json.loads(card.read_text()) for card in cards]
    return {card["name"]: card["sha256"] for card in read}


def _protocol(params: Params) -> dict[str, Any]:
    """Return the sizes that the page's text names."""
    sweep, mixing, speed = params.sweep, params.mixing, params.speed
    cells = [cell for trial in sweep.grid() for cell in sweep.estimates(trial)]
    steps = sorted({sweep.model(cell).max_steps for cell in cells})
    return {
        "steps": " to ".join(f"{value:,}" for value in dict.fromkeys((steps[0], steps[-1]))),
        "test_points": f"{sweep.test_points:,}",
        "train_points": f"{params.prepare.train_points:,}",
        "regimes": list(sweep.regimes),
        "batch": speed.batch,
        "repeats": speed.repeats,
        "threads": speed.threads,
        "image_batch": speed.image_batch,
        "worker_threads": params.scaling.threads,
        "chains": mixing.chains,
        "burn_in": f"{mixing.burn_in:,}",
        "draws": f"{mixing.steps:,}",
        "paper_draws": f"{mixing.paper_steps:,}",
        "runs": mixing.runs,
        "tuning_draws": f"{mixing.tuning_steps:,}",
        "tries": f"{mixing.tries} from {mixing.step_sizes[0]:g} to {mixing.step_sizes[1]:g}",
        "refined": mixing.tries // 2,
        "variance_bound": f"{mixing.variance_bound:g}",
        "floor": f"{mixing.floor:g}",
        "picture_chains": f"{mixing.picture_chains:,}",
        "bias_chains": f"{mixing.bias_chains:,}",
    }


def facts(root: Path, profile: str, params: Params) -> dict[str, Any]:
    """Return what a reader needs to judge and to repeat a run.

    Args:
        root: the project's folder.
        profile: the switch of params.yaml.
        params: the settings.

    Returns:
        profile, seeds, hardware, cpus, versions, commit, data (hashes by name), and protocol.
    """
    return {
        "profile": profile,
        "seeds": list(params.sweep.seeds),
        "hardware": hardware(),
        "cpus": cpu_count(),
        "versions": {
            "python": platform.python_version(),
            **{package: _version(package) for package in PACKAGES},
        },
        "commit": _commit(root),
        "data": _data(root),
        "protocol": _protocol(params),
    }
