"""
Hessians of a table
===================

178 wines were measured in 13 ways. Which measurements depend on each other, all others given? The
Hessian of their log-density says so: where entry (i, j) is 0, columns i and j are independent
given the rest, and on its diagonal minus the inverse of an entry is about the variance that is
left.
"""

# %%
# Learn the law
# -------------
#
# A pandas data frame goes in, and the names of its columns are kept. `verbose=True` would show a
# bar.

import textwrap

from sklearn.datasets import load_wine

import hosm

X = load_wine(as_frame=True).data
estimator = hosm.ScoreEstimator(random_state=0).fit(X)
print(textwrap.fill(estimator.report_, 80))

# %%
# Curvature of each column
# ------------------------
#
# A frame comes out as well, with its index and columns. The standard errors say how much of it
# would change with other wines.

curvature, error = estimator.hessian_diag(X, return_std=True)
print("mean curvature over its mean standard error:")
print((curvature.mean() / error.mean()).round(1).to_string())

# %%
# Which columns belong together
# -----------------------------
#
# The columns have different units, so that the display multiplies each entry by the standard
# deviations of its two columns. Red and blue are the two signs, white is 0.

hosm.plot.HessianDisplay.from_estimator(estimator, X)

# %%
# The same at one wine, which may differ from the mean only if more than a Gaussian was found:

hosm.plot.HessianDisplay.from_estimator(estimator, X, row=0)

# %%
# One column of the matrix
# ------------------------
#
# What alcohol depends on, in the order of the strength, and without its own entry:

scale = X.std()
column = estimator.hessian_column(X, "alcohol").mean() * scale * scale["alcohol"]
print(column.drop("alcohol").sort_values(key=abs, ascending=False).head(5).round(2).to_string())
