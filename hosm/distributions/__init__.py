"""Distributions with exact log-densities, scores, Hessians and third derivatives.

Everything that the library estimates is judged by these. `base` says what such a distribution
offers; `mixtures` has Gaussian and logistic mixtures, `finite_data` the distribution of a finite
data set under noise, and `named_laws` the ones that the experiments are run on. No code here is
shared with what it judges.
"""

from hosm.distributions.base import Law, Mixture
from hosm.distributions.finite_data import FiniteData, SmoothedData
from hosm.distributions.mixtures import Gaussian, GaussianMixture, LogisticMixture
from hosm.distributions.named_laws import (
    Ring,
    gaussian2,
    gaussian100,
    logistic_mixture,
    mog2,
    mog6,
    ring2d,
    ring6,
    ring8,
    ring_of_gaussians,
    two_modes,
)

__all__ = [
    "FiniteData",
    "Gaussian",
    "GaussianMixture",
    "Law",
    "LogisticMixture",
    "Mixture",
    "Ring",
    "SmoothedData",
    "gaussian100",
    "gaussian2",
    "logistic_mixture",
    "mog2",
    "mog6",
    "ring2d",
    "ring6",
    "ring8",
    "ring_of_gaussians",
    "two_modes",
]
