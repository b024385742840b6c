"""Objectives: denoising score matching of first and second order.

Section 2 and theorem 2 of Meng, Song, Li and Ermon ("Estimating High Order Gradients of the Data
Distribution by Denoising", NeurIPS 2021), with x_noisy = x + sigma z. First order (DSM):

    1/2 E || s1 + z / sigma ||^2.

Second order, four targets for s2 (psi = s2 + s1 s1^T, s = stopgrad(s1), u = s + z / sigma), kept
in one registry, `hosm.objectives.targets.TARGETS`:

- `moment` (the paper, theorem 2):      E || psi + (I - z z^T) / sigma^2 ||_F^2;
- `residual` (Lu et al., "Maximum Likelihood Training for Score-Based Diffusion ODEs by High-Order
  Denoising Score Matching", ICML 2022, theorem 3.2):   E || s2 + I / sigma^2 - u u^T ||_F^2;
- `jacobian` (generalises Ou et al., "Improving Probabilistic Diffusion Models With Optimal
  Diagonal Covariance Matching", ICLR 2025, from diagonals): E || (s2 - stopgrad(J)^T) v ||^2 with
  J = d s1/dx and fair signs v, whose mean over v is || s2 - J ||_F^2, since s2 is symmetric;
- `likelihood`:   E [-log N(e; 0, S) - sum_i log N(e_i; 0, S_ii)] + 100 sigma^4 `jacobian`, with
  e = (x - m) / sigma and S = C / sigma^2 = I + sigma^2 s2: proper scores of the whole point and of
  each coordinate (composite likelihood: Lindsay, "Composite Likelihood Methods", 1988), least over
  all S > 0 at the second moment of e given x_noisy. They weigh relative errors of variances,
  however small; `jacobian` weighs the largest eigenvalues, and teaches their directions without
  noise. S must be positive definite, as `ScoreModel(psd=True)` makes it. As sigma -> 0 the target
  tells less and less about s2.

Each value omits the terms that no parameter can change, such as |z|^2 / (2 sigma^2): they grow as
sigma^-2 and sigma^-4 and would drown float32. No D x D matrix is formed.

One noise scale for each sample, a tensor, weights its terms by sigma^2 and sigma^4: in the
denoiser's units, residual / sigma and covariance / sigma^2, every scale then counts alike, so
that one model learns a range of them.

Shapes are checked; values are not read, which would wait for the device in each step: NaN among
the points gives a loss of NaN (`hosm.training` refuses such points, and such a loss).

Variance reduction, `control` or `antithetic`, removes the noise that remains as sigma -> 0
(ibid., section 4.2): both subtract the term's value at the clean point, whose mean over z is zero,
and `antithetic` averages over x + sigma z and x - sigma z. So D2SM with variance reduction, the
paper's objective, is, with psi+, psi- and psi0 at x + sigma z, x - sigma z and x,

    1/2 E [ ||psi+||_F^2 + ||psi-||_F^2 + 2 <psi+ + psi- - 2 psi0, I - z z^T> / sigma^2 ].

The paper prints 1/sigma before I - z z^T; 1/sigma^2 is right, as expanding the square shows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hosm.autodiff import pulled_back, vector_jacobian_product
from hosm.checks import check_one_shape, checked
from hosm.noise import (
    Scale,
    check_noise_scale,
    is_per_point,
    rademacher,
    repeat_scale,
    standard_normal,
)
from hosm.objectives.targets import (
    NOT_COMPUTED,
    TargetInputs,
    VarianceReduction,
    dsm_value,
    find_target,
    stencil,
)
from hosm.operators import DiagonalPlusLowRank

__all__ = ["JointTerms", "dsm", "joint", "joint_terms", "second_order"]

ScoreFunction = Callable[..., Tensor]
Model = Callable[..., tuple[Tensor, DiagonalPlusLowRank]]

VARIANCE_REDUCTIONS = (None, "control", "antithetic")


class JointTerms(NamedTuple):
    """The two terms of the joint objective, each a scalar: `first` (DSM) and `second`."""

    first: Tensor
    second: Tensor


def _weighted_mean(term: Tensor, sigma: Scale, power: int) -> Tensor:
    """Return the mean of a term of shape (n,), weighted by a power of sigma if scales differ."""
    return (term * sigma**power if is_per_point(sigma) else term).mean()


def _evaluate(function: Callable[..., Any], points: Tensor, sigma: Scale) -> Any:  # noqa: ANN401
    """Evaluate a model, or its s1, at points that are blocks of the n samples.

    It is told the noise scales where they differ; otherwise it is a function of points alone.
    """
    if not is_per_point(sigma):
        return function(points)
    return function(points, repeat_scale(sigma, len(points) // len(sigma)))


def _check(x: Tensor, variance_reduction: VarianceReduction, **noise: Tensor | None) -> None:
    checked("x", x, "n", "D", finite=False)
    given = {name: tensor for name, tensor in noise.items() if tensor is not None}
    check_one_shape("(n, D)", x=x, **given)
    if variance_reduction not in VARIANCE_REDUCTIONS:
        names = ", ".join(map(str, VARIANCE_REDUCTIONS))
        raise ValueError(f"variance_reduction must be one of {names}, got {variance_reduction!r}")


def _check_scores(x_noisy: Tensor, s1: Tensor, s2: object) -> None:
    """Raise ValueError unless a model returned both scores at noisy points x_noisy (n, D)."""
    check_one_shape("(n, D)", x_noisy=x_noisy, s1=s1)
    if not isinstance(s2, DiagonalPlusLowRank):
        found = type(s2).__name__
        raise ValueError(f"the model must return s2 as a DiagonalPlusLowRank, got {found}")


def dsm(
    score_function: ScoreFunction,
    x: Tensor,
    sigma: Scale,
    variance_reduction: VarianceReduction = None,
    generator: torch.Generator | None = None,
    *,
    z: Tensor | None = None,
) -> Tensor:
    """Return 1/2 E || s1 + z / sigma ||^2 without its constant D / (2 sigma^2), a scalar.

    Source: Vincent, "A Connection Between Score Matching and Denoising Autoencoders", 2011;
    `control` is the DSM-VR of Meng et al. (after Wang et al., 2020).

    Args:
        score_function: s1, (n, D) -> (n, D); with a tensor sigma, (x_noisy, sigma) -> (n, D).
        x: clean points, shape (n, D).
        sigma: noise scale, above 0, or one for each point, shape (n,): see above.
        variance_reduction: None, `control` or `antithetic`.
        generator: source of z.
        z: standard normal noise, shape (n, D), in place of the generator's.

    Raises:
        ValueError: shapes that differ, an empty or integer batch, sigma not above 0, or an
            unknown variance reduction.
    """
    _check(x, variance_reduction, z=z)
    sigma, z = check_noise_scale(sigma, len(x)), standard_normal(x, generator) if z is None else z
    points = stencil(x, sigma, z, variance_reduction)[:2]
    whole = torch.cat(points)
    s1 = _evaluate(score_function, whole, sigma)
    check_one_shape("(n, D)", x_noisy=whole, s1=s1)
    first = dsm_value(list(s1.split(len(x))), z, sigma, variance_reduction)
    return _weighted_mean(first, sigma, 2)


class _Scores(NamedTuple):
    """One evaluation of a model, on the points that a target needs.

    `s1` and `s2` are there, `stencil` lists s1 at each point of the stencil that DSM needs, and
    `product` is J^T v at the noisy points.
    """

    s1: Tensor
    s2: DiagonalPlusLowRank
    stencil: list[Tensor]
    product: Tensor


def _score_function(model: Model, sigma: Scale) -> Callable[[Tensor], Tensor]:
    """Return s1 of a model, as a function of points alone."""
    score = getattr(model, "score", lambda *x: model(*x)[0])
    return lambda points: _evaluate(score, points, sigma)


def _scores_at_noisy_points(
    model: Model, points: list[Tensor], sigma: Scale, v: Tensor | None
) -> _Scores:
    """Evaluate both scores at the noisy points, and s1 alone at what else DSM needs.

    J^T v is taken from the evaluation of s1 that the first term needs anyway.
    """
    with torch.enable_grad():
        x_noisy = points[0].detach().requires_grad_()
        s1, s2 = _evaluate(model, x_noisy, sigma)
    _check_scores(x_noisy, s1, s2)
    product = NOT_COMPUTED if v is None else pulled_back(s1, x_noisy, v)
    score_function = _score_function(model, sigma)
    others = [score_function(point) for point in points[1:2]]
    return _Scores(s1, s2, [s1, *others], product)


def _scores_on_stencil(
    model: Model, points: list[Tensor], sigma: Scale, v: Tensor | None
) -> _Scores:
    """Evaluate both scores on the whole stencil; J^T v takes another evaluation of s1."""
    whole = torch.cat(points)
    s1, s2 = _evaluate(model, whole, sigma)
    _check_scores(whole, s1, s2)
    score_function, product = _score_function(model, sigma), NOT_COMPUTED
    if v is not None:
        product = vector_jacobian_product(score_function, points[0], v)
    return _Scores(s1, s2, list(s1.split(len(points[0]))), product)


def joint_terms(
    model: Model,
    x: Tensor,
    sigma: Scale,
    target: str = "jacobian",
    variance_reduction: VarianceReduction = "antithetic",
    diagonal: bool = False,
    generator: torch.Generator | None = None,
    *,
    z: Tensor | None = None,
    v: Tensor | None = None,
) -> JointTerms:
    """Return the first- and second-order terms from one evaluation of the model.

    Args:
        model: callable (n, D) -> (s1, s2); one with a method `score` gives s1 alone by it. With
            a tensor sigma both are called with (x_noisy, sigma).
        x: clean points, shape (n, D).
        sigma: noise scale, above 0, or one for each point, shape (n,): see above.
        target: one of `hosm.objectives.TARGETS`: `jacobian`, `residual`, `moment` or `likelihood`.
        variance_reduction: None, `control` or `antithetic`.
        diagonal: fit the diagonal of s2 alone.
        generator: source of z and v.
        z: standard normal noise, shape (n, D), in place of the generator's.
        v: fair signs, shape (n, D), in place of the generator's, for a target that needs J^T v.

    Raises:
        ValueError: shapes that differ, an empty or integer batch, sigma not above 0, an unknown
            target or variance reduction, a model without second order, or `likelihood` for a
            model that is not positive by construction.
    """
    chosen = find_target(target)
    _check(x, variance_reduction, z=z, v=v)
    if chosen.psd and not getattr(model, "psd", True):
        raise ValueError(f"the model must have psd=True for the target `{target}`, got psd=False")
    sigma, z = check_noise_scale(sigma, len(x)), standard_normal(x, generator) if z is None else z
    points = stencil(x, sigma, z, variance_reduction)
    if chosen.product and v is None:
        v = rademacher(x, generator)
    evaluate = _scores_on_stencil if chosen.whole_stencil else _scores_at_noisy_points
    scores = evaluate(model, points, sigma, v if chosen.product else None)
    first = dsm_value(scores.stencil, z, sigma, variance_reduction)
    inputs = TargetInputs(
        s1=scores.s1,
        s2=scores.s2,
        z=z,
        v=NOT_COMPUTED if v is None else v,
        product=scores.product,
        sigma=sigma,
        reduction=variance_reduction,
        diagonal=diagonal,
    )
    second = chosen.integrand(inputs)
    return JointTerms(
        _weighted_mean(first, sigma, 2), _weighted_mean(second, sigma, chosen.sigma_power)
    )


def second_order(
    model: Model,
    x: Tensor,
    sigma: Scale,
    target: str = "jacobian",
    variance_reduction: VarianceReduction = "antithetic",
    diagonal: bool = False,
    generator: torch.Generator | None = None,
    *,
    z: Tensor | None = None,
    v: Tensor | None = None,
) -> Tensor:
    """Return the second-order objective alone, a scalar; arguments as in `joint_terms`."""
    terms = joint_terms(
        model,
        x,
        sigma,
        target=target,
        variance_reduction=variance_reduction,
        diagonal=diagonal,
        generator=generator,
        z=z,
        v=v,
    )
    return terms.second


def joint(
    model: Model,
    x: Tensor,
    sigma: Scale,
    gamma: float = 1.0,
    target: str = "jacobian",
    variance_reduction: VarianceReduction = "antithetic",
    diagonal: bool = False,
    generator: torch.Generator | None = None,
    *,
    z: Tensor | None = None,
    v: Tensor | None = None,
) -> Tensor:
    """Return the second-order objective + gamma * DSM, a scalar (Meng et al., equation 12).

    In this normalisation (sums over entries, 1/2 before DSM) the authors' unpublished weights
    are gamma = 40 / sigma^2 for low-rank and 4 / sigma^2 for diagonal models.

    Args:
        model: callable (n, D) -> (s1, s2).
        x: clean points, shape (n, D).
        sigma: noise scale, above 0.
        gamma: weight of DSM, at least 0.
        target: one of `hosm.objectives.TARGETS`: `jacobian`, `residual`, `moment` or `likelihood`.
        variance_reduction: None, `control` or `antithetic`.
        diagonal: fit the diagonal of s2 alone.
        generator: source of z and v.
        z: standard normal noise, shape (n, D), in place of the generator's.
        v: fair signs, shape (n, D), in place of the generator's, for a target that needs J^T v.

    Raises:
        ValueError: gamma is negative or not finite; otherwise as in `joint_terms`.
    """
    if not 0 <= gamma < float("inf"):
        raise ValueError(f"gamma must be a finite number of at least 0, got {gamma!r}")
    first, second = joint_terms(
        model,
        x,
        sigma,
        target=target,
        variance_reduction=variance_reduction,
        diagonal=diagonal,
        generator=generator,
        z=z,
        v=v,
    )
    return second + gamma * first
