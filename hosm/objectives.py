"""Objectives: denoising score matching of first and second order.

Section 2 and theorem 2 of Meng, Song, Li and Ermon ("Estimating High Order Gradients of the Data
Distribution by Denoising", NeurIPS 2021), with x_noisy = x + sigma z. First order (DSM):

    1/2 E || s1 + z / sigma ||^2.

Second order, three targets for s2 (psi = s2 + s1 s1^T, s = stopgrad(s1), u = s + z / sigma):

- `moment` (the paper, theorem 2):      E || psi + (I - z z^T) / sigma^2 ||_F^2;
- `residual` (Lu et al., "Maximum Likelihood Training for Score-Based Diffusion ODEs by High-Order
  Denoising Score Matching", ICML 2022, theorem 3.2):   E || s2 + I / sigma^2 - u u^T ||_F^2;
- `jacobian` (generalises Ou et al., "Improving Probabilistic Diffusion Models With Optimal
  Diagonal Covariance Matching", ICLR 2025, from diagonals): E || (s2 - stopgrad(d s1/dx)) v ||^2
  with fair signs v, whose mean over v is || s2 - d s1/dx ||_F^2.

Each value omits the terms that no parameter can change, such as |z|^2 / (2 sigma^2): they grow as
sigma^-2 and sigma^-4 and would drown float32. No D x D matrix is formed.

Variance reduction, `control` or `antithetic`, removes the noise that remains as sigma -> 0
(ibid., section 4.2): both subtract the term's value at the clean point, whose mean over z is zero,
and `antithetic` averages over x + sigma z and x - sigma z. The paper prints 1/sigma before
I - z z^T in its variance-reduced objective; 1/sigma^2 is right, as expanding the square shows.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from hosm.noise import check_sigma, standard_normal
from hosm.operators import DiagonalPlusLowRank
from hosm.scores import jacobian_vector_product

__all__ = ["Terms", "dsm", "joint", "joint_terms", "second_order"]

Target = Literal["moment", "residual", "jacobian"]
VarianceReduction = Literal["control", "antithetic"] | None
ScoreFunction = Callable[[Tensor], Tensor]
Model = Callable[[Tensor], tuple[Tensor, DiagonalPlusLowRank]]

TARGETS = ("moment", "residual", "jacobian")
VARIANCE_REDUCTIONS = (None, "control", "antithetic")


class Terms(NamedTuple):
    """The two terms of the joint objective, each a scalar: `first` (DSM) and `second`."""

    first: Tensor
    second: Tensor


class _Scores(NamedTuple):
    """s1 and s2 at one point of the stencil x + sigma z, x - sigma z, x."""

    s1: Tensor
    s2: DiagonalPlusLowRank


def _check(x: Tensor, z: Tensor, variance_reduction: VarianceReduction) -> None:
    if x.ndim != 2 or len(x) == 0 or not x.is_floating_point():
        raise ValueError(f"x must be floating, shape (n >= 1, D); got {x.dtype} {tuple(x.shape)}")
    if z.shape != x.shape:
        raise ValueError(f"noise of shape {tuple(z.shape)} for points of shape {tuple(x.shape)}")
    if variance_reduction not in VARIANCE_REDUCTIONS:
        legal = ", ".join(map(str, VARIANCE_REDUCTIONS))
        raise ValueError(f"variance_reduction must be one of {legal}; got {variance_reduction!r}")


def _stencil(x: Tensor, sigma: float, z: Tensor, reduction: VarianceReduction) -> list[Tensor]:
    """Return the points where scores are needed: x_noisy first, then what the reduction adds."""
    if reduction == "control":
        return [x + sigma * z, x]
    if reduction == "antithetic":
        return [x + sigma * z, x - sigma * z, x]
    return [x + sigma * z]


# First order ---------------------------------------------------------------------------------


def _dsm_value(s1: list[Tensor], z: Tensor, sigma: float, reduction: VarianceReduction) -> Tensor:
    """Evaluate DSM, for each sample, from s1 on the stencil."""
    z = z / sigma
    if reduction == "antithetic":
        plus, minus = s1[:2]
        return (plus.square().sum(1) + minus.square().sum(1)) / 4 + (z * (plus - minus)).sum(1) / 2
    drift = s1[0] - s1[1] if reduction == "control" else s1[0]
    return s1[0].square().sum(1) / 2 + (z * drift).sum(1)


def dsm(
    score_function: ScoreFunction,
    x: Tensor,
    sigma: float,
    variance_reduction: VarianceReduction = None,
    generator: torch.Generator | None = None,
    *,
    z: Tensor | None = None,
) -> Tensor:
    """Return 1/2 E || s1 + z / sigma ||^2 without its constant D / (2 sigma^2), a scalar.

    Source: Vincent, "A Connection Between Score Matching and Denoising Autoencoders", 2011;
    `control` is the DSM-VR of Meng et al. (after Wang et al., 2020).

    Args:
        score_function: s1, (n, D) -> (n, D).
        x: clean points, shape (n, D).
        sigma: noise scale, above 0.
        variance_reduction: None, `control` or `antithetic`.
        generator: source of z.
        z: standard normal noise, shape (n, D), in place of the generator's.

    Raises:
        ValueError: shapes that differ, an empty or integer batch, sigma not above 0, or an
            unknown variance reduction.
    """
    sigma, z = check_sigma(sigma), standard_normal(x, generator) if z is None else z
    _check(x, z, variance_reduction)
    points = _stencil(x, sigma, z, variance_reduction)[:2]
    s1 = list(score_function(torch.cat(points)).split(len(x)))
    return _dsm_value(s1, z, sigma, variance_reduction).mean()


# Second order --------------------------------------------------------------------------------
#
# The diagonal versions replace every matrix by its diagonal, which the functions below see as an
# operator without factor: no second set of formulas is needed.


def _project(matrix: DiagonalPlusLowRank, diagonal: bool) -> DiagonalPlusLowRank:
    """Return the matrix, or the part of it that a diagonal objective looks at."""
    return DiagonalPlusLowRank.from_diagonal(matrix.diagonal()) if diagonal else matrix


def _quadratic(matrix: DiagonalPlusLowRank, v: Tensor) -> Tensor:
    """Return v^T A v for each sample."""
    return (v * (matrix @ v)).sum(-1)


def _noise_inner(matrix: DiagonalPlusLowRank, z: Tensor) -> Tensor:
    """Return <I - z z^T, A> = tr A - z^T A z for each sample; its mean over z is zero."""
    return matrix.trace() - _quadratic(matrix, z)


def _combine(even: list[Tensor], odd: list[Tensor], reduction: VarianceReduction) -> Tensor:
    """Combine a target's terms over the stencil.

    `odd` holds the terms whose mean over z vanishes at the clean point, already multiplied by
    their power of 1 / sigma; subtracting that value leaves the mean and removes the noise.
    """
    if reduction == "antithetic":
        return (even[0] + even[1] + odd[0] + odd[1]) / 2 - odd[2]
    if reduction == "control":
        return even[0] + odd[0] - odd[1]
    return even[0] + odd[0]


def _signs(reduction: VarianceReduction) -> tuple[int, ...]:
    """Return the sign of z in the terms that each point of the stencil contributes.

    At the clean point `control` subtracts what stands at x + sigma z; under `antithetic` its
    parts for +z and -z cancel.
    """
    return {"antithetic": (1, -1, 0), "control": (1, 1)}.get(reduction or "", (1,))


def _noisy(reduction: VarianceReduction) -> int:
    """Return how many points of the stencil are noisy; they come first."""
    return 2 if reduction == "antithetic" else 1


def _moment(
    scores: list[_Scores], z: Tensor, sigma: float, reduction: VarianceReduction, diagonal: bool
) -> Tensor:
    """Expand || psi + (I - z z^T) / sigma^2 ||^2, for each sample."""
    psi = [_project(s2 + DiagonalPlusLowRank.outer(s1), diagonal) for s1, s2 in scores]
    norms = [matrix.frobenius_norm_squared() for matrix in psi[: _noisy(reduction)]]
    noise = [2 * _noise_inner(matrix, z) / sigma**2 for matrix in psi]
    return _combine(norms, noise, reduction)


def _residual(
    scores: list[_Scores], z: Tensor, sigma: float, reduction: VarianceReduction, diagonal: bool
) -> Tensor:
    """Expand || S + I / sigma^2 - u u^T ||^2 with u = s + z / sigma, for each sample."""
    even, odd = [], []
    for (s1, s2), sign in zip(scores, _signs(reduction), strict=True):
        matrix, s = _project(s2, diagonal), s1.detach()
        noise = 2 * _noise_inner(matrix, z) / sigma**2
        if sign:
            image = matrix @ s
            noise = noise - (4 * sign / sigma) * (z * image).sum(-1)
            if len(even) < _noisy(reduction):
                even.append(matrix.frobenius_norm_squared() - 2 * (s * image).sum(-1))
        odd.append(noise)
    return _combine(even, odd, reduction)


def _jacobian(s2: DiagonalPlusLowRank, v: Tensor, product: Tensor, diagonal: bool) -> Tensor:
    """Evaluate || (s2 - J) v ||^2, or || alpha - v * (J v) ||^2, for each sample."""
    error = s2.diagonal() - v * product if diagonal else s2 @ v - product
    return error.square().sum(1)


def rademacher(like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw fair signs in the shape, type and device of `like`."""
    bits = torch.randint(0, 2, like.shape, generator=generator, device=like.device)
    return bits.to(like.dtype) * 2 - 1


