"""How long stages take: on this machine if they have run here, else on a reference machine."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from hosm.experiment.run.tags import standard_tags
from hosm.io import write_whole

__all__ = [
    "SECONDS",
    "expected_seconds",
    "keep_as_reference",
    "known_seconds",
    "pace",
    "profile",
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
        The seconds of the whole run.

    Raises:
        ValueError: the last run left a stage out, or did not end.
    """
    path = root / SECONDS
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    last = kept.get("last_run", {})
    left_out = [name for name, outcome in last.items() if outcome != "ran"]
    if left_out or not last:
        raise ValueError(
            f"every stage must have run in the last run, got {', '.join(left_out) or 'no run'}"
        )
    known, whole = known_seconds(root), round(kept["last_run_seconds"])
    seconds = {name: round(known[name]) for name in last}
    facts = {
        "machine": standard_tags(root, profile(root), None)["hardware"],
        "profile": profile(root),
        "how": "Of one whole run, each stage from its start to its end; some ran side by side.",
        "all": whole,
        "seconds": seconds,
    }
    write_whole((json.dumps(facts, indent=2) + "\n").encode(), file)
    return whole


def pace(expected: Mapping[str, float], took: Mapping[str, float]) -> float:
    """Return how much longer than expected stages take in this run.

    Cautious at first: short stages tell little of long ones.

    Args:
        expected: seconds of stages.
        took: seconds of the stages that ran now.
    """
    before = sum(expected[name] for name in took if name in expected)
    now = sum(seconds for name, seconds in took.items() if name in expected)
    return (now + TRUSTED) / (before + TRUSTED)
