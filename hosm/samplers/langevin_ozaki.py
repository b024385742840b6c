r"""Markov chains driven by first- and second-order scores.

Langevin dynamics discretises dx = (1/2) s1 dt + dW with a step eps,

$$x \leftarrow x + \tfrac{\epsilon}{2} s_1(x) + \sqrt{\epsilon}\, z, \qquad z \sim N(0, I).$$

Ozaki's scheme solves the diffusion exactly for a log-density frozen at second order at x:

$$x \leftarrow x + M s_1 + \Sigma^{1/2} z, \qquad
          M = (e^{t s_2} - I)\, s_2^{-1}, \qquad \Sigma = (e^{2 t s_2} - I)\, s_2^{-1}$$

(Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data Distribution by
Denoising", NeurIPS 2021, section 5; Ozaki 1992, Stramer and Tweedie 1999), so that one step of
any size is exact for a Gaussian. With phi(h, t) = (e^(t h) - 1) / h and phi(0, t) = t, an
eigenvalue or diagonal entry h of s2 has M = phi(h, t) and Sigma = phi(h, 2 t).

Clock: as t -> 0 the drift is t s1 and the variance 2 t, a Langevin step of size 2 t. The paper
prints t = eps, so **its Ozaki(eps) runs at twice the clock of Langevin(eps)**: `clock="paper"`;
`clock="langevin"` takes t = eps / 2.

Form: the paper takes the diagonal of s2 for s2. `low-rank` takes a diagonal plus low rank whole,
in products with M and Sigma^(1/2) that never build them (`operators.function_matvec`); `full`
takes a dense s2 and its eigenvectors, O(D^3) a step.

Guard: where h > 0 (between modes) phi grows like e^(t h) and the step overflows. `floor` takes
min(h, -h0), so that no variance of a step exceeds 1 / h0: h0 of the order of 1 / Var(x) bends
no mode, while h0 above a mode's own 1 / variance biases it at large steps. `langevin` takes
min(h, 0), the Langevin step where h >= 0; `abs` takes -|h|; `none` is the printed step.

A step proposes from N(mean(x), S S^T). Given log p, the proposal is accepted or rejected by the
rule of Metropolis and Hastings (`hosm.samplers.metropolis`), which leaves p invariant for any step
size and any guard. The adjusted Langevin kernel is MALA (Roberts and Tweedie, "Exponential
convergence of Langevin distributions and their discrete approximations", Bernoulli 1996).

Units: t and eps are in those of x squared, s1 in their inverse for x, s2 and h0 in that for x^2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hosm.checks import check_choice, check_number, check_positive, checked
from hosm.samplers.chains import anneal, sample_chain
from hosm.samplers.metropolis import ChainInfo, ChainState, Kernel, compiled, gaussian_kernel

__all__ = [
    "CLOCKS",
    "FORMS",
    "GUARDS",
    "ChainInfo",
    "ChainState",
    "Kernel",
    "anneal",
    "compiled",
    "langevin",
    "ozaki",
    "sample_chain",
]

GUARDS = ("none", "floor", "abs", "langevin")
FORMS = ("diagonal", "low-rank", "full")
CLOCKS = {"paper": 1.0, "langevin": 0.5}  # t / eps
ZERO_CURVATURE = 1e-18  # a curvature that stands for 0: phi(-ZERO_CURVATURE, t) rounds to t
Score = Callable[[Tensor], Tensor]
Model = Callable[[Tensor], tuple[Tensor, Any]]
Moves = Callable[[Tensor], tuple[Tensor, Tensor]]
Propose = Callable[[Tensor], ChainState]


def langevin(
    score_function: Score, step_size: float | Tensor, log_prob: Score | None = None
) -> Kernel:
    """Return the Langevin kernel, or with `log_prob` the Metropolis-adjusted one (MALA).

    Args:
        score_function: s1, from x of shape (n, D) to shape (n, D).
        step_size: eps > 0, a number, or one for each chain, shape (n,).
        log_prob: log p up to a constant, from x of shape (n, D) to shape (n,).

    Returns:
        The kernel; it raises ValueError if a score has another shape than x.

    Raises:
        ValueError: if `step_size` is not positive and finite.
    """
    eps = _step_size(step_size)

    def propose(x: Tensor) -> ChainState:
        s1 = checked("s1", score_function(x), *x.shape, finite=False)
        _check_chains(eps, x)
        if isinstance(eps, Tensor):
            return ChainState(x, s1, torch.addcmul(x, s1, eps / 2), eps.sqrt())
        return ChainState(x, s1, x.add(s1, alpha=eps / 2), eps**0.5)

    remedy = "a smaller step size, or Ozaki's step with the guard 'floor'"
    return gaussian_kernel(propose, log_prob, remedy)


def _step_size(step_size: float | Tensor) -> float | Tensor:
    """Return a step size as a number, or those of the chains in shape (n, 1)."""
    if isinstance(step_size, Tensor) and step_size.ndim == 1:
        check_positive("step_size", checked("step_size", step_size, "n"))
        return step_size.unsqueeze(-1)
    check_number("step_size", step_size)
    return float(step_size)


def _check_chains(step_size: float | Tensor, x: Tensor) -> None:
    """Raise ValueError unless there is one step size, or one for each chain of x, (n, D)."""
    if isinstance(step_size, Tensor) and len(step_size) != len(x):
        raise ValueError(f"step_size must be one number, or {len(x)}, got {len(step_size)}")


def ozaki(
    model: Model,
    step_size: float | Tensor,
    guard: str = "floor",
    *,
    floor: float = 0.1,
    clock: str = "paper",
    form: str = "diagonal",
    log_prob: Score | None = None,
) -> Kernel:
    """Return the Ozaki kernel for a model of both scores.

    Args:
        model: from x of shape (n, D) to s1 of shape (n, D) and s2, which is an operator with
            `diagonal()`, or a tensor of shape (n, D) (a diagonal) or (n, D, D). One with a method
            `score_and_diagonal` is asked for no more, where the form is `diagonal`.
        step_size: eps > 0, a number, or one for each chain, shape (n,).
        guard: what to do where the curvature h exceeds 0, one of `GUARDS`.
        floor: h0 > 0 of the guard `floor`.
        clock: "paper" (t = eps) or "langevin" (t = eps / 2).
        form: what is taken of s2, one of `FORMS`; `low-rank` needs an operator with
            `function_matvec` (see `hosm.operators`), `full` one with `to_dense` or a dense s2.
        log_prob: log p up to a constant, as in `langevin`; adjusts the step if given. The density
            of a `low-rank` proposal is not known, so that adjusting takes another form.

    Returns:
        The kernel; it raises ValueError if s1 or s2 has another shape.

    Raises:
        ValueError: if `step_size` or `floor` is not positive and finite, guard, clock or form is
            unknown, or `log_prob` is given to a `low-rank` step.
    """
    check_choice("guard", guard, GUARDS)
    check_choice("clock", clock, CLOCKS)
    check_choice("form", form, FORMS)
    if log_prob is not None and form == "low-rank":
        raise ValueError("form must be diagonal or full where log_prob is given, got 'low-rank'")
    moves = _moves(CLOCKS[clock] * _step_size(step_size), guard, floor)
    propose = {"diagonal": _diagonal, "low-rank": _low_rank, "full": _full}[form](model, moves)
    remedy = f"a smaller step size, or the guard 'floor' instead of {guard!r}"
    if guard == "floor":
        remedy = "a smaller step size, or a form with the curvature off the diagonal"
    kernel = gaussian_kernel(propose, log_prob, remedy)
    return kernel._replace(advance=None) if form == "low-rank" else kernel  # not to be compiled


def _moves(t: float | Tensor, guard: str, floor: float) -> Moves:
    """Return the function of curvatures h, of any shape, to M and Sigma^(1/2)."""
    check_number("floor", floor)
    ceiling = -float(floor) if guard == "floor" else -ZERO_CURVATURE

    def moves(h: Tensor) -> tuple[Tensor, Tensor]:
        _check_chains(t, h)
        h = _guarded(h, guard, ceiling)
        e = (t * h).expm1_()
        m = e.div(h)
        return m, e.add_(2).mul_(m).sqrt_()  # phi(h, 2 t) = phi(h, t) (e^(t h) + 1)

    return moves


def _guarded(h: Tensor, guard: str, ceiling: float) -> Tensor:
    """Return the curvature h, of any shape, below `ceiling` < 0 or (`none`) other than 0.

    No guard takes an infinite h: phi would be 0, and the chain would stand still as if it had
    converged. It becomes NaN, so that the chain diverges.
    """
    h = h.masked_fill(h.isinf(), torch.nan)
    if guard == "none":
        return torch.where(h.abs() < ZERO_CURVATURE, -ZERO_CURVATURE, h)
    return (-h.abs() if guard == "abs" else h).clamp(max=ceiling)


def _diagonal(model: Model, moves: Moves) -> Propose:
    """Return the step of the diagonal of s2."""
    asked = getattr(model, "score_and_diagonal", model)

    def propose(x: Tensor) -> ChainState:
        s1, s2 = _both(asked, x)
        if isinstance(s2, Tensor) and s2.ndim != x.ndim:
            s2 = checked("s2", s2, *x.shape, x.shape[-1], finite=False).diagonal(dim1=-2, dim2=-1)
        h = s2 if isinstance(s2, Tensor) else s2.diagonal()
        m, root = moves(checked("diagonal of s2", h, *x.shape, finite=False))
        return ChainState(x, s1, torch.addcmul(x, m, s1), root)

    return propose


def _low_rank(model: Model, moves: Moves) -> Propose:
    """Return the step of an operator s2, in products with functions of it."""

    def propose(x: Tensor) -> ChainState:
        s1, s2 = _both(model, x)
        if not hasattr(s2, "function_matvec"):
            raise ValueError(f"s2 must be a DiagonalPlusLowRank, got a {type(s2).__name__}")
        finite = s2.diag.isfinite() & s2.factor.isfinite().all(-1)
        lost = ~finite.all(-1, keepdim=True)
        parts = (part.nan_to_num(0.0, 0.0, 0.0) for part in (s2.diag, s2.factor))
        known = type(s2)(*parts, s2.signs)  # whose eigenvalues can be computed
        drift = known.function_matvec(lambda h: moves(h)[0], s1).masked_fill(lost, torch.nan)
        root = partial(known.function_matvec, lambda h: moves(h)[1])
        return ChainState(x, s1, x + drift, root)

    return propose


def _full(model: Model, moves: Moves) -> Propose:
    """Return the step of a dense s2, through its eigenvectors."""

    def propose(x: Tensor) -> ChainState:
        s1, s2 = _both(model, x)
        dense = s2 if isinstance(s2, Tensor) else s2.to_dense()
        checked("s2", dense, *x.shape, x.shape[-1], finite=False)
        finite = dense.isfinite().all(-1).all(-1)
        h, v = torch.linalg.eigh(dense.nan_to_num(0.0, 0.0, 0.0))  # which refuses other matrices
        m, root = moves(h.masked_fill(~finite.unsqueeze(-1), torch.nan))
        drift = v @ (m.unsqueeze(-1) * (v.mT @ s1.unsqueeze(-1)))
        return ChainState(x, s1, x + drift.squeeze(-1), (v * root.unsqueeze(-2)) @ v.mT)

    return propose


def _both(model: Model, x: Tensor) -> tuple[Tensor, Any]:
    """Return s1, shape (n, D), and s2 of a second-order model at x, shape (n, D)."""
    s1, s2 = model(x)
    if s2 is None:
        raise ValueError("model must return s2, got None in its place")
    return checked("s1", s1, *x.shape, finite=False), s2
