"""The headline numbers of the study of diffusion."""

from collections.abc import Iterator

from hosm.experiment.diffusion.results import BOTH, LEARNED, DiffusionRun
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import Finding, HeadlineLine

__all__ = ["diffusion_findings", "diffusion_lines"]

RIVALS = ("diagonal", "optimal isotropic", "beta")


def _gaps(run: DiffusionRun) -> tuple[int, dict[str, float]]:
    """Return the fewest steps, and the mean gap of the bound there by covariance."""
    steps = run.steps[run.steps["mean"] == LEARNED]
    fewest = int(steps["steps"].min())
    means = steps[steps["steps"] == fewest].groupby("covariance", sort=False)["gap"].mean()
    return fewest, {str(name): float(gap) for name, gap in means.items()}


def diffusion_lines(run: DiffusionRun) -> Iterator[HeadlineLine]:
    """Yield the gap of the bound at the fewest steps, ours beside the rivals'."""
    fewest, means = _gaps(run)
    yield HeadlineLine(
        f"gap of the variational bound at {fewest} steps, nats a dimension, a mixture of "
        f"Gaussians in {run.card['settings']['dimension']} dimensions",
        f"diagonal plus low rank; {', '.join(RIVALS)}",
        formats.DASH,
        "; ".join(formats.number(means[name]) for name in (BOTH, *RIVALS)),
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
