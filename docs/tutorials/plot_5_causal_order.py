"""
Causal order
============

In which order do variables cause each other? If each is a smooth function of its causes plus
Gaussian noise, the second derivatives of the log-density tell: of a variable that causes no other
one, the second derivative is the same everywhere.
"""

# %%
# Data with a known order
# -----------------------
#
# Rain makes a river rise; rain and warmth make crops grow; the harvest sets the price. All is made
# up.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import hosm

rng = np.random.default_rng(0)
rain = rng.normal(size=400)
warmth = rng.normal(size=400)
river = np.tanh(2 * rain) + 0.3 * rng.normal(size=400)
crops = np.sin(1.5 * rain) + warmth**2 / 2 + 0.3 * rng.normal(size=400)
price = np.cos(crops) + 0.3 * rng.normal(size=400)
columns = {"price": price, "crops": crops, "river": river, "warmth": warmth, "rain": rain}
X = pd.DataFrame(columns)

# %%
# The order
# ---------
#
# Causes come first. Columns that do not cause each other may stand in any order.

found = hosm.causal.order(X)
print(" -> ".join(found.names))

# %%
# How close was it? `criteria` is what decided at each step, `rivals` the next best; where the two
# are close, the columns might as well change places.

steps = pd.DataFrame({"column": found.names, "chosen": found.criteria, "rival": found.rivals})
print(steps.round(4).to_string(index=False))

# %%
# The graph
# ---------
#
# Of all earlier columns those that matter, by Gaussian processes. A data frame in gives one out:
# True in row i and column j where i is a cause of j.

graph = hosm.causal.graph(X, order=found.columns)
print(graph)
causes = [f"{i} -> {j}" for i in graph.index for j in graph.columns if graph.loc[i, j]]
print(", ".join(causes))

# %%
# As a picture
# ------------
#
# Columns stand from left to right in the order that was found; an arrow leads from each cause to
# its effect.

figure, axes = plt.subplots(figsize=(7, 2.4), layout="constrained")
place = {name: (i, 0.0) for i, name in enumerate(found.names)}
for cause, effect in (pair.split(" -> ") for pair in causes):
    far = place[effect][0] - place[cause][0]
    arrow = {"arrowstyle": "-|>", "shrinkA": 24, "shrinkB": 24, "color": "C0"}
    bend = {"connectionstyle": f"arc3,rad={-0.25 * (far > 1)}"}
    axes.annotate("", place[effect], place[cause], arrowprops=arrow | bend)
for name, (x, y) in place.items():
    axes.text(x, y, name, ha="center", va="center")
axes.set(xlim=(-0.5, len(place) - 0.5), ylim=(-0.6, 0.6))
axes.axis("off")
