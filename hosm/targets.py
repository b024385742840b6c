r"""The objectives' integrands: what each sample contributes, expanded so that nothing blows up.

A square such as || psi + (I - z z^T) / sigma^2 ||^2 holds a constant of order sigma^-4 that no
parameter changes; here it is multiplied out and the constant left out. What remains splits into
terms that stay bounded (`even`) and terms that carry a power of 1 / sigma but whose mean over z
vanishes at the clean point (`odd`); variance reduction subtracts the latter's value there. See
`hosm.objectives` for the objectives themselves (Meng, Song, Li and Ermon, NeurIPS 2021, theorem 2
and section 4.2).

The diagonal versions replace every matrix by its diagonal, which the functions see as an operator
without factor: no second set of formulas is needed. No D x D matrix is formed.
"""

from typing import Literal, NamedTuple

from torch import Tensor

from hosm.operators import DiagonalPlusLowRank

__all__ = [
    "Scale",
    "Scores",
    "VarianceReduction",
    "dsm_value",
    "jacobian",
    "moment",
    "residual",
    "split",
    "stencil",
]

VarianceReduction = Literal["control", "antithetic"] | None
Scale = float | Tensor  # one noise scale, or one for each sample, shape (n,)


class Scores(NamedTuple):
    """s1 and s2 at one point of the stencil x + sigma z, x - sigma z, x."""

    s1: Tensor
    s2: DiagonalPlusLowRank


def split(s1: Tensor, s2: DiagonalPlusLowRank, size: int) -> list[Scores]:
    """Return the scores on each point of the stencil, of those on all points in one batch.

    Args:
        s1: shape (k size, D), for the k points of the stencil one after another.
        s2: operators at the same points.
        size: samples n of the batch.
    """
    parts = zip(s1.split(size), s2.diag.split(size), s2.factor.split(size), strict=True)
    return [Scores(s1, DiagonalPlusLowRank(diag, b, s2.signs)) for s1, diag, b in parts]


def _column(sigma: Scale) -> Scale:
    """Return sigma to multiply points: one scale for each becomes a column, shape (n, 1)."""
    return sigma.unsqueeze(1) if isinstance(sigma, Tensor) else sigma


def stencil(x: Tensor, sigma: Scale, z: Tensor, reduction: VarianceReduction) -> list[Tensor]:
    """Return the points where scores are needed: x_noisy first, then what the reduction adds.

    Args:
        x: clean points, shape (n, D).
        sigma: noise scale, or one for each point, shape (n,).
        z: standard normal noise, shape (n, D).
        reduction: None, `control` (adds x) or `antithetic` (adds x - sigma z and x).
    """
    noise = _column(sigma) * z
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
    z = z / _column(sigma)
    if reduction == "antithetic":
        plus, minus = s1[:2]
        return (plus.square().sum(1) + minus.square().sum(1)) / 4 + (z * (plus - minus)).sum(1) / 2
    drift = s1[0] - s1[1] if reduction == "control" else s1[0]
    return s1[0].square().sum(1) / 2 + (z * drift).sum(1)


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


def moment(
    scores: list[Scores], z: Tensor, sigma: Scale, reduction: VarianceReduction, diagonal: bool
) -> Tensor:
    """Expand || psi + (I - z z^T) / sigma^2 ||^2, for each sample, shape (n,): theorem 2.

    Args:
        scores: s1, shape (n, D), and s2 on each point of the stencil.
        z: standard normal noise, shape (n, D).
        sigma: noise scale, or one for each point, shape (n,).
        reduction: None, `control` or `antithetic`.
        diagonal: look at diagonals alone.
    """
    psi = [_project(s2 + DiagonalPlusLowRank.outer(s1), diagonal) for s1, s2 in scores]
    norms = [matrix.frobenius_norm_squared() for matrix in psi[: _noisy(reduction)]]
    noise = [2 * _noise_inner(matrix, z) / sigma**2 for matrix in psi]
    return _combine(norms, noise, reduction)


def residual(
    scores: list[Scores], z: Tensor, sigma: Scale, reduction: VarianceReduction, diagonal: bool
) -> Tensor:
    """Expand || s2 + I / sigma^2 - u u^T ||^2 with u = s + z / sigma, for each sample.

    Lu et al., ICML 2022, theorem 3.2; s is s1 without gradient. Arguments as in `moment`.
    """
    even: list[Tensor] = []
    odd: list[Tensor] = []
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


def jacobian(s2: DiagonalPlusLowRank, v: Tensor, product: Tensor, diagonal: bool) -> Tensor:
    """Evaluate || (s2 - J) v ||^2, or || alpha - v * (J v) ||^2, for each sample, shape (n,).

    Args:
        s2: second-order scores at n points.
        v: fair signs, shape (n, D).
        product: J v, shape (n, D), with J = d s1 / dx.
        diagonal: look at the diagonal of s2 alone.
    """
    error = s2.diagonal() - v * product if diagonal else s2 @ v - product
    return error.square().sum(1)
