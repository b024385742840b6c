"""What chains of images say of the paper's claims about diversity (section 6.3).

Shares that changed class are compared start by start: the standard error of a gain is that of its
mean over the starts.
"""

from collections.abc import Iterator

from hosm.experiment.diversity.results import Diversity
from hosm.experiment.diversity.study.summary import paired
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import Claim, error_of_difference
from hosm.experiment.presenting.longer_runs import is_longer, short_name
from hosm.experiment.presenting.timing import marked
from hosm.experiment.shared.rows import Row, records

__all__ = ["diversity_claims"]

HALF = 0.5  # share of a lead of which at least that much is explained
CHEAP = 1.15  # largest time of an iteration that counts as alike, over Langevin's
LARGEST = ", largest step"
COMPARED = {"Langevin": "Langevin", "fixed curvature": "Ozaki with a fixed curvature"}


def _points(gain: float, error: float) -> str:
    return f"{formats.plus_minus(100 * gain, 100 * error)} percentage points"


def _equal_steps(where: str, ozaki: Row, langevin: Row) -> Iterator[Claim]:
    """Yield who changes class more often at equal eps, and whether that is the clock."""
    gain, error = ozaki["gain"], ozaki["gain_standard_error"]
    shares = (
        f"{ozaki['changed']:.0%} of Ozaki's chains against {langevin['changed']:.0%} of Langevin's"
    )
    yield Claim(
        "more-changes-at-equal-steps",
        where,
        "after equally many iterations at equal ε, chains of Ozaki have changed class more often "
        "than those of Langevin",
        gain,
        ">",
        0.0,
        f"{shares} after {ozaki['iterations']:,} iterations, a difference of "
        f"{_points(gain, error)}",
        paper=True,
        error=error,
    )
    half, error = HALF * gain, HALF * error
    gain, spread = ozaki["equal_time_gain"], ozaki["equal_time_gain_standard_error"]
    yield Claim(
        "clock-explains-changes",
        where,
        "after equal time of the diffusion, chains of Ozaki are ahead of those of Langevin by at "
        "most half of their lead after equally many iterations at equal ε: most of that is the "
        "clock",
        gain,
        "<=",
        half,
        f"{ozaki['equal_time_changed']:.0%} of Ozaki's chains, a difference from Langevin's of "
        f"{_points(gain, spread)}; half of the lead at equal ε is {_points(half, error)}",
        error=error_of_difference(spread, error),
    )


def _largest_steps(where: str, found: Diversity, rows: dict[str, Row]) -> Iterator[Claim]:
    """Yield whether Ozaki is ahead where each method takes the largest step within the bias."""
    bound = found.card["settings"]["bias_bound"]
    ozaki = rows[f"Ozaki{LARGEST}"]
    for other in COMPARED:
        theirs = rows[f"{other}{LARGEST}"]
        place = ("iterations", float(ozaki["iterations"]))
        gain, error = paired(found.curves, f"Ozaki{LARGEST}", f"{other}{LARGEST}", *place)
        steps = f"ε = {ozaki['step']:g} against {theirs['step']:g}"
        rest = (
            f"entropy of the classes {ozaki['entropy']:.2f} against {theirs['entropy']:.2f} nats, "
        )
        rest += "mean pixel value "
        rest += " against ".join(formats.number(row["brightness"]) for row in (ozaki, theirs))
        yield Claim(
            "more-changes-at-largest-steps",
            where,
            f"at the largest step sizes with a bias of at most {bound:.0%}, chains of Ozaki "
            f"change class more often than those of {COMPARED[other]}",
            gain,
            ">",
            0.0,
            f"{steps}: a difference of {_points(gain, error)} after equally many "
            f"iterations; {rest}",
            error=error,
        )


def diversity_claims(studies: dict[str, Diversity]) -> Iterator[Claim]:
    """Yield what the numbers say about chains of images.

    Args:
        studies: what was found of each set of images; a name that ends with `LONGER` is of a
            longer run.
    """
    for name, found in studies.items():
        rows = {str(row["sampler"]): row for row in records(found.summary)}
        long = ", at length" if is_longer(name) else ""
        where = f"chains of images, {short_name(name)}{long}"
        yield from _equal_steps(where, rows["Ozaki"], rows["Langevin"])
        yield from _largest_steps(where, found, rows)
        spent = records(found.cost[found.cost["method"] == rows["Ozaki"]["method"]])[0]
        ends = (spent["ratio_low"], spent["ratio_high"])
        yield Claim(
            "iteration-of-image-chains-cheap",
            where,
            f"an iteration of Ozaki takes at most {CHEAP} times as long as one of Langevin",
            spent["ratio"],
            "<=",
            CHEAP,
            f"time over that of Langevin: {marked(formats.ratio(spent['ratio'], *ends), spent)}",
            ends=ends,
        )
