r"""D2SM and the other second-order targets: what each sample contributes, without large constants.

A square such as || psi + (I - z z^T) / sigma^2 ||^2 holds a constant of order sigma^-4 that no
parameter changes; here it is multiplied out and the constant left out. What remains splits into
terms that stay bounded (`even`) and terms that carry a power of 1 / sigma but whose mean over z
vanishes at the clean point (`odd`); variance reduction subtracts the latter's value there. See
`hosm.objectives` for the objectives themselves (Meng, Song, Li and Ermon, NeurIPS 2021, theorem 2
and section 4.2).

The diagonal versions replace every matrix by its diagonal, which the functions see as an operator
without factor: no second set of formulas is needed. No D x D matrix is formed.

`TARGETS`, at the end, is the registry of second-order targets. A `Target` is an integrand and what
it needs; the joint objective, the heads on a frozen s1, the settings of training, the estimator
and the experiment all read it. To add a target, write its integrand and add one entry.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from hosm.noise import Scale, broadcast_scale, repeat_scale
from hosm.operators import DiagonalPlusLowRank, factor_image, factor_products, positive_inverse

__all__ = [
    "TARGETS",
    "Scale",
    "Target",
    "TargetInputs",
    "VarianceReduction",
    "dsm_value",
    "find_target",
    "jacobian",
    "likelihood",
    "moment",
    "register_target",
    "residual",
    "stencil",
]

JACOBIAN_WEIGHT = 100.0  # of `jacobian` within `likelihood`, in units of sigma

VarianceReduction = Literal["control", "antithetic"] | None


def stencil(x: Tensor, sigma: Scale, z: Tensor, reduction: VarianceReduction) -> list[Tensor]:
    """Return the points where scores are needed: x_noisy first, then what the reduction adds.

    Args:
        x: clean points, shape (n, D).
        sigma: noise scale, or one for each point, shape (n,).
        z: standard normal noise, shape (n, D).
        reduction: None, `control` (adds x) or `antithetic` (adds x - sigma z and x).
    """
    noise = broadcast_scale(sigma) * z
    if reduction == "control":
        return [x + noise, x]
    if reduction == "antithetic":
        return [x + noise, x - noise, x]
    return [x + noise]


def dsm_value(s1: list[Tensor], z: Tensor, sigma: Scale, reduction: VarianceReduction) -> Tensor:
    """Evaluate DSM, for each sample, shape (n,): section 2, and 4.2 for its reduction.

    Args:
        s1: first-order scores on the stencil's first two points, each of shape (n, D).
        z: standard normal noise, shape (n, D).
        sigma: noise scale, or one for each point, shape (n,).
        reduction: None, `control` or `antithetic`.
    """
    z = z / broadcast_scale(sigma)
    if reduction == "antithetic":
        plus, minus = s1[:2]
        return (plus.square().sum(1) + minus.square().sum(1)) / 4 + (z * (plus - minus)).sum(1) / 2
    drift = s1[0] - s1[1] if reduction == "control" else s1[0]
    return s1[0].square().sum(1) / 2 + (z * drift).sum(1)


class _Contractions(NamedTuple):
    """What the expansions read of A: tr A and ||A||^2, shape (N,), and W^T A W, (N, m, m)."""

    trace: Tensor
    norm: Tensor
    forms: Tensor


def _contract(matrix: DiagonalPlusLowRank, *vectors: Tensor) -> _Contractions:
    """Contract A with itself, with I and with the vectors, each of shape (N, D)."""
    d, c, W = matrix.diag, matrix.signs, torch.stack(vectors, -2)
    q, P, G = factor_products(matrix.factor, W, None if matrix.positive else c)
    forms = (d.unsqueeze(-2) * W) @ W.mT + (P.mT * c) @ P
    norm = (d * (d + 2 * q)).sum(-1) + (G.square() @ c) @ c
    return _Contractions((d + q).sum(-1), norm, forms)


def _project(matrix: DiagonalPlusLowRank, diagonal: bool) -> DiagonalPlusLowRank:
    """Return the matrix, or the part of it that a diagonal objective looks at."""
    return DiagonalPlusLowRank.from_diagonal(matrix.diagonal()) if diagonal else matrix


def _combine(even: Tensor, odd: Tensor, size: int, reduction: VarianceReduction) -> Tensor:
    """Combine a target's terms over the stencil, shape (k n,), into one for each sample, (n,).

    `odd` holds the terms whose mean over z vanishes at the clean point, already multiplied by
    their power of 1 / sigma; subtracting that value leaves the mean and removes the noise.
    """
    evens, odds = even.split(size), odd.split(size)
    if reduction == "antithetic":
        return (evens[0] + evens[1] + odds[0] + odds[1]) / 2 - odds[2]
    if reduction == "control":
        return evens[0] + odds[0] - odds[1]
    return even + odd


def _noise_signs(reduction: VarianceReduction) -> tuple[int, ...]:
    """Return the sign of z in the terms that each point of the stencil contributes.

    At the clean point `control` subtracts the term that it has at x + sigma z; under `antithetic`
    the parts for +z and -z cancel there.
    """
    return {"antithetic": (1, -1, 0), "control": (1, 1)}.get(reduction or "", (1,))


def moment(
    s1: Tensor,
    s2: DiagonalPlusLowRank,
    z: Tensor,
    sigma: Scale,
    reduction: VarianceReduction,
    diagonal: bool,
) -> Tensor:
    """Expand || psi + (I - z z^T) / sigma^2 ||^2, for each sample, shape (n,): theorem 2.

    Args:
        s1: first-order scores on the k points of the stencil one after another, (k n, D).
        s2: second-order scores there.
        z: standard normal noise, shape (n, D).
        sigma: noise scale, or one for each sample, shape (n,).
        reduction: None, `control` or `antithetic`.
        diagonal: look at diagonals alone.
    """
    points = len(_noise_signs(reduction))
    w, scale = z.repeat(points, 1), repeat_scale(sigma, points)
    if diagonal:
        psi = s2.diagonal() + s1.square()
        norm, noise = psi.square().sum(1), (psi * (1 - w.square())).sum(1)
    else:  # psi = s2 + s1 s1^T, multiplied out
        trace, norm, forms = _contract(s2, s1, w)
        length = s1.square().sum(1)
        norm = norm + 2 * forms[:, 0, 0] + length.square()
        noise = trace - forms[:, 1, 1] + length - (s1 * w).sum(1).square()
    return _combine(norm, 2 * noise / scale**2, len(z), reduction)


def residual(
    s1: Tensor,
    s2: DiagonalPlusLowRank,
    z: Tensor,
    sigma: Scale,
    reduction: VarianceReduction,
    diagonal: bool,
) -> Tensor:
    """Expand || s2 + I / sigma^2 - u u^T ||^2 with u = s + z / sigma, for each sample.

    Lu et al., ICML 2022, theorem 3.2; s is s1 without gradient. Arguments as in `moment`.
    """
    signs = _noise_signs(reduction)
    s, w, scale = s1.detach(), z.repeat(len(signs), 1), repeat_scale(sigma, len(signs))
    trace, norm, forms = _contract(_project(s2, diagonal), s, w)
    side = s1.new_tensor(signs).repeat_interleave(len(z))
    noise = 2 * (trace - forms[:, 1, 1]) / scale**2 - 4 * side * forms[:, 0, 1] / scale
    return _combine(norm - 2 * forms[:, 0, 0], noise, len(z), reduction)


def jacobian(s2: DiagonalPlusLowRank, v: Tensor, product: Tensor, diagonal: bool) -> Tensor:
    """Evaluate || s2 v - J^T v ||^2, or || alpha - v * (J^T v) ||^2, for each sample, shape (n,).

    Args:
        s2: second-order scores at n points.
        v: fair signs, shape (n, D).
        product: J^T v, shape (n, D), with J = d s1 / dx.
        diagonal: look at the diagonal of s2 alone.
    """
    if diagonal:
        return (s2.diagonal() - v * product).square().sum(1)
    image = factor_image(s2.factor, v, None if s2.positive else s2.signs)
    return (s2.diag * v + image - product).square().sum(1)


def likelihood(
    s1: Tensor,
    s2: DiagonalPlusLowRank,
    z: Tensor,
    v: Tensor,
    product: Tensor,
    sigma: Scale,
    diagonal: bool,
) -> Tensor:
    """Evaluate two scores of N(m, C) at x in nats, and `jacobian`, for each sample, shape (n,).

    In units of sigma the error e = (x - m) / sigma = -(z + sigma s), s being s1 without gradient,
    has the covariance S = C / sigma^2 = I + sigma^2 s2. The scores are -log N(e; 0, S) and the
    same of each coordinate, -sum_i log N(e_i; 0, S_ii), both without D log(2 pi) / 2. To them is
    added 100 || (S - I - sigma^2 J^T) v ||^2. A diagonal C has the last two.

    Args:
        s1: first-order scores at the noisy points, shape (n, D).
        s2: second-order scores there, of a factor with signs +1 and with S > 0.
        z: standard normal noise, shape (n, D).
        v: fair signs, shape (n, D).
        product: J^T v, shape (n, D), with J = d s1 / dx.
        sigma: noise scale, or one for each sample, shape (n,).
        diagonal: look at the diagonal of s2 alone.

    Raises:
        ValueError: a factor with signs -1.
    """
    if not s2.positive:
        raise ValueError("the factor of s2 must have signs +1 for the target `likelihood`, got -1")
    scale = broadcast_scale(sigma)
    error = z + scale * s1.detach()
    variance = 1 + scale**2 * s2.diagonal()
    score = (error.square() / variance + variance.log()).sum(1) / 2
    score = score + JACOBIAN_WEIGHT * sigma**4 * jacobian(s2, v, product, diagonal)
    if diagonal or not s2.rank:
        return score
    factor = broadcast_scale(sigma, 3) * s2.factor
    inverse = positive_inverse(1 + scale**2 * s2.diag, factor)
    whole = inverse.forms(error.unsqueeze(-2)).squeeze(-1) + inverse.log_determinant()
    return score + whole / 2


# The registry ----------------------------------------------------------------------------------

NOT_COMPUTED = torch.empty(0)  # stands for what a target does not need


@dataclass(frozen=True, kw_only=True)
class TargetInputs:
    """What is known of n samples where an integrand is evaluated.

    What a target does not need (see `Target`) is an empty tensor.

    Args:
        s1: first-order scores, shape (k n, D) on the k points of the stencil one after another,
            or (n, D) at the noisy points.
        s2: second-order scores at the same points.
        z: standard normal noise, shape (n, D).
        v: fair signs, shape (n, D).
        product: J^T v at the noisy points, shape (n, D), with J = d s1 / dx, without gradient.
        sigma: noise scale, or one for each sample, shape (n,).
        reduction: None, `control` or `antithetic`.
        diagonal: look at the diagonal of s2 alone.
    """

    s2: DiagonalPlusLowRank
    z: Tensor
    sigma: Scale
    reduction: VarianceReduction
    diagonal: bool
    s1: Tensor = NOT_COMPUTED
    v: Tensor = NOT_COMPUTED
    product: Tensor = NOT_COMPUTED


@dataclass(frozen=True, kw_only=True)
class Target:
    """A second-order target: what s2 is regressed on, and what that needs.

    Args:
        name: how settings call it.
        integrand: its contribution of each sample, shape (n,).
        whole_stencil: s1 and s2 are needed on the whole stencil, because variance reduction acts
            on the target; otherwise at the noisy points alone.
        values: the values of s1 are needed.
        product: the product J^T v is needed.
        psd: the posterior covariance I + sigma^2 s2 must be positive by construction.
        sigma_power: power of sigma that weights a sample's term where noise scales differ; 4
            brings the square of a covariance's error to the denoiser's units.
        trains_heads: it can train s2 on top of a frozen s1.
    """

    name: str
    integrand: Callable[[TargetInputs], Tensor]
    whole_stencil: bool = False
    values: bool = True
    product: bool = False
    psd: bool = False
    sigma_power: int = 4
    trains_heads: bool = True


TARGETS: dict[str, Target] = {}  # the registry: name -> target


def register_target(target: Target) -> Target:
    """Add a target to the registry, under its name, and return it.

    Raises:
        ValueError: the name is taken, or is that of the first-order objective, `dsm`.
    """
    if target.name in (*TARGETS, "dsm"):
        raise ValueError(f"a target must have a name of its own, got {target.name!r} again")
    TARGETS[target.name] = target
    return target


def find_target(name: str) -> Target:
    """Return the target of a name.

    Raises:
        ValueError: there is none.
    """
    if name not in TARGETS:
        raise ValueError(f"target must be one of {', '.join(TARGETS)}, got {name!r}")
    return TARGETS[name]


register_target(
    Target(
        name="jacobian",
        integrand=lambda at: jacobian(at.s2, at.v, at.product, at.diagonal),
        values=False,
        product=True,
    )
)
register_target(
    Target(
        name="residual",
        integrand=lambda at: residual(at.s1, at.s2, at.z, at.sigma, at.reduction, at.diagonal),
        whole_stencil=True,
    )
)
register_target(
    Target(
        name="moment",
        integrand=lambda at: moment(at.s1, at.s2, at.z, at.sigma, at.reduction, at.diagonal),
        whole_stencil=True,
    )
)
register_target(
    Target(
        name="likelihood",
        integrand=lambda at: likelihood(
            at.s1, at.s2, at.z, at.v, at.product, at.sigma, at.diagonal
        ),
        product=True,
        psd=True,
        sigma_power=0,
    )
)
