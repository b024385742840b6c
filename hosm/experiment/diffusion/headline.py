"""The headline numbers of the study of diffusion."""

from collections.abc import Iterator

from hosm.experiment.diffusion.results import BOTH, LEARNED, DiffusionRun
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import Finding

__all__ = ["diffusion_findings", "diffusion_sentence"]


def _gaps(run: DiffusionRun) -> tuple[int, dict[str, float]]:
    """Return the fewest steps, and the mean gap of the bound there by covariance."""
    steps = run.steps[run.steps["mean"] == LEARNED]
    fewest = int(steps["steps"].min())
    means = steps[steps["steps"] == fewest].groupby("covariance", sort=False)["gap"].mean()
    return fewest, {str(name): float(gap) for name, gap in means.items()}


def diffusion_sentence(run: DiffusionRun) -> str:
    """Return the gap of the bound at the fewest steps beside a rival's, in a sentence."""
    fewest, means = _gaps(run)
    return (
        f"A diffusion of {fewest} steps with the learned covariance has a bound on the "
        f"log-likelihood that is {formats.number(means[BOTH])} nats a dimension from the exact "
        f"value; with the best multiple of the identity as covariance it is "
        f"{formats.number(means['optimal isotropic'])} away."
    )


def diffusion_findings(run: DiffusionRun) -> Iterator[Finding]:
    """Yield the same beside the best multiple of the identity."""
    fewest, means = _gaps(run)
    dimension = run.card["settings"]["dimension"]
    yield Finding(
        "How far the bound on the log-likelihood is from the exact value, in nats a dimension, if "
        f"a diffusion takes {fewest} steps with the learned covariance; a mixture of Gaussians in "
        f"{dimension} dimensions.",
        formats.number(means[BOTH]),
        f"{formats.number(means['optimal isotropic'])} by the best multiple of the identity",
    )
