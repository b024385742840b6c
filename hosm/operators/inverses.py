r"""Inverses and determinants of a diagonal plus low rank, also where the diagonal is thin.

Woodbury's formula takes y^T A^-1 y, for A = diag(d) + U U^T, as a difference of two numbers of
the size of |y|^2 / d. Where d is 10^-6 of U U^T nothing is left of it in float32, not even its
sign. For d > 0, with W = diag(d)^(-1/2) U and w = diag(d)^(-1/2) y, it is a least-squares problem,

$$y^T A^{-1} y = \min_c \; \|w - W c\|^2 + \|c\|^2
             = \left\| (I - Q Q^T) \binom{w}{0} \right\|^2, \qquad \binom{W}{I} = Q R,$$

a sum of squares; the residual's first D entries are diag(d)^(1/2) A^-1 y, and
det A = prod_i d_i prod_j R_jj^2. By Householder's QR the errors are those of rounding U and y
(Higham, "Accuracy and Stability of Numerical Algorithms", SIAM 2002, theorem 20.3): of the order
of eps (|U|^2 / d)^(1/2), where Woodbury's are of the order of eps |U|^2 / d. With D columns or
more, 1 - (leverage) cancels in the gradient of d, and the factor of

$$A = R^T R, \qquad \binom{U^T}{\mathrm{diag}(d)^{1/2}} = Q R,$$

takes its place (`Wide`). Both stacks have full column rank whatever U is, so that zero and equal
columns, and more columns than rows, have finite gradients. Of the ways that were measured (D = 50,
10 columns, float32), a QR of W alone gives NaN there, and so does the Cholesky factor of I + W^T W
for equal columns at d = 10^-6; that factor in float64 takes three times as long, for digits that
parts in float32 do not have.

Columns with signs -1 come on top, A = B + V diag(c) V^T, by K = diag(c) + V^T B^-1 V. B takes in
the columns with signs +1 where d > 0; else it is diag(d), which is Woodbury's formula. A has
n_-(B) + n_+(K) - n_+(c) negative eigenvalues (additivity of inertia, Haynsworth 1968).

Vectors y are rows here, of shape (*, m, D): the fast layout for U.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["Inverse", "inverse_of", "positive_inverse"]

ZERO_IN_ROUNDINGS = 4  # an eigenvalue of K is a zero up to this multiple of the machine epsilon


class Inverse(Protocol):
    """The inverse of a batch of symmetric matrices A, of shape (*, D, D)."""

    def solve(self, rows: Tensor, *, check: bool = True) -> Tensor:
        """Return A^-1 y for each row y, of the shape (*, m, D) of `rows`."""

    def forms(self, rows: Tensor) -> Tensor:
        """Return y^T A^-1 y for each row y of `rows`, (*, m, D); shape (*, m)."""

    def log_determinant(self) -> Tensor:
        """Return log |det A|, shape (*)."""

    def inertia(self) -> tuple[Tensor, Tensor]:
        """Return how many eigenvalues are below 0, and how many 0, each of shape (*) or ()."""


class _Diagonal:
    """The inverse of diag(d), for d of any signs, shape (*, D)."""

    def __init__(self, diag: Tensor) -> None:
        self.diag = diag

    def solve(self, rows: Tensor, *, check: bool = True) -> Tensor:
        return rows / self.diag.unsqueeze(-2)

    def forms(self, rows: Tensor) -> Tensor:
        return (rows * self.solve(rows)).sum(-1)

    def gram(self, rows: Tensor) -> Tensor:
        """Return y^T A^-1 y' for all pairs of rows, (*, m, D); shape (*, m, m)."""
        return rows @ self.solve(rows).mT

    def log_determinant(self) -> Tensor:
        return self.diag.abs().log().sum(-1)

    def inertia(self) -> tuple[Tensor, Tensor]:
        return (self.diag < 0).sum(-1), (self.diag == 0).sum(-1)


class _Positive:
    """The inverse of A > 0 by a linear map H with A^-1 = H^T H, which `half` applies."""

    def half(self, rows: Tensor) -> Tensor:
        """Return H y for each row y, (*, m, D); shape (*, m, D) or (*, m, D + k)."""
        raise NotImplementedError

    def forms(self, rows: Tensor) -> Tensor:
        return self.half(rows).square().sum(-1)

    def gram(self, rows: Tensor) -> Tensor:
        """Return y^T A^-1 y' for all pairs of rows, (*, m, D); shape (*, m, m)."""
        half = self.half(rows)
        return half @ half.mT

    def inertia(self) -> tuple[Tensor, Tensor]:
        none = torch.zeros((), dtype=torch.int64)
        return none, none


