r"""Markov chains driven by first- and second-order scores.

Langevin dynamics discretises dx = (1/2) s1 dt + dW with a step eps,

.. math:: x \leftarrow x + \tfrac{\epsilon}{2} s_1(x) + \sqrt{\epsilon}\, z, \qquad z \sim N(0, I).

Ozaki's scheme solves the diffusion exactly for a log-density frozen at second order at x:

.. math:: x \leftarrow x + M s_1 + \Sigma^{1/2} z, \qquad
          M = (e^{t s_2} - I)\, s_2^{-1}, \qquad \Sigma = (e^{2 t s_2} - I)\, s_2^{-1}

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

A step proposes from N(mean(x), S S^T). Given log p, it is accepted with probability
min(1, p(x') q(x | x') / (p(x) q(x' | x))) (Metropolis-Hastings; for Langevin MALA, Roberts and
Tweedie 1996), which leaves p invariant for any step size and any guard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["ChainInfo", "ChainState", "Kernel", "langevin", "ozaki", "sample_chain"]

GUARDS = ("none", "floor", "abs", "langevin")
CLOCKS = {"paper": 1.0, "langevin": 0.5}  # t / eps
TINY = 1e-18  # a curvature that stands for 0: phi(-TINY, t) rounds to t
Score = Callable[[Tensor], Tensor]


class ChainState(NamedTuple):
    """A point of each chain, with all that was computed there.

    Attributes:
        x: the points, shape (n, D).
        score: s1(x), shape (n, D).
        mean: mean of the next proposal, shape (n, D).
        spread: root S of its covariance: a number, or a tensor of shape (n, D) or (n, D, D).
        log_prob: log p(x), shape (n,); None for a chain that is not adjusted.
    """

    x: Tensor
    score: Tensor
    mean: Tensor
    spread: float | Tensor
    log_prob: Tensor | None = None


class ChainInfo(NamedTuple):
    """What happened in a step; the properties are computed when asked for.

    Attributes:
        x: the new points, shape (n, D).
        log_ratio: log of the Metropolis-Hastings ratio, shape (n,); None without adjustment.
    """

    x: Tensor
    log_ratio: Tensor | None = None

    @property
    def finite_share(self) -> float:
        """Share of the chains at a finite point; one that has diverged is never reset."""
        return float(self.x.isfinite().all(-1).double().mean())

    @property
    def acceptance(self) -> Tensor:
        """Probability of acceptance of each chain, shape (n,); 1 without adjustment."""
        log_ratio = self.x.new_zeros(()) if self.log_ratio is None else self.log_ratio
        return log_ratio.clamp(max=0).exp().nan_to_num(0.0).expand(self.x.shape[:-1])


class Kernel(NamedTuple):
    """A transition of n independent chains.

    Attributes:
        init: x of shape (n, D) -> state.
        step: (state, generator or None) -> (state, info); it evaluates the model once.
    """

    init: Callable[[Tensor], ChainState]
    step: Callable[[ChainState, torch.Generator | None], tuple[ChainState, ChainInfo]]


def langevin(score_function: Score, step_size: float, log_prob: Score | None = None) -> Kernel:
    """Return the Langevin kernel, or with `log_prob` the Metropolis-adjusted one (MALA).

    Args:
        score_function: s1, from x of shape (n, D) to shape (n, D).
        step_size: eps > 0.
        log_prob: log p up to a constant, from x of shape (n, D) to shape (n,).

    Returns:
        The kernel.

    Raises:
        ValueError: if `step_size` is not positive.
    """
    _check_positive("step_size", step_size)
    spread = step_size**0.5

    def propose(x: Tensor) -> ChainState:
        s1 = score_function(x)
        return ChainState(x, s1, x.add(s1, alpha=step_size / 2), spread)

    return _gaussian_kernel(propose, log_prob)


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
        The kernel.

    Raises:
        ValueError: if `step_size` or `floor` is not positive, or guard or clock is unknown.
    """
    _check_positive("step_size", step_size)
    _check_positive("floor", floor)
    if guard not in GUARDS:
        raise ValueError(f"guard is {guard!r}; legal are {', '.join(GUARDS)}")
    if clock not in CLOCKS:
        raise ValueError(f"clock is {clock!r}; legal are {', '.join(CLOCKS)}")
    t, ceiling = CLOCKS[clock] * step_size, -floor if guard == "floor" else -TINY

    def moves(h: Tensor) -> tuple[Tensor, Tensor]:
        h = _guarded(h, guard, ceiling)
        e = torch.expm1(t * h)
        m = e / h
        return m, (m * e.add_(2)).sqrt_()  # phi(h, 2 t) = phi(h, t) (e^(t h) + 1)

    def propose(x: Tensor) -> ChainState:
        s1, s2 = model(x)
        m, root = moves(_diagonal(s2, x.ndim))
        return ChainState(x, s1, torch.addcmul(x, m, s1), root)

    def propose_full(x: Tensor) -> ChainState:
        s1, s2 = model(x)
        dense = s2 if isinstance(s2, Tensor) else s2.to_dense()
        h, v = torch.linalg.eigh(dense.nan_to_num(0.0, 0.0, 0.0))  # a diverged chain goes on
        m, root = moves(h)
        drift = v @ (m.unsqueeze(-1) * (v.mT @ s1.unsqueeze(-1)))
        return ChainState(x, s1, x + drift.squeeze(-1), (v * root.unsqueeze(-2)) @ v.mT)

    return _gaussian_kernel(propose_full if full else propose, log_prob)


