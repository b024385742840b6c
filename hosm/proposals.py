r"""Markov chains with Gaussian proposals, adjusted by Metropolis and Hastings or not.

From each point x a step proposes x' ~ N(mean(x), S S^T), where S may depend on x, be one number,
diagonal or dense. Given log p it is accepted with probability

    min(1, p(x') q(x | x') / (p(x) q(x' | x)))

(Hastings, "Monte Carlo sampling methods using Markov chains and their applications", 1970), which
leaves p invariant whatever the proposal; a ratio that is not a number is a rejection. Without
log p each proposal is taken.

The values of scores are not checked, which would wait for the device in each step: a chain that
diverges goes on. Their shapes are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hosm.checks import checked

__all__ = ["ChainInfo", "ChainState", "Kernel", "gaussian_kernel"]


class ChainState(NamedTuple):
    """A point of each chain, with all that was computed there.

    Attributes:
        x: the points, shape (n, D).
        score: s1(x), shape (n, D).
        mean: mean of the next proposal, shape (n, D).
        spread: root S of its covariance: a number, a tensor of shape (n, 1), (n, D) or (n, D, D),
            or a function of z, shape (n, D), that returns S z.
        log_prob: log p(x), shape (n,); None for a chain that is not adjusted.
    """

    x: Tensor
    score: Tensor
    mean: Tensor
    spread: float | Tensor | Callable[[Tensor], Tensor]
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
        remedy: what to do if its chains diverge, in words.
    """

    init: Callable[[Tensor], ChainState]
    step: Callable[[ChainState, torch.Generator | None], tuple[ChainState, ChainInfo]]
    remedy: str = "a smaller step size"


def _draw(state: ChainState, generator: torch.Generator | None) -> Tensor:
    """Draw the proposal N(mean, S S^T), shape (n, D)."""
    x, mean, spread = state.x, state.mean, state.spread
    z = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
    if isinstance(spread, float):
        return mean.add(z, alpha=spread)
    if not isinstance(spread, Tensor):
        return mean + spread(z)
    if spread.ndim == x.ndim:
        return torch.addcmul(mean, spread, z)
    return mean + (spread @ z.unsqueeze(-1)).squeeze(-1)


def _log_density(state: ChainState, y: Tensor) -> Tensor:
    """Return log q(y | x), shape (n,), up to a constant that x and y share."""
    offset, spread = y - state.mean, state.spread
    if isinstance(spread, float):
        return (offset / spread).square().sum(-1).mul(-0.5)
    if not isinstance(spread, Tensor):
        raise ValueError("the density of this proposal is not known; legal: without log_prob")
    if spread.ndim == y.ndim:
        return (offset / spread).square().mul(-0.5).sub(spread.log()).sum(-1)
    z = torch.linalg.solve(spread, offset.unsqueeze(-1)).squeeze(-1)
    return z.square().sum(-1).mul(-0.5) - torch.linalg.slogdet(spread).logabsdet


def gaussian_kernel(
    propose: Callable[[Tensor], ChainState],
    log_prob: Callable[[Tensor], Tensor] | None = None,
    remedy: str = "a smaller step size",
) -> Kernel:
    """Return the kernel that proposes from N(mean, S S^T) and, given `log_prob`, accepts.

    Args:
        propose: from x of shape (n, D) to the state there, without its `log_prob`.
        log_prob: log p up to a constant, from x of shape (n, D) to shape (n,).
        remedy: what to do if chains diverge, in words.

    Returns:
        The kernel. Its `init` and `step` raise ValueError if the points, the scores or `log_prob`
        have another shape or are of integers.
    """

    def init(x: Tensor) -> ChainState:
        state = propose(checked("x", x, "n", "D", finite=False))
        if log_prob is None:
            return state
        return state._replace(log_prob=checked("log_prob", log_prob(x), len(x), finite=False))

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

    return Kernel(init, step, remedy)


def _where(accepted: Tensor, new: Any, old: Any) -> Any:  # noqa: ANN401
    """Return `new` where accepted (n,) is true, `old` elsewhere; `new` if it is no tensor."""
    if isinstance(new, Tensor):
        return torch.where(accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old)
    return new
