"""How uncertain a denoiser is: the posterior of a clean point given a noisy one.

`gaussian_posterior` turns both scores into N(m, C) with samples, intervals and leading directions;
`calibration` tells whether such a prediction is right.
"""

from hosm.uncertainty.calibration import (
    Reliability,
    coverage,
    direction_z_scores,
    fitted_scale,
    interval_coverage,
    reliability,
)
from hosm.uncertainty.gaussian_posterior import Posterior, leading_directions, posterior

__all__ = [
    "Posterior",
    "Reliability",
    "coverage",
    "direction_z_scores",
    "fitted_scale",
    "interval_coverage",
    "leading_directions",
    "posterior",
    "reliability",
]