def _guarded(h: Tensor, guard: str, ceiling: float) -> Tensor:
    """Return the curvature h, of any shape, below `ceiling` < 0 or (`none`) other than 0."""
    if guard == "none":
        return torch.where(h.abs() < TINY, -TINY, h)
    return (-h.abs() if guard == "abs" else h).clamp(max=ceiling)


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} is {value}; legal is any finite number above 0")


def _diagonal(s2: Any, ndim: int) -> Tensor:  # noqa: ANN401
    """Return the diagonal (n, D) of an operator, a diagonal (n, D) or a dense s2 (n, D, D)."""
    if not isinstance(s2, Tensor):
        return s2.diagonal()
    return s2 if s2.ndim == ndim else s2.diagonal(dim1=-2, dim2=-1)


def _draw(state: ChainState, generator: torch.Generator | None) -> Tensor:
    """Draw the proposal N(mean, S S^T), shape (n, D)."""
    x, mean, spread = state.x, state.mean, state.spread
    z = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
    if isinstance(spread, float):
        return mean.add(z, alpha=spread)
    if spread.ndim == x.ndim:
        return torch.addcmul(mean, spread, z)
    return mean + (spread @ z.unsqueeze(-1)).squeeze(-1)


def _log_density(state: ChainState, y: Tensor) -> Tensor:
    """Return log q(y | x), shape (n,), up to a constant that x and y share."""
    offset, spread = y - state.mean, state.spread
    if isinstance(spread, float):
        return (offset / spread).square().sum(-1).mul(-0.5)
    if spread.ndim == y.ndim:
        return (offset / spread).square().mul(-0.5).sub(spread.log()).sum(-1)
    z = torch.linalg.solve(spread, offset.unsqueeze(-1)).squeeze(-1)
    return z.square().sum(-1).mul(-0.5) - torch.linalg.slogdet(spread).logabsdet


def _gaussian_kernel(
    propose: Callable[[Tensor], ChainState], log_prob: Score | None = None
) -> Kernel:
    """Return the kernel that proposes from N(mean, S S^T) and, given `log_prob`, accepts."""

    def init(x: Tensor) -> ChainState:
        state = propose(x)
        return state if log_prob is None else state._replace(log_prob=log_prob(x))

    def step(
        state: ChainState, generator: torch.Generator | None = None
    ) -> tuple[ChainState, ChainInfo]:
        new = init(_draw(state, generator))
        if new.log_prob is None or state.log_prob is None:
            return new, ChainInfo(new.x)
        log_ratio = new.log_prob - state.log_prob
        log_ratio += _log_density(new, state.x) - _log_density(state, new.x)
        threshold = torch.empty_like(log_ratio).exponential_(generator=generator).neg_()
        accepted = log_ratio > threshold  # false where the ratio is not a number
        chosen = ChainState(*(_where(accepted, *pair) for pair in zip(new, state, strict=True)))
        return chosen, ChainInfo(chosen.x, log_ratio)

    return Kernel(init, step)


def _where(accepted: Tensor, new: Any, old: Any) -> Any:  # noqa: ANN401
    """Return `new` where accepted (n,) is true, `old` elsewhere; `new` if it is no tensor."""
    if isinstance(new, Tensor):
        return torch.where(accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old)
    return new


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
        x0: starting points, shape (n, D).
        steps: number of draws kept per chain.
        burn_in: transitions before those that count.
        generator: source of the noise, on the device of x0.
        thin: transitions per draw.
        progress: called after each transition with its number, from 1, and its info.

    Returns:
        The draws, shape (n, steps, D).

    Raises:
        ValueError: if x0 is not a matrix, or a count is out of range.
    """
    if x0.ndim != 2:
        raise ValueError(f"x0 has shape {tuple(x0.shape)}; legal is (n, D)")
    for name, count, least in (("steps", steps, 1), ("burn_in", burn_in, 0), ("thin", thin, 1)):
        if count < least:
            raise ValueError(f"{name} is {count}; legal are integers from {least}")
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