class _Narrow(_Positive):
    """The inverse of diag(d) + U U^T for d > 0, (*, D), and U, (*, D, k), k < D: by [W; I]."""

    def __init__(self, diag: Tensor, factor: Tensor) -> None:
        self.root = diag.sqrt().unsqueeze(-2)
        one = torch.eye(factor.shape[-1], dtype=diag.dtype, device=diag.device)
        one = one.expand(*diag.shape[:-1], *one.shape)
        basis, self.upper = torch.linalg.qr(torch.cat([factor.mT / self.root, one], -1).mT)
        self.basis = basis.mT  # (*, k, D + k)

    def half(self, rows: Tensor) -> Tensor:
        w = torch.nn.functional.pad(rows / self.root, (0, self.basis.shape[-2]))
        return w - (w @ self.basis.mT) @ self.basis

    def solve(self, rows: Tensor, *, check: bool = True) -> Tensor:
        return self.half(rows)[..., : rows.shape[-1]] / self.root

    def log_determinant(self) -> Tensor:
        return 2 * (_log_diagonal(self.upper) + self.root.log().sum((-2, -1)))


class _Wide(_Positive):
    """The inverse of diag(d) + U U^T for d > 0, (*, D), and U, (*, D, k), k >= D: by R^T R."""

    def __init__(self, diag: Tensor, factor: Tensor) -> None:
        stack = torch.cat([factor, torch.diag_embed(diag.sqrt())], -1).mT
        self.upper = torch.linalg.qr(stack).R

    def half(self, rows: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(self.upper, rows, upper=True, left=False)

    def solve(self, rows: Tensor, *, check: bool = True) -> Tensor:
        half = self.half(rows)
        return torch.linalg.solve_triangular(self.upper.mT, half, upper=False, left=False)

    def log_determinant(self) -> Tensor:
        return 2 * _log_diagonal(self.upper)


_Base = _Diagonal | _Narrow | _Wide


def _log_diagonal(upper: Tensor) -> Tensor:
    """Return the log of the product of the diagonal of R, (*, k, k), up to signs; shape (*)."""
    return upper.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)


class _Updated:
    """The inverse of B + V diag(c) V^T, given that of B; V by rows, (*, p, D), and c, (p,)."""

    def __init__(self, base: _Base, rows: Tensor, signs: Tensor) -> None:
        self.base, self.rows, self.signs = base, rows, signs
        self.capacitance = torch.diag(signs) + base.gram(rows)  # K, (*, p, p)

    @cached_property
    def eigenvalues(self) -> Tensor:
        """Eigenvalues of K, (*, p)."""
        return torch.linalg.eigvalsh(self.capacitance)

    def _inner(self, images: Tensor, check: bool) -> Tensor:
        """Return K^-1 g for each row g of V^T B^-1 y, both of shape (*, m, p)."""
        return torch.linalg.solve_ex(self.capacitance, images.mT, check_errors=check).result.mT

    def solve(self, rows: Tensor, *, check: bool = True) -> Tensor:
        first = self.base.solve(rows)
        inner = self._inner(first @ self.rows.mT, check)
        return first - self.base.solve(inner @ self.rows)

    def forms(self, rows: Tensor) -> Tensor:
        images = self.base.solve(rows) @ self.rows.mT
        return self.base.forms(rows) - (images * self._inner(images, True)).sum(-1)

    def log_determinant(self) -> Tensor:
        return self.base.log_determinant() + self.eigenvalues.abs().log().sum(-1)

    def inertia(self) -> tuple[Tensor, Tensor]:
        values, (negative, zero) = self.eigenvalues, self.base.inertia()
        scale = values.abs().amax(-1, keepdim=True).clamp_min(1)
        zeros = values.abs() <= ZERO_IN_ROUNDINGS * torch.finfo(values.dtype).eps * scale
        above = ((values > 0) & ~zeros).sum(-1) - (self.signs > 0).sum()
        return negative + above, zero + zeros.sum(-1)


def positive_inverse(diag: Tensor, factor: Tensor) -> _Base:
    """Return the inverse of diag(d) + U U^T, without reading a value of either.

    Args:
        diag: d > 0, shape (*, D).
        factor: U, shape (*, D, k); k may be 0.
    """
    size, rank = factor.shape[-2:]
    if not rank:
        return _Diagonal(diag)
    return (_Narrow if rank < size else _Wide)(diag, factor)


def inverse_of(diag: Tensor, factor: Tensor, signs: Tensor) -> Inverse:
    """Return the inverse of diag(d) + U diag(c) U^T, with the accurate form where d > 0.

    Args:
        diag: d, shape (*, D).
        factor: U, shape (*, D, k); k may be 0.
        signs: c, shape (k,), each +1 or -1.

    Raises:
        ValueError: if an entry of d is 0.
    """
    if (zero := diag == 0).any():
        found = tuple(zero.nonzero()[0].tolist())
        raise ValueError(
            f"diag must have no zero entry for an inverse or a determinant, got one at {found}"
        )
    taken = (signs > 0) & (diag > 0).all()
    if taken.all():
        return positive_inverse(diag, factor)
    base = positive_inverse(diag, factor[..., taken]) if taken.any() else _Diagonal(diag)
    return _Updated(base, factor[..., ~taken].mT, signs[~taken])
