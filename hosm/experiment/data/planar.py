"""Sets of points in the plane, for figure 2 of the paper, which leaves its data undescribed.

The definitions are those of the field's usual toy data (Grathwohl et al., "FFJORD: Free-Form
Continuous Dynamics for Scalable Reversible Generative Models", ICLR 2019, code), at sigma = .15
several times as wide as the noise. Their densities have edges, so that no exact scores stand
beside them; the posterior of a finite sample is exact (`hosm.distributions.finite_data`).
"""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

__all__ = ["PLANAR"]


def _uniform(n: int, generator: Generator) -> Tensor:
    return torch.rand(n, generator=generator)


def _polar(radius: Tensor | float, angle: Tensor) -> Tensor:
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1)


def _noise(n: int, std: float, generator: Generator) -> Tensor:
    return std * torch.randn(n, 2, generator=generator)


def moons(n: int, generator: Generator) -> Tensor:
    """Return n points of two interleaved half circles of radius 2, under noise of std .2."""
    arc = _polar(2.0, math.pi * _uniform(n, generator))
    lower = _uniform(n, generator) < 0.5
    moon = torch.where(lower.unsqueeze(1), torch.tensor([2.0, 1.0]) - arc, arc)
    return moon - torch.tensor([1.0, 0.2]) + _noise(n, 0.2, generator)


def checkerboard(n: int, generator: Generator) -> Tensor:
    """Return n points, uniform on every second square of side 2 within [-4, 4]^2."""
    square = torch.randint(8, (n,), generator=generator)
    row = square // 2
    corner = torch.stack([2 * (square % 2) + row % 2, row], 1)
    return 2 * (corner + torch.rand(n, 2, generator=generator)) - 4


def rings(n: int, generator: Generator) -> Tensor:
    """Return n points of four circles of radii .75, 1.5, 2.25 and 3, under noise of std .08."""
    radius = 0.75 * (1 + torch.randint(4, (n,), generator=generator))
    angle = 2 * math.pi * _uniform(n, generator)
    return _polar(radius, angle) + _noise(n, 0.08, generator)


def eight_gaussians(n: int, generator: Generator) -> Tensor:
    """Return n points of eight Gaussians of std .35 on a circle of radius 2.83."""
    angle = math.pi / 4 * torch.randint(8, (n,), generator=generator)
    return _polar(math.sqrt(8), angle) + _noise(n, math.sqrt(0.125), generator)


PLANAR: dict[str, Callable[[int, Generator], Tensor]] = {
    "moons": moons,
    "checkerboard": checkerboard,
    "rings": rings,
    "eight-gaussians": eight_gaussians,
}
