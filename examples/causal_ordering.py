"""The causal order of variables from the Hessian of their log-density, learned or by a kernel.

In a model x_j = f_j(parents of j) + Gaussian noise the second derivative d^2 log p / dx_j^2 is the
same at all points if, and as a rule only if, j has no children. So the variable whose second
derivative varies least over the points comes last; it is removed, and so on with the others:
Rolland, Cevher, Kleindessner, Russell, Janzing, Scholkopf and Locatello, "Score Matching Enables
Causal Discovery of Nonlinear Additive Noise Models", ICML 2022, whose estimator of the derivatives
is `stein_diag` here. It takes n x n numbers; `hosm.ScoreEstimator` takes n x D.

Removing a variable changes the scores of its parents: the learned model is trained on after each
removal, with the removed inputs at their mean. Of many variables a share is removed at a time.
Columns are standardised; `by variance` alone sees how much they vary (Reisach, Seiler and
Weichwald, "Beware of the Simulated DAG!", NeurIPS 2021).

    python examples/causal_ordering.py    # and --large: 200 variables, 20,000 points
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import hosm

ETA, KERNEL = 1e-3, 1000  # ridge of the kernel matrix, as in the paper; points that it takes
SIZES = {  # graphs, variables, points, edges on average, steps of the first fit
    "small": (10, 10, 1000, 20, 1000),
    "large": (1, 200, 20_000, 400, 1500),
    "quick": (2, 4, 200, 4, 30),
}


def random_graph(variables: int, edges: float, rng: np.random.Generator) -> np.ndarray:
    """Return whether i is a parent of j, shape (D, D), for so many edges on average."""
    order = rng.permutation(variables)
    chance = edges / (variables * (variables - 1) / 2)
    parents = np.zeros((variables, variables), bool)
    parents[np.ix_(order, order)] = np.triu(rng.random((variables, variables)) < chance, 1)
    return parents


def draw(parents: np.ndarray, points: int, rng: np.random.Generator) -> np.ndarray:
    """Return points (n, D) of x_j = f_j(parents) + noise, of a variance between .4 and .8.

    Each f_j is a draw of a Gaussian process, by random features (Rahimi and Recht, 2007).
    """
    x, done = np.zeros((points, len(parents))), np.zeros(len(parents), bool)
    while not done.all():
        for j in np.flatnonzero(~done & ~parents[~done].any(0)):
            given = np.flatnonzero(parents[:, j])
            x[:, j] = rng.normal(size=points) * np.sqrt(rng.uniform(0.4, 0.8))
            if len(given):
                phase = x[:, given] @ rng.normal(size=(len(given), 200))
                waves = np.cos(phase + rng.uniform(0, 2 * np.pi, 200))
                x[:, j] += np.sqrt(2 / 200) * waves @ rng.normal(size=200)
            done[j] = True
    return x


def order_divergence(parents: np.ndarray, order: list[int]) -> int:
    """Return how many edges an order of the variables contradicts (Rolland et al., section 4)."""
    place, (i, j) = np.argsort(order), np.nonzero(parents)
    return int((place[i] > place[j]).sum())


def stein_diag(x: np.ndarray, left: list[int]) -> np.ndarray:
    """Estimate d^2 log p / dx_j^2 of the columns that are left, at each of n points, (n, d).

    By Stein's identities with the Gaussian kernel of the median distance s, (K + eta I) G =
    -sum_k grad_k k(x_i, x_k) for the score G and (K + eta I) (H + G^2) = sum_k grad_k^2 k(x_i,
    x_k) for the diagonal H (Rolland et al., section 3); the sums are products with K.
    """
    x = x[:, left]
    squares = (x**2).sum(1)
    distances = np.maximum(squares[:, None] + squares - 2 * x @ x.T, 0)
    s = np.median(np.sqrt(distances[np.triu_indices(len(x), 1)]))
    kernel = np.exp(-distances / (2 * s**2))
    mass, first, second = kernel.sum(1, keepdims=True), kernel @ x, kernel @ x**2
    gradient = (x * mass - first) / s**2
    curvature = (x**2 * mass - 2 * x * first + second) / s**4 - mass / s**2
    right = np.hstack([-gradient, curvature])
    score, both = np.split(np.linalg.solve(kernel + ETA * np.eye(len(x)), right), 2, axis=1)
    return both - score**2


class Masked(nn.Module):
    """A network of all D variables at those that are left; the others are at their mean, 0."""

    def __init__(self, network: nn.Module, left: list[int]) -> None:
        super().__init__()
        self.network, self.left = network, left

    def forward(self, x: Tensor) -> Tensor:
        """Map the variables that are left, (n, d), to outputs (n, k, d)."""
        whole = x.new_zeros(len(x), self.network.dimension)
        whole[:, self.left] = x
        return self.network(whole)[:, :, self.left]


class LearnedHessian:
    """Second derivatives of the marginal law of ever fewer variables, learned on from the last."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.options = {"sigma": args.sigma, "rank": 0, "random_state": args.seed}
        self.steps, self.networks = args.steps, []

    def __call__(self, x: np.ndarray, left: list[int]) -> np.ndarray:
        """Return them at points, of which all columns are given, for those that are left."""
        masked = [Masked(each, left) for each in self.networks]
        parts = dict(zip(("backbone", "head"), masked, strict=False))
        steps = max(1, self.steps // 5) if parts else self.steps
        estimator = hosm.ScoreEstimator(max_steps=steps, **self.options, **parts).fit(x[:, left])
        model = estimator.model_.requires_grad_(True)
        learned = model.trunk, model.second
        self.networks = [part.module.network for part in learned] if parts else learned
        return estimator.hessian_diag(x[:, left])


def causal_order(x: np.ndarray, diagonal: Callable[..., np.ndarray], share: float) -> list[int]:
    """Return the variables of points x (n, D), parents first; a share is removed at a time."""
    left, last = [*range(x.shape[1])], []
    while len(left) > 1:
        variance = diagonal(x, left).var(0)
        leaves = [left[i] for i in np.argsort(variance)[: max(1, int(share * len(left)))]]
        last = leaves[::-1] + last
        left = [j for j in left if j not in leaves]
    return left + last


def compare(args: argparse.Namespace) -> dict[str, list[tuple[float, float]]]:
    """Return order divergence and seconds of each method on each graph."""
    rng, found, edges, share = np.random.default_rng(args.seed), {}, [], args.share
    for _ in range(args.graphs):
        edges.append(parents := random_graph(args.variables, args.edges, rng))
        raw = draw(parents, args.points, rng)
        x = (raw - raw.mean(0)) / raw.std(0)
        some, columns = x[:KERNEL], range(args.variables)
        for name, ordered in {
            "learned": partial(causal_order, x, LearnedHessian(args), share),
            f"Stein kernel, {len(some):,} points": partial(causal_order, some, stein_diag, share),
            "by variance": partial(sorted, columns, key=raw.var(0).__getitem__),
            "by chance": partial(rng.permutation, args.variables),
        }.items():
            start = time.perf_counter()
            wrong = order_divergence(parents, ordered())
            found.setdefault(name, []).append((wrong, time.perf_counter() - start))
    title = f"D = {args.variables}, n = {args.points:,}, {np.sum(edges) / args.graphs:.1f} edges"
    print(f"{args.graphs} graph(s), {title} on average: edges that the order contradicts")
    return found


def picture(found: dict[str, list[tuple[float, float]]]) -> Figure:
    """Draw the contradicted edges of each graph, and their means."""
    ax = (figure := Figure(figsize=(5.5, 3.2), layout="constrained")).subplots()
    for place, values in enumerate(found.values()):
        wrong = [value for value, _ in values]
        ax.bar(place, np.mean(wrong), color="lightsteelblue")
        ax.plot(place + np.linspace(-0.2, 0.2, len(wrong)), wrong, "k.", ms=5)
    ax.set_xticks(range(len(found)), [name.replace(", ", "\n") for name in found])
    ax.set_ylabel("edges that the order contradicts")
    return figure


def main() -> None:
    """Compare the methods on random graphs; print what each took, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="200 variables, 20,000 points")
    parser.add_argument("--quick", action="store_true", help="seconds, and a poor model")
    names = ("graphs", "variables", "points", "edges", "steps")
    parser.add_argument("--sizes", type=int, nargs=5, metavar=tuple(map(str.upper, names)))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.15, help="removed at a time; at least 1")
    parser.add_argument("--sigma", type=float, default=0.1, help="in standard deviations")
    parser.add_argument("--out", type=Path, default=Path("build/causal_ordering.png"))
    args = parser.parse_args()
    sizes = args.sizes or SIZES["quick" if args.quick else "large" if args.large else "small"]
    vars(args).update(zip(names, sizes, strict=True))
    found = compare(args)
    for name, values in found.items():
        wrong, seconds = np.array(values).T
        error = f" +- {wrong.std(ddof=1) / len(wrong) ** 0.5:.2f}" if len(wrong) > 1 else ""
        print(f"{name:28} {wrong.mean():7.2f}{error}   {seconds.mean():7.1f} s a graph")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"largest memory {peak:.2f} GiB, threads {torch.get_num_threads()}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    picture(found).savefig(args.out, dpi=110)
    print(args.out)


if __name__ == "__main__":
    main()
