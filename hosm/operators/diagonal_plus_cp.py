r"""Structured symmetric tensors of any order: a diagonal plus a sum of symmetric powers.

Scores of order k have D^k entries. The order-k analogue of `operators.DiagonalPlusLowRank` is

$$A = \mathrm{diag}_k(d) + \sum_{j=1}^{R} c_j \, w_j^{\otimes k},$$

with diag_k(d) holding d_i at (i, .., i), and a symmetric canonical polyadic (CP) part: columns
w_j of a factor W and weights c_j of either sign. Every symmetric tensor is such a sum (Comon,
Golub, Lim and Mourrain, "Symmetric Tensors and Symmetric Tensor Rank", SIAM J. Matrix Anal.
Appl. 2008, lemma 4.2). What a score is asked for are its values in directions and its inner
products, and `<w^(x)k, v^(x)k>` = (w . v)^k makes both cheap:

$$A(v, .., v) = \sum_i d_i v_i^k + \sum_j c_j (w_j \cdot v)^k, \qquad
          A \cdot v = \mathrm{diag}_{k-1}(d v) + \sum_j c_j (w_j \cdot v)\, w_j^{\otimes (k-1)},$$

$$\langle A, A' \rangle = \sum_i d_i A'_{i..i} + \sum_i d'_i (A_{i..i} - d_i)
          + \sum_{jl} c_j c'_l (w_j \cdot w'_l)^k,$$

in O(D R) and O(D R R'). Only `to_dense` forms D^k entries.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from hosm.operators.diagonal_plus_low_rank import check_same_shape

__all__ = ["DiagonalPlusCP"]


class DiagonalPlusCP:
    """The symmetric tensors diag_k(d) + sum_j c_j w_j (x) .. (x) w_j, one for each batch index.

    Args:
        diag: d, shape (*, D).
        factor: W, with the columns w_j, shape (*, D, R); R may be 0.
        weights: c, shape (*, R).
        order: k, at least 1; of order 1 A is the vector d + W c.

    Raises:
        ValueError: the shapes do not fit each other, or the order is below 1.
    """

    __array_ufunc__ = None  # lets `numpy_scalar * A` reach `__rmul__`

    def __init__(self, diag: Tensor, factor: Tensor, weights: Tensor, order: int) -> None:
        fit = diag.ndim >= 1 and factor.ndim >= 1 and factor.shape[:-1] == diag.shape
        if not fit or weights.shape != (*diag.shape[:-1], factor.shape[-1]):
            shapes = ", ".join(str(tuple(part.shape)) for part in (diag, factor, weights))
            raise ValueError(
                "diag, factor and weights must have shapes (*, D), (*, D, R) and (*, R), "
                f"got {shapes}"
            )
        if not isinstance(order, int) or order < 1:
            raise ValueError(f"order must be an integer of at least 1, got {order!r}")
        self.diag, self.factor, self.weights, self.order = diag, factor, weights, order

    @classmethod
    def from_diagonal(cls, diag: Tensor, order: int) -> DiagonalPlusCP:
        """Return diag_k(d), of rank 0, for `diag` d of shape (*, D)."""
        none = diag.new_zeros(*diag.shape, 0)
        return cls(diag, none, none.sum(-2), order)

    @property
    def rank(self) -> int:
        """Number R of columns of W."""
        return self.factor.shape[-1]

    def __repr__(self) -> str:
        shape = tuple(self.diag.shape)
        return f"{type(self).__name__}(diag={shape}, rank={self.rank}, order={self.order})"

    def _each(self, function: Callable[[Tensor], Tensor]) -> DiagonalPlusCP:
        """Apply a function to d, W and c."""
        d, W, c = function(self.diag), function(self.factor), function(self.weights)
        return DiagonalPlusCP(d, W, c, self.order)

    def __getitem__(self, index: Any) -> DiagonalPlusCP:  # noqa: ANN401
        """Select from the batch dimensions."""
        return self._each(lambda part: part[index])

    def to(self, *args: Any, **kwargs: Any) -> DiagonalPlusCP:  # noqa: ANN401
        """Move to a device or dtype, with the arguments of `torch.Tensor.to`."""
        return self._each(lambda part: part.to(*args, **kwargs))

    def detach(self) -> DiagonalPlusCP:
        """Return the tensor without its gradient."""
        return self._each(lambda part: part.detach())

    def to_dense(self) -> Tensor:
        """Return the tensor itself, shape (*, D, .., D): for tests and for small D."""
        letters = string.ascii_uppercase[: self.order]
        eye = torch.eye(self.diag.shape[-1], dtype=self.diag.dtype, device=self.diag.device)
        sides = ["".join(f",...{letter}r" for letter in letters), f"->...{letters}"]
        cp = torch.einsum("...r" + "".join(sides), self.weights, *[self.factor] * self.order)
        return cp + torch.einsum("...r" + "".join(sides), self.diag, *[eye] * self.order)

    def diagonal(self) -> Tensor:
        """Return the entries (i, .., i) of A, shape (*, D)."""
        return self.diag + (self.factor**self.order * self.weights.unsqueeze(-2)).sum(-1)

    def contract(self, v: Tensor) -> Tensor:
        """Return A(v, .., v): shape (*) for v (*, D), and (*, m) for columns v (*, D, m).

        Raises:
            ValueError: v has another shape.
        """
        columns = v.unsqueeze(-1) if v.ndim == self.diag.ndim else v
        if columns.shape[:-1] != self.diag.shape:
            shapes = f"{tuple(v.shape)} for diag {tuple(self.diag.shape)}"
            raise ValueError(f"v must have shape (*, D) or (*, D, m), got {shapes}")
        powers = (self.factor.mT @ columns) ** self.order
        out = (self.diag.unsqueeze(-1) * columns**self.order).sum(-2)
        out = out + (self.weights.unsqueeze(-1) * powers).sum(-2)
        return out.squeeze(-1) if v.ndim == self.diag.ndim else out

    def contract_once(self, v: Tensor) -> DiagonalPlusCP:
        """Return A . v, of order k - 1, for v of the shape (*, D) of d.

        Raises:
            ValueError: v has another shape, or A is of order 1.
        """
        if v.shape != self.diag.shape:
            shapes = f"{tuple(v.shape)} for diag {tuple(self.diag.shape)}"
            raise ValueError(f"v must have shape (*, D), got {shapes}")
        if self.order == 1:
            raise ValueError("order must be 2 or more for contract_once, got 1")
        weights = self.weights * (v.unsqueeze(-2) @ self.factor).squeeze(-2)
        return DiagonalPlusCP(self.diag * v, self.factor, weights, self.order - 1)

    def _check_same_shape(self, other: DiagonalPlusCP) -> None:
        check_same_shape(self.diag, other.diag)
        if self.order != other.order:
            raise ValueError(f"other must be of order {self.order}, got {other.order}")

    def inner(self, other: DiagonalPlusCP) -> Tensor:
        """Return the sum over all entries of A * B, shape (*), for B of the same order.

        Raises:
            ValueError: the orders differ, or the shapes in a dimension that both have.
        """
        self._check_same_shape(other)
        powers = (self.factor.mT @ other.factor) ** self.order
        cp = (self.weights * (powers @ other.weights.unsqueeze(-1)).squeeze(-1)).sum(-1)
        mixed = self.diag * other.diagonal() + other.diag * (self.diagonal() - self.diag)
        return mixed.sum(-1) + cp

    def frobenius_norm_squared(self) -> Tensor:
        """Return the sum of the squared entries of A, shape (*), in O(D R^2)."""
        return self.inner(self)

    def __add__(self, other: object) -> DiagonalPlusCP:
        if not isinstance(other, DiagonalPlusCP):
            return NotImplemented
        self._check_same_shape(other)
        diag, parts = self.diag + other.diag, (self, other)
        factors = [part.factor.expand(*diag.shape, part.rank) for part in parts]
        weights = [part.weights.expand(*diag.shape[:-1], part.rank) for part in parts]
        return DiagonalPlusCP(diag, torch.cat(factors, -1), torch.cat(weights, -1), self.order)

    def __neg__(self) -> DiagonalPlusCP:
        return DiagonalPlusCP(-self.diag, self.factor, -self.weights, self.order)

    def __sub__(self, other: object) -> DiagonalPlusCP:
        return self + (-other) if isinstance(other, DiagonalPlusCP) else NotImplemented

    def __mul__(self, scale: object) -> DiagonalPlusCP:
        """Return s A, for a number or a tensor of shape () or (*)."""
        if isinstance(scale, Tensor):
            s: float | Tensor = scale.unsqueeze(-1)
        elif isinstance(scale, Real):
            s = float(scale)
        else:
            return NotImplemented
        return DiagonalPlusCP(s * self.diag, self.factor, s * self.weights, self.order)

    __rmul__ = __mul__
