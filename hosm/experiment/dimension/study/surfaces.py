"""Public surfaces whose dimension at each point is known.

Those whose names begin with M are the benchmark of Campadelli, Casiraghi, Ceruti and Rozza
("Intrinsic Dimension Estimation: Relevant Techniques and a Benchmark Framework", 2015), as
scikit-dimension generates it, which also gives a torus and a line, a disk and a ball that touch.
The lollipop and mixtures of planes of several dimensions are those of Kamkari et al. ("A Geometric
View of Data Complexity: Efficient Local Intrinsic Dimension Estimation with Diffusion Models",
NeurIPS 2024, section 4.1) and the spiral, Gaussians and cubes those of Tempczyk et al. ("LIDL",
ICML 2022). Where those papers bend planes by the random flow of a network, x + sin(A x + b) / 2
bends them here, for random A and b.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from hosm.io import Array

__all__ = ["OURS", "benchmark", "surface"]

Surface = tuple[Array, Array]  # points (n, D), and the dimension at each, (n,)
Draw = Callable[[int, np.random.Generator], Surface]
DISTANCE = 8  # of the centres of the planes of a mixture from the origin


def _datasets() -> Any:  # noqa: ANN401
    """Return the generators of scikit-dimension, an optional package."""
    return importlib.import_module("skdim.datasets")


def benchmark() -> list[str]:
    """Return the names of the surfaces of the benchmark."""
    return [*_datasets().BenchmarkManifolds()._dict_truth]


def surface(name: str, n: int, seed: int) -> Surface:
    """Return n points of a surface, shape (n, D), and the dimension at each, shape (n,)."""
    if name in OURS:
        return OURS[name](n, np.random.default_rng(seed))
    law = _datasets().BenchmarkManifolds(random_state=seed)
    dimension, columns, _ = law._dict_truth[name]
    return law.generate(name, n=n, d=dimension, dim=columns), np.full(n, dimension)


def _embedded(points: Array, columns: int, rng: np.random.Generator) -> Array:
    """Return points (n, d) in a random plane of R^D, shape (n, D)."""
    rotation: Array = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    return points @ rotation[: points.shape[1]]


def _bent(points: Array, rng: np.random.Generator) -> Array:
    """Return x + sin(A x + b) / 2 for random A and b, shape (n, D)."""
    columns = points.shape[1]
    turns = 1.5 * rng.standard_normal((columns, columns)) / np.sqrt(columns)
    return points + 0.5 * np.sin(points @ turns + rng.uniform(0, 2 * np.pi, columns))


def _plane(d: int, columns: int, cube: bool = False, bends: int = 0) -> Draw:
    """Return how to draw normal or uniform points of a plane in R^D that is bent or not."""

    def draw(n: int, rng: np.random.Generator) -> Surface:
        flat = rng.uniform(-2, 2, (n, d)) if cube else rng.standard_normal((n, d))
        points = _embedded(flat, columns, rng)
        for _ in range(bends):
            points = _bent(points, rng)
        return points, np.full(n, d)

    return draw


def _planes(dimensions: tuple[int, ...], columns: int, bent: bool = False) -> Draw:
    """Return how to draw Laplacian points of several planes in R^D, apart from each other."""

    def draw(n: int, rng: np.random.Generator) -> Surface:
        points, which = np.zeros((n, columns)), rng.integers(0, len(dimensions), n)
        for j, d in enumerate(dimensions):
            flat = rng.laplace(size=(int((which == j).sum()), d)) / np.sqrt(2)
            centre = rng.standard_normal(columns)
            centre *= DISTANCE / np.linalg.norm(centre)
            points[which == j] = centre + _embedded(flat, columns, rng)
        return _bent(points, rng) if bent else points, np.array(dimensions)[which]

    return draw


def _lollipop(n: int, rng: np.random.Generator) -> Surface:
    """A disk of radius 1 and a line that ends at it."""
    disk = rng.random(n) < 0.7
    radius, angle = np.sqrt(rng.random(n)), rng.uniform(0, 2 * np.pi, n)
    candy = 2 + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    stick = np.repeat(rng.uniform(0, 2 - 0.5**0.5, (n, 1)), 2, 1)
    return np.where(disk[:, None], candy, stick), np.where(disk, 2, 1)


def _spiral(n: int, rng: np.random.Generator) -> Surface:
    t = 3 * np.pi * np.sqrt(rng.uniform(0.03, 1, n))
    return np.stack([t * np.cos(t), t * np.sin(t)], 1), np.full(n, 1)


def _circles(n: int, rng: np.random.Generator) -> Surface:
    """A product of three circles."""
    angle = rng.uniform(0, 2 * np.pi, (n, 3))
    return np.concatenate([np.cos(angle), np.sin(angle)], 1), np.full(n, 3)


def _torus(n: int, rng: np.random.Generator) -> Surface:
    return _datasets().torus(n, random_state=int(rng.integers(2**31))), np.full(n, 2)


def _in_doughnut(n: int, rng: np.random.Generator) -> Surface:
    """A torus, and the circle in the middle of its tube."""
    points, truth = _torus(n, rng)
    inside, angle = rng.random(n) < 0.3, rng.uniform(0, 2 * np.pi, n)
    circle = np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1)
    return np.where(inside[:, None], circle, points), np.where(inside, 1, truth)


def _line_disk_ball(n: int, rng: np.random.Generator) -> Surface:
    points, truth = _datasets().lineDiskBall(n, random_state=int(rng.integers(2**31)))
    return points, truth


OURS: dict[str, Draw] = {
    "lollipop": _lollipop,
    "line, disk, ball": _line_disk_ball,
    "torus": _torus,
    "circle in a torus": _in_doughnut,
    "3 circles": _circles,
    "spiral": _spiral,
    "Gaussian 10 in 100": _plane(10, 100),
    "cube 20 in 100": _plane(20, 100, cube=True),
    "bent 2 in 20": _plane(2, 20, cube=True, bends=2),
    "bent 5 in 50": _plane(5, 50, bends=2),
    "bent 10 in 100": _plane(10, 100, bends=2),
    "planes 2, 5, 10 in 30": _planes((2, 5, 10), 30),
    "planes 5, 25, 50 in 100": _planes((5, 25, 50), 100),
    "bent planes 2, 5, 10 in 30": _planes((2, 5, 10), 30, bent=True),
}
