r"""Leading eigenpairs of a structured symmetric matrix, without the matrix.

Rayleigh-Ritz projections onto a subspace that Rayleigh quotient steps refresh: each step solves
with A - rho I at the current Ritz values rho, which a diagonal plus low rank does in O(D k^2), and
converges cubically to simple eigenvalues (Parlett, "The Symmetric Eigenvalue Problem", SIAM 1998,
sections 4.6 and 11.3). The span starts from U and the coordinates of the largest d, where leading
eigenvectors have most of their weight. Guard pairs keep a leading one from being missed; there
is no proof that none is, only tests.
"""

from __future__ import annotations

from typing import Protocol, Self

import torch
from torch import Tensor

__all__ = ["Structured", "leading_eigenvectors"]


class Structured(Protocol):
    """A batch of matrices A = diag(d) + U diag(c) U^T, with d (*, D), U (*, D, k) and c (k,)."""

    diag: Tensor
    factor: Tensor
    signs: Tensor

    def __matmul__(self, v: object) -> Tensor: ...

    def with_diagonal(self, diag: Tensor) -> Self:
        """Return the same with another d, `diag` of shape (*, D)."""

    def solve(self, b: Tensor, *, check: bool = True) -> Tensor:
        """Return A^-1 b, of the shape of b, (*, D) or (*, D, m)."""


def _ritz(operator: Structured, columns: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k leading Ritz values (*, k) and vectors (*, D, k) in a span (*, D, m)."""
    basis, _ = torch.linalg.qr(columns)
    values, vectors = torch.linalg.eigh(basis.mT @ (operator @ basis))
    return values[..., -k:].flip(-1), basis @ vectors[..., -k:].flip(-1)


def _shifted_inverse(operator: Structured, shift: Tensor, v: Tensor) -> Tensor:
    """Return the direction (*, D) of (A - shift I)^-1 v, for shift (*) and v (*, D)."""
    gap = operator.diag - shift.unsqueeze(-1)
    least = torch.finfo(v.dtype).eps * gap.abs().amax(-1, keepdim=True).clamp_min(1e-30)
    gap = torch.where(gap.abs() <= least, least, gap)
    out = operator.with_diagonal(gap).solve(v, check=False)
    return torch.nan_to_num(out / out.norm(dim=-1, keepdim=True))


def leading_eigenvectors(operator: Structured, k: int, guard: int = 4, limit: int = 30) -> Tensor:
    """Return k leading eigenvectors, orthonormal, shape (*, D, k).

    Args:
        operator: A, finite, with k + guard <= D; neither is checked.
        k: number of eigenvectors, 1 or more.
        guard: further pairs that are iterated along.
        limit: bound on the number of steps.
    """
    # from U and the coordinates of the largest d, with guard pairs so that none is missed
    largest = operator.diag.topk(k + guard, -1).indices
    start = torch.nn.functional.one_hot(largest, operator.diag.shape[-1]).mT.to(operator.diag)
    values, vectors = _ritz(operator, torch.cat([operator.factor, start], -1), k + guard)
    for _ in range(limit):
        residual = (operator @ vectors - vectors * values.unsqueeze(-2))[..., :k].norm(dim=-2)
        rounding = max(50, operator.diag.shape[-1] ** 0.5)  # of sums over D terms
        bound = rounding * torch.finfo(values.dtype).eps * values.abs().amax(-1, keepdim=True)
        if (residual <= bound).all():
            break
        pairs = zip(values.unbind(-1), vectors.unbind(-1), strict=True)
        inverse = torch.stack([_shifted_inverse(operator, *pair) for pair in pairs], -1)
        values, vectors = _ritz(operator, torch.cat([vectors, inverse], -1), k + guard)
    return vectors[..., :k]
