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
    """A claim of the paper, and the names of the claims that decide it or stand beside it."""

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
        ("plain-fails-at-small-sigma", "plain-suffices-at-large-sigma"),
        "reduction",
        "reduction",
        ("reduced-alike-at-all-sigma", "variance-reduction-helps-autodiff"),
    ),
    PaperClaim(
        "section 4.4, table 1",
        "A learned s2 is more accurate than the derivative of s1.",
        ("moment-beats-autodiff",),
        "whole",
        "accuracy",
        ("moment-reaches-paper", "best-s2-beats-best-autodiff", "all-beat-constant"),
    ),
    PaperClaim(
        "section 4.4",
        "Trained together with s2, s1 is as accurate as alone.",
        ("joint-s1-derivative", "joint-s1-error"),
        "accuracy",
        "accuracy",
    ),
    PaperClaim(
        "section 4.4, table 2",
        "s2 is 85 (D = 100) to 500 times (D = 784) faster than differentiating s1.",
        ("s2-beats-loop",),
        "speed",
        "speed",
        ("s2-beats-chunked", "s2-costs-like-s1", "joint-step-cost"),
    ),
    PaperClaim(
        "section 5, figure 2",
        "s2 gives the covariance of a point given its noisy version.",
        ("plane-covariance",),
        "plane",
        "uncertainty",
        ("plane-coverage",),
    ),
    PaperClaim(
        "section 5, figure 3",
        "Variance is larger near edges than elsewhere.",
        ("variance-larger-at-edges",),
        "variance",
        "uncertainty",
        ("variance-correlates-with-error", "variance-calibrated"),
    ),
    PaperClaim(
        "section 5, figure 4",
        "The covariance tells more than its diagonal.",
        ("low-rank-likelier",),
        "explained",
        "uncertainty",
        ("directions-of-s2",),
    ),
    PaperClaim(
        "section 6.2, table 3",
        "At the paper's steps, Ozaki has the larger effective sample size.",
        ("guarded-ess-higher",),
        "single-chains",
        "mixing",
        ("printed-ess-higher", "paper-steps-unbiased"),
    ),
    PaperClaim(
        "section 6.2, figure 5",
        "Each at its best step, Ozaki mixes faster than Langevin.",
        ("tuned-ozaki-faster",),
        "tuning",
        "mixing",
        ("bias-of-first-order",),
    ),
    PaperClaim(
        "section 6.2, figure 6",
        "At the same step, Ozaki converges faster.",
        ("faster-at-equal-steps",),
        "equal-steps",
        "mixing",
        ("faster-at-equal-time",),
    ),
    PaperClaim(
        "section 6.3, figures 7 and 8",
        "Chains of digits change class more often by Ozaki.",
        ("more-changes-at-equal-steps",),
        "classes",
        "diversity",
        (
            "no-more-changes-at-equal-time",
            "more-changes-at-largest-steps",
            "iteration-of-image-chains-cheap",
        ),
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


def _named(judged: Sequence[Claim], names: tuple[str, ...]) -> list[Claim]:
    return [claim for claim in judged if claim.name in names]


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
        deciding = _named(judged, paper.decides)
        holds, fails, undecided = (
            [claim for claim in deciding if claim.verdict == name]
            for name in ("holds", "does not hold", "undecided")
        )
        beside = _named(judged, paper.beside)
        judged_as = _verdict(holds, fails, undecided)
        told = Replicated(paper, judged_as, holds, fails, undecided, beside, _tally(beside))
        found.append(told)
    return found
