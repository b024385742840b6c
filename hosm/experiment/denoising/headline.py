"""The headline numbers of posteriors in the plane."""

from collections.abc import Iterator

from hosm.experiment.denoising.results import Denoising
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import HeadlineLine
from hosm.experiment.shared.rows import records

__all__ = ["denoising_lines"]


def denoising_lines(found: Denoising) -> Iterator[HeadlineLine]:
    """Yield the errors of posterior covariances in the plane."""
    errors = {row["dataset"]: row["covariance_error"] for row in records(found.posteriors)}
    where = "error of the posterior covariance, " + " / ".join(errors)
    values = " / ".join(f"{100 * error:.1f} %" for error in errors.values())
    yield HeadlineLine(where, "s2, jacobian, against the exact posterior", formats.DASH, values)
