"""Linear inverse problems: posterior samples of x given y = A x + s e.

`linear_operators` has A as a pair of functions (inpainting, super-resolution, blur, any other);
`conditioning` adds a measurement to the posterior N(m, C) of a noisy point, by
`solver`; `guidance` has the methods that are known for the same task; and
`posterior_sampling` runs any of them along a decreasing sequence of noise scales.
"""

from hosm.inverse.conditioning import Measured, measured
from hosm.inverse.linear_operators import (
    LinearOperator,
    blur,
    inpainting,
    projections,
    super_resolution,
)
from hosm.inverse.posterior_sampling import (
    METHODS,
    PosteriorSamples,
    noise_levels,
    posterior_samples,
)
from hosm.inverse.solver import Solution, conjugate_gradients

__all__ = [
    "METHODS",
    "LinearOperator",
    "Measured",
    "PosteriorSamples",
    "Solution",
    "blur",
    "conjugate_gradients",
    "inpainting",
    "measured",
    "noise_levels",
    "posterior_samples",
    "projections",
    "super_resolution",
]
