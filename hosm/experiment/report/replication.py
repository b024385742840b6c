"""The replication: each claim of the paper, where it holds, where it does not, and the numbers.

The claims are those of Meng, Song, Li and Ermon (NeurIPS 2021), in its order and in our words;
they lie in `paper.yaml` with the names of the judged claims that decide them. A claim of the paper
holds if all of these hold, and holds only in part if some of them do. Claims of ours that a reader
should know, such as a bias that the paper does not limit, stand beside it with their own verdicts.
"""

from collections.abc import Sequence
from typing import NamedTuple

from hosm.experiment.presenting.judge import Claim
from hosm.experiment.report.texts import PaperClaim, paper

__all__ = ["Replicated", "replication"]


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


def _named(judged: Sequence[Claim], names: Sequence[str]) -> list[Claim]:
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
    """Return each statement with its verdict, or with how many of its places it holds at."""
    found = []
    for statement in dict.fromkeys(claim.statement for claim in beside):
        verdicts = [claim.verdict for claim in beside if claim.statement == statement]
        count = f"holds at {verdicts.count('holds')} of {len(verdicts)} places"
        found.append((statement, verdicts[0] if len(set(verdicts)) == 1 else count))
    return found


def replication(judged: Sequence[Claim]) -> list[Replicated]:
    """Return each claim of the paper with its verdict, in the paper's order.

    Args:
        judged: every claim, as `claims.replicated_claims` returns them.
    """
    found = []
    for claimed in paper().claims:
        deciding = _named(judged, claimed.decides)
        holds, fails, undecided = (
            [claim for claim in deciding if claim.verdict == name]
            for name in ("holds", "does not hold", "undecided")
        )
        beside = _named(judged, claimed.beside)
        judged_as = _verdict(holds, fails, undecided)
        told = Replicated(claimed, judged_as, holds, fails, undecided, beside, _tally(beside))
        found.append(told)
    return found
