"""How long stages take: on this machine if they have run here, else on a reference machine."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import yaml

from hosm.experiment.run.tags import standard_tags
from hosm.io import write_whole

__all__ = [
    "SECONDS",
    "expected_seconds",
    "keep_as_reference",
    "known_seconds",
    "profile",
    "seconds_left",
]

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


def keep_as_reference(root: Path, file: Path = REFERENCE) -> float:
    """Write the seconds of a whole run here as those to expect on other machines.

    Args:
        root: folder of the project.
        file: where to.

    Returns:
        The seconds of all stages together.

    Raises:
        ValueError: the last run left a stage out, or did not end.
    """
    path = root / SECONDS
    last = json.loads(path.read_text(encoding="utf-8"))["last_run"] if path.exists() else {}
    left_out = [name for name, outcome in last.items() if outcome != "ran"]
    if left_out or not last:
        raise ValueError(
            f"every stage must have run in the last run, got {', '.join(left_out) or 'no run'}"
        )
    known = known_seconds(root)
    seconds = {name: round(known[name]) for name in last}
    facts = {
        "machine": standard_tags(root, profile(root), None)["hardware"],
        "profile": profile(root),
        "how": "Of one whole run, from the start of a stage to the start of the next one.",
        "seconds": seconds,
    }
    write_whole((json.dumps(facts, indent=2) + "\n").encode(), file)
    return sum(seconds.values())


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
