"""
Second-order scores of your own denoiser
========================================

A denoiser that you have already, from wherever, is a first-order score by Tweedie's formula. The
second order is learned on it, and the denoiser stays as it is: then it can say how sure it is.
"""

# %%
# A denoiser
# ----------
#
# Any function (x_noisy, sigma) -> the clean point that is expected will do. This one is exact, for
# two clouds of points, so that the answer can be compared with the truth.

import numpy as np
import torch

import hosm
from hosm.distributions import GaussianMixture
from hosm.tweedie import posterior_covariance

law = GaussianMixture(
    torch.tensor([0.5, 0.5]),
    torch.tensor([[-1.0, 0.0, 0.0], [1.0, 0.5, 0.0]]),
    torch.diag(torch.tensor([0.2, 0.1, 0.4])).expand(2, 3, 3),
)


def denoiser(x_noisy, sigma):
    """Return E[x | x_noisy], both of shape (n, 3)."""
    return x_noisy + sigma**2 * law.smoothed(sigma).score(x_noisy)


# %%
# Learn the second order on it
# ----------------------------
#
# It needs clean points, and `standardise=False`, since the denoiser sees the data's own units.

SIGMA = 0.5
generator = torch.Generator().manual_seed(0)
X = law.sample(3000, generator)
estimator = hosm.ScoreEstimator(
    SIGMA, denoiser=denoiser, standardise=False, max_steps=1500, random_state=0
).fit(X)
print(estimator)

# %%
# Is it right?
# ------------
#
# Beside the exact variances of the clean point given a noisy one:

test = law.sample(1000, generator)
noisy = test + SIGMA * torch.randn(test.shape, generator=generator)
learned = estimator.posterior(noisy).variance
exact = posterior_covariance(law.smoothed(SIGMA).hessian(noisy), SIGMA)
exact = exact.diagonal(dim1=-2, dim2=-1).numpy()
print(
    f"correlation with the exact variances {np.corrcoef(learned.ravel(), exact.ravel())[0, 1]:.3f}"
)
print(f"mean variance {learned.mean():.4f}, exact {exact.mean():.4f}")

# %%
# Where no exact answer is known, errors on clean points that were held out say the same:

hosm.plot.ReliabilityDisplay.from_estimator(estimator, noisy, test)
