"""Second-order scores by automatic differentiation of s1, the baselines of the learned s2.

J = d s1 / d x is symmetric at the true s1; that of a learned one is symmetrised to
A = (J + J^T) / 2. A takes D products J v (forward mode) or J^T v (reverse mode); its diagonal
can be estimated by random signs (Hutchinson, "A stochastic estimator of the trace", 1990). The
posterior covariance sigma^2 (I + sigma^2 A) has the eigenvectors of A, and products alone give
its leading ones (Manor and Michaeli, "On the Posterior Distribution in Denoising", ICLR 2024,
by subspace iteration; here by block Lanczos with full reorthogonalisation: Lanczos 1950; Parlett,
"The Symmetric Eigenvalue Problem", 1980, chapter 13).
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple
from warnings import warn
from weakref import WeakSet

import torch
from torch import Generator, Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hosm.checks import (
    check_choice,
    check_count,
    check_one_shape,
    check_probabilities,
    checked,
)
from hosm.noise import rademacher

__all__ = [
    "Eigenpairs",
    "autodiff_hessian",
    "hutchinson_diagonal",
    "leading_eigenpairs",
    "pulled_back",
    "vector_jacobian_product",
]

ScoreFunction = Callable[[Tensor], Tensor]
Mode = Literal["reverse", "forward", "both"]


class Eigenpairs(NamedTuple):
    """The k leading eigenvalues theta, descending, and eigenvectors v of A at each of n points."""

    values: Tensor  # theta, shape (n, k)
    vectors: Tensor  # v, shape (n, D, k): orthonormal, the largest entry of each positive
    residual: Tensor  # |A v - theta v|, shape (n, k): A has an eigenvalue as near to theta


def _check_points(x: Tensor, **others: Tensor) -> None:
    checked("x", x, "n", "D", finite=False)
    check_one_shape("(n, D)", x=x, **others)


def vector_jacobian_product(score_function: ScoreFunction, x: Tensor, v: Tensor) -> Tensor:
    """Return J^T v, shape (n, D), without gradient, at about the cost of another evaluation.

    Args:
        score_function: s1, (n, D) -> (n, D), acting on each point alone.
        x: points, shape (n, D).
        v: directions, shape (n, D).

    Raises:
        ValueError: a tensor of another shape or type.
    """
    _check_points(x, v=v)
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        s1 = score_function(x)
    _check_points(x, s1=s1)
    return pulled_back(s1, x, v, keep=False)


def pulled_back(s1: Tensor, x: Tensor, v: Tensor, keep: bool = True) -> Tensor:
    """Return J^T v, shape (n, D), without gradient, from an evaluation of s1 that exists already.

    Args:
        s1: scores at x, shape (n, D), with their graph; where they have none, J is zero.
        x: points, shape (n, D), that require a gradient.
        v: directions, shape (n, D).
        keep: whether to keep the graph for another backward pass; by default it is kept.

    Raises:
        RuntimeError: x requires no gradient, or `torch.func` transforms the call.
    """
    if not s1.requires_grad:
        return torch.zeros_like(x)
    return torch.autograd.grad(s1, x, v, retain_graph=keep, materialize_grads=True)[0]


def _products(score_function: ScoreFunction, x: Tensor, mode: Mode) -> ScoreFunction:
    """Return the map v -> J v (forward), J^T v (reverse) or A v (both), for v (n, D)."""
    check_choice("mode", mode, ("reverse", "forward", "both"))

    def forward(v: Tensor) -> Tensor:
        pair = torch.func.jvp(score_function, (x,), (v,))
        _check_points(x, s1=pair[0])
        return pair[1]

    if mode == "forward":
        return forward
    pair = torch.func.vjp(score_function, x)
    _check_points(x, s1=pair[0])
    pullback = pair[1]
    if mode == "reverse":
        return lambda v: pullback(v)[0]
    return lambda v: (forward(v) + pullback(v)[0]) / 2


class _MemoryMeter(TorchDispatchMode):
    """Counts the bytes `alive` of tensors made while it is on, and the `peak` that they need.

    The memory that kernels allocate for themselves is not seen. It is bounded by copies of their
    operands, and for a convolution by its largest operand unfolded into the windows of the filter.
    """

    def __init__(self) -> None:
        super().__init__()
        self.made: WeakSet[UntypedStorage] = WeakSet()
        self.alive = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        out = func(*args, **(kwargs or {}))
        given, got = ([y for y in tree_leaves(z) if isinstance(y, Tensor)] for z in (args, out))
        unseen = sum(y.nbytes for y in given if y.untyped_storage() in self.made)
        if "convolution" in (name := func.__name__):
            filters = args[2 if "backward" in name else 1]
            unseen += max(y.nbytes for y in given + got) * filters.shape[2:].numel()
        old, new = ({y.untyped_storage() for y in group} for group in (given, got))
        self.made |= new - old  # the others are of views, and of results in place
        self.alive = sum(storage.nbytes() for storage in self.made)
        self.peak = max(self.peak, self.alive + unseen)
        return out


def _jacobian_rows(product: ScoreFunction, x: Tensor, start: int, stop: int) -> Tensor:
    """Return the products with the unit vectors e_i, start <= i < stop: (n, stop - start, D)."""
    basis = x.new_zeros(stop - start, x.shape[1])
    basis.diagonal(start).fill_(1)
    return torch.func.vmap(lambda e: product(e.expand_as(x)), out_dims=1)(basis)


def _fitting_chunk(score_function: ScoreFunction, x: Tensor, mode: Mode, limit: int) -> int:
    """Return how many rows at once keep `autodiff_hessian` within `limit` bytes."""
    check_count("memory_limit", limit)
    with _MemoryMeter() as meter:
        product = _products(score_function, x, mode)
        held, evaluation, meter.peak = meter.alive, meter.peak, meter.alive
        _jacobian_rows(product, x, 0, 1)
    row, fixed = meter.peak - held, x.nbytes * x.shape[1] + held
    least = fixed + max(row, evaluation - held)
    if limit < least:
        raise ValueError(
            f"memory_limit must be {least} bytes or more, for the result and one row, got {limit}"
        )
    return (limit - fixed) // row


def autodiff_hessian(
    score_function: ScoreFunction,
    x: Tensor,
    chunk_size: int | None = None,
    *,
    mode: Mode = "reverse",
    memory_limit: int | None = None,
) -> Tensor:
    """Return A, the symmetrised Jacobian of s1, shape (n, D, D), without gradient.

    Args:
        score_function: s1, (n, D) -> (n, D), acting on each point alone.
        x: points, shape (n, D).
        chunk_size: rows of the Jacobian computed at once; None for all D.
        mode: of the products: `reverse` (keeps an evaluation of s1), `forward` or their mean.
        memory_limit: bytes to allocate at most, for the result, the evaluation kept and a chunk
            of rows, in place of chunk_size. What a network needs is measured: one row is
            computed and its tensors are counted, with a bound on what kernels allocate unseen. If
            not even that row fits, this trial exceeds the limit before the error is raised.

    Raises:
        ValueError: x or s1(x) of another shape or type; mode unknown; chunk_size or memory_limit
            below 1, or both given; a memory_limit too small for one row.
    """
    _check_points(x)
    if chunk_size is not None and memory_limit is not None:
        raise ValueError(f"chunk_size must be None where memory_limit is given, got {chunk_size}")
    size = x.shape[1]
    with torch.no_grad():
        if memory_limit is not None:
            chunk_size = _fitting_chunk(score_function, x, mode, memory_limit)
        chunk = size if chunk_size is None else chunk_size
        check_count("chunk_size", chunk)
        product, out = _products(score_function, x, mode), x.new_empty(*x.shape, size)
        for i in range(0, size, chunk):
            out[:, i : i + chunk] = _jacobian_rows(product, x, i, min(i + chunk, size))
        for i in range(0, size, chunk):  # symmetrise in place
            right, below = out[:, i : i + chunk, i:], out[:, i:, i : i + chunk].mT
            mean = (right + below).div_(2)
            right.copy_(mean)
            below.copy_(mean)
    return out


def hutchinson_diagonal(
    score_function: ScoreFunction, x: Tensor, probes: int, generator: Generator | None = None
) -> Tensor:
    """Estimate the diagonal of J, shape (n, D), as the mean of v * (J^T v), without gradient.

    Unbiased, since E[v_i sum_j J_ji v_j] = J_ii for fair signs v.

    Args:
        score_function: s1, (n, D) -> (n, D), acting on each point alone.
        x: points, shape (n, D).
        probes: number of sign vectors v for each point.
        generator: source of the signs.

    Raises:
        ValueError: x or s1(x) of another shape or type, or probes below 1.
    """
    _check_points(x)
    check_count("probes", probes)
    with torch.no_grad():
        total, product = torch.zeros_like(x), _products(score_function, x, "reverse")
        for _ in range(probes):
            v = rademacher(x, generator)
            total += v * product(v)
    return total / probes


def _orthonormal_extension(basis: Tensor, block: Tensor, generator: Generator | None) -> Tensor:
    """Return orthonormal columns (n, D, b), normal to `basis`, that add `block` to its span.

    Columns that add nothing, as at an invariant subspace, are replaced by random ones.
    """
    kind, noise = torch.finfo(block.dtype), torch.empty_like(block)
    for _ in range(3):  # twice is enough (Parlett, section 6.9), and once more for random columns
        block = torch.nn.functional.normalize(block, dim=-2, eps=kind.tiny)
        block, upper = torch.linalg.qr(block - basis @ (basis.mT @ block))
        lost = upper.diagonal(dim1=-2, dim2=-1).abs() < 100 * kind.eps
        block = torch.where(lost.unsqueeze(-2), noise.normal_(generator=generator), block)
    return block


def leading_eigenpairs(
    score_function: ScoreFunction,
    x: Tensor,
    k: int,
    *,
    steps: int | None = None,
    tolerance: float | None = None,
    iterations: int = 300,
    mode: Mode = "both",
    generator: Generator | None = None,
) -> Eigenpairs:
    """Return the k largest eigenvalues and their eigenvectors of A, without gradient.

    The Krylov space grows from k random vectors, so that it meets every copy of an eigenvalue
    (one vector would meet a single one), by the k residuals; when full, it restarts from its best
    half (Wu and Simon, "Thick-restart Lanczos", 2000). Holds 2 n D `steps` numbers, never D x D.

    Args:
        score_function: s1, (n, D) -> (n, D), acting on each point alone.
        x: points, shape (n, D).
        k: number of pairs, 1 to D.
        steps: most dimensions of the Krylov space, min(D, 2 k) to D; min(D, 8 k + 20) if None.
        tolerance: residual to stop at, over the largest |eigenvalue|; if None, epsilon^(2/3).
        iterations: most products with k vectors; a warning tells where they do not suffice.
        mode: `both`, or where J is symmetric `forward` or `reverse` at half the cost.
        generator: source of the random vectors.

    Raises:
        ValueError: an argument out of range, x or s1(x) of another shape or type, J not finite.
    """
    _check_points(x)
    size = x.shape[1]
    check_count("k", k, 1, size)
    steps = min(size, 8 * k + 20) if steps is None else steps
    check_count("steps", steps, min(size, 2 * k), size)
    check_count("iterations", iterations)
    tolerance = torch.finfo(x.dtype).eps ** (2 / 3) if tolerance is None else tolerance
    check_probabilities("tolerance", [tolerance])
    with torch.no_grad():
        product = torch.func.vmap(_products(score_function, x, mode), -1, -1)
        basis, image, rest = x[..., None][..., :0], x[..., None][..., :0], x.new_zeros(*x.shape, k)
        for _ in range(iterations):
            block = _orthonormal_extension(basis, rest[..., : size - basis.shape[-1]], generator)
            basis, image = torch.cat([basis, block], -1), torch.cat([image, product(block)], -1)
            T = basis.mT @ image
            if not bool(T.isfinite().all()):
                raise ValueError("the Jacobian must be finite, got one that is not")
            values, weights = (part.flip(-1) for part in torch.linalg.eigh((T + T.mT) / 2))
            vectors = basis @ weights[..., :k]
            rest = image @ weights[..., :k] - vectors * values[:, None, :k]
            residual, bound = rest.norm(dim=-2), tolerance * values.abs().amax(-1, keepdim=True)
            if basis.shape[-1] == size or (residual <= bound).all():
                break
            if basis.shape[-1] + k > steps < size:
                basis, image = (y @ weights[..., : max(k, steps // 2)] for y in (basis, image))
        else:
            worst = f"residuals up to {float(residual.max()):g}"
            warn(f"{iterations} iterations leave {worst}", RuntimeWarning, stacklevel=2)
        signs = vectors.gather(-2, vectors.abs().argmax(-2, keepdim=True)).sign()
    return Eigenpairs(values[:, :k], vectors * signs, residual)
