"""
Sampling
========

Two ways to draw from a table: rows that imitate it, and draws of the law whose derivatives were
learned, which has noise of scale sigma on it.
"""

# %%
# A law with two arms
# -------------------

import textwrap

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import make_moons

import hosm

points, _ = make_moons(300, noise=0.08, random_state=0)
X = pd.DataFrame(points, columns=["x", "y"])
estimator = hosm.ScoreEstimator(random_state=0).fit(X)
print(textwrap.fill(estimator.report_, 80))

# %%
# Draw
# ----
#
# Draws are a data frame with the columns of the fit.

draws = {law: estimator.sample(300, random_state=0, law=law) for law in ("clean", "noisy")}
figure, axes = plt.subplots(
    1, 3, figsize=(11, 3.4), sharex=True, sharey=True, layout="constrained"
)
for ax, (name, rows) in zip(axes, {"rows": X, **draws}.items(), strict=True):
    ax.plot(rows["x"], rows["y"], ".", ms=3)
    ax.set(title=name, xlabel="x")
axes[0].set_ylabel("y")
print(draws["clean"].describe().loc[["mean", "std"]].round(2).to_string())

# %%
# Have chains forgotten their start?
# ----------------------------------
#
# Langevin chains by the learned score, each from another row. Lines that cross each other again
# and again have; lines that stay apart have not, and more transitions are needed.

hosm.plot.ChainsDisplay.from_estimator(estimator, 4, 2000, random_state=0)

# %%
# A sampler of your own
# ---------------------
#
# `hosm.samplers` takes any score. Here it is that of an exact law, and Metropolis' rule keeps the
# chains without bias.

import torch

from hosm.distributions import GaussianMixture
from hosm.samplers import langevin, sample_chain

law = GaussianMixture(
    torch.tensor([0.5, 0.5]).double(),
    torch.tensor([[-1.0, 0.0], [1.0, 0.0]]).double(),
    0.3 * torch.eye(2).double().expand(2, 2, 2),
)
generator = torch.Generator().manual_seed(0)
kernel = langevin(law.score, 0.4, law.log_prob)
chains = sample_chain(kernel, law.sample(4, generator), 500, generator=generator)
hosm.plot.ChainsDisplay.from_predictions(chains, ["first coordinate", "second coordinate"])
