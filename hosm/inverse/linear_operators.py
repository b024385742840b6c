r"""Linear measurements A x, given by the product with A and the product with its transpose.

A never becomes a matrix. What a pair of functions must satisfy is

$$\langle A x, u \rangle = \langle x, A^T u \rangle \quad \text{for all } x \text{ and } u,$$

and the constructor tests it, and that A is linear, on random vectors (the dot-product test of
Claerbout, "Earth Soundings Analysis: Processing versus Inversion", 1992, chapter 5): a wrong
transpose makes a wrong posterior without any other sign.

The squares of the entries of A, where their products are known, make the diagonal of
A diag(d) A^T, which is the preconditioner of `hosm.inverse.conditioning`: exact for masks, for
averages over blocks, and for all operators whose rows share no coordinate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hosm.checks import check_count, checked

__all__ = ["LinearOperator", "blur", "inpainting", "projections", "super_resolution"]

Map = Callable[[Tensor], Tensor]
PROBES = 8  # random vectors of the test of a pair of functions
ROUNDINGS = 1e4  # how many of them the two inner products may differ by, relative to the norms


class LinearOperator:
    """The map A from R^D to R^m, with its transpose.

    Args:
        forward: returns A x, shape (k, m), for points x of shape (k, D).
        adjoint: returns A^T u, shape (k, D), for u of shape (k, m).
        dimension: D.
        squares: returns the products with the matrix of squared entries, sum_j A_ij^2 d_j, shape
            (k, m), for d of shape (k, D); where it is not known, their mean stands for them.
        dtype: of the vectors that the pair is tested on.
        device: of these vectors.

    Raises:
        ValueError: the functions return other shapes, `forward` is not linear, or `adjoint` is not
            its transpose.
    """

    def __init__(
        self,
        forward: Map,
        adjoint: Map,
        dimension: int,
        *,
        squares: Map | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> None:
        check_count("dimension", dimension)
        self.forward, self.adjoint, self._squares = forward, adjoint, squares
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(PROBES, dimension, generator=generator).to(device, dtype)
        image = checked("forward(x)", forward(x), PROBES, "m")
        self.dimension, self.measurements = dimension, image.shape[1]
        u = torch.randn(image.shape, generator=generator).to(device, dtype)
        back = checked("adjoint(u)", adjoint(u), PROBES, dimension)
        self._check_linear(x, image)
        _check_transpose(x, image, u, back)
        self.mean_square = float(back.square().sum() / u.square().sum()) / dimension

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dimension} -> {self.measurements})"

    def _check_linear(self, x: Tensor, image: Tensor) -> None:
        """Raise ValueError unless A (x - 2 x') = A x - 2 A x'."""
        gap = self.forward(x - 2 * x.flip(0)) - (image - 2 * image.flip(0))
        bound = ROUNDINGS * torch.finfo(x.dtype).eps * float(image.norm())
        if not float(gap.norm()) <= bound:
            found = f"A (x - 2 x') that differs from A x - 2 A x' by {float(gap.norm()):.3g}"
            raise ValueError(f"forward must be linear, got {found}")

    def squares(self, d: Tensor) -> Tensor:
        """Return the diagonal of A diag(d) A^T, or its mean where the squares are not known.

        Args:
            d: shape (k, D).

        Returns:
            Shape (k, m).
        """
        if self._squares is not None:
            return self._squares(d)
        mean = self.mean_square * d.sum(1, keepdim=True)
        return mean.expand(-1, self.measurements)

    def columns(self, factor: Tensor) -> Tensor:
        """Return A U.

        Args:
            factor: U, shape (k, D, r); r may be 0.

        Returns:
            Shape (k, m, r).
        """
        count, dimension, rank = factor.shape
        if not rank:
            return factor.new_zeros(count, self.measurements, 0)
        flat = factor.mT.reshape(count * rank, dimension)
        return self.forward(flat).unflatten(0, (count, rank)).mT

    @classmethod
    def of(
        cls,
        physics: Any,  # noqa: ANN401
        shape: Sequence[int],
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> LinearOperator:
        """Return the operator of an object with methods `A` and `A_adjoint`, such as deepinv's.

        Args:
            physics: its methods take and return batches of pictures or other arrays.
            shape: of one x, for example (1, 28, 28), without the batch.
            dtype: of the vectors that the pair is tested on.
            device: of these vectors.

        Raises:
            ValueError: the methods are no linear map and its transpose.
        """
        one = torch.zeros(1, *shape, dtype=dtype, device=device)
        seen = physics.A(one).shape[1:]
        return cls(
            lambda x: physics.A(x.unflatten(1, tuple(shape))).flatten(1),
            lambda u: physics.A_adjoint(u.unflatten(1, tuple(seen))).flatten(1),
            math.prod(shape),
            dtype=dtype,
            device=device,
        )


def _check_transpose(x: Tensor, image: Tensor, u: Tensor, back: Tensor) -> None:
    """Raise ValueError unless (A x) . u = x . (A^T u), up to rounding, for rows x and u."""
    ahead, behind = (image * u).sum(1), (x * back).sum(1)
    size = image.norm(dim=1) * u.norm(dim=1) + x.norm(dim=1) * back.norm(dim=1)
    if not bool(((ahead - behind).abs() <= ROUNDINGS * torch.finfo(x.dtype).eps * size).all()):
        worst = int((ahead - behind).abs().argmax())
        found = (
            f"(A x) . u = {float(ahead[worst]):.6g} and x . (A^T u) = {float(behind[worst]):.6g}"
        )
        raise ValueError(f"adjoint must be the transpose of forward, got {found}")


def projections(matrix: Tensor) -> LinearOperator:
    """Return the operator of a matrix A, for example of a few random projections.

    Args:
        matrix: A, finite, shape (m, D).

    Raises:
        ValueError: another shape, or a value that is not finite.
    """
    checked("matrix", matrix, "m", "D")

    def given(x: Tensor) -> Tensor:
        return matrix.to(x)

    return LinearOperator(
        lambda x: x @ given(x).mT,
        lambda u: u @ given(u),
        matrix.shape[1],
        squares=lambda d: d @ given(d).square().mT,
        device=matrix.device,
    )


def inpainting(known: Tensor) -> LinearOperator:
    """Return the operator that keeps some coordinates.

    Args:
        known: which, truth values of shape (D,).

    Raises:
        ValueError: `known` has another shape or type, or none is known.
    """
    if known.ndim != 1 or known.dtype != torch.bool or not bool(known.any()):
        found = f"{int(known.sum())} of {known.dtype}, shape {tuple(known.shape)}"
        raise ValueError(
            f"known must be truth values of shape (D,), some of them true, got {found}"
        )
    places = known.nonzero().squeeze(1)

    def keep(x: Tensor) -> Tensor:
        return x[:, places]

    def spread(u: Tensor) -> Tensor:
        return u.new_zeros(len(u), len(known)).index_copy(1, places, u)

    return LinearOperator(keep, spread, len(known), squares=keep, device=known.device)


def super_resolution(shape: Sequence[int], factor: int) -> LinearOperator:
    """Return the operator that averages over blocks of a grid, which is thereby made coarse.

    Args:
        shape: of the grid, one or more sizes, of product D; points are read in row-major order.
        factor: side of a block, a divisor of each size.

    Raises:
        ValueError: the factor does not divide a size.
    """
    check_count("factor", factor)
    if wrong := [size for size in shape if size % factor]:
        raise ValueError(f"factor must divide each size of the grid, got {factor} for {wrong[0]}")
    blocks = [size for each in shape for size in (each // factor, factor)]
    within = [*range(2, 2 * len(shape) + 1, 2)]
    count = factor ** len(shape)

    def average(x: Tensor) -> Tensor:
        return x.reshape(len(x), *blocks).mean(within).flatten(1)

    def spread(u: Tensor) -> Tensor:
        coarse = u.reshape(len(u), *(part for size in blocks[::2] for part in (size, 1)))
        return (coarse / count).expand(len(u), *blocks).flatten(1)

    return LinearOperator(average, spread, math.prod(shape), squares=lambda d: average(d) / count)


def blur(shape: Sequence[int], kernel: Tensor) -> LinearOperator:
    """Return the convolution of a line or a picture with a kernel, zero beyond the edges.

    Args:
        shape: of the grid, (length,) or (height, width), of product D.
        kernel: finite, with as many dimensions as the grid, of odd sizes.

    Raises:
        ValueError: another number of dimensions, or a kernel of even size.
    """
    checked("kernel", kernel, *"hw"[: len(shape)])
    if len(shape) not in (1, 2) or any(size % 2 == 0 for size in kernel.shape):
        sizes = f"{tuple(kernel.shape)} for a grid {tuple(shape)}"
        raise ValueError(
            f"kernel must have odd sizes, for a grid of 1 or 2 dimensions, got {sizes}"
        )
    functional, line = nn.functional, len(shape) == 1
    convolve = functional.conv1d if line else functional.conv2d
    transposed = functional.conv_transpose1d if line else functional.conv_transpose2d
    weights = kernel[None, None].flip(*range(2, 2 + len(shape)))  # torch's is a correlation
    edge = [size // 2 for size in kernel.shape]

    def of(function: Callable[..., Tensor], weight: Tensor) -> Map:
        def apply(x: Tensor) -> Tensor:
            grid = x.reshape(len(x), 1, *shape)
            return function(grid, weight.to(x), padding=edge).flatten(1)

        return apply

    return LinearOperator(
        of(convolve, weights),
        of(transposed, weights),
        math.prod(shape),
        squares=of(convolve, weights.square()),
        device=kernel.device,
    )
