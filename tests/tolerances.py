"""Tolerances that tests share, each with what limits the accuracy.

What is peculiar to one test stands there, with its reason beside it. None may rest on the
rounding of one processor: those of rounding leave a factor of 5 or more above the largest error
seen; those of sampling hold for the seeds of the tests, whose draws no processor changes.
"""

import math

import torch

# A sum of n products rounds to n eps of their total size, eps = 1e-16, in an order that is the
# processor's: 1e-13 at the few hundred of a test. Two digits are left for terms that cancel.
FLOAT64 = {"rtol": 1e-11, "atol": 1e-11}

# The same at eps = 6e-8: 2e-5 for sums of a few hundred products, as in a layer of a network,
# and some more relative to large results.
FLOAT32 = {"rtol": 5e-5, "atol": 2e-5}

# The bounds by dtype, where a test is run in both.
ROUNDING = {torch.float64: FLOAT64, torch.float32: FLOAT32}

# Rounding times a condition number of up to 1e4, in float64: solves and roots of matrices whose
# eigenvalues span it, derivatives by autodiff that cancel, scores from posterior moments.
ILL_CONDITIONED = {"rtol": 1e-9, "atol": 1e-9}

# A sample of the right law has a smaller p-value once in a thousand seeds; seeds are fixed.
LEAST_P_VALUE = 1e-3


def monte_carlo(n: float, std: float = 1.0) -> float:
    """Four standard errors of a mean over n independent draws: one in 16,000 lies beyond.

    A variance of normal draws is such a mean, of numbers of standard deviation 2^(1/2) of it; a
    standard deviation has the relative error of 2 n draws.
    """
    return 4 * std / math.sqrt(n)
