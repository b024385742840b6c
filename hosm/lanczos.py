r"""Functions of a symmetric matrix times a vector, by products alone.

Lanczos' recursion builds an orthonormal basis Q of the span of v, A v, .., A^(m-1) v in which A
is the tridiagonal T = Q^T A Q, and

    f(A) v ~ |v| Q f(T) e_1,

which is exact for polynomials of degree m - 1 and hence converges as fast as polynomials
approximate f on the spectrum (Higham, "Functions of Matrices", SIAM 2008, section 13.2). The
basis is orthogonalised anew in each step, O(n D m) numbers and O(n D m^2) work for n matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["lanczos_function"]

BLOCK = 8  # steps between two looks at the change
LIMIT = 200  # steps at most


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
        tolerance: largest change within `BLOCK` steps, relative to |f(A) v|, that ends the
            recursion; 100 roundings of the dtype if None. Values that are not finite end it too.

    Returns:
        The product, of that relative precision, or that of `LIMIT` or D steps.
    """
    roundings = 100 * torch.finfo(v.dtype).eps
    tolerance = roundings if tolerance is None else max(tolerance, roundings)
    length = v.norm(dim=-1, keepdim=True)
    q = v / length.clamp_min(torch.finfo(v.dtype).tiny)
    basis: list[Tensor] = [q]
    diagonal: list[Tensor] = []
    beside: list[Tensor] = []
    out = torch.full_like(v, torch.inf)
    for step in range(1, min(LIMIT, v.shape[-1]) + 1):
        w = operator @ q
        diagonal.append((q * w).sum(-1))
        known = torch.stack(basis, -1)
        for _ in range(2):  # twice is enough (Parlett 1998, section 6.9)
            w = w - (known @ (known.mT @ w.unsqueeze(-1))).squeeze(-1)
        if step % BLOCK == 0 or step == min(LIMIT, v.shape[-1]):
            last, out = out, length * _on_basis(function, known, diagonal, beside)
            change = (out - last).norm(dim=-1)
            if not (change > tolerance * out.norm(dim=-1)).any():
                break
        size = w.norm(dim=-1, keepdim=True)
        spent = size <= roundings * diagonal[-1].abs().unsqueeze(-1)  # the span is invariant
        q = torch.where(spent, 0.0, w / size)
        beside.append(torch.where(spent, 0.0, size).squeeze(-1))
        basis.append(q)
    return out


def _on_basis(
    function: Callable[[Tensor], Tensor],
    basis: Tensor,
    diagonal: list[Tensor],
    beside: list[Tensor],
) -> Tensor:
    """Return Q f(T) e_1, shape (*, D), for Q (*, D, m) and the entries of T, each (*)."""
    tridiagonal = torch.diag_embed(torch.stack(diagonal, -1))
    if beside:
        off = torch.diag_embed(torch.stack(beside, -1), 1)
        tridiagonal = tridiagonal + off + off.mT
    values, vectors = torch.linalg.eigh(tridiagonal.nan_to_num(0.0, 0.0, 0.0))
    first = vectors[..., 0, :]  # e_1 in the eigenbasis
    inner = vectors @ (function(values) * first).unsqueeze(-1)
    return (basis @ inner).squeeze(-1)
