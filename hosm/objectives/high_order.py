r"""Scores of order three and above: targets that carry no linear error, without D^k entries.

Let x~ = x + sigma z and s_k = grad^k log q_sigma(x~). Given x~, x has the cumulants (see
`hosm.tweedie`) kappa_2 = sigma^2 I + sigma^4 s_2 and kappa_j = sigma^(2j) s_j for j > 2, so that
s_k can be regressed on anything whose posterior mean is kappa_k.

**What to regress on.** Estimated lower scores give the residual r = x - x~ - sigma^2 s^_1 and
the estimated generating function K^(t w) = sum_(j=2)^(k-1) kappa^_j(w, .., w) t^j / j!. Let

    T_k(w) = k! [t^k] exp(t r.w - K^(t w)),                                               (1)

whose derivative in t is a recursion, that of the complete Bell polynomials: with a = r.w,
c_j = kappa^_j(w, .., w), T_0 = 1,

    T_n = a T_(n-1) - sum_(j=2)^min(n, k-1) C(n-1, j-1) c_j T_(n-j).                      (2)

So T_3 = a^3 - 3 c_2 a, T_4 = a^4 - 6 c_2 a^2 + 3 c_2^2 - 4 c_3 a. With K the generating function
of the true cumulants of order 2 and above and e = E[x | x~] - x~ - sigma^2 s^_1,

    E[exp(t r.w - K^(t w)) | x~] = exp(K(t w) - K^(t w) + t e.w).                         (3)

The exponent holds order j < k as an error of kappa^_j (e for j = 1) and order k as kappa_k. The
coefficient of t^k is therefore kappa_k(w, .., w) plus *products* of two or more errors whose
orders add to k: at every order the terms linear in an error cancel, as they do for k = 2 in the
`residual` target (Lu et al., "Maximum Likelihood Training for Score-Based Diffusion ODEs by
High-Order Denoising Score Matching", ICML 2022). Meng, Song, Li and Ermon ("Estimating High Order
Gradients of the Data Distribution by Denoising", NeurIPS 2021, theorem 3) regress on
uncentred moments, whose errors enter linearly. T_k(w), a form of degree k in w, is a tensor.

**Targets** for a model A = diag_k(d) + sum_j c_j w_j^(x)k (`hosm.operators`), in units of sigma:
u = r / sigma = -(z + sigma s1) and kappa~_j = kappa_j / sigma^j give T~_k, and s_k = kappa_k /
sigma^(2k) is the mean of T~_k / sigma^k.

- `residual`: E ||A - T~_k / sigma^k||_F^2. As A is a sum of powers, `<A, T>` = sum_i d_i T(e_i) +
  sum_j c_j T(w_j) is exact in O(D R^2), without probes.
- `jacobian`: E ||(A - d s_(k-1) / dx) . v||_F^2 with fair signs v, whose mean over v is the
  distance in all entries. `<A . v, D_v s_(k-1)>` takes the derivative along v of the contractions
  s_(k-1)(e_i, ..) and s_(k-1)(w_j, ..), w_j held fixed. No power of 1 / sigma appears, but the
  *derivative* of the lower order's error enters, which for a network is the larger one.

Both drop the terms that no parameter changes. Variance reduction acts on `residual`: with all
lower scores zero, T~_k(w) is |w|^k times a Hermite polynomial of -z.w, of mean zero at a w free
of z; so `control` subtracts `<A, T~_k>` / sigma^k at the clean point, and `antithetic` averages
over x + sigma z and x - sigma z too, where for odd k the subtracted parts cancel. Noise of order
sigma^(1-k) (sigma^(2-k): `antithetic`, even k) remains, and none in `jacobian`. In
`examples/third_order.py` (sigma .5, learned s1 and s2) `residual` errs by .075, `jacobian` by .42.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hosm.checks import check_one_shape, check_positive, checked
from hosm.noise import check_sigma, rademacher, standard_normal
from hosm.objectives.targets import VarianceReduction
from hosm.operators import DiagonalPlusCP, DiagonalPlusLowRank

__all__ = ["HighOrderModel", "HighOrderObjective", "order_k"]

Target = Literal["residual", "jacobian"]
Model = Callable[[Tensor], DiagonalPlusCP]
Lower = Callable[[Tensor], Sequence[Any]]
"""x_noisy -> (s1, s2, .., s_(k-1)): (n, D), a DiagonalPlusLowRank, then DiagonalPlusCP each."""

TARGETS = ("residual", "jacobian")
SIGNS = {None: (1,), "control": (1,), "antithetic": (1, -1)}  # of z at the noisy points


def _tensor(score: DiagonalPlusLowRank | DiagonalPlusCP, order: int) -> DiagonalPlusCP:
    """Return a score of order two or above as a `DiagonalPlusCP`."""
    if isinstance(score, DiagonalPlusLowRank):
        signs = score.signs.repeat(*score.diag.shape[:-1], 1)
        score = DiagonalPlusCP(score.diag, score.factor, signs, 2)
    if getattr(score, "order", None) != order:
        raise ValueError(f"lower must return a score of order {order} there, got {score!r}")
    return score


def _bell(order: int, a: Tensor, cumulants: Sequence[Tensor]) -> Tensor:
    """Return T_k from a = r.w and c_2, c_3, .. by recursion (2); missing cumulants are zero."""
    T = [torch.ones_like(a)]
    for n in range(1, order + 1):
        terms = [
            math.comb(n - 1, j) * c * T[n - 1 - j] for j, c in enumerate(cumulants[: n - 1], 1)
        ]
        T.append(a * T[-1] - sum(terms))
    return T[order]


def _pair(A: DiagonalPlusCP, u: Tensor, cumulants: Sequence[DiagonalPlusCP]) -> Tensor:
    """Return <A, T~_k>, shape (n,), for u, shape (n, D), and kappa~_2, kappa~_3, .. ."""
    axes = _bell(A.order, u, [kappa.diagonal() for kappa in cumulants])
    a = (u.unsqueeze(-2) @ A.factor).squeeze(-2)
    columns = _bell(A.order, a, [kappa.contract(A.factor) for kappa in cumulants])
    return (A.diag * axes).sum(-1) + (A.weights * columns).sum(-1)


def _residual(
    model: Model, lower: Lower, x: Tensor, sigma: float, reduction: VarianceReduction, z: Tensor
) -> Tensor:
    """Return ||A||^2 - 2 <A, T~_k> / sigma^k for each sample, with variance reduction."""
    signs = SIGNS[reduction]
    noise = torch.cat([sign * z for sign in signs])
    x_noisy = x.repeat(len(signs), 1) + sigma * noise
    A = model(x_noisy)
    with torch.no_grad():
        s1, *others = lower(x_noisy)
    if len(others) != A.order - 2:
        raise ValueError(
            f"lower must return {A.order - 1} scores for order {A.order}, got {len(others) + 1}"
        )
    cumulants = [_tensor(s, k).detach() * sigma**k for k, s in enumerate(others, 2)]
    cumulants[0] = cumulants[0] + DiagonalPlusCP.from_diagonal(torch.ones_like(noise), 2)
    inner = _pair(A, -noise - sigma * s1.detach(), cumulants)
    value = A.frobenius_norm_squared() - 2 * inner / sigma**A.order
    value = value.view(len(signs), len(x)).mean(0)
    if reduction is None or (reduction == "antithetic" and A.order % 2):
        return value
    identity = DiagonalPlusCP.from_diagonal(torch.ones_like(z), 2)
    return value + 2 * _pair(model(x), -z, [identity]) / sigma**A.order


def _rates(
    lower: Lower, A: DiagonalPlusCP, x_noisy: Tensor, v: Tensor, step: float | None
) -> tuple[Tensor, Tensor]:
    """Return D_v s_(k-1) on the axes, (n, D), and on the columns of A held fixed, (n, R)."""

    def parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        last = _tensor(lower(x)[-1], A.order - 1)  # detach would cut the derivative
        return last.diag.contiguous(), last.factor.contiguous(), last.weights.contiguous()

    def contractions(d: Tensor, W: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        last = DiagonalPlusCP(d, W, c, A.order - 1)
        return last.diagonal(), last.contract(A.factor)

    with torch.no_grad():
        if step is None:
            value, rate = torch.func.jvp(parts, (x_noisy,), (v,))  # type: ignore[misc]
        else:
            value, moved = parts(x_noisy), parts(x_noisy + step * v)
            rate = tuple((b - a) / step for a, b in zip(value, moved, strict=True))
    return torch.func.jvp(contractions, value, rate)[1]


def _jacobian(
    model: Model, lower: Lower, x_noisy: Tensor, v: Tensor, step: float | None
) -> Tensor:
    """Return ||A . v||^2 - 2 <A . v, D_v s_(k-1)> for each sample."""
    A = model(x_noisy)
    image = A.contract_once(v)
    axes, columns = _rates(lower, A, x_noisy, v, step)
    inner = (image.diag * axes).sum(-1) + (image.weights * columns).sum(-1)
    return image.frobenius_norm_squared() - 2 * inner


def _check(x: Tensor, target: str, reduction: VarianceReduction, **noise: Tensor | None) -> None:
    checked("x", x, "n", "D", finite=False)
    given = {name: tensor for name, tensor in noise.items() if tensor is not None}
    check_one_shape("(n, D)", x=x, **given)
    if target not in TARGETS:
        raise ValueError(f"target must be one of {TARGETS}, got {target!r}")
    if reduction not in SIGNS:
        raise ValueError(f"variance_reduction must be one of {tuple(SIGNS)}, got {reduction!r}")


def order_k(
    model: Model,
    lower: Lower,
    x: Tensor,
    sigma: float,
    target: Target = "jacobian",
    variance_reduction: VarianceReduction = "antithetic",
    generator: torch.Generator | None = None,
    *,
    z: Tensor | None = None,
    v: Tensor | None = None,
    jvp_step: float | None = None,
) -> Tensor:
    """Return the objective of a score of order k, without its constant: a scalar.

    Args:
        model: callable (n, D) -> DiagonalPlusCP of order k, at least 3.
        lower: callable (n, D) -> (s1, s2, .., s_(k-1)), evaluated without gradient: see `Lower`.
            `jacobian` uses the last alone, and differentiates it in x.
        x: clean points, shape (n, D).
        sigma: noise scale, above 0.
        target: `residual` or `jacobian`.
        variance_reduction: None, `control` or `antithetic`; `jacobian` needs none.
        generator: source of z and v.
        z: standard normal noise, shape (n, D), in place of the generator's.
        v: fair signs for `jacobian`, shape (n, D), in place of the generator's.
        jvp_step: step of the difference that stands for D_v s_(k-1); None for forward mode.

    Raises:
        ValueError: shapes that differ, an empty or integer batch, sigma not above 0, an unknown
            target or variance reduction, or lower scores whose last order is not k - 1.
    """
    _check(x, target, variance_reduction, z=z, v=v)
    check_positive("jvp_step", 1.0 if jvp_step is None else jvp_step)
    sigma, z = check_sigma(sigma), standard_normal(x, generator) if z is None else z
    if target == "residual":
        return _residual(model, lower, x, sigma, variance_reduction, z).mean()
    v = rademacher(x, generator) if v is None else v
    return _jacobian(model, lower, x + sigma * z, v, jvp_step).mean()


class HighOrderModel(nn.Module):
    """A score of order k as a `DiagonalPlusCP`, from any backbone.

    Of the backbone's outputs F, F_0 is d, the next `rank` are columns of W and the last `rank`,
    averaged over coordinates, are c. Outputs are in units of a length l, of which s_k is l^-k:

        d = F_0 / l^k,  w_j = b_j + F_j / sqrt(D),  c_j = mean(F_(rank + j)) / l^k.

    A power w^(x)k is flat of order k - 1 at w = 0. The trained directions b_j, of norm about one
    where F is small, keep w away from it: at first the gradient in c_j is that of a linear model.

    Args:
        trunk: backbone (n, D) -> (n, 1 + 2 rank, D), with an attribute `dimension`.
        order: k, at least 3.
        sigma: noise scale that the model is trained at.
        rank: columns R of W; 0 for a diagonal model.
        length: l, over which log q_sigma bends; sigma, for kappa_k / sigma^k, when omitted.

    Raises:
        ValueError: order, sigma, rank or length out of range.
    """

    def __init__(
        self, trunk: nn.Module, *, order: int, sigma: float, rank: int, length: float | None = None
    ) -> None:
        super().__init__()
        for name, value, least in (("order", order, 3), ("rank", rank, 0)):
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
        self.sigma = check_sigma(sigma)
        self.length = self.sigma if length is None else length
        if not (math.isfinite(self.length) and self.length > 0):
            raise ValueError(f"length must be a finite number above 0, got {length!r}")
        self.dimension = int(trunk.dimension)  # type: ignore[arg-type]
        self.trunk, self.order, self.rank = trunk, order, rank
        self.directions = nn.Parameter(torch.randn(self.dimension, rank) / self.dimension**0.5)

    def forward(self, x_noisy: Tensor, sigma: float | None = None) -> DiagonalPlusCP:
        """Return s_k at noisy points x_noisy, shape (n, D).

        Raises:
            ValueError: another shape, a sigma not the model's own, a backbone of other outputs.
        """
        n, D, rank = len(x_noisy), self.dimension, self.rank
        if x_noisy.ndim != 2 or x_noisy.shape[1] != D:
            raise ValueError(f"x_noisy must have shape (n, {D}), got {tuple(x_noisy.shape)}")
        if sigma is not None and not math.isclose(sigma, self.sigma, rel_tol=1e-6):
            raise ValueError(f"this model was trained at sigma {self.sigma}, got {sigma}")
        outputs = self.trunk(x_noisy)
        if outputs.shape != (n, 1 + 2 * rank, D):
            raise ValueError(
                f"the backbone must return shape ({n}, {1 + 2 * rank}, {D}), "
                f"got {tuple(outputs.shape)}"
            )
        diag, factor, weights = outputs.split([1, rank, rank], 1)
        factor = self.directions + factor.transpose(1, 2) / math.sqrt(D)
        unit = self.length**-self.order
        return DiagonalPlusCP(diag[:, 0] * unit, factor, weights.mean(-1) * unit, self.order)


class HighOrderObjective(nn.Module):
    """The model and its loss in one forward pass, for `hosm.training.loop.fit`.

    Pass it as `objective=functools.partial(HighOrderObjective, lower=lower)`. The lower scores
    are no part of it: they are neither trained, averaged, saved nor moved to a device.

    Args:
        model: a `HighOrderModel`, or another module x_noisy -> DiagonalPlusCP.
        settings: how it is trained.
        lower: x_noisy -> (s1, s2, .., s_(k-1)); a `ScoreModel` is that for k = 3.

    Raises:
        ValueError: the settings have a range of sigma, or another target.
    """

    weights: tuple[float, ...] = (1.0,)

    def __init__(self, model: nn.Module, settings: Any, *, lower: Lower) -> None:  # noqa: ANN401
        super().__init__()
        if settings.target not in TARGETS:
            raise ValueError(f"target must be {' or '.join(TARGETS)}, got {settings.target!r}")
        self.sigma = check_sigma(settings.sigma)
        self.model, self.settings = model, settings
        self.names = (f"order_{getattr(model, 'order', 'k')}",)
        self.lower = lambda x_noisy: lower(x_noisy)  # a function: no submodule, never copied

    def forward(self, x: Tensor, z: Tensor, v: Tensor, t: Tensor | None = None) -> Tensor:
        """Return the objective, shape (1,), of a batch (see `training.Batch`); t is unused."""
        loss = order_k(
            self.model,
            self.lower,
            x,
            self.sigma,
            target=self.settings.target,
            variance_reduction=self.settings.variance_reduction,
            z=z,
            v=v,
        )
        return loss.unsqueeze(0)
