"""The numbers to show first: lines of the page, beside the paper's, and findings of README."""

from typing import NamedTuple

__all__ = ["Finding", "HeadlineLine"]


class HeadlineLine(NamedTuple):
    """What was measured, by which method, and both numbers as text."""

    measured: str
    by: str
    paper: str
    ours: str


class Finding(NamedTuple):
    """A result for readers who know nothing of the project, all three as text.

    A whole sentence that says what was measured, of what and in which unit; our number; and the
    number to compare it with, which names its method.
    """

    measured: str
    ours: str
    rival: str
