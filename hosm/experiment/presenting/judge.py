"""Claims as data, and the one judge of them.

A claim compares a value that a run measured, on its left, with another measured value or a bound,
on its right. A claim about several places or samplers compares the worst of them. With e the
standard error of left minus right, the claim is undecided if |left - right| <= 2 e. A claim about
the largest of several uncertain values tells what that would be if each were two of its standard
errors smaller; if the claim fails but would hold then, it is undecided as well. Otherwise the
comparison decides. A value that is not a number, as of a run that diverged, satisfies none.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["Claim", "Comparison", "Verdict", "error_of_difference", "judge"]

Verdict = Literal["holds", "does not hold", "undecided"]
Comparison = Literal["<", "<=", ">", ">="]

COMPARISONS: dict[Comparison, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Claim:
    """A statement about measured numbers, and these numbers.

    Args:
        name: short identifier of the statement, the same wherever it was measured.
        where: data set, regime, noise scale or network that was measured.
        statement: what is claimed, in words.
        left: the measured value; None if there is nothing sound to compare.
        comparison: how `left` has to compare with `right` for the claim to hold.
        right: the value or bound that `left` is compared with.
        evidence: the numbers in words, for the reader.
        paper: whether the paper claims it.
        error: standard error of left minus right; None if any difference decides.
        left_at_best: `left` if chance of two standard errors spoke against the claim.
    """

    name: str
    where: str
    statement: str
    left: float | None
    comparison: Comparison
    right: float
    evidence: str
    paper: bool = False
    error: float | None = None
    left_at_best: float | None = None

    @property
    def verdict(self) -> Verdict:
        """What `judge` says of this claim."""
        return judge(self)


def judge(claim: Claim) -> Verdict:
    """Return whether a claim holds, by its numbers alone.

    Args:
        claim: what is judged.
    """
    if claim.left is None:
        return "undecided"
    if claim.error is not None and abs(claim.left - claim.right) <= 2 * claim.error:
        return "undecided"
    compare = COMPARISONS[claim.comparison]
    if compare(claim.left, claim.right):
        return "holds"
    if claim.left_at_best is not None and compare(claim.left_at_best, claim.right):
        return "undecided"
    return "does not hold"


def error_of_difference(*errors: float) -> float:
    """Return the standard error of a difference of independent means.

    Args:
        errors: the standard error of each mean; NaN, as of a single seed, counts as 0.
    """
    return math.hypot(*(0.0 if math.isnan(error) else error for error in errors))
