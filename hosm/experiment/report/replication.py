"""The replication: each claim of the paper, where it holds, where it does not, and the numbers.

The claims are those of Meng, Song, Li and Ermon (NeurIPS 2021), in its order and in our words;
they lie in `paper.yaml` with the names of the judged claims that decide them. A claim of the paper
holds if all of these hold, and holds only in part if some of them do; if none holds and one fails,
it does not hold; else it is undecided if one is, and vacuous if all are. Claims of ours that a
reader should know, such as a bias that the paper does not limit, stand beside it with their own
verdicts. Places are counted apart: the paper's claims, ours, and those that hold by construction.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import pandas as pd

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import VERDICTS, Claim, Verdict
from hosm.experiment.report.texts import PaperClaim, paper
from hosm.experiment.shared.rows import Row, records

__all__ = [
    "Replicated",
    "Elsewhere",
    "own_verdicts",
    "paper_verdicts",
    "replication",
    "second_opinions",
    "summary",
    "told",
    "verdict_of",
    "verdict_tables",
]

SAID = {  # verdict -> of one claim, of several
    "holds": ("holds", "hold"),
    "holds only in part": ("holds only in part", "hold only in part"),
    "does not hold": ("does not hold", "do not hold"),
    "undecided": ("is undecided", "are undecided"),
    "vacuous": ("is vacuous", "are vacuous"),
    "not measured": ("is not measured", "are not measured"),
}


class Replicated(NamedTuple):
    """A claim of the paper with its verdict; `places` are judged places, by their verdicts.

    `tally` says of each statement beside it at how many of its places it has which verdict;
    `elsewhere` is what is known of it at one other point.
    """

    paper: PaperClaim
    verdict: str
    places: dict[Verdict, list[Claim]]
    beside: list[Claim]
    tally: list[tuple[str, str]]
    elsewhere: "Elsewhere | None" = None


class Elsewhere(NamedTuple):
    """The verdict on a claim of the paper at its other point, and the places and numbers."""

    verdict: str
    places: list[Row]
    minutes: float


def _named(judged: Sequence[Claim], names: Sequence[str]) -> list[Claim]:
    return [claim for claim in judged if claim.name in names]


def _by_verdict(claims: Sequence[Claim]) -> dict[Verdict, list[Claim]]:
    return {name: [claim for claim in claims if claim.verdict == name] for name in VERDICTS}


def _verdict(found: Collection[str]) -> str:
    """Return the verdict on a claim of the paper, by those at its places."""
    there = [name for name in VERDICTS if name in found]
    if "holds" in there:
        return "holds" if there == ["holds"] else "holds only in part"
    return there[0] if there else "not measured"


def verdict_of(judged: Sequence[Claim]) -> str:
    """Return the verdict on a statement by those at its places, as on a claim of the paper.

    Args:
        judged: the statement's claims.
    """
    return _verdict([claim.verdict for claim in judged])


def told(judged: Sequence[Claim]) -> str:
    """Return at how many places a statement has which verdict, as a part of a sentence.

    Args:
        judged: the statement's claims.
    """
    counts = {name: len(there) for name, there in _by_verdict(judged).items() if there}
    if len(judged) == 1:
        return "at the one place that was measured"
    if len(counts) == 1:
        if "does not hold" in counts:
            return f"at any of {len(judged)} places"
        return "at both places" if len(judged) == 2 else f"at all {len(judged)} places"
    parts = [f"{SAID[name][0]} at {count}" for name, count in counts.items()]
    return f"of {len(judged)} places, it {', '.join(parts[:-1])} and {''.join(parts[-1:])}"


def _tally(beside: list[Claim]) -> list[tuple[str, str]]:
    """Return each statement with its verdict, or with its verdicts counted over its places."""
    found = []
    for statement in dict.fromkeys(claim.statement for claim in beside):
        verdicts = [claim.verdict for claim in beside if claim.statement == statement]
        counts = {name: verdicts.count(name) for name in VERDICTS if name in verdicts}
        told = ", ".join(f"{name} at {count}" for name, count in counts.items())
        several = f"{told} of {len(verdicts)} places"
        found.append((statement, verdicts[0] if len(counts) == 1 else several))
    return found


def _elsewhere(claimed: PaperClaim, opinions: pd.DataFrame | None) -> Elsewhere | None:
    """Return what was found of a claim at its other point, if that was tried."""
    if opinions is None:
        return None
    places = records(opinions[opinions["name"].isin(claimed.decides)])
    if not places:
        return None
    verdict = _verdict([row["verdict"] for row in places])
    return Elsewhere(verdict, places, places[0]["seconds"] / 60)


def replication(judged: Sequence[Claim], opinions: pd.DataFrame | None = None) -> list[Replicated]:
    """Return each claim of the paper with its verdict, in the paper's order.

    Args:
        judged: every claim, as `claims.claims` returns them.
        opinions: a row for each place of a claim at its other point, see `second_opinions`.
    """
    found = []
    for claimed in paper().claims:
        places = _by_verdict(_named(judged, claimed.decides))
        beside = _named(judged, claimed.beside)
        verdict = _verdict([name for name in VERDICTS if places[name]])
        other = _elsewhere(claimed, opinions)
        found.append(Replicated(claimed, verdict, places, beside, _tally(beside), other))
    return found


def _counts(claims: Sequence[Claim]) -> dict[str, str]:
    """Return the cells that count places by their verdicts."""
    counted = _by_verdict(claims).items()
    return {f"{name.capitalize()}, places": str(len(places)) for name, places in counted}


def summary(found: Sequence[Replicated]) -> str:
    """Return how many claims of the paper have which verdict, as `2 hold, 1 is undecided`.

    Args:
        found: as `replication` returns them.
    """
    verdicts = [each.verdict for each in found]
    counts = {name: verdicts.count(name) for name in SAID if name in verdicts}
    return ", ".join(f"{count} {SAID[name][count > 1]}" for name, count in counts.items())


def paper_verdicts(judged: Sequence[Claim]) -> pd.DataFrame:
    """Return the paper's claims with their verdicts, and the places that each is judged at.

    Args:
        judged: every claim, as `claims.claims` returns them.
    """
    found = replication(judged)
    deciding = [[claim for places in each.places.values() for claim in places] for each in found]
    rows = [
        {"Claim of the paper": each.paper.claim, "Verdict": each.verdict, **_counts(claims)}
        for each, claims in zip(found, deciding, strict=True)
    ]
    total = {"Claim of the paper": f"all {len(rows)}", "Verdict": summary(found)}
    return pd.DataFrame([*rows, {**total, **_counts([c for claims in deciding for c in claims])}])


def own_verdicts(judged: Sequence[Claim]) -> pd.DataFrame:
    """Return the project's own statements, and the places that each is judged at.

    Args:
        judged: every claim, as `claims.claims` returns them.
    """
    own = [claim for claim in judged if not claim.paper]
    rows = []
    for statement in dict.fromkeys(claim.statement for claim in own):
        claims = [claim for claim in own if claim.statement == statement]
        kind = "true by construction: checks the code" if claims[0].by_construction else "measured"
        rows.append({"Our own statement": statement, "Kind": kind, **_counts(claims)})
    measured = [claim for claim in own if not claim.by_construction]
    total = {"Our own statement": "all that are measured", "Kind": "measured"}
    return pd.DataFrame([*rows, {**total, **_counts(measured)}])


def second_opinions(judged: Sequence[Claim], opinions: pd.DataFrame) -> pd.DataFrame:
    """Return the paper's claims with their verdicts here, and at one other point each.

    Args:
        judged: every claim, as `claims.claims` returns them.
        opinions: a row for each place of a claim at its other point.
    """
    rows = [
        {
            "Claim of the paper": each.paper.claim,
            "Verdict": each.verdict,
            "Other point": each.paper.elsewhere.point,
            "Verdict there": each.elsewhere.verdict,
            "Minutes": formats.number(each.elsewhere.minutes, 2),
        }
        for each in replication(judged, opinions)
        if each.elsewhere
    ]
    return pd.DataFrame(rows)


def verdict_tables(
    judged: Sequence[Claim], opinions: pd.DataFrame | None = None
) -> dict[str, pd.DataFrame]:
    """Return the tables that count verdicts, by their files' names.

    Args:
        judged: every claim, as `claims.claims` returns them.
        opinions: a row for each place of a claim at its other point, if any was tried.
    """
    tables = {"verdicts-paper": paper_verdicts(judged), "verdicts-own": own_verdicts(judged)}
    if opinions is not None:
        tables["second-opinions"] = second_opinions(judged, opinions)
    return tables
