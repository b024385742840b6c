"""What a user of `hosm.inverse` relies on: intervals that hold, and means that are near.

None of this is the paper's. Values are means over measurements with the learned model; of chance
nothing is known, so that any difference decides.
"""

from collections.abc import Iterator

import pandas as pd

from hosm.experiment.inverse.results import LEVELS, NAMES, OURS, InverseRun
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import Claim, Pair, decisive

__all__ = ["inverse_claims", "points_off"]

POINTS = 5.0  # that the coverage of intervals may be off
RIVALS = ("dps", "pigdm")
NEAR_EXACT = 1.5  # times the distance of exact draws, of draws with exact scores


def points_off(methods: pd.DataFrame) -> pd.Series:
    """Return the largest distance of the coverage from its level, in points, row by row.

    Args:
        methods: as in `results.InverseRun`.
    """
    gaps = [100 * (methods[f"coverage_{level:g}"] - level).abs() for level in LEVELS]
    return pd.concat(gaps, axis=1).max(axis=1)


def _by_method(run: InverseRun, model: str, measure: pd.Series) -> pd.DataFrame:
    """Return a measure by task, a column for each method, of one model and of exact draws."""
    frame = run.methods.assign(measure=measure)
    frame = frame[frame["model"].isin([model, "none"])]
    return frame.pivot(index="task", columns="method", values="measure")


def _at_each(values: pd.Series) -> str:
    return formats.at_each({str(task): float(value) for task, value in values.items()}, 2)


def _calibrated(run: InverseRun, off: pd.DataFrame) -> Claim:
    return Claim(
        "inverse-calibrated",
        _where(run),
        f"intervals of 50, 80 and 95 % by the learned covariance hold exact draws as often as "
        f"they state, within {POINTS:g} points",
        float(off[OURS].max()),
        "<=",
        POINTS,
        f"points off: {_at_each(off[OURS])}",
    )


def _where(run: InverseRun) -> str:
    return f"{run.methods['task'].nunique()} tasks in 50 dimensions, learned model"


def _rival_is_not(run: InverseRun, off: pd.DataFrame, method: str) -> Claim:
    return Claim(
        f"inverse-calibrated-where-{method}-is-not",
        _where(run),
        f"intervals by {NAMES[method]} are off by more than {POINTS:g} points on every task",
        float(off[method].min()),
        ">",
        POINTS,
        f"points off: {_at_each(off[method])}",
    )


def _nearer(run: InverseRun, measure: str, name: str, words: str) -> Claim:
    found = _by_method(run, "learned", run.methods[measure])
    best = found[[*RIVALS, "tmpd"]].min(axis=1)
    pairs = [Pair(float(found[OURS][task]), float(best[task])) for task in found.index]
    worst = decisive("<=", pairs)
    return Claim(
        f"inverse-{name}",
        _where(run),
        f"{words} at most those of the best of DPS, ΠGDM and TMPD at as many evaluations",
        worst.left,
        "<=",
        worst.right,
        f"ours: {_at_each(found[OURS])}; the best of the others: {_at_each(best)}",
    )


def _near_exact(run: InverseRun) -> Claim:
    found = _by_method(run, "exact", run.methods["distance"])
    ratios = found[OURS] / found["exact draws"]
    return Claim(
        "inverse-near-exact",
        f"{run.methods['task'].nunique()} tasks in 50 dimensions, exact scores",
        f"draws with exact scores are at most {NEAR_EXACT:g} times as far from the exact "
        "posterior as exact draws",
        float(ratios.max()),
        "<=",
        NEAR_EXACT,
        f"ratios: {_at_each(ratios)}",
    )


def inverse_claims(run: InverseRun) -> Iterator[Claim]:
    """Yield what the study of linear inverse problems says.

    Args:
        run: what was measured.
    """
    off = _by_method(run, "learned", points_off(run.methods))
    yield _calibrated(run, off)
    for method in RIVALS:
        yield _rival_is_not(run, off, method)
    yield _nearer(run, "mean_error", "mean", "errors of the posterior mean are")
    yield _nearer(run, "distance", "distance", "distances of the draws to exact ones are")
    yield _near_exact(run)
