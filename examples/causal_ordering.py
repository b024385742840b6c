"""The causal graph of variables: `hosm.causal` on drawn graphs, beside other ways.

In a model x_j = f_j(parents of j) + Gaussian noise, the second derivatives of the log-density tell
the order of the variables, and a regression of each on those before it tells its parents:
`hosm.causal.ordering` and `hosm.causal.pruning` say how. Here f_j is a draw of a Gaussian process
of all parents of j, and compared are

- `order`: `hosm.causal.order`;
- `SCORE`: the order of Rolland et al., "Score Matching Enables Causal Discovery of Nonlinear
  Additive Noise Models", ICML 2022: the variable whose second derivative varies least comes last;
- `by variance`: the variables sorted by their variance, which the others do not see (Reisach,
  Seiler and Weichwald, "Beware of the Simulated DAG!", NeurIPS 2021);
- `true order`: what the pruning alone costs;

each pruned by Gaussian processes, or by an additive model as CAM does (Buhlmann, Peters and
Ernest, 2014). The structural Hamming distance counts missing, added and turned edges.

    python examples/causal_ordering.py    # and --large: 50 variables, 200 edges; --sizes: others
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from hosm import causal
from hosm.experiment.causal.study.graphs import (
    draw,
    hamming_distance,
    order_divergence,
    random_graph,
    true_order,
)
from hosm.experiment.causal.study.orders import by_variance, score

SIZES = {  # graphs, variables, points, edges on average
    "small": (10, 10, 1000, 40),
    "large": (10, 50, 1000, 200),
    "quick": (2, 4, 200, 4),
}
PRUNINGS = {"Gaussian processes": "gaussian_process", "additive": "additive"}


def compare(args: argparse.Namespace) -> dict[str, list[Sequence[float]]]:
    """Return order divergence, Hamming distance and seconds of each method on each graph."""
    rng, found = np.random.default_rng(args.seed), {}
    print(f"{args.graphs} graph(s), D = {args.variables}, n = {args.points:,}", end="")
    print(f", {args.edges} edges on average")
    for graph in range(args.graphs):
        parents = random_graph(args.variables, args.edges, rng)
        raw = draw(parents, args.points, rng)
        x = (raw - raw.mean(0)) / raw.std(0)
        for name, ordered in {
            "order": lambda x=x: causal.order(x).columns,
            "SCORE": lambda x=x: score(x),
            "by variance": lambda raw=raw: by_variance(raw),
            "true order": lambda parents=parents: true_order(parents),
        }.items():
            start = time.perf_counter()
            order = ordered()
            seconds = time.perf_counter() - start
            for kind, pruning in PRUNINGS.items():
                start = time.perf_counter()
                distance = hamming_distance(parents, causal.graph(x, order, pruning))
                total = seconds + time.perf_counter() - start
                row = (order_divergence(parents, order), distance, total)
                found.setdefault(f"{name}, {kind}", []).append(row)
                if args.verbose:
                    print(f"graph {graph}, {name}, {kind}:", *np.round(row, 1), flush=True)
    return found


def picture(found: dict[str, list[Sequence[float]]]) -> Figure:
    """Draw the Hamming distance of each graph, and their means."""
    ax = (figure := Figure(figsize=(8, 3.5), layout="constrained")).subplots()
    for place, values in enumerate(found.values()):
        distances = [distance for _, distance, _ in values]
        ax.bar(place, np.mean(distances), color="lightsteelblue")
        ax.plot(place + np.linspace(-0.2, 0.2, len(values)), distances, "k.", ms=5)
    ax.set_xticks(range(len(found)), [name.replace(", ", "\n") for name in found], fontsize=7)
    ax.set_ylabel("structural Hamming distance")
    return figure


def main() -> None:
    """Compare the methods on random graphs; print their errors, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="50 variables, 200 edges")
    parser.add_argument("--quick", action="store_true", help="seconds; numbers mean nothing")
    names = ("graphs", "variables", "points", "edges")
    parser.add_argument("--sizes", type=int, nargs=4, metavar=tuple(map(str.upper, names)))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="print each graph's numbers")
    parser.add_argument("--out", type=Path, default=Path("build/causal_ordering.png"))
    args = parser.parse_args()
    if args.quick:
        print("--quick: a run this small shows that the script works; its numbers mean nothing")
    sizes = args.sizes or SIZES["quick" if args.quick else "large" if args.large else "small"]
    vars(args).update(zip(names, sizes, strict=True))
    found = compare(args)
    print("mean +- standard error of: contradicted edges, Hamming distance; seconds a graph")
    for name, values in found.items():
        mean = np.mean(values, 0)
        error = np.std(values, 0, ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0 * mean
        shown = [f"{m:7.2f} +- {e:.2f}" for m, e in zip(mean[:2], error[:2], strict=True)]
        print(f"{name:32}", *shown, f"{mean[2]:8.1f} s")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    picture(found).savefig(args.out, dpi=110)
    print(args.out)


if __name__ == "__main__":
    main()
