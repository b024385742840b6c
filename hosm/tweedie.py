r"""Moments of the posterior from scores of any order, and back.

Let x~ = x + sigma z with z ~ N(0, I), and let s_n = grad^n log q_sigma(x~), a symmetric tensor
with D^n entries. Tweedie's formula (Meng, Song, Li and Ermon, "Estimating High Order Gradients of
the Data Distribution by Denoising", NeurIPS 2021, equation 4) gives the mean of x given x~, their
theorem 1 the second moment, and their theorem 3 moments of any order, through the recursion
of Lemma 1. It is solved by cumulants: given x~, x has a density proportional to
p(x) exp(-|x|^2 / 2 sigma^2 + x . x~ / sigma^2), an exponential family with natural parameter
x~ / sigma^2 and log-normaliser log q_sigma(x~) + |x~|^2 / 2 sigma^2 up to a constant, so that

    kappa_n = sigma^(2n) grad^n (log q_sigma(x~) + |x~|^2 / 2 sigma^2), that is
    kappa_1 = x~ + sigma^2 s_1,  kappa_2 = sigma^2 I + sigma^4 s_2,
    kappa_n = sigma^(2n) s_n for n > 2.

With pi over the partitions of the indices {1, .., n} into blocks B,

    E[x_(1) .. x_(n) | x~] = sum_pi prod_(B in pi) kappa_|B|, at the indices of B;

the central moment drops the partitions with a block of one index; and, as the partition with
one block holds kappa_n alone, moments give back the cumulants and the scores, order by order.
A covariance being kappa_2, s_2 + I / sigma^2 is positive semi-definite.

Units: x, x~ and sigma share the data's, s_n has their inverse to the n, kappa_n their power n.
Points and scores that are not finite pass through; sigma is always checked.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from hosm.checks import check_count, checked
from hosm.noise import Scale, broadcast_scale, check_noise_scale
from hosm.operators import DiagonalPlusLowRank

__all__ = [
    "posterior_central_moment",
    "posterior_covariance",
    "posterior_cumulants",
    "posterior_mean",
    "posterior_moment",
    "scores_from_moments",
]

Matrix = TypeVar("Matrix", Tensor, DiagonalPlusLowRank)


def _check_orders(name: str, tensors: Sequence[Tensor], x_noisy: Tensor) -> None:
    """Raise ValueError unless tensor number k, from 1, has shape (n, D, .., D) with k times D."""
    checked("x_noisy", x_noisy, "n", "D", finite=False)
    if not len(tensors):
        raise ValueError(f"{name} must hold 1 tensor or more, got none")
    n, dimension = x_noisy.shape
    for order, tensor in enumerate(tensors, 1):
        checked(f"{name}[{order - 1}]", tensor, n, *(dimension,) * order, finite=False)


def _eye(like: Tensor) -> Tensor:
    """Return I, shape (D, D), for the D, dtype and device of a tensor of shape (*, D)."""
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)


def posterior_mean(x_noisy: Tensor, s1: Tensor, sigma: Scale) -> Tensor:
    """Return m = E[x | x~] = x~ + sigma^2 s1, shape (n, D): Tweedie's formula, equation 4.

    Args:
        x_noisy: noisy points x~, shape (n, D).
        s1: first-order scores at x~, shape (n, D).
        sigma: standard deviation of the noise, a number, or one for each point, shape (n,).

    Raises:
        ValueError: if the shapes differ or are empty, a tensor is of integers, or sigma is not
            positive and finite.
    """
    checked("x_noisy", x_noisy, "n", "D", finite=False)
    checked("s1", s1, *x_noisy.shape, finite=False)
    check_noise_scale(sigma, len(x_noisy))
    return x_noisy + broadcast_scale(sigma) ** 2 * s1


def posterior_covariance(s2: Matrix, sigma: Scale) -> Matrix:
    """Return C = Cov[x | x~] = sigma^4 s2 + sigma^2 I, in the form that s2 has (theorem 1).

    Args:
        s2: second-order scores at x~, shape (n, D, D), or such an operator, which then is not
            made dense: it needs `diagonal`, a product with numbers, and a sum.
        sigma: standard deviation of the noise, a number, or one for each point, shape (n,).

    Returns:
        C, shape (n, D, D); as an operator, of the rank of s2.

    Raises:
        ValueError: if s2 has another shape or is of integers, or sigma is not positive and
            finite. Symmetry is not checked.
    """
    if not isinstance(s2, Tensor):
        diagonal = torch.ones_like(checked("diag of s2", s2.diagonal(), "n", "D", finite=False))
        check_noise_scale(sigma, len(diagonal))
        shift = DiagonalPlusLowRank.from_diagonal(diagonal * broadcast_scale(sigma) ** 2)
        return s2 * sigma**4 + shift
    checked("s2", s2, "n", "D", s2.shape[1] if s2.ndim > 1 else "D", finite=False)
    check_noise_scale(sigma, len(s2))
    scale = broadcast_scale(sigma, s2.ndim)
    return scale**4 * s2 + scale**2 * _eye(s2)


def posterior_cumulants(x_noisy: Tensor, scores: Sequence[Tensor], sigma: Scale) -> list[Tensor]:
    """Return the cumulants kappa_1, .., kappa_n of x given x~; theorem 3 in closed form.

    Args:
        x_noisy: noisy points x~, shape (n, D).
        scores: s_1, s_2, .. at x~, shapes (n, D), (n, D, D), ..
        sigma: standard deviation of the noise, a number, or one for each point, shape (n,).

    Returns:
        One tensor for each score, of the same shape.

    Raises:
        ValueError: if shapes do not fit or are empty, a tensor is of integers, or sigma is not
            positive and finite.
    """
    _check_orders("scores", scores, x_noisy)
    check_noise_scale(sigma, len(x_noisy))
    cumulants = [broadcast_scale(sigma, s.ndim) ** (2 * s.ndim - 2) * s for s in scores]
    cumulants[0] = x_noisy + cumulants[0]
    if len(scores) > 1:
        cumulants[1] = cumulants[1] + broadcast_scale(sigma, 3) ** 2 * _eye(x_noisy)
    return cumulants


def _set_partitions(items: str) -> Iterator[list[str]]:
    """Yield the partitions of the letters of `items` into blocks."""
    if not items:
        yield []
        return
    for partition in _set_partitions(items[1:]):
        yield [items[0], *partition]
        for i, block in enumerate(partition):
            yield [*partition[:i], items[0] + block, *partition[i + 1 :]]


def _partition_sum(
    order: int, cumulants: Sequence[Tensor], keep: Callable[[list[str]], bool]
) -> Tensor:
    """Return the sum over the partitions that pass `keep`, shape (n, D, .., D)."""
    n, dimension = cumulants[0].shape
    total = cumulants[0].new_zeros(n, *(dimension,) * order)
    letters = string.ascii_uppercase[:order]
    for blocks in filter(keep, _set_partitions(letters)):
        equation = ",".join("n" + block for block in blocks) + "->n" + letters
        total = total + torch.einsum(equation, *(cumulants[len(b) - 1] for b in blocks))
    return total


def _moment(
    order: int,
    x_noisy: Tensor,
    scores: Sequence[Tensor],
    sigma: Scale,
    keep: Callable[[list[str]], bool],
) -> Tensor:
    check_count("order", order, 1, min(len(scores), len(string.ascii_uppercase)))
    cumulants = posterior_cumulants(x_noisy, scores[:order], sigma)
    return _partition_sum(order, cumulants, keep)


def posterior_moment(
    order: int, x_noisy: Tensor, scores: Sequence[Tensor], sigma: Scale
) -> Tensor:
    """Return E[x (x) .. (x) x | x~], the raw moment f_n of theorem 3.

    Args:
        order: n, from 1 to the number of scores. The cost is Bell(n) products of D^n entries.
        x_noisy: noisy points x~, shape (n, D).
        scores: s_1, s_2, .. at x~, symmetric, shapes (n, D), (n, D, D), ..
        sigma: standard deviation of the noise, a number, or one for each point, shape (n,).

    Returns:
        The moment, shape (n, D, .., D) with `order` times D.

    Raises:
        ValueError: if the order is out of range; otherwise as `posterior_cumulants`.
    """
    return _moment(order, x_noisy, scores, sigma, lambda blocks: True)


def posterior_central_moment(
    order: int, x_noisy: Tensor, scores: Sequence[Tensor], sigma: Scale
) -> Tensor:
    """Return E[r (x) .. (x) r | x~] for the residual r = x - E[x | x~], as the module says.

    Args:
        order: n, from 1 to the number of scores; the first is 0.
        x_noisy: noisy points x~, shape (n, D).
        scores: s_1, s_2, .. at x~, symmetric, shapes (n, D), (n, D, D), ..
        sigma: standard deviation of the noise, a number, or one for each point, shape (n,).

    Returns:
        The central moment, shape (n, D, .., D) with `order` times D.

    Raises:
        ValueError: if the order is out of range; otherwise as `posterior_cumulants`.
    """
    return _moment(order, x_noisy, scores, sigma, lambda blocks: min(map(len, blocks)) > 1)


def scores_from_moments(x_noisy: Tensor, moments: Sequence[Tensor], sigma: Scale) -> list[Tensor]:
    """Return the scores s_1, .., s_n of q_sigma, given the raw moments of x given x~.

    The inverse of `posterior_moment`. Orders above 2 subtract nearly equal numbers where the
    posterior is narrow beside its mean: give moments in float64.

    Args:
        x_noisy: noisy points x~, shape (n, D).
        moments: E[x | x~], E[x x^T | x~], .., symmetric, shapes (n, D), (n, D, D), ..
        sigma: standard deviation of the noise, a number, or one for each point, shape (n,).

    Returns:
        One score for each moment, of the same shape.

    Raises:
        ValueError: if shapes do not fit or are empty, a tensor is of integers, or sigma is not
            positive and finite.
    """
    _check_orders("moments", moments, x_noisy)
    check_noise_scale(sigma, len(x_noisy))
    cumulants: list[Tensor] = [moments[0]]
    for order, moment in enumerate(moments[1:], 2):
        several = _partition_sum(order, cumulants, lambda blocks: len(blocks) > 1)
        cumulants.append(moment - several)
    shifted = [cumulants[0] - x_noisy, *cumulants[1:]]
    if len(moments) > 1:
        shifted[1] = shifted[1] - broadcast_scale(sigma, 3) ** 2 * _eye(x_noisy)
    return [
        kappa / broadcast_scale(sigma, kappa.ndim) ** (2 * kappa.ndim - 2) for kappa in shifted
    ]
