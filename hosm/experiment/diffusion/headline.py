"""The headline numbers of the study of diffusion."""

from collections.abc import Iterator

from hosm.experiment.diffusion.results import BOTH, LEARNED, DiffusionRun
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import HeadlineLine

__all__ = ["diffusion_lines"]

RIVALS = ("diagonal", "optimal isotropic", "beta")


def diffusion_lines(run: DiffusionRun) -> Iterator[HeadlineLine]:
    """Yield the gap of the bound at the fewest steps, ours beside the rivals'."""
    steps = run.steps[run.steps["mean"] == LEARNED]
    fewest = int(steps["steps"].min())
    means = steps[steps["steps"] == fewest].groupby("covariance", sort=False)["gap"].mean()
    yield HeadlineLine(
        f"gap of the variational bound at {fewest} steps, nats a dimension, a mixture of "
        f"Gaussians in {run.card['settings']['dimension']} dimensions",
        f"diagonal plus low rank; {', '.join(RIVALS)}",
        formats.DASH,
        "; ".join(formats.number(float(means[name])) for name in (BOTH, *RIVALS)),
    )
