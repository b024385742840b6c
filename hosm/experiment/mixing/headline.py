"""The headline numbers of the samplers."""

import math
from collections.abc import Iterator

from hosm.experiment.mixing.comparisons import comparisons
from hosm.experiment.mixing.looks import SAMPLERS
from hosm.experiment.mixing.results import Sampling
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import Finding, HeadlineLine
from hosm.experiment.presenting.timing import marked
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["mixing_findings", "mixing_lines"]

SHOWN_TARGETS = ("two-modes", "ring6", "ring8")  # of the samplers


def _ess(rows: list[Row]) -> str:
    """Return effective sample sizes with the ratios of variances, or that they are vacuous."""
    sizes = " / ".join(
        formats.number(row["ess_nice"]) if row["finite_share"] == 1 else "diverged" for row in rows
    )
    ratios = " / ".join(formats.number(row["variance_ratio"]) for row in rows)
    winner = max(rows, key=lambda row: -1.0 if math.isnan(row["ess_nice"]) else row["ess_nice"])
    vacuous = "" if winner["within_bound"] else "vacuous: "
    return f"{vacuous}{sizes}, with {ratios} times the variance"


def mixing_lines(found: Sampling) -> Iterator[HeadlineLine]:
    """Yield effective samples of Langevin / Ozaki, at the paper's steps and tuned alike."""
    there = found.final[(found.final["setting"] != "tuned") & (found.final["scores"] == "learned")]
    for (target, scores), group in groups(there, "target", "scores"):
        rows = {row["method"]: row for row in records(group)}
        paper = f"{rows['langevin']['paper_ess']:.2f} / {rows['ozaki none']['paper_ess']:.2f}"
        ours = _ess([rows[name] for name in ("langevin", "ozaki floor")])
        where = f"ESS nice per chain, {target}, {scores} scores"
        yield HeadlineLine(where, "Langevin / Ozaki (floor), at the paper's steps", paper, ours)
    for each in comparisons(found):
        if each.ozaki is not None and each.scores == "exact" and each.target in SHOWN_TARGETS:
            where = (
                f"ESS bulk per second over tuned Langevin's, {each.target}, {each.scores} scores"
            )
            name = SAMPLERS[each.ozaki["method"]]
            ratio = marked(formats.plus_minus(each.ratio, each.error), each.langevin)
            yield HeadlineLine(
                where, f"{name}, tuned alike within the bounds on bias", formats.DASH, ratio
            )


def mixing_findings(found: Sampling) -> Iterator[Finding]:
    """Yield effective samples of Ozaki's step over Langevin's, tuned alike, on two targets."""
    places = {"ring6": "the paper's first data set", "two-modes": "two modes"}
    for each in comparisons(found):
        if each.ozaki is not None and each.scores == "exact" and each.target in places:
            yield Finding(
                "Effective samples a second of Ozaki's sampling step, which uses the Hessian, "
                "over those of Langevin's, both tuned within equal bounds on bias; "
                f"{places[each.target]}.",
                marked(formats.plus_minus(each.ratio, each.error), each.langevin),
                "1 by Langevin's",
            )
