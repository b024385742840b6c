"""Estimators of the local dimension at some of the points of a table.

Those of scikit-dimension as its documentation uses them: local PCA (Fukunaga and Olsen, 1971),
simplex skewness (ESS: Johnsson, Soneson and Fontes, 2015) and TwoNN (Facco, d'Errico, Rodriguez
and Laio, 2017) on the 100 nearest points, its default, and the maximum likelihood of Levina and
Bickel (2004; Haro et al., 2008) on the 20 nearest, its default too; TwoNN also once for all
points, as its authors use it.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from hosm.estimator.local_dimension import dimension_by_scores, local_dimension
from hosm.io import Array

__all__ = ["ESTIMATORS"]

NEIGHBOURS = 100
EFFECTIVE = 10  # rows that a kernel covers
HALVINGS = 60  # of the interval of log sigma^2, down to its last digits


def _package() -> Any:  # noqa: ANN401
    return importlib.import_module("skdim.id")


def _near(x: Array, places: Array) -> Array:
    """Return the nearest other points of some points of x (n, D), shape (m, 100)."""
    neighbours = importlib.import_module("sklearn.neighbors").NearestNeighbors
    found: Array = neighbours(n_neighbors=NEIGHBOURS + 1).fit(x).kneighbors(x[places])[1]
    return found[:, 1:]


def _in_neighbourhoods(fit: Callable[[Array], float]) -> Callable[[Array, Array], Array]:
    """Return an estimator that fits the neighbourhood of each point."""
    return lambda x, places: np.array([fit(x[near]) for near in _near(x, places)])


def _likelihood(x: Array, places: Array) -> Array:
    found: Array = _package().MLE().fit(x).dimension_pw_
    return found[places]


def _kernel_scores(x: Array, places: Array) -> Array:
    """FLIPD by the scores of the other rows under Gaussian noise, sigma so that 10 rows count."""
    y = torch.from_numpy((x - x.mean(0)) / np.where(np.ptp(x, axis=0) > 0, x.std(0), 1))
    squares = torch.cdist(y[places], y).square()
    squares[torch.arange(len(places)), torch.from_numpy(places)] = math.inf
    low = torch.full((len(places), 1), -30.0, dtype=torch.float64)  # logarithms of sigma^2
    high = -low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        weights = torch.softmax(-squares / (2 * middle.exp()), 1)
        wide = 1 / weights.square().sum(1, keepdim=True) > EFFECTIVE
        low, high = torch.where(wide, low, middle), torch.where(wide, middle, high)
    sigma = (high / 2).exp()
    s1 = (weights @ y - y[places]) / sigma  # times sigma, as the trace is times sigma^2
    second = (weights * squares.nan_to_num(posinf=0.0)).sum(1, keepdim=True) / sigma.square()
    trace = second[:, 0] - y.shape[1] - s1.square().sum(1)
    return dimension_by_scores(s1, trace, 1.0).numpy()


def _quiet(estimator: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Return an estimator without the warnings of the package on rows of equal distances."""

    def estimate(x: Array, places: Array) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return estimator(x, places)

    return estimate


ESTIMATORS: dict[str, Callable[[Array, Array], Array]] = {
    "hosm": lambda x, places: np.asarray(local_dimension(x[places], x)),
    "FLIPD of a kernel density": _kernel_scores,
    "lPCA": _quiet(_in_neighbourhoods(lambda near: _package().lPCA().fit(near).dimension_)),
    "ESS": _quiet(_in_neighbourhoods(lambda near: _package().ESS().fit_once(near).dimension_)),
    "TwoNN": _quiet(_in_neighbourhoods(lambda near: _package().TwoNN().fit(near).dimension_)),
    "TwoNN, one for all": _quiet(
        lambda x, places: np.full(len(places), _package().TwoNN().fit(x).dimension_)
    ),
    "MLE": _quiet(_likelihood),
}
