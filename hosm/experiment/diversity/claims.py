"""Claims about chains of images, judged as in `claims`."""

from collections.abc import Iterator

from hosm.experiment.diversity.results import Diversity
from hosm.experiment.diversity.study.summary import paired
from hosm.experiment.presenting import number_formats as cells
from hosm.experiment.presenting.claims import Claim, Verdict, verdict
from hosm.experiment.presenting.longer_runs import LONGER
from hosm.experiment.shared.rows import Row, records

__all__ = ["diversity_claims"]

CHEAP = 1.15  # largest cost of an iteration, over Langevin's
LARGEST = ", largest step"


def _larger(gain: tuple[float, float]) -> Verdict:
    """Judge whether a gain is above zero, beyond two of its standard errors."""
    mean, error = gain
    return "undecided" if abs(mean) <= 2 * error else verdict(mean > 0)


def _points(gain: tuple[float, float]) -> str:
    return f"{cells.plus_minus(100 * gain[0], 100 * gain[1])} points"


def _equal(where: str, ozaki: Row, langevin: Row) -> Iterator[Claim]:
    """Yield who changes class more often at equal eps, and whether that is the clock."""
    gain = ozaki["gain"], ozaki["gain_standard_error"]
    statement = "at equal ε, chains of Ozaki change class more often than Langevin's"
    shares = f"{ozaki['changed']:.0%} against {langevin['changed']:.0%}"
    evidence = f"{shares} after {ozaki['iterations']:,} iterations, {_points(gain)} more"
    yield Claim(where, statement, _larger(gain), evidence, True)
    then = ozaki["equal_time_gain"], ozaki["equal_time_gain_standard_error"]
    statement = "that is its clock: after equal time of the diffusion, Ozaki's are not ahead"
    evidence = f"{ozaki['equal_time_changed']:.0%}, {_points(then)} more than Langevin's"
    yield Claim(where, statement, verdict(then[0] <= 2 * then[1]), evidence)


def _at_largest(where: str, found: Diversity, rows: dict[str, Row]) -> Iterator[Claim]:
    """Yield whether Ozaki is ahead where each method takes the largest step within the bias."""
    bound = found.card["settings"]["bias_bound"]
    ozaki = rows[f"Ozaki{LARGEST}"]
    for other in ("Langevin", "fixed curvature"):
        theirs = rows[f"{other}{LARGEST}"]
        place = ("iterations", float(ozaki["iterations"]))
        gain = paired(found.curves, f"Ozaki{LARGEST}", f"{other}{LARGEST}", *place)
        statement = (
            f"at the largest steps within a bias of {bound:.0%}, chains of Ozaki change class "
            f"more often than those of {other}"
        )
        steps = f"ε = {ozaki['step']:g} against {theirs['step']:g}"
        rest = f"entropy {ozaki['entropy']:.2f} against {theirs['entropy']:.2f} nats, mean pixel "
        rest += " against ".join(cells.number(row["brightness"]) for row in (ozaki, theirs))
        evidence = f"{steps}: {_points(gain)} more after equal iterations; {rest}"
        yield Claim(where, statement, _larger(gain), evidence)


def diversity_claims(diversity: dict[str, Diversity]) -> Iterator[Claim]:
    """Yield what the numbers say about chains of images.

    Args:
        diversity: what was measured of chains, by the name of their images.
    """
    for name, found in diversity.items():
        rows = {str(row["sampler"]): row for row in records(found.summary)}
        long = ", at length" if name.endswith(LONGER) else ""
        where = f"chains of images, {name.removesuffix(LONGER)}{long}"
        yield from _equal(where, rows["Ozaki"], rows["Langevin"])
        yield from _at_largest(where, found, rows)
        ratio = rows["Ozaki"]["iteration_ratio"]
        statement = f"an iteration of Ozaki costs at most {CHEAP} times one of Langevin"
        yield Claim(where, statement, verdict(ratio <= CHEAP), cells.ratio(ratio))
