r"""The causal graph of variables: their order, and of all earlier variables those that matter.

A variable of an additive-noise model depends on its parents alone among those before it in a
causal order. So the graph of the order is pruned variable by variable, by a regression on all
that come before, as Buhlmann, Peters and Ernest do ("CAM: Causal Additive Models, High-Dimensional
Order Search and Penalized Regression", Annals of Statistics 2014, section 4.3). Two regressions:

- `gaussian_process` (`hosm.causal.regression`): the parents are the variables whose
  log-evidence in a Gaussian process, less 4 for each of them, is largest. It sees interactions.
- `additive`, theirs: y = sum_i g_i(x_i) + noise, with cubic splines g_i, fitted by least squares.
  A parent is a variable whose spline is significant by the F-test of leaving it out, p < 0.001.
  It is fast, but sees nothing of a parent that acts only together with others: of 40 edges of
  functions drawn from Gaussian processes it missed 19 in the true order (10 graphs of 10
  variables, 1,000 points).

The Gaussian process takes about 10 s of one core for 10 variables, and 6 s for one variable that
has 25 before it; 600 rows at most are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import f as f_distribution
from sklearn.preprocessing import SplineTransformer
from torch import Tensor

from hosm.causal.ordering import LEAST_ROWS, REGRESSION_ROWS, standardised, subset
from hosm.causal.ordering import order as causal_order
from hosm.causal.regression import relevant
from hosm.checks import check_choice
from hosm.estimator.arrays import ArrayOrFrame, as_table, seed_of
from hosm.io import Array
from hosm.progress import ProgressBar

__all__ = ["additive_parents", "graph"]

PRUNINGS = ("gaussian_process", "additive")
PRICE = 4.0  # log-evidence that a parent must bring
SIGNIFICANCE = 0.001  # of Buhlmann, Peters and Ernest
KNOTS = 5  # of a spline, at quantiles
ROWS_PER_FUNCTION = 3  # rows for each function of the splines, at least, as they have it


def _spline(column: Array) -> Array:
    """Return the centred functions of a spline of one variable, shape (n, KNOTS + 1)."""
    made = SplineTransformer(KNOTS, degree=3, knots="quantile", include_bias=False)
    values = made.fit_transform(column[:, None])
    return values - values.mean(0)


def _p_values(terms: Sequence[Array], y: Array) -> list[float]:
    """Return the p-value of the F-test of leaving out each of several groups of columns."""
    B, y = np.hstack(terms), y - y.mean()
    ridge = 1e-9 * len(y) * np.eye(B.shape[1])
    inverse = np.linalg.inv(B.T @ B + ridge)
    weights = inverse @ (B.T @ y)
    free = len(y) - 1 - B.shape[1]
    noise = float(((y - B @ weights) ** 2).sum()) / free
    values, start = [], 0
    for term in terms:
        own = slice(start, start := start + term.shape[1])
        explained = weights[own] @ np.linalg.solve(inverse[own, own], weights[own])
        values.append(
            float(f_distribution.sf(explained / term.shape[1] / noise, term.shape[1], free))
        )
    return values


def _likeliest(terms: Sequence[Array], y: Array, most: int) -> list[int]:
    """Return the places of the groups that, each alone, explain y best, in their order."""
    if len(terms) <= most:
        return list(range(len(terms)))
    alone = [_p_values([term], y)[0] for term in terms]
    return sorted(np.argsort(alone, kind="stable")[:most].tolist())


def additive_parents(x: Tensor, y: Tensor) -> list[int]:
    """Return the columns of x whose splines are significant in an additive model of y.

    Args:
        x: standardised points, shape (n, d), float64.
        y: what is regressed on them, shape (n,), float64.
    """
    terms, target = [_spline(column) for column in x.numpy().T], y.numpy()
    most = max(1, len(y) // (ROWS_PER_FUNCTION * terms[0].shape[1]))
    chosen = _likeliest(terms, target, most)
    found = _p_values([terms[i] for i in chosen], target)
    return [i for i, p in zip(chosen, found, strict=True) if p < SIGNIFICANCE]


def graph(
    X: Any,  # noqa: ANN401
    order: Sequence[int] | None = None,
    pruning: str = "gaussian_process",
    random_state: Any = 0,  # noqa: ANN401
    verbose: bool = False,
) -> ArrayOrFrame:
    """Return the causal graph of the columns of X (see the module).

    Args:
        X: points of shape (n, D), n >= 20: an array, a data frame or a tensor.
        order: columns of X, causes first; by default that of `hosm.causal.order`.
        pruning: `gaussian_process` or `additive`.
        random_state: of the rows that are taken where there are many, as in
            `hosm.estimator.arrays.seed_of`.
        verbose: show the progress as a bar on stderr.

    Returns:
        A boolean matrix of shape (D, D), True at [i, j] where column i is a cause of column j;
        of a pandas data frame, a data frame whose rows and columns have the names of its columns.

    Raises:
        ValueError: X is none that `hosm.causal.order` takes, the order does not name each column
            once, or the pruning is another.
    """
    check_choice("pruning", pruning, PRUNINGS)
    table, seed = as_table("X", X, least=LEAST_ROWS), seed_of(random_state)
    shown: dict[str, Any] = {"random_state": seed, "verbose": verbose}
    x, D = standardised(table), table.x.shape[1]
    columns = [*order] if order is not None else causal_order(X, **shown).columns
    if sorted(columns) != list(range(D)):
        raise ValueError(f"order must name each column from 0 to {D - 1} once, got {columns}")
    if pruning == "gaussian_process":
        x = subset(x, REGRESSION_ROWS, seed)
    edges = np.zeros((D, D), bool)
    parents = additive_parents if pruning == "additive" else partial(relevant, price=PRICE)
    with ProgressBar(verbose) as bar:
        for place, j in enumerate(columns[1:], 1):
            before = columns[:place]
            edges[[before[i] for i in parents(x[:, before], x[:, j])], j] = True
            bar.move("graph", place, D - 1)
    return table.between_columns(edges)
