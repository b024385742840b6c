"""What posteriors in the plane say of the paper's claim about denoising (section 5, figure 2)."""

from collections.abc import Iterator

import pandas as pd

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import Claim
from hosm.experiment.shared.rows import records

__all__ = ["denoising_claims"]

NEAR_EXACT = 0.15  # largest relative error of a covariance that counts as near
NEAR_NOMINAL = 0.05  # largest gap between a coverage and its nominal value
LEVELS = (0.5, 0.8, 0.95)  # nominal coverages


def denoising_claims(planar: pd.DataFrame) -> Iterator[Claim]:
    """Yield whether posteriors in the plane are near the exact ones, with nominal coverage.

    Args:
        planar: a row for each set of points.
    """
    rows, where = records(planar), "points in the plane"
    errors = {row["dataset"]: row["covariance_error"] for row in rows}
    yield Claim(
        "plane-covariance",
        where,
        f"the covariance differs from that of the exact posterior by at most {NEAR_EXACT:.0%}, on "
        "average over noisy points",
        max(errors.values()),
        "<=",
        NEAR_EXACT,
        f"relative error in the Frobenius norm, {formats.at_each(errors)}",
        paper=True,
    )
    gaps = {
        row["dataset"]: max(abs(row[f"coverage_{level:g}"] - level) for level in LEVELS)
        for row in rows
    }
    yield Claim(
        "plane-coverage",
        where,
        "regions that should hold 50, 80 and 95 % of the clean points do so within 5 percentage "
        "points",
        max(gaps.values()),
        "<=",
        NEAR_NOMINAL,
        f"largest difference between a coverage and its nominal value, {formats.at_each(gaps)}",
    )
