"""The headline numbers of the samplers."""

from collections.abc import Iterator

from hosm.experiment.mixing.comparisons import comparisons
from hosm.experiment.mixing.looks import SAMPLERS
from hosm.experiment.mixing.results import Sampling
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import HeadlineLine
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["mixing_lines"]

SHOWN_TARGETS = ("two-modes", "ring6", "ring8")  # of the samplers


def _ess(row: Row) -> str:
    if row["finite_share"] < 1:
        return "diverged"
    text = f"{formats.number(row['ess_nice'])} at variance ratio {row['variance_ratio']:.2f}"
    return text if row["within_bound"] else f"{text}, beyond the bounds"


def mixing_lines(found: Sampling) -> Iterator[HeadlineLine]:
    """Yield effective samples of Langevin / Ozaki, at the paper's steps and tuned alike."""
    there = found.final[(found.final["setting"] != "tuned") & (found.final["scores"] == "learned")]
    for (target, scores), group in groups(there, "target", "scores"):
        rows = {row["method"]: row for row in records(group)}
        paper = f"{rows['langevin']['paper_ess']:.2f} / {rows['ozaki none']['paper_ess']:.2f}"
        ours = " / ".join(_ess(rows[name]) for name in ("langevin", "ozaki floor"))
        where = f"ESS nice per chain, {target}, {scores} scores"
        yield HeadlineLine(where, "Langevin / Ozaki (floor), at the paper's steps", paper, ours)
    for each in comparisons(found):
        if each.ozaki is not None and each.scores == "exact" and each.target in SHOWN_TARGETS:
            where = (
                f"ESS bulk per second over tuned Langevin's, {each.target}, {each.scores} scores"
            )
            name = SAMPLERS[each.ozaki["method"]]
            ratio = formats.plus_minus(each.ratio, each.error)
            yield HeadlineLine(
                where, f"{name}, tuned alike within the bounds on bias", formats.DASH, ratio
            )
