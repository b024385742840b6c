"""The headline numbers of posteriors in the plane."""

from collections.abc import Iterator

from hosm.experiment.denoising.results import Denoising
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import Finding, HeadlineLine
from hosm.experiment.shared.rows import records

__all__ = ["denoising_findings", "denoising_lines"]


def denoising_lines(found: Denoising) -> Iterator[HeadlineLine]:
    """Yield the errors of posterior covariances in the plane."""
    errors = {row["dataset"]: row["covariance_error"] for row in records(found.posteriors)}
    where = "error of the posterior covariance, " + " / ".join(errors)
    values = " / ".join(f"{100 * error:.1f} %" for error in errors.values())
    yield HeadlineLine(where, "s2, jacobian, against the exact posterior", formats.DASH, values)


def denoising_findings(found: Denoising) -> Iterator[Finding]:
    """Yield the range of the errors of posterior covariances in the plane."""
    errors = [100 * row["covariance_error"] for row in records(found.posteriors)]
    yield Finding(
        f"Relative error of the covariance of a clean point given a noisy one, on {len(errors)} "
        "laws in the plane.",
        f"{min(errors):.1f} to {max(errors):.1f} %",
        "0 % by the exact posterior",
    )
