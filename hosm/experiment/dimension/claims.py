"""What a user of `hosm.local_dimension` relies on: that it errs least, and takes little time.

None of this is the paper's. Errors are compared surface by surface, at the points of the study;
chance is that between surfaces.
"""

from collections.abc import Iterator

import pandas as pd

from hosm.experiment.dimension.results import EVERYWHERE, OURS, Dimension
from hosm.experiment.presenting.judge import Claim

__all__ = ["dimension_claims"]


def _errors(found: Dimension, relative: bool) -> pd.DataFrame:
    """Return the error of each surface and number of points, a column for each local method."""
    frame = found.surfaces[found.surfaces["method"] != EVERYWHERE]
    error = frame["error"] / frame["d"] if relative else frame["error"]
    wide = frame.assign(error=error)
    return wide.pivot(index=["n", "seed", "surface"], columns="method", values="error")


def _least(found: Dimension, name: str, relative: bool) -> Claim:
    errors = _errors(found, relative)
    means = errors.mean()
    best = str(means.drop(OURS).idxmin())
    gap = errors[OURS] - errors[best]
    words = "relative" if relative else "absolute"
    return Claim(
        name,
        _where(errors),
        f"the mean {words} error of the local dimension is below that of every other local method",
        float(means[OURS]),
        "<",
        float(means[best]),
        f"ours {means[OURS]:.2f}; the best of the others, {best}, {means[best]:.2f}",
        error=float(gap.std()) / len(gap) ** 0.5,
    )


def _where(errors: pd.DataFrame) -> str:
    return f"{errors.index.get_level_values('surface').nunique()} surfaces"


def _most(found: Dimension) -> Claim:
    errors = _errors(found, relative=False)
    wins = errors.idxmin(axis=1).value_counts()
    rivals = wins.drop(OURS, errors="ignore")
    evidence = ", ".join(f"{name}: {count}" for name, count in wins.items())
    return Claim(
        "dimension-most-surfaces",
        _where(errors),
        "it has the least error on more surfaces than any other local method",
        float(wins.get(OURS, 0)),
        ">",
        float(rivals.max()),
        f"surfaces on which each has the least error: {evidence}",
    )


def _seconds(found: Dimension) -> Claim:
    means = _errors(found, relative=False).mean()
    best = str(means.drop(OURS).idxmin())
    seconds = found.surfaces.groupby("method")["seconds"].sum()
    return Claim(
        "dimension-seconds",
        _where(_errors(found, relative=False)),
        "it takes less time than the most accurate of the other local methods",
        float(seconds[OURS]),
        "<",
        float(seconds[best]),
        f"seconds for all surfaces: ours {seconds[OURS]:.1f}, {best} {seconds[best]:.1f}",
    )


def dimension_claims(found: Dimension | None) -> Iterator[Claim]:
    """Yield what the study of local dimension says; nothing where none is kept.

    Args:
        found: what was measured.
    """
    if found is not None:
        yield _least(found, "dimension-error", relative=False)
        yield _least(found, "dimension-relative-error", relative=True)
        yield _most(found)
        yield _seconds(found)
