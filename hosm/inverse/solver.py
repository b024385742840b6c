"""Conjugate gradients for a batch of systems V u = b that share no matrix.

The method of Hestenes and Stiefel ("Methods of Conjugate Gradients for Solving Linear Systems",
1952) with a preconditioner P (Saad, "Iterative Methods for Sparse Linear Systems", 2003, algorithm
9.1), for symmetric positive definite V that is known by its products alone. Where P = V it ends
after one iteration. A system that has converged takes no further steps, so that none divides by
zero while others go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from hosm.checks import check_count, checked

__all__ = ["Solution", "conjugate_gradients"]

Map = Callable[[Tensor], Tensor]


class Solution(NamedTuple):
    """The solutions of a batch of systems.

    Attributes:
        values: u, shape (n, m).
        iterations: products with V that were taken.
        residual: the largest |b - V u| / |b| of the batch, by the recurrence.
        converged: whether it is at most the tolerance.
    """

    values: Tensor
    iterations: int
    residual: float
    converged: bool


def conjugate_gradients(
    product: Map,
    b: Tensor,
    precondition: Map = lambda r: r,
    *,
    tolerance: float | None = None,
    iterations: int = 100,
) -> Solution:
    """Solve V u = b for each row b of a batch.

    Args:
        product: returns V u, shape (n, m), for u of shape (n, m), each row by a V of its own.
        b: right sides, shape (n, m).
        precondition: returns P^-1 r, shape (n, m), for a P near V.
        tolerance: largest |b - V u| / |b|; None for the machine epsilon to the power 2/3.
        iterations: the most that are taken.

    Raises:
        ValueError: b has another shape or no iteration is allowed.
    """
    checked("b", b, "n", "m", finite=False)
    check_count("iterations", iterations)
    epsilon = torch.finfo(b.dtype).eps
    bound = epsilon ** (2 / 3) if tolerance is None else tolerance
    u, r = torch.zeros_like(b), b
    z = precondition(r)
    p, rz = z, (r * z).sum(1, keepdim=True)
    size = b.norm(dim=1, keepdim=True)
    taken = 0
    for taken in range(1, iterations + 1):  # noqa: B007
        image = product(p)
        active = r.norm(dim=1, keepdim=True) > bound * size
        step = torch.where(active, rz / (p * image).sum(1, keepdim=True), 0.0)
        u, r = u + step * p, r - step * image
        if not bool((r.norm(dim=1, keepdim=True) > bound * size).any()):
            break
        z = precondition(r)
        before, rz = rz, (r * z).sum(1, keepdim=True)
        p = z + torch.where(active, rz / before, 0.0) * p
    sizes = size.squeeze(1).clamp_min(torch.finfo(b.dtype).tiny)
    residual = float((r.norm(dim=1) / sizes).max())
    return Solution(u, taken, residual, residual <= bound)
