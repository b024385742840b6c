r"""Markov chains with Gaussian proposals, adjusted by Metropolis and Hastings or not.

From each point x a step proposes x' ~ N(mean(x), S S^T), where S may depend on x, be one number,
diagonal or dense. Given log p it is accepted with probability

    min(1, p(x') q(x | x') / (p(x) q(x' | x)))

(Hastings, "Monte Carlo sampling methods using Markov chains and their applications", 1970), which
leaves p invariant whatever the proposal. A proposal is rejected where a density of the ratio is
infinite, singular or not a number. Without log p each proposal is taken.

The values of scores are not checked, which would wait for the device in each step: a chain that
diverges goes on. Their shapes are.

Where scores cost little, as those of a small network or of a distribution in the plane, most of
the time of a transition goes into starting its operations one by one. `compiled` makes many
transitions in one call of a compiled function instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hosm.checks import check_count, checked

__all__ = ["ChainInfo", "ChainState", "Kernel", "Noise", "compiled", "gaussian_kernel"]


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


class Noise(NamedTuple):
    """What a transition of n chains takes from the generator.

    Attributes:
        z: of N(0, I), shape (n, D).
        threshold: log of a uniform number, shape (n,); None for chains that are not adjusted.
    """

    z: Tensor
    threshold: Tensor | None = None


Transition = tuple[ChainState, ChainInfo]
Walk = Callable[[ChainState, Sequence[Noise]], tuple[ChainState, list[ChainInfo]]]


class Kernel(NamedTuple):
    """A transition of n independent chains.

    Attributes:
        init: x of shape (n, D) -> state.
        step: (state, generator or None) -> (state, info); it evaluates the model once.
        remedy: what to do if its chains diverge, in words.
        draw: (x, generator or None) -> the noise that `step` takes; None if it is not known apart.
        advance: (state, noise) -> (state, info), `step` once its noise is drawn; None likewise, or
            where it cannot be `compiled`.
        walk: (state, `length` noises) -> (state, as many infos), `advance` repeated in one call;
            None unless `compiled`.
        length: transitions of `walk`.
    """

    init: Callable[[Tensor], ChainState]
    step: Callable[[ChainState, torch.Generator | None], Transition]
    remedy: str = "a smaller step size"
    draw: Callable[[Tensor, torch.Generator | None], Noise] | None = None
    advance: Callable[[ChainState, Noise], Transition] | None = None
    walk: Walk | None = None
    length: int = 1


def _proposal(state: ChainState, z: Tensor) -> Tensor:
    """Return the proposal of N(mean, S S^T) that z gives, both of shape (n, D)."""
    x, mean, spread = state.x, state.mean, state.spread
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
        raise ValueError("log_prob must be None for a proposal of unknown density, got a function")
    if spread.ndim == y.ndim:
        return (offset / spread).square().mul(-0.5).sub(spread.log()).sum(-1)
    solved = torch.linalg.solve_ex(spread, offset.unsqueeze(-1))  # which raises no error
    log_q = solved.result.squeeze(-1).square().sum(-1).mul(-0.5)
    log_q = log_q - torch.linalg.slogdet(spread).logabsdet
    return log_q.masked_fill(solved.info != 0, torch.nan)  # S is singular: there is no density


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

    def draw(x: Tensor, generator: torch.Generator | None) -> Noise:
        z = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
        if log_prob is None:
            return Noise(z)
        return Noise(z, torch.empty_like(z[:, 0]).exponential_(generator=generator).neg_())

    def advance(state: ChainState, noise: Noise) -> Transition:
        new = init(_proposal(state, noise.z))
        if new.log_prob is None or state.log_prob is None or noise.threshold is None:
            return new, ChainInfo(new.x)
        back, forth = _log_density(new, state.x), _log_density(state, new.x)
        known = back.isfinite() & forth.isfinite() & new.log_prob.isfinite()
        log_ratio = new.log_prob - state.log_prob + (back - forth)
        log_ratio = log_ratio.masked_fill(~known, -torch.inf)  # a step to infinity is rejected
        accepted = log_ratio > noise.threshold
        chosen = ChainState(*(_where(accepted, *pair) for pair in zip(new, state, strict=True)))
        return chosen, ChainInfo(chosen.x, log_ratio)

    def step(state: ChainState, generator: torch.Generator | None = None) -> Transition:
        return advance(state, draw(state.x, generator))

    return Kernel(init, step, remedy, draw, advance)


def compiled(kernel: Kernel, length: int = 8) -> Kernel:
    """Return the kernel that makes so many transitions in one call of a compiled function.

    Chains are those of the kernel, with the same noise, up to rounding. `sample_chain` walks
    `length` transitions at a time where it can, and steps where fewer are left. The first walk
    compiles (`torch.compile`): seconds, times the length; so does each other shape of the points.

    Args:
        kernel: of `langevin` or `ozaki` in its forms `diagonal` and `full`, whose model
            torch.compile can take as a whole; what it depends on, weights too, must stay as is.
        length: transitions of one call, 1 or more.

    Raises:
        ValueError: if length is not 1 or more, or the kernel is of another kind; in the first walk
            if torch.compile cannot take its model, or finds no compiler.
    """
    check_count("length", length)
    advance = getattr(kernel, "advance", None)
    if advance is None:
        raise ValueError(
            "kernel must be one of langevin, or of ozaki in its forms diagonal and full, "
            "got one without advance"
        )

    def walk(state: ChainState, noises: Sequence[Noise]) -> tuple[ChainState, list[ChainInfo]]:
        infos = []
        for noise in noises:
            state, info = advance(state, noise)
            infos.append(info)
        return state, infos

    alone: Any = {"isolate_recompiles": True}  # of other kernels, which are of the same code
    fast = torch.compile(walk, fullgraph=True, dynamic=False, **alone)

    def named(state: ChainState, noises: Sequence[Noise]) -> tuple[ChainState, list[ChainInfo]]:
        try:
            return fast(state, noises)
        except torch._dynamo.exc.TorchDynamoException as error:
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"kernel must be fit for torch.compile, got {reason}") from error

    return kernel._replace(walk=named, length=length)


def _where(accepted: Tensor, new: Any, old: Any) -> Any:  # noqa: ANN401
    """Return `new` where accepted (n,) is true, `old` elsewhere; `new` if it is no tensor."""
    if isinstance(new, Tensor):
        return torch.where(accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old)
    return new
