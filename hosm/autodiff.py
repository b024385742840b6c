"""Second-order scores by automatic differentiation of s1, the baselines of the learned s2.

The Jacobian of s1 costs D products, whatever their mode; it is symmetric at the true s1 and
symmetrised here. Its diagonal can be estimated by random probes (Hutchinson, "A stochastic
estimator of the trace", 1990). One product J v is what the `jacobian` objective needs.
"""

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["autodiff_hessian", "hutchinson_diagonal", "jacobian_vector_product"]

ScoreFunction = Callable[[Tensor], Tensor]


def jacobian_vector_product(
    score_function: ScoreFunction,
    x: Tensor,
    v: Tensor,
    step: float | None = None,
    value: Tensor | None = None,
) -> Tensor:
    """Return J v with J = d s1 / d x, without gradient.

    Args:
        score_function: s1, (n, D) -> (n, D), acting on each point alone.
        x: points, shape (n, D).
        v: directions, shape (n, D).
        step: None for exact forward mode; a length for the forward difference
            (s1(x + step v) - s1(x)) / step, which is faster for large networks.
        value: s1(x), where the difference finds it already computed.
    """
    with torch.no_grad():
        if step is None:
            return torch.func.jvp(score_function, (x,), (v,))[1]
        value = score_function(x) if value is None else value.detach()
        return (score_function(x + step * v) - value) / step


def autodiff_hessian(
    score_function: ScoreFunction, x: Tensor, chunk_size: int | None = None
) -> Tensor:
    """Return the symmetrised Jacobian of s1, shape (n, D, D), by reverse mode.

    Args:
        score_function: s1, (n, D) -> (n, D), acting on each point alone.
        x: points, shape (n, D).
        chunk_size: rows of the Jacobian computed at once; None for all D.

    Raises:
        ValueError: x is not two-dimensional, or chunk_size is below 1.
    """
    if x.ndim != 2:
        raise ValueError(f"x must have shape (n, D), got {tuple(x.shape)}")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")
    pullback = torch.func.vjp(score_function, x)[1]
    basis = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    rows = torch.func.vmap(
        lambda e: pullback(e.expand_as(x))[0], out_dims=1, chunk_size=chunk_size
    )(basis)
    return (rows + rows.mT).detach() / 2


def hutchinson_diagonal(
    score_function: ScoreFunction,
    x: Tensor,
    probes: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Estimate the diagonal of the Jacobian of s1, shape (n, D), as the mean of v * (J^T v).

    Unbiased, since E[v_i sum_j J_ji v_j] = J_ii for fair signs v.

    Args:
        score_function: s1, (n, D) -> (n, D), acting on each point alone.
        x: points, shape (n, D).
        probes: number of sign vectors v for each point.
        generator: source of the signs.

    Raises:
        ValueError: probes is below 1.
    """
    if probes < 1:
        raise ValueError(f"probes must be at least 1, got {probes}")
    pullback = torch.func.vjp(score_function, x)[1]
    total = torch.zeros_like(x)
    for _ in range(probes):
        v = torch.randint(0, 2, x.shape, generator=generator, device=x.device).to(x.dtype) * 2 - 1
        total += v * pullback(v)[0].detach()
    return total / probes
