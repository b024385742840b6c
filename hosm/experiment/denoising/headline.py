"""The headline numbers of posteriors in the plane."""

from collections.abc import Iterator

from hosm.experiment.denoising.results import Denoising
from hosm.experiment.presenting.headline import Finding
from hosm.experiment.shared.rows import records

__all__ = ["denoising_findings", "denoising_sentence"]


def denoising_sentence(found: Denoising) -> str:
    """Return the range of the errors of posterior covariances in the plane, in a sentence."""
    errors = [100 * row["covariance_error"] for row in records(found.posteriors)]
    return (
        "The predicted covariance of a clean point given a noisy one is off by "
        f"{min(errors):.1f} to {max(errors):.1f} % of the exact one, on {len(errors)} laws in "
        "the plane."
    )


def denoising_findings(found: Denoising) -> Iterator[Finding]:
    """Yield the range of the errors of posterior covariances in the plane."""
    errors = [100 * row["covariance_error"] for row in records(found.posteriors)]
    yield Finding(
        f"Relative error of the covariance of a clean point given a noisy one, on {len(errors)} "
        "laws in the plane.",
        f"{min(errors):.1f} to {max(errors):.1f} %",
        "0 % by the exact posterior",
    )
