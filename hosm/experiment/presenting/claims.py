"""A claim, and the verdict on it."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Claim", "Verdict", "verdict"]

Verdict = Literal["holds", "does not hold", "undecided"]


@dataclass(frozen=True)
class Claim:
    """A sentence, where it comes from, whether it holds in this run, and by which numbers."""

    where: str
    statement: str
    verdict: Verdict
    evidence: str
    paper: bool = False


def verdict(holds: bool) -> Verdict:
    """Return the verdict on what holds or does not."""
    return "holds" if holds else "does not hold"