def _jacobian_terms(
    model: Model,
    points: list[Tensor],
    sigma: float,
    reduction: VarianceReduction,
    diagonal: bool,
    z: Tensor,
    v: Tensor,
    step: float | None,
) -> Terms:
    """Return both terms under the `jacobian` target, whose second term needs x_noisy alone."""
    score_function = getattr(model, "score", lambda x: model(x)[0])
    s1, s2 = model(points[0])
    others = [score_function(point) for point in points[1:2]]
    first = _dsm_value([s1, *others], z, sigma, reduction)
    product = jacobian_vector_product(score_function, points[0], v, step, value=s1)
    return Terms(first.mean(), _jacobian(s2, v, product, diagonal).mean())


def joint_terms(
    model: Model,
    x: Tensor,
    sigma: float,
    target: Target = "jacobian",
    variance_reduction: VarianceReduction = "antithetic",
    diagonal: bool = False,
    generator: torch.Generator | None = None,
    *,
    z: Tensor | None = None,
    v: Tensor | None = None,
    jvp_step: float | None = None,
) -> Terms:
    """Return the first- and second-order terms from one evaluation of the model.

    Args:
        model: callable (n, D) -> (s1, s2); one with a method `score` gives s1 alone by it.
        x: clean points, shape (n, D).
        sigma: noise scale, above 0.
        target: `moment`, `residual` or `jacobian`.
        variance_reduction: None, `control` or `antithetic`.
        diagonal: fit the diagonal of s2 alone.
        generator: source of z and v.
        z: standard normal noise, shape (n, D), in place of the generator's.
        v: fair signs for `jacobian`, shape (n, D), in place of the generator's.
        jvp_step: step of the difference that stands for J v; None for exact forward mode.

    Raises:
        ValueError: shapes that differ, an empty or integer batch, sigma not above 0, or an
            unknown target or variance reduction.
    """
    if target not in TARGETS:
        raise ValueError(f"target must be one of {', '.join(TARGETS)}; got {target!r}")
    sigma, z = check_sigma(sigma), standard_normal(x, generator) if z is None else z
    v = rademacher(x, generator) if v is None and target == "jacobian" else v
    _check(x, z, variance_reduction)
    size, points = len(x), _stencil(x, sigma, z, variance_reduction)
    if v is not None and target == "jacobian":
        return _jacobian_terms(model, points, sigma, variance_reduction, diagonal, z, v, jvp_step)
    s1, s2 = model(torch.cat(points))
    parts = zip(s1.split(size), s2.diag.split(size), s2.factor.split(size), strict=True)
    scores = [
        _Scores(first, DiagonalPlusLowRank(diag, factor, s2.signs))
        for first, diag, factor in parts
    ]
    first = _dsm_value([point.s1 for point in scores], z, sigma, variance_reduction)
    expand = _residual if target == "residual" else _moment
    second = expand(scores, z, sigma, variance_reduction, diagonal)
    return Terms(first.mean(), second.mean())


