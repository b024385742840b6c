r"""The products of a factor that every Frobenius objective reads, in one pass each way.

For A = diag(d) + U diag(c) U^T the squared norm, the trace and the quadratic forms v^T A v are
functions of d and of

$$q_i = \sum_k c_k U_{ik}^2, \qquad P = U^T W, \qquad G = U^T U,$$

with the vectors v as columns of W (`hosm.operators`; Meng, Song, Li and Ermon, NeurIPS 2021,
theorem 2, expanded). U is by far the largest tensor of a training step's loss, and its products
are bound by memory: their gradient

$$\partial U = U (\partial G + \partial G^T) + W (\partial P)^T + 2\,\mathrm{diag}(\partial q)\,U
\,\mathrm{diag}(c)$$

is written here into one tensor, where automatic differentiation would write and add several.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["Products", "factor_products"]


class Products(NamedTuple):
    """q, shape (*, D); P, shape (*, k, m); G, shape (*, k, k)."""

    squares: Tensor
    images: Tensor
    gram: Tensor


class _FactorProducts(torch.autograd.Function):
    """q, P and G of U and W by rows, (*, k, D) and (*, m, D): the layout of a network's output."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        rows: Tensor, vectors: Tensor, signs: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        if signs is None:
            squares = torch.linalg.vecdot(rows, rows, dim=-2)
        else:
            squares = signs @ rows.square()
        return squares, rows @ vectors.mT, rows @ rows.mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:  # noqa: ANN401
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:  # noqa: ANN401
        rows, vectors, signs = ctx.saved_tensors
        squares, images, gram = grads
        first = second = None
        if ctx.needs_input_grad[0]:
            signed = rows if signs is None else signs.unsqueeze(-1) * rows
            first = (gram + gram.mT) @ rows + images @ vectors
            first = first.addcmul_(signed, squares.unsqueeze(-2), value=2)
        if ctx.needs_input_grad[1]:
            second = images.mT @ rows
        return first, second, None


def factor_products(factor: Tensor, vectors: Tensor, signs: Tensor | None) -> Products:
    """Return q, P and G.

    Args:
        factor: U, shape (*, D, k).
        vectors: the columns of W, as rows of shape (*, m, D): far faster than as columns.
        signs: c, shape (k,), each +1 or -1, without gradient; None where all are +1.
    """
    return Products(*_FactorProducts.apply(factor.mT, vectors, signs))
