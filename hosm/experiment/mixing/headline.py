"""The headline numbers of the samplers."""

from collections.abc import Iterator

from hosm.experiment.mixing.comparisons import Comparison, comparisons
from hosm.experiment.mixing.results import Sampling
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import Finding
from hosm.experiment.presenting.timing import marked

__all__ = ["mixing_findings", "mixing_sentence"]

PLACES = {"ring6": "the paper's first data set", "two-modes": "a law of two modes"}


def _shown(found: Sampling) -> list[Comparison]:
    """Return the comparisons with exact scores on the targets to show."""
    there = [each for each in comparisons(found) if each.scores == "exact"]
    return [each for each in there if each.ozaki is not None and each.target in PLACES]


def mixing_sentence(found: Sampling) -> str:
    """Return effective samples of Ozaki's step over Langevin's, in a sentence."""
    told = [
        f"{formats.plus_minus(each.ratio, each.error)} times as many effective samples a second "
        f"on {PLACES[each.target]}"
        for each in _shown(found)
    ]
    compared = " and ".join(told) or "a number of effective samples that cannot be compared"
    return (
        "Beside a sampler that does not use the second-order score (Langevin’s), one whose steps "
        f"use it (Ozaki’s) makes {compared}; each has its best step size among those whose "
        "draws are biased by no more than the same bound."
    )


def mixing_findings(found: Sampling) -> Iterator[Finding]:
    """Yield effective samples of Ozaki's step over Langevin's, tuned alike, on two targets."""
    for each in _shown(found):
        yield Finding(
            "Effective samples a second of Ozaki's sampling step, which uses the Hessian, "
            "over those of Langevin's, each at its best step size within the same bound on bias; "
            f"{PLACES[each.target]}.",
            marked(formats.plus_minus(each.ratio, each.error), each.langevin),
            "1 by Langevin's",
        )
