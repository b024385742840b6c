"""
Inverse problems
================

A curve is known by a few averages of it, with noise. Which curves fit? Not one but many, and
`hosm.inverse` draws them, by the covariance of the clean curve given a noisy one.
"""

# %%
# A law of curves and a measurement
# ---------------------------------
#
# The law is known here, so that the answer can be judged; with data, a `hosm.scores.ScoreModel` of
# a range of noise scales takes the place of `ExactScores`.

import matplotlib.pyplot as plt
import torch

from hosm.distributions import GaussianMixture
from hosm.exact_scores import ExactScores
from hosm.inverse import posterior_samples, super_resolution

SIZE, BLOCK, NOISE = 40, 5, 0.1
place = torch.arange(SIZE, dtype=torch.float64)
gap = (place.unsqueeze(1) - place).square()
covariances = torch.stack([torch.exp(-gap / 2 / length**2) / 4 for length in (2, 4, 8)])
means = torch.stack([torch.sin(6.28 * k * place / SIZE) for k in (1, 2, 3)])
weights = torch.full((3,), 1 / 3, dtype=torch.float64)
law = GaussianMixture(weights, means, covariances + 1e-3 * torch.eye(SIZE).double())

generator = torch.Generator().manual_seed(0)
operator = super_resolution((SIZE,), BLOCK)
x = law.sample(1, generator)
y = operator.forward(x)
y = y + NOISE * torch.randn(y.shape, generator=generator, dtype=y.dtype)

# %%
# Draw curves that fit
# --------------------
#
# `covariance` is ours; `pigdm` replaces the covariance by a multiple of the identity.

found = {
    method: posterior_samples(
        ExactScores(law),
        operator,
        y,
        noise=NOISE,
        method=method,
        steps=15,
        n=100,
        sigma=(0.02, 20.0),
        generator=generator,
        data_std=float(law.variance.mean().sqrt()),
    )
    for method in ("covariance", "pigdm")
}

# %%
# Look at them
# ------------
#
# The band holds 80 % of the draws at each place.

figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), sharey=True, layout="constrained")
for ax, (name, drawn) in zip(axes, found.items(), strict=True):
    low, high = (each[0] for each in drawn.interval(0.8))
    ax.fill_between(place, low, high, alpha=0.3, label="80 % of the draws")
    ax.plot(place, drawn.mean[0], label="their mean")
    ax.plot(place, x[0], "k--", lw=1, label="the curve")
    ax.step(place, y[0].repeat_interleave(BLOCK), where="mid", color="C3", lw=1, label="averages")
    held = ((x[0] >= low) & (x[0] <= high)).double().mean()
    ax.set(title=f"{name}: {held:.0%} of the curve lies in the band", xlabel="place")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