def second_order(
    model: Model,
    x: Tensor,
    sigma: float,
    target: Target = "jacobian",
    variance_reduction: VarianceReduction = "antithetic",
    diagonal: bool = False,
    generator: torch.Generator | None = None,
    *,
    z: Tensor | None = None,
    v: Tensor | None = None,
    jvp_step: float | None = None,
) -> Tensor:
    """Return the second-order objective alone, a scalar; arguments as in `joint_terms`."""
    return joint_terms(
        model,
        x,
        sigma,
        target,
        variance_reduction,
        diagonal,
        generator,
        z=z,
        v=v,
        jvp_step=jvp_step,
    ).second


def joint(
    model: Model,
    x: Tensor,
    sigma: float,
    gamma: float = 1.0,
    target: Target = "jacobian",
    variance_reduction: VarianceReduction = "antithetic",
    diagonal: bool = False,
    generator: torch.Generator | None = None,
    *,
    z: Tensor | None = None,
    v: Tensor | None = None,
    jvp_step: float | None = None,
) -> Tensor:
    """Return the second-order objective + gamma * DSM, a scalar (Meng et al., equation 12).

    In this normalisation (sums over entries, 1/2 before DSM) the authors' unpublished weights
    are gamma = 40 / sigma^2 for low-rank and 4 / sigma^2 for diagonal models.

    Args:
        model: callable (n, D) -> (s1, s2).
        x: clean points, shape (n, D).
        sigma: noise scale, above 0.
        gamma: weight of DSM, at least 0.
        target: `moment`, `residual` or `jacobian`.
        variance_reduction: None, `control` or `antithetic`.
        diagonal: fit the diagonal of s2 alone.
        generator: source of z and v.
        z: standard normal noise, shape (n, D), in place of the generator's.
        v: fair signs for `jacobian`, shape (n, D), in place of the generator's.
        jvp_step: step of the difference that stands for J v; None for exact forward mode.

    Raises:
        ValueError: gamma is negative or not finite; otherwise as in `joint_terms`.
    """
    if not 0 <= gamma < float("inf"):
        raise ValueError(f"gamma must be a finite number of at least 0, got {gamma!r}")
    first, second = joint_terms(
        model,
        x,
        sigma,
        target,
        variance_reduction,
        diagonal,
        generator,
        z=z,
        v=v,
        jvp_step=jvp_step,
    )
    return second + gamma * first
