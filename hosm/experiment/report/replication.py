"""The replication: each claim of the paper, where it holds, where it does not, and by what.

The claims are those of Meng, Song, Li and Ermon (NeurIPS 2021), in its order and in our words.
What decides is measured (see `claims`): a claim that holds wherever it was judged `holds`, one
that holds at some places `holds only` there. Statements of ours that a reader must know beside
it, such as a bias that the paper does not bound, stand below with verdicts of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hosm.experiment.presenting.claims import Claim

__all__ = ["ERRATA", "PAPER", "Erratum", "PaperClaim", "Replicated", "replication"]


@dataclass(frozen=True)
class PaperClaim:
    """A claim of the paper, and which judged statements decide it or stand beside it."""

    source: str
    claim: str
    decides: tuple[str, ...]
    figure: str
    section: str
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Erratum:
    """What the paper prints, what is right, and how that is known."""

    place: str
    printed: str
    right: str
    known_by: str


class Replicated(NamedTuple):
    """A claim of the paper with its verdict; `holds` and the rest are judged places.

    `tally` says of each statement beside it at how many of its places it holds.
    """

    paper: PaperClaim
    verdict: str
    holds: list[Claim]
    fails: list[Claim]
    undecided: list[Claim]
    beside: list[Claim]
    tally: list[tuple[str, str]]


PAPER = (
    PaperClaim(
        "section 4.3, figure 1",
        "Near σ = 0 learning needs variance reduction; at larger σ it is optional.",
        ("without variance reduction",),
        "reduction",
        "reduction",
        ("with variance reduction σ changes", "autodiff of s1 is more accurate with"),
    ),
    PaperClaim(
        "section 4.4, table 1",
        "A learned s2 is more accurate than the derivative of s1.",
        ("s2 by the paper's objective is more accurate",),
        "whole",
        "accuracy",
        ("s2 by the paper's objective reaches", "the most accurate s2", "every method is more"),
    ),
    PaperClaim(
        "section 4.4",
        "Trained together with s2, s1 is as accurate as alone.",
        ("s1 trained jointly",),
        "accuracy",
        "accuracy",
    ),
    PaperClaim(
        "section 4.4, table 2",
        "s2 is 85 (D = 100) to 500 times (D = 784) faster than differentiating s1.",
        ("s2 is faster than the autodiff loop",),
        "speed",
        "speed",
        ("s2 is faster than the fastest chunked", "s2 costs no more", "a step of s1 and s2"),
    ),
    PaperClaim(
        "section 5, figure 2",
        "s2 gives the covariance of a point given its noisy version.",
        ("the covariance is within",),
        "plane",
        "uncertainty",
        ("regions of 50, 80 and 95 %",),
    ),
    PaperClaim(
        "section 5, figure 3",
        "Variance is larger near edges than elsewhere.",
        ("the predicted variance is larger",),
        "variance",
        "uncertainty",
        ("predicted variance and squared error", "after one scale, variance and error"),
    ),
    PaperClaim(
        "section 5, figure 4",
        "The covariance tells more than its diagonal.",
        ("clean images are likelier under C",),
        "explained",
        "uncertainty",
        ("10 directions of s2",),
    ),
    PaperClaim(
        "section 6.2, table 3",
        "At the paper's steps, Ozaki has the larger effective sample size.",
        ("Ozaki, floor, has the higher",),
        "single-chains",
        "mixing",
        ("Ozaki, as printed, has the higher", "at the paper's steps draws are within"),
    ),
    PaperClaim(
        "section 6.2, figure 5",
        "Each at its best step, Ozaki mixes faster than Langevin.",
        ("tuned alike, the best Ozaki",),
        "tuning",
        "mixing",
        ("the bias of Langevin's energy",),
    ),
    PaperClaim(
        "section 6.2, figure 6",
        "At the same step, Ozaki converges faster.",
        ("Ozaki converges faster at the same ε, as printed",),
        "equal-steps",
        "mixing",
        ("Ozaki converges faster at the same ε on one clock",),
    ),
    PaperClaim(
        "section 6.3, figures 7 and 8",
        "Chains of digits change class more often by Ozaki.",
        ("at equal ε, chains of Ozaki change class",),
        "classes",
        "diversity",
        ("that is its clock", "at the largest steps within a bias", "an iteration of Ozaki costs"),
    ),
)

ERRATA = (
    Erratum(
        "section 4.3, D2SM with variance reduction",
        "The term of the noise is weighed by 1 / σ.",
        "1 / σ².",
        "The gradient of the printed form is biased, that of the corrected one is not: the test "
        "test_the_misprinted_variance_reduction_is_biased.",
    ),
    Erratum(
        "appendix, the same derivation",
        "x~+ and x~- lie on either side of x~.",
        "They lie on either side of the clean point: x + σz and x - σz.",
        "Only so does their mean over z stay that of x~ given x.",
    ),
    Erratum(
        "table 1",
        "Mean squared error.",
        "Squared errors summed over the entries of the matrix.",
        "The least errors that rank 15, 20 and 30 allow on its Gaussian are 7.04, 5.28 and 1.76 "
        "summed: the paper's numbers.",
    ),
    Erratum(
        "section 6.1, Ozaki's step",
        "The same ε in both samplers.",
        "As printed, Ozaki(ε) runs for twice the time of Langevin(ε): as ε falls, its drift is "
        "ε s1 and its noise has variance 2ε.",
        "Figure of equal steps: the curves agree once both run on one clock.",
    ),
    Erratum(
        "section 6.1, Ozaki's step",
        "A step for any curvature.",
        "Where the curvature is positive a large step overflows; it needs a guard.",
        "With exact scores and at the paper's steps the printed one diverges on both data sets.",
    ),
    Erratum(
        "figure 7, caption",
        "Step size σ = 0.02.",
        "ε = 0.02; σ is 0.5.",
        "The text beside it.",
    ),
)


def _starting(judged: Sequence[Claim], starts: tuple[str, ...]) -> list[Claim]:
    return [claim for claim in judged if claim.statement.startswith(starts)]


def _verdict(holds: list[Claim], fails: list[Claim], undecided: list[Claim]) -> str:
    if holds and not fails and not undecided:
        return "holds"
    if fails and not holds:
        return "does not hold"
    if holds:
        return "holds only in part"
    return "undecided" if undecided else "not measured"


def _tally(beside: list[Claim]) -> list[tuple[str, str]]:
    """Return each statement with where it holds: a verdict, or at how many of its places."""
    told = []
    for statement in dict.fromkeys(claim.statement for claim in beside):
        verdicts = [claim.verdict for claim in beside if claim.statement == statement]
        count = f"holds at {verdicts.count('holds')} of {len(verdicts)} places"
        told.append((statement, verdicts[0] if len(set(verdicts)) == 1 else count))
    return told


def replication(judged: Sequence[Claim]) -> list[Replicated]:
    """Return each claim of the paper with its verdict, in the paper's order.

    Args:
        judged: every claim, as `claims.replicated_claims` returns them.
    """
    found = []
    for paper in PAPER:
        deciding = _starting(judged, paper.decides)
        holds, fails, undecided = (
            [claim for claim in deciding if claim.verdict == name]
            for name in ("holds", "does not hold", "undecided")
        )
        beside = _starting(judged, paper.beside) if paper.beside else []
        judged_as = _verdict(holds, fails, undecided)
        told = Replicated(paper, judged_as, holds, fails, undecided, beside, _tally(beside))
        found.append(told)
    return found
