"""A line of the headline: a number to show first, the paper's beside ours."""

from typing import NamedTuple

__all__ = ["HeadlineLine"]


class HeadlineLine(NamedTuple):
    """What was measured, by which method, and both numbers as text."""

    measured: str
    by: str
    paper: str
    ours: str
