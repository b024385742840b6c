"""What posteriors in the plane say of the paper's claim about denoising (section 5, figure 2).

Errors of covariances are means over noisy points with standard errors; a coverage is a share of
points, with the standard error of a share.
"""

import math
from collections.abc import Iterator

import pandas as pd

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import Claim, Pair, decisive
from hosm.experiment.shared.rows import Row, records

__all__ = ["denoising_claims"]

NEAR_EXACT = 0.15  # largest relative error of a covariance that counts as near
NEAR_NOMINAL = 0.05  # largest gap between a coverage and its nominal value
LEVELS = (0.5, 0.8, 0.95)  # nominal coverages


def _gaps(row: Row) -> list[Pair]:
    """Return how far each coverage of a set of points is from its nominal value."""
    shares = {level: row[f"coverage_{level:g}"] for level in LEVELS}
    return [
        Pair(abs(share - level), NEAR_NOMINAL, math.sqrt(level * (1 - level) / row["points"]))
        for level, share in shares.items()
    ]


def denoising_claims(planar: pd.DataFrame) -> Iterator[Claim]:
    """Yield whether posteriors in the plane are near the exact ones, with nominal coverage.

    Args:
        planar: a row for each set of points.
    """
    rows, where = records(planar), "points in the plane"
    pairs = [
        Pair(row["covariance_error"], NEAR_EXACT, row["covariance_error_standard_error"])
        for row in rows
    ]
    worst = decisive("<=", pairs)
    found = [
        f"{row['dataset']}: "
        f"{formats.plus_minus(row['covariance_error'], row['covariance_error_standard_error'])}"
        for row in rows
    ]
    yield Claim(
        "plane-covariance",
        where,
        f"the covariance differs from that of the exact posterior by at most {NEAR_EXACT:.0%}, on "
        "average over noisy points",
        worst.left,
        "<=",
        worst.right,
        f"relative error in the Frobenius norm, {'; '.join(found)}",
        paper=True,
        error=worst.error,
    )
    gaps = {row["dataset"]: _gaps(row) for row in rows}
    every = [gap for row in gaps.values() for gap in row]
    worst, widest = decisive("<=", every), max(gap.error or 0.0 for gap in every)
    largest = {name: max(gap.left for gap in row) for name, row in gaps.items()}
    yield Claim(
        "plane-coverage",
        where,
        "regions that should hold 50, 80 and 95 % of the clean points do so within 5 percentage "
        "points",
        worst.left,
        "<=",
        worst.right,
        f"largest difference between a coverage and its nominal value, "
        f"{formats.at_each(largest)}; standard errors at most {formats.number(widest, 2)}",
        error=worst.error,
    )
