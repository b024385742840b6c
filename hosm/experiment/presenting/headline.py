"""The numbers to show first: a sentence for the page, and findings for the table of README."""

from typing import NamedTuple

__all__ = ["Finding", "Told"]


class Finding(NamedTuple):
    """A result for readers who know nothing of the project, all three as text.

    A whole sentence that says what was measured, of what and in which unit; our number; and the
    number to compare it with, which names its method.
    """

    measured: str
    ours: str
    rival: str


class Told(NamedTuple):
    """What a study found: by which run, in one whole sentence, and as findings."""

    run: str
    sentence: str
    findings: list[Finding]
