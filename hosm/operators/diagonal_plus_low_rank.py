r"""Structured symmetric matrices: a diagonal plus a signed low-rank part.

Second-order scores, the residuals of their objectives and the covariances of the posterior are

$$A = \mathrm{diag}(d) + U\,\mathrm{diag}(c)\,U^T, \qquad c_j = \pm 1,$$

with d of shape (\*, D) and U (\*, D, k). The model s2 = diag(alpha) + beta beta^T of Meng, Song,
Li and Ermon, "Estimating High Order Gradients of the Data Distribution by Denoising", NeurIPS
2021, section 4.1, has c = +1; sums and multiples stay in the form. Only `to_dense`, and where it
is the cheaper way `eigenpairs` and `function_matvec`, build a D x D matrix. With G = U^T U,

$$\|A\|_F^2 = \sum_i d_i^2 + 2 \sum_i d_i (U c U^T)_{ii} + \sum_{jk} c_j c_k G_{jk}^2;$$

`hosm.operators.inverses` has A^-1, det A and the number of negative eigenvalues.

Shapes and dtypes are checked, values in general not: that would wait for the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from hosm.checks import check_count, checked
from hosm.operators.inverses import Inverse, inverse_of
from hosm.operators.spectra import lanczos_function, leading_eigenvectors

__all__ = [
    "DENSE_SIZE",
    "DiagonalPlusLowRank",
    "in_shape_of",
    "check_same_shape",
    "check_parts",
    "as_columns",
]

DENSE_SIZE = 256  # up to this D a dense eigendecomposition is the faster one


class DiagonalPlusLowRank:
    """The symmetric matrices diag(d) + U diag(c) U^T, one for each index of a batch.

    Args:
        diag: d, shape (*, D).
        factor: U, shape (*, D, k); k may be 0.
        signs: c, shape (k,), each +1 or -1 (checked on a CPU); all +1 when omitted.

    Raises:
        ValueError: if the shapes do not fit each other or are empty (k = 0 apart), d and U are
            not floating-point numbers of one dtype, or a sign is another number.

    In its methods, v and b are one vector (*, D) or m of them (*, D, m) for each matrix, never
    broadcast; another shape, or integers, raise ValueError.
    """

    __array_ufunc__ = None  # lets `numpy_scalar * A` reach `__rmul__`

    def __init__(self, diag: Tensor, factor: Tensor, signs: Tensor | None = None) -> None:
        check_parts(diag, factor, signs)
        self.positive = signs is None  # c = +1, known without reading its values
        signs = diag.new_ones(factor.shape[-1:]) if signs is None else signs.to(diag)
        self.diag, self.factor, self.signs = diag, factor, signs

    @classmethod
    def from_diagonal(cls, diag: Tensor) -> DiagonalPlusLowRank:
        """Return diag(d), of rank 0, for a diagonal d of shape (*, D)."""
        return cls(diag, diag.new_zeros(*diag.shape, 0))

    @classmethod
    def outer(cls, vector: Tensor) -> DiagonalPlusLowRank:
        """Return u u^T, of rank 1, for a vector u of shape (*, D)."""
        return cls(torch.zeros_like(vector), vector.unsqueeze(-1))

    @property
    def rank(self) -> int:
        """Number k of columns of U."""
        return self.factor.shape[-1]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(diag={tuple(self.diag.shape)}, rank={self.rank})"

    def __getitem__(self, index: Any) -> DiagonalPlusLowRank:  # noqa: ANN401
        """Select from the batch dimensions; IndexError where an index goes beyond them."""
        parts = index if isinstance(index, tuple) else (index,)
        rest = [] if any(part is ... for part in parts) else [...]
        diag = self.diag[(*parts, *rest, slice(None))]
        return DiagonalPlusLowRank(
            diag, self.factor[(*parts, *rest, slice(None), slice(None))], self.signs
        )

    def to(self, *args: Any, **kwargs: Any) -> DiagonalPlusLowRank:  # noqa: ANN401
        """Move to a device or floating-point dtype, with the arguments of `torch.Tensor.to`."""
        parts = (self.diag, self.factor, self.signs)
        return DiagonalPlusLowRank(*(part.to(*args, **kwargs) for part in parts))

    def with_diagonal(self, diag: Tensor) -> DiagonalPlusLowRank:
        """Return diag(d') + U diag(c) U^T for another d', shape (*, D), in place of d."""
        return DiagonalPlusLowRank(diag, self.factor, self.signs)

    def to_dense(self) -> Tensor:
        """Return the matrix itself, shape (*, D, D): for tests and for small D."""
        return torch.diag_embed(self.diag) + (self.factor * self.signs) @ self.factor.mT

    def diagonal(self) -> Tensor:
        """Return the diagonal of A, shape (*, D)."""
        return self.diag + (self.factor.square() * self.signs).sum(-1)

    def trace(self) -> Tensor:
        """Return tr A, shape (*)."""
        return self.diagonal().sum(-1)

    def __add__(self, other: object) -> DiagonalPlusLowRank:
        """Return A + B; one without a dimension of the batch, such as A[0], counts for all."""
        if not isinstance(other, DiagonalPlusLowRank):
            return NotImplemented
        check_same_shape(self.diag, other.diag)
        diag = self.diag + other.diag
        parts = [part for part in (self, other) if part.rank] or [self]
        factors = [part.factor.expand(*diag.shape, part.rank) for part in parts]
        if len(parts) == 1:
            return DiagonalPlusLowRank(diag, factors[0], parts[0].signs)
        signs = torch.cat([self.signs, other.signs])
        return DiagonalPlusLowRank(diag, torch.cat(factors, -1), signs)

    def __neg__(self) -> DiagonalPlusLowRank:
        return DiagonalPlusLowRank(-self.diag, self.factor, -self.signs)

    def __sub__(self, other: object) -> DiagonalPlusLowRank:
        return self + (-other) if isinstance(other, DiagonalPlusLowRank) else NotImplemented

    def add_diagonal(self, shift: float | Tensor) -> DiagonalPlusLowRank:
        """Return A + diag(shift), for a number or shape (), (D,) or (*, D); else ValueError."""
        if isinstance(shift, Tensor) and shift.shape not in ((), self.diag.shape[-1:]):
            checked("shift", shift, *self.diag.shape, finite=False)
        return self.with_diagonal(self.diag + shift)

    def scaled(self, scale: Tensor) -> DiagonalPlusLowRank:
        """Return s A for a scale s >= 0 of shape () or (*), without reading its values.

        ValueError for another shape, or for integers.
        """
        if scale.ndim or not scale.is_floating_point():
            checked("scale", scale, *self.diag.shape[:-1], finite=False)
        s = scale.unsqueeze(-1)
        factor = s.sqrt().unsqueeze(-1) * self.factor
        return DiagonalPlusLowRank(s * self.diag, factor, self.signs)

    def __mul__(self, scale: object) -> DiagonalPlusLowRank:
        """Return s A, for a number or a tensor of shape () or (*); mixed signs double the rank.

        ValueError for a number that is not finite, a tensor of another shape, or NaN in one.
        """
        if isinstance(scale, Real):
            s = float(scale)
            if not math.isfinite(s):
                raise ValueError(f"the multiple must be finite, got {s}")
            signs = self.signs if s >= 0 else -self.signs
            return DiagonalPlusLowRank(s * self.diag, abs(s) ** 0.5 * self.factor, signs)
        if not isinstance(scale, Tensor):
            return NotImplemented
        if (scale >= 0).all():
            return self.scaled(scale)
        if (scale < 0).all():
            return -self.scaled(-scale)
        checked("scale", scale, ...)
        tiny = torch.finfo(scale.dtype).tiny  # zero, with a finite gradient of its root
        return self.scaled(scale.clamp_min(tiny)) - self.scaled((-scale).clamp_min(tiny))

    __rmul__ = __mul__

    def __matmul__(self, v: object) -> Tensor:
        """Return A v. With as many dimensions as d, v is a vector; with one more, a matrix."""
        if not isinstance(v, Tensor):
            return NotImplemented
        w = as_columns(self.diag, v)
        rows = (w.mT @ self.factor) * self.signs  # row by row is the fast layout for U
        return in_shape_of(self.diag, self.diag.unsqueeze(-1) * w + (rows @ self.factor.mT).mT, v)

    def inner(self, other: DiagonalPlusLowRank) -> Tensor:
        """Return `<A, B>` = tr(A B), shape (*); batches as in A + B, else ValueError."""
        check_same_shape(self.diag, other.diag)
        low_rank = ((self.factor.mT @ other.factor).square() @ other.signs) @ self.signs
        mixed = (self.diag * (other.factor.square() @ other.signs)).sum(-1)
        return (self.diagonal() * other.diag).sum(-1) + mixed + low_rank

    def frobenius_norm_squared(self) -> Tensor:
        """Return the sum of the squared entries of A, shape (*), in O(D k^2)."""
        gram = (self.factor.mT @ self.factor) * self.signs
        low_rank = (gram * gram.mT).sum((-2, -1))
        return (self.diag * (2 * self.diagonal() - self.diag)).sum(-1) + low_rank

    def _inverse(self) -> Inverse:
        return inverse_of(self.diag, self.factor, self.signs)

    def _positive_inverse(self) -> Inverse:
        """Return the inverse of A > 0; ValueError for another A."""
        inverse = self._inverse()
        for number, kind in zip(inverse.inertia(), ("negative", "zero"), strict=True):
            if (number > 0).any():
                found = f"{int(number.max())} {kind} eigenvalues"
                raise ValueError(f"A must be positive definite, got {found}")
        return inverse

    def solve(self, b: Tensor, *, check: bool = True) -> Tensor:
        """Return A^-1 b, of the shape of b (`hosm.operators.inverses`).

        ValueError if an entry of d is 0, LinAlgError if A is singular and `check` is set.
        """
        rows = as_columns(self.diag, b).mT
        return in_shape_of(self.diag, self._inverse().solve(rows, check=check).mT, b)

    def squared_distance(self, b: Tensor) -> Tensor:
        """Return b^T A^-1 b, shape (*) or (*, m); never negative where all signs are +1.

        ValueError unless A > 0 and no entry of d is 0.
        """
        forms = self._positive_inverse().forms(as_columns(self.diag, b).mT)
        return forms.squeeze(-1) if b.ndim == self.diag.ndim else forms

    def log_determinant(self) -> Tensor:
        """Return log det A, shape (*); ValueError unless A > 0 and no entry of d is 0."""
        return self._positive_inverse().log_determinant()

    def log_density(self, b: Tensor) -> Tensor:
        """Return log N(b; 0, A) in nats, shape (*) or (*, m).

        ValueError unless A > 0 and no entry of d is 0: a singular A has no density.
        """
        inverse = self._positive_inverse()
        forms = inverse.forms(as_columns(self.diag, b).mT)
        constant = self.diag.shape[-1] * math.log(2 * math.pi)
        out = -0.5 * (forms + (inverse.log_determinant() + constant).unsqueeze(-1))
        return out.squeeze(-1) if b.ndim == self.diag.ndim else out

    def _spectrum(self) -> tuple[Tensor, Tensor]:
        """Return l (*, m) and orthonormal P (*, D, m), m = min(D, k): U c U^T = P diag(l) P^T."""
        basis, upper = torch.linalg.qr(self.factor)
        if (self.signs > 0).all():  # squares of singular values are not negative
            vectors, roots, _ = torch.linalg.svd(upper, full_matrices=False)
            return roots.square(), basis @ vectors
        values, vectors = torch.linalg.eigh((upper * self.signs) @ upper.mT)
        return values, basis @ vectors

    def _whitened(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return r, l, P with A = diag(r) (I + P diag(l) P^T) diag(r), for d > 0."""
        if not (self.diag > 0).all():
            raise ValueError(f"diag must be above 0 for a square root, got {self.diag.min():g}")
        root = self.diag.sqrt()
        unit = DiagonalPlusLowRank(self.diag, self.factor / root.unsqueeze(-1), self.signs)
        return root.unsqueeze(-1), *unit._spectrum()

    def square_root_matvec(self, v: Tensor) -> Tensor:
        """Return S v with S S^T = A, for v (*, D) or (*, D, m); ValueError unless d > 0, A >= 0.

        S = diag(d)^(1/2) (I + P ((1 + l)^(1/2) - 1) P^T) is symmetric only if d is constant.
        """
        root, values, basis = self._whitened()
        scale = values.abs().sum(-1, keepdim=True).clamp_min(1)
        if (values < -1 - 1e3 * torch.finfo(values.dtype).eps * scale).any():
            raise ValueError(f"A / d must have no negative eigenvalue, got {1 + values.min():g}")
        stretch = (1 + values).clamp_min(0).sqrt().unsqueeze(-2) - 1
        w = as_columns(self.diag, v)
        return in_shape_of(self.diag, root * (w + (((w.mT @ basis) * stretch) @ basis.mT).mT), v)

    def clip_to_psd(self, floor: float = 1e-6) -> tuple[DiagonalPlusLowRank, Tensor]:
        """Return A + B > 0 with B >= 0 (0 if not needed), and the clipped share, shape (*).

        ValueError unless 0 < floor < 1 and d is finite.
        Entries of d below `floor` times the mean of |d| are raised to it; then, if c holds -1,
        eigenvalues of diag(d)^(-1/2) A diag(d)^(-1/2) below `floor`, or below 64 roundings where
        these are more, so that U, rounded, leaves A + B positive. The share, tr B over tr B +
        tr(A + B) up to the floor, is for a diagonal A its negative over its absolute part.
        """
        if not 0 < floor < 1:
            raise ValueError(f"floor must be between 0 and 1, got {floor}")
        checked("diag", self.diag, ...)
        tiny = torch.finfo(self.diag.dtype).tiny
        lowest = (floor * self.diag.abs().mean(-1, keepdim=True)).clamp_min(tiny)
        out = DiagonalPlusLowRank(self.diag.maximum(lowest), self.factor, self.signs)
        added = (-self.diag).clamp_min(0).sum(-1)
        if (self.signs < 0).any():
            root, values, basis = out._whitened()
            deficit = (-1 - values).clamp_min(0)
            added = added + (deficit.unsqueeze(-2) * (root * basis).square()).sum((-2, -1))
            least = max(floor, 64 * torch.finfo(values.dtype).eps)
            halves = [values.clamp_min(tiny), (-values).clamp(tiny, 1 - least)]
            factor = torch.cat([root * basis * h.sqrt().unsqueeze(-2) for h in halves], -1)
            one = self.signs.new_ones(values.shape[-1])
            out = DiagonalPlusLowRank(out.diag, factor, torch.cat([one, -one]))
        return out, added / (added + out.trace().clamp_min(0))

    def function_matvec(self, function: Callable[[Tensor], Tensor], v: Tensor) -> Tensor:
        """Return f(A) v for v (*, D) or (*, D, m) and a function f of numbers.

        Exact if k = 0, d is constant in each vector, or D <= `DENSE_SIZE`; else by Lanczos.
        """
        w, d = as_columns(self.diag, v), self.diag
        if self.rank == 0 or (d == d[..., :1]).all():
            values, basis = self._spectrum()
            change = (function(d[..., :1] + values) - function(d[..., :1])).unsqueeze(-1)
            out = function(d).unsqueeze(-1) * w
            return in_shape_of(d, out + basis @ (change * (basis.mT @ w)), v)
        if d.shape[-1] > DENSE_SIZE:
            images = [lanczos_function(self, function, part, 1e-4) for part in w.unbind(-1)]
            return in_shape_of(d, torch.stack(images, -1), v)
        h, basis = torch.linalg.eigh(self.to_dense())
        return in_shape_of(d, basis @ (function(h).unsqueeze(-1) * (basis.mT @ w)), v)

    def eigenpairs(self, k: int) -> tuple[Tensor, Tensor]:
        """Return the k largest eigenvalues (*, k), descending, and eigenvectors (*, D, k).

        For large D an iteration (`spectra`) finds them, and gradients reach the eigenvalues
        only. ValueError unless k lies in 1 .. D.
        """
        size = self.diag.shape[-1]
        check_count("k", k, 1, size)
        if size <= max(DENSE_SIZE, 4 * k) or k * self.rank**2 > size**2:
            values, vectors = torch.linalg.eigh(self.to_dense())
            return values[..., -k:].flip(-1), vectors[..., -k:].flip(-1)
        with torch.no_grad():
            vectors = leading_eigenvectors(self, k)
        return (vectors * (self @ vectors)).sum(-2), vectors


def check_parts(diag: Tensor, factor: Tensor, signs: Tensor | None) -> None:
    """Check the parts of an operator.

    Args:
        diag: d, shape (*, D).
        factor: U, shape (*, D, k); k may be 0.
        signs: c, shape (k,), each +1 or -1, or None. Their values are read on a CPU only.

    Raises:
        ValueError: if they do not fit each other, are empty or not of one floating-point dtype,
            or a sign is another number.
    """
    fits = signs is None or signs.shape == factor.shape[-1:]
    if diag.ndim < 1 or diag.numel() == 0 or factor.shape[:-1] != diag.shape or not fits:
        parts = (diag, factor) if signs is None else (diag, factor, signs)
        shapes = ", ".join(str(tuple(part.shape)) for part in parts)
        raise ValueError(
            "diag, factor and signs must have shapes (*, D), (*, D, k) and (k,) and not be empty, "
            f"got {shapes}"
        )
    if diag.dtype != factor.dtype or not diag.is_floating_point():
        dtypes = f"{diag.dtype}, {factor.dtype}"
        raise ValueError(f"diag and factor must have one floating-point dtype, got {dtypes}")
    if signs is not None and (signs.dtype == torch.bool or not _all_are_signs(signs)):
        raise ValueError(f"signs must be +1 or -1, got {signs.tolist()}")


def _all_are_signs(signs: Tensor) -> bool:
    """Return whether signs on a CPU are +1 or -1; true where it takes a wait to know."""
    if signs.device.type != "cpu":
        return True
    try:
        return bool((signs.abs() == 1).all())
    except RuntimeError:  # inside torch.func.vmap
        return True


def check_same_shape(first: Tensor, second: Tensor) -> None:
    """Raise ValueError unless two operators have diagonals of one shape.

    Args:
        first: d of one of them, shape (*, D).
        second: d of the other, shape (*, D).

    Raises:
        ValueError: unless the shapes agree in all dimensions that both have.
    """
    common = min(first.ndim, second.ndim)
    if first.shape[-common:] != second.shape[-common:]:
        found = f"{tuple(first.shape)} and {tuple(second.shape)}"
        raise ValueError(f"the operators must have diag of one shape (*, D), got {found}")


def as_columns(diag: Tensor, v: Tensor) -> Tensor:
    """Return v as columns, one or more for each matrix.

    Args:
        diag: d, shape (*, D).
        v: a vector (*, D), or m of them (*, D, m), of floating-point numbers.

    Returns:
        Shape (*, D, 1) or (*, D, m).

    Raises:
        ValueError: if v has another shape or is of integers.
    """
    vector = v.shape == diag.shape
    if not (vector or v.shape[:-1] == diag.shape) or not v.is_floating_point():
        found = f"{v.dtype} of shape {tuple(v.shape)} for diag {tuple(diag.shape)}"
        raise ValueError(
            f"v must be floating-point of shape (*, D) or (*, D, m) for diag (*, D), got {found}"
        )
    return v.unsqueeze(-1) if vector else v


def in_shape_of(diag: Tensor, out: Tensor, v: Tensor) -> Tensor:
    """Return columns `out`, (*, D, m), as one vector (*, D) if v is one, like `diag`, (*, D)."""
    return out.squeeze(-1) if v.ndim == diag.ndim else out
