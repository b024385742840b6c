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

Guard: where h > 0 (between modes) phi grows like e^(t h) and the step overflows. `floor` takes
min(h, -h0), so that no variance of a step exceeds 1 / h0: h0 of the order of 1 / Var(x) bends
no mode, while h0 above a mode's own 1 / variance biases it at large steps. `langevin` takes
min(h, 0), the Langevin step where h >= 0; `abs` takes -|h|; `none` is the printed step.

A step proposes from N(mean(x), S S^T). Given log p, it is accepted or not after Metropolis and
Hastings (`proposals`; for Langevin MALA, Roberts and Tweedie, "Exponential convergence of Langevin
distributions and their discrete approximations", Bernoulli 1996), which leaves p invariant for
any step size and any guard.

Units: t and eps are in those of x squared, s1 in their inverse for x, s2 and h0 in that for x^2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hosm.checks import check_count, check_generator, check_number, checked
from hosm.proposals import ChainInfo, ChainState, Kernel, gaussian_kernel

__all__ = ["ChainInfo", "ChainState", "Kernel", "langevin", "ozaki", "sample_chain"]

GUARDS = ("none", "floor", "abs", "langevin")
CLOCKS = {"paper": 1.0, "langevin": 0.5}  # t / eps
TINY = 1e-18  # a curvature that stands for 0: phi(-TINY, t) rounds to t
Score = Callable[[Tensor], Tensor]


def langevin(score_function: Score, step_size: float, log_prob: Score | None = None) -> Kernel:
    """Return the Langevin kernel, or with `log_prob` the Metropolis-adjusted one (MALA).

    Args:
        score_function: s1, from x of shape (n, D) to shape (n, D).
        step_size: eps > 0, a number.
        log_prob: log p up to a constant, from x of shape (n, D) to shape (n,).

    Returns:
        The kernel; it raises ValueError if a score has another shape than x.

    Raises:
        ValueError: if `step_size` is not a positive, finite number.
    """
    check_number("step_size", step_size)
    step_size = float(step_size)
    spread = step_size**0.5

    def propose(x: Tensor) -> ChainState:
        s1 = checked("s1", score_function(x), *x.shape, finite=False)
        return ChainState(x, s1, x.add(s1, alpha=step_size / 2), spread)

    return gaussian_kernel(propose, log_prob)


def ozaki(
    model: Callable[[Tensor], tuple[Tensor, Any]],
    step_size: float,
    guard: str = "floor",
    *,
    floor: float = 0.1,
    clock: str = "paper",
    full: bool = False,
    log_prob: Score | None = None,
) -> Kernel:
    """Return the Ozaki kernel for a model of both scores.

    Args:
        model: from x of shape (n, D) to s1 of shape (n, D) and s2, which is an operator with
            `diagonal()`, or a tensor of shape (n, D) (a diagonal) or (n, D, D).
        step_size: eps > 0.
        guard: what to do where the curvature h exceeds 0, one of `GUARDS`.
        floor: h0 > 0 of the guard `floor`.
        clock: "paper" (t = eps) or "langevin" (t = eps / 2).
        full: use the dense s2 and its eigenvectors, O(D^3) a step, instead of its diagonal.
        log_prob: log p up to a constant, as in `langevin`; adjusts the step if given.

    Returns:
        The kernel; it raises ValueError if s1 or s2 has another shape.

    Raises:
        ValueError: if `step_size` or `floor` is not a positive, finite number, or guard or clock
            is unknown.
    """
    check_number("step_size", step_size)
    check_number("floor", floor)
    if guard not in GUARDS:
        raise ValueError(f"guard is {guard!r}; legal are {', '.join(GUARDS)}")
    if clock not in CLOCKS:
        raise ValueError(f"clock is {clock!r}; legal are {', '.join(CLOCKS)}")
    t, ceiling = CLOCKS[clock] * float(step_size), -float(floor) if guard == "floor" else -TINY

    def moves(h: Tensor) -> tuple[Tensor, Tensor]:
        h = _guarded(h, guard, ceiling)
        e = torch.expm1(t * h)
        m = e / h
        return m, (m * e.add_(2)).sqrt_()  # phi(h, 2 t) = phi(h, t) (e^(t h) + 1)

    def propose(x: Tensor) -> ChainState:
        s1, s2 = _both(model, x)
        m, root = moves(_diagonal(s2, x))
        return ChainState(x, s1, torch.addcmul(x, m, s1), root)

    def propose_full(x: Tensor) -> ChainState:
        s1, s2 = _both(model, x)
        dense = s2 if isinstance(s2, Tensor) else s2.to_dense()
        checked("s2", dense, *x.shape, x.shape[-1], finite=False)
        h, v = torch.linalg.eigh(dense.nan_to_num(0.0, 0.0, 0.0))  # a diverged chain goes on
        m, root = moves(h)
        drift = v @ (m.unsqueeze(-1) * (v.mT @ s1.unsqueeze(-1)))
        return ChainState(x, s1, x + drift.squeeze(-1), (v * root.unsqueeze(-2)) @ v.mT)

    return gaussian_kernel(propose_full if full else propose, log_prob)


def _both(model: Callable[[Tensor], tuple[Tensor, Any]], x: Tensor) -> tuple[Tensor, Any]:
    """Return s1, shape (n, D), and s2 of a second-order model at x, shape (n, D)."""
    s1, s2 = model(x)
    if s2 is None:
        raise ValueError("s2 is None; legal is a model of second order")
    return checked("s1", s1, *x.shape, finite=False), s2


def _guarded(h: Tensor, guard: str, ceiling: float) -> Tensor:
    """Return the curvature h, of any shape, below `ceiling` < 0 or (`none`) other than 0."""
    if guard == "none":
        return torch.where(h.abs() < TINY, -TINY, h)
    return (-h.abs() if guard == "abs" else h).clamp(max=ceiling)


def _diagonal(s2: Any, x: Tensor) -> Tensor:  # noqa: ANN401
    """Return the diagonal (n, D) of an operator, a diagonal (n, D) or a dense s2 (n, D, D)."""
    if isinstance(s2, Tensor) and s2.ndim != x.ndim:
        s2 = checked("s2", s2, *x.shape, x.shape[-1], finite=False).diagonal(dim1=-2, dim2=-1)
    diagonal = s2 if isinstance(s2, Tensor) else s2.diagonal()
    return checked("diagonal of s2", diagonal, *x.shape, finite=False)


@torch.no_grad()
def sample_chain(
    kernel: Kernel,
    x0: Tensor,
    steps: int,
    burn_in: int = 0,
    generator: torch.Generator | None = None,
    *,
    thin: int = 1,
    progress: Callable[[int, ChainInfo], None] | None = None,
) -> Tensor:
    """Run the chains from x0 and keep every `thin`-th point after the burn-in.

    A chain that diverges goes on, and its draws hold values that are not finite (see also
    `finite_share` of the info that `progress` receives).

    Args:
        kernel: the transition.
        x0: starting points, finite, shape (n, D).
        steps: number of draws kept per chain.
        burn_in: transitions before those that count.
        generator: source of the noise, on the device of x0.
        thin: transitions per draw.
        progress: called after each transition with its number, from 1, and its info.

    Returns:
        The draws, shape (n, steps, D).

    Raises:
        ValueError: if x0 is not a matrix of finite floating-point numbers or is empty, a count
            is out of range, or the generator belongs to another device.
    """
    checked("x0", x0, "n", "D")
    check_generator(generator, x0.device)
    for name, count, least in (("steps", steps, 1), ("burn_in", burn_in, 0), ("thin", thin, 1)):
        check_count(name, count, least)
    draws = x0.new_empty(x0.shape[0], steps, x0.shape[1])
    state = kernel.init(x0)
    for i in range(1, burn_in + steps * thin + 1):
        state, info = kernel.step(state, generator)
        kept, rest = divmod(i - burn_in, thin)
        if kept > 0 and rest == 0:
            draws[:, kept - 1] = state.x
        if progress is not None:
            progress(i, info)
    return draws
