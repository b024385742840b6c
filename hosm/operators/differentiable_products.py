r"""The products of a factor that every Frobenius objective reads, in one pass each way.

For A = diag(d) + U diag(c) U^T the squared norm, the trace and the quadratic forms v^T A v are
functions of d and of

$$q_i = \sum_k c_k U_{ik}^2, \qquad P = U^T W, \qquad G = U^T U,$$

with the vectors v as columns of W (`hosm.operators`; Meng, Song, Li and Ermon, NeurIPS 2021,
theorem 2, expanded). U is by far the largest tensor of a training step's loss, and its products
are bound by memory: their gradient

$$\partial U = U (\partial G + \partial G^T) + W (\partial P)^T + 2\,\mathrm{diag}(\partial q)\,U
\,\mathrm{diag}(c)$$

is written here into one tensor, where automatic differentiation would write and add several. So
is that of the image y = U diag(c) U^T v, which the `jacobian` target reads:

$$\partial U = (v (U^T \partial y)^T + \partial y (U^T v)^T)\,\mathrm{diag}(c).$$
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["Products", "factor_image", "factor_products"]


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


class _FactorImage(torch.autograd.Function):
    """y and c U^T v of (U, v, c), U by rows, (*, k, D); the second output without gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor, v: Tensor, signs: Tensor | None) -> tuple[Tensor, Tensor]:
        weights = rows @ v.unsqueeze(-2).mT
        weights = weights if signs is None else signs.unsqueeze(-1) * weights
        return (weights.mT @ rows).squeeze(-2), weights

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:  # noqa: ANN401
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, image: Tensor, _: Tensor) -> tuple[Tensor | None, Tensor | None, None]:  # noqa: ANN401
        rows, v, signs = ctx.saved_tensors
        pair = torch.stack([image, v], -2)
        weights = rows @ pair.mT
        weights = weights if signs is None else signs.unsqueeze(-1) * weights
        first = weights.flip(-1) @ pair if ctx.needs_input_grad[0] else None
        second = (weights[..., :1].mT @ rows).squeeze(-2) if ctx.needs_input_grad[1] else None
        return first, second, None


def factor_image(factor: Tensor, v: Tensor, signs: Tensor | None) -> Tensor:
    """Return U diag(c) U^T v, shape (*, D).

    Args:
        factor: U, shape (*, D, k).
        v: shape (*, D).
        signs: c as in `factor_products`.
    """
    return _FactorImage.apply(factor.mT, v, signs)[0]
