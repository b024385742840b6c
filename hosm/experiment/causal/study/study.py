"""Contradicted edges, structural Hamming distances and seconds of each method on each graph.

    python -m hosm.experiment.causal.study.study reports/whole/causal

What is measured is not measured again, so that a run goes on after a stop. An order is
pruned as its authors do, by an additive model (Buhlmann, Peters and Ernest, "CAM: Causal Additive
Models", Annals of Statistics 2014), and that of `hosm.causal` by Gaussian processes too, its
default.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from hosm import causal
from hosm.experiment.causal.study import orders
from hosm.experiment.causal.study.graphs import (
    draw,
    hamming_distance,
    order_divergence,
    random_graph,
    sachs,
)
from hosm.io import Array, write_whole

__all__ = ["measure", "simulated", "summary"]

POINTS = 1000
EDGES = {"ER1": 1, "ER4": 4}  # for each variable, on average
SACHS = "Sachs"
KEYS = ["graph", "variables", "seed", "method", "pruning"]
GAUSSIAN_PROCESS, ADDITIVE = "gaussian_process", "additive"


def _random(raw: Array) -> list[int]:
    return np.random.default_rng(raw.shape[1]).permutation(raw.shape[1]).tolist()


def _standardised(x: Array) -> Array:
    spread: Array = (x - x.mean(0)) / x.std(0)
    return spread


METHODS: dict[tuple[str, str], Callable[[Array], list[int]]] = {  # and pruning; quick ones first
    ("random", ADDITIVE): _random,
    ("by variance, raw columns", ADDITIVE): orders.by_variance,
    ("SCORE", ADDITIVE): lambda raw: orders.score(_standardised(raw)),
    ("SCORE, raw columns", ADDITIVE): orders.score,
    ("hosm", ADDITIVE): lambda raw: causal.order(raw).columns,
    ("NoGAM", ADDITIVE): lambda raw: orders.nogam(_standardised(raw)),
    ("NoGAM, raw columns", ADDITIVE): orders.nogam,
    ("hosm", GAUSSIAN_PROCESS): lambda raw: causal.order(raw).columns,
}


def measure(raw: Array, parents: Array, method: str, pruning: str) -> dict[str, Any]:
    """Return `divergence`, `distance`, and seconds of the order and of the pruning.

    Args:
        raw: points, shape (n, D).
        parents: the true graph, shape (D, D).
        method: to the order; with the pruning a key of `METHODS`.
        pruning: as of `hosm.causal.graph`.
    """
    start = time.process_time()
    order = METHODS[method, pruning](raw)
    ordered = time.process_time()
    found = causal.graph(raw, order, pruning)
    return {
        "edges": int(parents.sum()),
        "divergence": order_divergence(parents, order),
        "distance": hamming_distance(parents, found),
        "order_seconds": ordered - start,
        "pruning_seconds": time.process_time() - ordered,
    }


def simulated(graph: str, variables: int, seed: int) -> tuple[Array, Array]:
    """Return points, shape (1000, D), of a graph of so many variables, and the graph, (D, D)."""
    rng = np.random.default_rng(seed)
    parents = random_graph(variables, EDGES[graph] * variables, rng)
    return draw(parents, POINTS, rng), parents


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds with their standard errors, by graph, size, method and pruning."""
    keys = ["graph", "variables", "method", "pruning"]
    found = table.groupby(keys, sort=False).agg(
        seeds=("seed", "count"),
        edges=("edges", "mean"),
        divergence=("divergence", "mean"),
        divergence_error=("divergence", "sem"),
        distance=("distance", "mean"),
        distance_error=("distance", "sem"),
        order_seconds=("order_seconds", "mean"),
        pruning_seconds=("pruning_seconds", "mean"),
    )
    return found.reset_index()


def _cells(options: argparse.Namespace) -> Iterator[tuple[str, int, int, str, str]]:
    """Yield graph, variables, seed, method and pruning; small graphs and quick methods first."""
    for variables, (method, pruning), seed in product(
        options.variables, METHODS, range(options.seeds)
    ):
        for graph in EDGES:
            yield graph, variables, seed, method, pruning
    if options.sachs:
        for seed, (method, pruning) in product(range(options.seeds), METHODS):
            yield SACHS, 11, seed, method, pruning


def _points(graph: str, variables: int, seed: int, wheel: Path | None) -> tuple[Array, Array]:
    """Return points and the true graph of a cell."""
    if graph != SACHS:
        return simulated(graph, variables, seed)
    assert wheel is not None
    raw, parents = sachs(wheel)
    rows = np.random.default_rng(seed).permutation(len(raw))[:POINTS]
    return raw[rows], parents


def main() -> None:
    """Measure all methods on all graphs, and write the tables after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the tables")
    parser.add_argument("--variables", type=int, nargs="+", default=[10, 20, 50])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sachs", type=Path, help="wheel of cdt, for the table of Sachs et al.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.folder / "graphs.csv"
    rows: list[Any] = pd.read_csv(file).to_dict("records") if file.exists() else []
    done = {tuple(row[key] for key in KEYS) for row in rows}
    for cell in _cells(options):
        if cell not in done:
            raw, parents = _points(*cell[:3], options.sachs)
            rows.append(dict(zip(KEYS, cell, strict=True)) | measure(raw, parents, *cell[3:]))
            _write(pd.DataFrame(rows), file)
            _write(summary(pd.DataFrame(rows)), options.folder / "summary.csv")
    print(summary(pd.DataFrame(rows)).to_string(index=False))


def _write(table: pd.DataFrame, file: Path) -> None:
    write_whole(table.to_csv(index=False, float_format="%.4g").encode(), file)


if __name__ == "__main__":
    main()
