"""Additive-noise models of known graphs, and how far a graph or an order is from the true one.

As Rolland et al. ("Score Matching Enables Causal Discovery of Nonlinear Additive Noise Models",
ICML 2022, section 5) simulate them: a graph of Erdos and Renyi with D or 4 D edges on average
(`ER1` and `ER4`), and x_j = f_j(parents of j) + Gaussian noise of a variance between .4 and .8,
where f_j is a draw of a Gaussian process of unit length scale. Their draws are exact; here they
are by 200 random features (Rahimi and Recht, "Random Features for Large-Scale Kernel Machines",
NeurIPS 2007).

`sachs` is the table of Sachs et al. ("Causal Protein-Signaling Networks Derived from
Multiparameter Single-Cell Data", Science 2005), which the package `cdt` has in its wheel. Their
experiments are in it together, and its target graph has the cycle plcg -> PIP2 -> PIP3 -> plcg,
so that every order contradicts one edge at least.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from hosm.io import Array

__all__ = ["draw", "hamming_distance", "order_divergence", "random_graph", "sachs", "true_order"]

FEATURES = 200
VARIANCES = (0.4, 0.8)  # of the noise
SACHS = "cdt/data/resources/cyto_full_"


def random_graph(variables: int, edges: float, rng: np.random.Generator) -> Array:
    """Return whether i is a parent of j, shape (D, D), for so many edges on average."""
    order = rng.permutation(variables)
    chance = edges / (variables * (variables - 1) / 2)
    parents = np.zeros((variables, variables), bool)
    parents[np.ix_(order, order)] = np.triu(rng.random((variables, variables)) < chance, 1)
    return parents


def draw(parents: Array, points: int, rng: np.random.Generator) -> Array:
    """Return points of x_j = f_j(parents of j) + noise, shape (n, D).

    Args:
        parents: whether i is a parent of j, shape (D, D), without cycles.
        points: their number n.
        rng: of functions and noise.
    """
    x = np.zeros((points, len(parents)))
    for j in true_order(parents):
        given = np.flatnonzero(parents[:, j])
        x[:, j] = rng.normal(size=points) * np.sqrt(rng.uniform(*VARIANCES))
        if len(given):
            phase = x[:, given] @ rng.normal(size=(len(given), FEATURES))
            waves = np.cos(phase + rng.uniform(0, 2 * np.pi, FEATURES))
            x[:, j] += np.sqrt(2 / FEATURES) * waves @ rng.normal(size=FEATURES)
    return x


def true_order(parents: Array) -> list[int]:
    """Return an order that no edge contradicts; a graph with a cycle has none."""
    left: list[int] = [*range(len(parents))]
    found: list[int] = []
    while left:
        free = [j for j in left if not parents[left, j].any()]
        assert free, "the graph has a cycle"
        found += free
        left = [j for j in left if j not in free]
    return found


def order_divergence(parents: Array, order: Sequence[int]) -> int:
    """Return how many edges an order of the variables contradicts (Rolland et al., section 4)."""
    place, (i, j) = np.argsort(order), np.nonzero(parents)
    return int((place[i] > place[j]).sum())


def hamming_distance(parents: Array, found: Array) -> int:
    """Return how many pairs of variables a graph gets wrong; a turned edge counts once."""
    wrong = parents != found
    return int(np.triu(wrong | wrong.T).sum())


def sachs(wheel: Path) -> tuple[Array, Array]:
    """Return the table, shape (7466, 11), and the target graph, (11, 11), of Sachs et al.

    Args:
        wheel: the file of the package `cdt`, which need not be installed.
    """
    with zipfile.ZipFile(wheel) as files:
        with files.open(f"{SACHS}data.csv") as file:
            table = pd.read_csv(file)
        with files.open(f"{SACHS}target.csv") as file:
            edges = pd.read_csv(file)
    parents = np.zeros((table.shape[1],) * 2, bool)
    places = [table.columns.get_indexer(pd.Index(edges[name])) for name in ("Cause", "Effect")]
    parents[tuple(places)] = True
    return table.to_numpy(float), parents
