"""Diffusion with both scores: sampling in few steps, and likelihoods.

One evaluation of a network of s1 and s2 gives the mean and the covariance of the posterior of the
clean point, and so the best Gaussian for a step of the reverse diffusion. `schedules` says at
which noise scales the steps stop, `covariances` what their covariance may be, from the constants
of DDPM to a learned diagonal plus low rank, `gaussian_steps` draws from them, `sampling` has the
ancestral sampler and the deterministic ones, and `likelihood` the variational bound and the exact
value by the probability flow. All take a *model of noise scales*: any callable (x_noisy, sigma) ->
(s1, s2) for x_noisy = x + sigma z, such as a `hosm.scores.ScoreModel` of a range.
"""

from hosm.diffusion.covariances import (
    Beta,
    BetaTilde,
    Covariance,
    Diagonal,
    Exact,
    LowRank,
    OptimalIsotropic,
    reverse_covariance,
)
from hosm.diffusion.gaussian_steps import GaussianStep
from hosm.diffusion.likelihood import (
    Bound,
    FlowLikelihood,
    bits_per_dimension,
    density_decoder,
    flow_log_likelihood,
    learned_trace,
    quantised_decoder,
    random_trace,
    variational_bound,
)
from hosm.diffusion.sampling import Draws, ancestral, ddim, dpm_solver, heun, start
from hosm.diffusion.schedules import EDM, VE, Schedule, VPCosine, VPLinear

__all__ = [
    "EDM",
    "VE",
    "Beta",
    "BetaTilde",
    "Bound",
    "Covariance",
    "Diagonal",
    "Draws",
    "Exact",
    "FlowLikelihood",
    "GaussianStep",
    "LowRank",
    "OptimalIsotropic",
    "Schedule",
    "VPCosine",
    "VPLinear",
    "ancestral",
    "bits_per_dimension",
    "ddim",
    "density_decoder",
    "dpm_solver",
    "flow_log_likelihood",
    "heun",
    "learned_trace",
    "quantised_decoder",
    "random_trace",
    "reverse_covariance",
    "start",
    "variational_bound",
]
