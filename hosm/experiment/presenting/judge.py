"""Claims as data, and the one judge of them.

A claim compares a value that a run measured, on its left, with another measured value or a bound,
on its right. Chance is two standard errors of left minus right, either way, or the range of
repeated times. The verdicts are:

- **holds**: the comparison is true at both ends of what chance allows.
- **does not hold**: it is true at neither end. A value that is not a number, as of a run that
  diverged, satisfies no comparison.
- **undecided**: it is true at one end and not at the other, or nothing is known of chance, as of a
  mean over one seed, whose standard error is not a number.
- **vacuous**: the winner of the comparison says nothing, since it is measured on draws whose bias
  is beyond the bounds, or on chains of which none crosses between the modes. Whoever made the
  claim tells so by `sound`.

A claim about several values holds if it holds of each, and fails if it fails of one: `decisive`
takes the pair that decides. Standard errors of two means are combined as if these were
independent, unless values by seed are at hand, which are compared seed by seed: seeds share data
and noise, so that the combined error is rather too large than too small. With three seeds, chance
alone exceeds two standard errors in one comparison of five to eight; a claim at twelve places
should be read with that in mind. Where nothing is known of the spread, the claim's own module
says so, and any difference decides.
"""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = [
    "VERDICTS",
    "Claim",
    "Comparison",
    "Pair",
    "Verdict",
    "decisive",
    "error_of_difference",
    "judge",
]

Verdict = Literal["holds", "does not hold", "undecided", "vacuous"]
Comparison = Literal["<", "<=", ">", ">="]

VERDICTS: tuple[Verdict, ...] = ("holds", "does not hold", "undecided", "vacuous")
COMPARISONS: dict[Comparison, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SEVERITY: dict[Verdict, int] = {"holds": 0, "undecided": 1, "does not hold": 2}


class Pair(NamedTuple):
    """A measured value, what it is compared with, and what is known of chance.

    `error` is the standard error of left minus right, not a number if it is unknown; `ends` are
    the least and the largest left that were measured. With neither, any difference decides.
    """

    left: float
    right: float
    error: float | None = None
    ends: tuple[float, float] | None = None


@dataclass(frozen=True)
class Claim:
    """A statement about measured numbers, and these numbers.

    Args:
        name: short identifier of the statement, the same wherever it was measured.
        where: data set, regime, noise scale or network that was measured.
        statement: what is claimed, in words.
        left: the measured value.
        comparison: how `left` has to compare with `right` for the claim to hold.
        right: the value or bound that `left` is compared with.
        evidence: the numbers in words, for the reader.
        paper: whether the paper claims it; the others are the project's own.
        error: standard error of left minus right; not a number if unknown, None if there is none.
        ends: least and largest `left` of repeated measurements, in place of `error`.
        sound: whether the value that wins means what the claim takes it for.
        by_construction: whether it holds in theory, so that it checks the code and no claim.
        run: which run measured it, see `longer_runs`.
    """

    name: str
    where: str
    statement: str
    left: float
    comparison: Comparison
    right: float
    evidence: str
    paper: bool = False
    error: float | None = None
    ends: tuple[float, float] | None = None
    sound: bool = True
    by_construction: bool = False
    run: str = ""

    @property
    def verdict(self) -> Verdict:
        """What `judge` says of this claim."""
        return judge(self)


def _compared(pair: Pair, comparison: Comparison) -> Verdict:
    """Return the verdict on one pair, whose left counts as sound."""
    compare = COMPARISONS[comparison]
    if not math.isfinite(pair.left):
        return "holds" if compare(pair.left, pair.right) else "does not hold"
    if pair.error is not None and math.isnan(pair.error):
        return "undecided"
    reach = 2 * (pair.error or 0.0)
    ends = pair.ends or (pair.left - reach, pair.left + reach)
    found = [compare(end, pair.right) for end in ends]
    if any(found) and not all(found):
        return "undecided"
    return "holds" if all(found) else "does not hold"


def judge(claim: Claim) -> Verdict:
    """Return whether a claim holds, by its numbers alone.

    Args:
        claim: what is judged.
    """
    if not claim.sound:
        return "vacuous"
    pair = Pair(claim.left, claim.right, claim.error, claim.ends)
    return _compared(pair, claim.comparison)


def decisive(comparison: Comparison, pairs: Sequence[Pair]) -> Pair:
    """Return the pair that decides whether a comparison is true of all: the worst of them.

    That is one of which it fails, else one of which it is undecided, else one of which it holds;
    among those, the one farthest on the wrong side.

    Args:
        comparison: how every left has to compare with its right.
        pairs: at least one.
    """
    sign = 1 if comparison in ("<", "<=") else -1

    def badness(pair: Pair) -> tuple[int, float]:
        over = sign * (pair.left - pair.right)
        return SEVERITY[_compared(pair, comparison)], math.inf if math.isnan(over) else over

    return max(pairs, key=badness)


def error_of_difference(*errors: float) -> float:
    """Return the standard error of a sum or difference of independent means.

    Args:
        errors: the standard error of each; not a number if one is unknown, as of a single seed.
    """
    return math.nan if any(map(math.isnan, errors)) else math.hypot(*errors)
