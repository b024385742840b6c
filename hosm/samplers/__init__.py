"""Markov chains driven by scores of first and second order.

`langevin_ozaki` has the steps (Meng, Song, Li and Ermon, NeurIPS 2021, section 6.1), `metropolis`
the kernels with Gaussian proposals, adjusted or not, and `chains` runs them.
"""

from hosm.samplers.chains import anneal, sample_chain
from hosm.samplers.langevin_ozaki import (
    CLOCKS,
    FORMS,
    GUARDS,
    ChainState,
    langevin,
    ozaki,
)
from hosm.samplers.metropolis import (
    ChainInfo,
    Kernel,
    Noise,
    compiled,
    gaussian_kernel,
)

__all__ = [
    "CLOCKS",
    "ChainInfo",
    "ChainState",
    "FORMS",
    "GUARDS",
    "Kernel",
    "Noise",
    "anneal",
    "compiled",
    "gaussian_kernel",
    "langevin",
    "ozaki",
    "sample_chain",
]
