"""Contradicted edges, structural Hamming distances and seconds of each method on each graph.

    python -m hosm.experiment.causal.study.study reports/whole/causal

A graph that is finished is not measured again, so that a run goes on after a stop. An order is
pruned as its authors do, by an additive model (Buhlmann, Peters and Ernest, "CAM: Causal Additive
Models", Annals of Statistics 2014), and that of `hosm.causal` by Gaussian processes too, its
default.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
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
KEYS = ["graph", "variables", "seed"]
GAUSSIAN_PROCESS, ADDITIVE = "gaussian_process", "additive"


def _methods(seed: int) -> dict[str, Callable[[Array, Array], list[int]]]:
    """Return the ways to an order, from the columns as they are and from standardised ones."""
    rng = np.random.default_rng(seed)
    return {
        "hosm": lambda raw, x: causal.order(x).columns,
        "SCORE": lambda raw, x: orders.score(x),
        "SCORE, raw columns": lambda raw, x: orders.score(raw),
        "NoGAM": lambda raw, x: orders.nogam(x),
        "NoGAM, raw columns": lambda raw, x: orders.nogam(raw),
        "by variance, raw columns": lambda raw, x: orders.by_variance(raw),
        "random": lambda raw, x: rng.permutation(x.shape[1]).tolist(),
    }


def measure(raw: Array, parents: Array, seed: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each method and pruning: `divergence`, `distance` and `seconds`.

    Args:
        raw: points, shape (n, D).
        parents: the true graph, shape (D, D).
        seed: of the random order.
    """
    x = (raw - raw.mean(0)) / raw.std(0)
    for method, ordered in _methods(seed).items():
        start = time.process_time()
        order = ordered(raw, x)
        seconds = time.process_time() - start
        for pruning in (GAUSSIAN_PROCESS, ADDITIVE) if method == "hosm" else (ADDITIVE,):
            start = time.process_time()
            found = causal.graph(x, order, pruning)
            yield {
                "method": method,
                "pruning": pruning,
                "edges": int(parents.sum()),
                "divergence": order_divergence(parents, order),
                "distance": hamming_distance(parents, found),
                "order_seconds": seconds,
                "pruning_seconds": time.process_time() - start,
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


def _cells(options: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    """Yield graph, variables and seed, small ones first."""
    for variables in options.variables:
        for seed in range(options.seeds):
            for graph in EDGES:
                yield graph, variables, seed


def _points(cell: tuple[str, int, int], wheel: Path | None) -> tuple[Array, Array]:
    """Return points and the true graph of a cell."""
    if cell[0] != SACHS:
        return simulated(*cell)
    assert wheel is not None
    raw, parents = sachs(wheel)
    rows = np.random.default_rng(cell[2]).permutation(len(raw))[:POINTS]
    return raw[rows], parents


def main() -> None:
    """Measure all graphs, and write the tables after each."""
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
    own = [(SACHS, 11, seed) for seed in range(options.seeds)] if options.sachs else []
    for cell in [*_cells(options), *own]:
        if cell not in done:
            named = dict(zip(KEYS, cell, strict=True))
            points = _points(cell, options.sachs)
            rows += [named | row for row in measure(*points, seed=cell[2])]
            _write(pd.DataFrame(rows), file)
            _write(summary(pd.DataFrame(rows)), options.folder / "summary.csv")
    print(summary(pd.DataFrame(rows)).to_string(index=False))


def _write(table: pd.DataFrame, file: Path) -> None:
    write_whole(table.to_csv(index=False, float_format="%.4g").encode(), file)


if __name__ == "__main__":
    main()
