r"""Eigenpairs and functions of a structured symmetric matrix, by products with vectors alone.

Leading eigenpairs. A Rayleigh-Ritz projection takes the best eigenpairs of A within a subspace.
Rayleigh quotient steps refresh the subspace: each solves with A - rho I at the current Ritz values
rho, which a diagonal plus low rank does in O(D k^2), and converges cubically to simple eigenvalues
(Parlett, "The Symmetric Eigenvalue Problem", SIAM 1998, sections 4.6 and 11.3). The subspace
starts from U and the coordinates of the largest d, where leading eigenvectors have most of their
weight. Guard pairs, which are iterated along and then dropped, keep a leading pair from being
missed; there is no proof that none is, only tests.

Functions of a matrix. The recursion of Lanczos builds an orthonormal basis Q of the span of
v, A v, .., A^(m-1) v, in which A is the tridiagonal T = Q^T A Q, and

    f(A) v ~ |v| Q f(T) e_1,

which is exact for polynomials of degree m - 1 and hence converges as fast as polynomials
approximate f on the spectrum (Higham, "Functions of Matrices", SIAM 2008, section 13.2). The
basis is orthogonalised anew in each step, which takes O(n D m) numbers and O(n D m^2) work for n
matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self

import torch
from torch import Tensor

__all__ = [
    "Structured",
    "lanczos_function",
    "leading_eigenvectors",
]

MOST_LANCZOS_STEPS = 200
STEPS_BETWEEN_CHECKS = 8  # Lanczos steps between two evaluations of the change of the result


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


def lanczos_function(
    operator: Any,  # noqa: ANN401
    function: Callable[[Tensor], Tensor],
    v: Tensor,
    tolerance: float | None = None,
) -> Tensor:
    """Return f(A) v, shape (*, D), for a batch of symmetric matrices A.

    Args:
        operator: A, which offers `A @ v` for v of shape (*, D).
        function: f, of eigenvalues of shape (*, m).
        v: the vectors, shape (*, D).
        tolerance: the recursion ends when the result changes by no more than this, relative to
            |f(A) v|, within `STEPS_BETWEEN_CHECKS` steps; 100 times the machine epsilon of the
            dtype if None. Values that are not finite end it too.

    Returns:
        The product, of that relative precision, or that of `MOST_LANCZOS_STEPS` or D steps.
    """
    roundings = 100 * torch.finfo(v.dtype).eps
    tolerance = roundings if tolerance is None else max(tolerance, roundings)
    length = v.norm(dim=-1, keepdim=True)
    q = v / length.clamp_min(torch.finfo(v.dtype).tiny)
    basis: list[Tensor] = [q]
    diagonal: list[Tensor] = []
    off_diagonal: list[Tensor] = []
    out = torch.full_like(v, torch.inf)
    for step in range(1, min(MOST_LANCZOS_STEPS, v.shape[-1]) + 1):
        w = operator @ q
        diagonal.append((q * w).sum(-1))
        known = torch.stack(basis, -1)
        for _ in range(2):  # twice is enough (Parlett 1998, section 6.9)
            w = w - (known @ (known.mT @ w.unsqueeze(-1))).squeeze(-1)
        if step % STEPS_BETWEEN_CHECKS == 0 or step == min(MOST_LANCZOS_STEPS, v.shape[-1]):
            last, out = out, length * _on_basis(function, known, diagonal, off_diagonal)
            change = (out - last).norm(dim=-1)
            if not (change > tolerance * out.norm(dim=-1)).any():
                break
        size = w.norm(dim=-1, keepdim=True)
        spent = size <= roundings * diagonal[-1].abs().unsqueeze(-1)  # the span is invariant
        q = torch.where(spent, 0.0, w / size)
        off_diagonal.append(torch.where(spent, 0.0, size).squeeze(-1))
        basis.append(q)
    return out


def _on_basis(
    function: Callable[[Tensor], Tensor],
    basis: Tensor,
    diagonal: list[Tensor],
    off_diagonal: list[Tensor],
) -> Tensor:
    """Return Q f(T) e_1, shape (*, D), for Q (*, D, m) and the entries of T, each (*)."""
    tridiagonal = torch.diag_embed(torch.stack(diagonal, -1))
    if off_diagonal:
        off = torch.diag_embed(torch.stack(off_diagonal, -1), 1)
        tridiagonal = tridiagonal + off + off.mT
    values, vectors = torch.linalg.eigh(tridiagonal.nan_to_num(0.0, 0.0, 0.0))
    first = vectors[..., 0, :]  # e_1 in the eigenbasis
    inner = vectors @ (function(values) * first).unsqueeze(-1)
    return (basis @ inner).squeeze(-1)
