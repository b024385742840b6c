"""How long stages take: on this machine if they have run here, else on a reference machine."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import yaml

__all__ = ["SECONDS", "expected_seconds", "known_seconds", "seconds_left"]

SECONDS = Path("runs", "stage_seconds.json")
TRUSTED = 600.0  # seconds after which the pace of this run counts as much as the expected one
REFERENCE = Path(__file__).with_name("reference.json")


def known_seconds(root: Path) -> dict[str, float]:
    """Return the seconds that each stage took when it last ran here, under this profile."""
    path = root / SECONDS
    if not path.exists():
        return {}
    known: dict[str, dict[str, float]] = json.loads(path.read_text(encoding="utf-8"))["seconds"]
    return known.get(profile(root), {})


def profile(root: Path) -> str:
    """Return the profile of params.yaml, an empty text where there is none."""
    path = root / "params.yaml"
    settings = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None
    return str((settings or {}).get("profile", ""))


def expected_seconds(root: Path, stages: Sequence[str]) -> dict[str, float]:
    """Return the seconds to expect of each stage that something is known of.

    Args:
        root: folder of the project.
        stages: by the names of DVC.
    """
    reference = json.loads(REFERENCE.read_text(encoding="utf-8"))
    general = reference["seconds"] if reference["profile"] == profile(root) else {}
    every = general | known_seconds(root)
    return {name: every[name] for name in stages if name in every}


def seconds_left(
    expected: Mapping[str, float], took: Mapping[str, float], ahead: Collection[str]
) -> float | None:
    """Return the seconds until the end, None where nothing is known of a stage that is ahead.

    The expected seconds are scaled by how much longer the stages that ran have taken, cautiously
    at first: short stages tell little of long ones.

    Args:
        expected: seconds of stages.
        took: seconds of the stages that ran now.
        ahead: stages that are not finished.
    """
    if any(name not in expected for name in ahead):
        return None
    before = sum(expected[name] for name in took if name in expected)
    now = sum(seconds for name, seconds in took.items() if name in expected)
    return sum(expected[name] for name in ahead) * (now + TRUSTED) / (before + TRUSTED)
