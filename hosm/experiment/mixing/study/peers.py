"""Peers of our samplers: NUTS and MALA of BlackJAX, on the same exact densities.

Cabezas, Corenflos, Lao and Louf, "BlackJAX: Composable Bayesian inference in JAX", 2024. NUTS is
that of Hoffman and Gelman, "The No-U-Turn Sampler", JMLR 2014, with multinomial draws of a path;
MALA that of Roberts and Tweedie, Bernoulli 1996, of step h: x + h s1 + sqrt(2 h) z, so that h is
half of the eps of our Langevin chains.

NUTS is tuned as BlackJAX means it to be, by `window_adaptation`: Stan's warm-up, of a step and a
diagonal metric for each chain, to an acceptance of .8. BlackJAX has no warm-up for MALA. Its
steps are tried in turn, as ours are, and that with most effective draws is kept: by the smaller
of both definitions, since one that knows the moments tells of chains that stick far out. Of
those with nearly as many, the one is kept whose acceptance is nearest to .574, the best in many
dimensions (Roberts and Rosenthal, JRSS B 1998). Longer steps mix better between modes, but
below an acceptance of LEAST chains stand still too long for any ESS to be trusted.

Chains advance together by `vmap`: on one core that took from a half to a quarter of the time of
chain after chain, although all wait for the longest path of NUTS. Each call of a compiled loop
makes a tenth of the draws, and the median of the ten is what an iteration takes, without what
compiles. XLA is told to run on one thread; its numbers are of single precision, as ours are.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import blackjax
import jax
import numpy as np
import pandas as pd
import torch
from blackjax.adaptation.base import get_filter_adapt_info_fn
from jax import Array
from jax import numpy as jnp
from jax.tree_util import Partial
from torch import Tensor

from hosm import metrics
from hosm.checks import check_count
from hosm.distributions import GaussianMixture, Law, Ring
from hosm.experiment.data.datasets import law
from hosm.experiment.mixing.study.draws_quality import quality, within
from hosm.experiment.run.machine_load import Watch, wait_until_quiet
from hosm.experiment.settings import MixingParams
from hosm.experiment.shared.stopwatch import CIRCUMSTANCES, Times, summary

__all__ = ["METHODS", "Chains", "draw", "headline", "log_density", "study"]

METHODS = ("NUTS", "MALA")
PARTS = 10  # calls of a compiled loop that are timed
STEPS = tuple(2.0 ** (k / 2) for k in range(-7, 7))  # .09 .. 8: those of MALA that are tried
LEAST = 0.1  # acceptance of those that are trusted
FINALISTS = 3  # of them, which are tried again with all draws
ALIKE = 0.9  # of the most effective draws, which pass for as many
ACCEPTANCE = 0.574
REFERENCE = 20_000
LIBRARY = f"BlackJAX {blackjax.__version__}"

State = Any  # of BlackJAX, a pytree whose leaves have the chains first
Settings = dict[str, Any]  # likewise
Keys = Iterator[Array]  # of random numbers
NUTS, MALA = blackjax.nuts.build_kernel(), blackjax.mala.build_kernel()
Advance = Callable[[Settings, State, Array], Any]  # `_advance` of a law, a method and steps
compiled = partial(jax.jit, compiler_options={"xla_cpu_multi_thread_eigen": False})


@dataclass(frozen=True, eq=False)
class Chains:
    """Draws of a peer and how they came about.

    `draws` has the shape (chains, steps, D); `step_size` is the median over chains; `acceptance`
    and `gradients`, the evaluations of s1 for one draw, are means over all draws; `seconds` is
    the time of one iteration of all chains, and `machine` what `summary` of the stopwatch tells of
    the machine meanwhile; `tried` tells of the runs by which a step was found.
    """

    draws: Tensor
    step_size: float
    acceptance: float
    gradients: float
    seconds: float
    machine: dict[str, Any]
    tried: list[dict[str, float]]


def _mixture(log_scales: Array, means: Array, precisions: Array, x: Array) -> Array:
    u = x - means
    return jax.nn.logsumexp(log_scales - 0.5 * jnp.einsum("ki,kij,kj->k", u, precisions, u))


def _ring(radius: Array, width: Array, peak: Array, x: Array) -> Array:
    return peak - ((jnp.linalg.norm(x) - radius) / width) ** 2


def log_density(exact: Law) -> Partial:
    """Return log p of a law for JAX: from x of shape (D,) to shape (), in single precision.

    Args:
        exact: a mixture of Gaussians, or a ring; its parameters are taken over.

    Raises:
        ValueError: the law is neither.
    """
    wide = exact.to(torch.float64)
    if isinstance(wide, GaussianMixture):
        log_scales = wide.weights.log() - 0.5 * torch.logdet(2 * math.pi * wide.covariances)
        return _bound(_mixture, log_scales, wide.means, torch.linalg.inv(wide.covariances))
    if isinstance(wide, Ring):
        top = torch.stack([wide.radius, torch.zeros_like(wide.radius)])  # of energy 0
        return _bound(_ring, wide.radius, wide.width, wide.log_prob(top[None])[0])
    raise ValueError(f"law must be a GaussianMixture or a Ring, got a {type(exact).__name__}")


def _bound(function: Callable[..., Array], *parameters: Tensor) -> Partial:
    """Return a function of x alone, and JAX's compiled code serves all parameters of a shape."""
    return Partial(function, *(each.float().numpy() for each in parameters))


def _step(method: str, density: Partial, key: Array, state: Any, settings: Any) -> Any:  # noqa: ANN401
    """Advance one chain; return its state, the acceptance and the gradients that it took."""
    if method == "NUTS":
        state, info = NUTS(key, state, density, **settings)
        return state, (info.acceptance_rate, info.num_integration_steps)
    state, info = MALA(key, state, density, **settings)
    return state, (info.acceptance_rate, jnp.ones((), jnp.int32))


@partial(compiled, static_argnames=("method", "steps"))
def _advance(
    density: Partial, method: str, steps: int, settings: Settings, state: State, key: Array
) -> tuple[State, tuple[Array, Array, Array]]:
    """Advance all chains; return their states, and of each iteration what `_step` tells."""
    together = jax.vmap(partial(_step, method, density))

    def iterate(state: State, key: Array) -> tuple[State, tuple[Array, Array, Array]]:
        keys = jax.random.split(key, len(state.position))
        state, info = together(keys, state, settings)
        return state, (state.position, *info)

    return jax.lax.scan(iterate, state, jax.random.split(key, steps))


@partial(compiled, static_argnames="steps")
def _warmed_up(density: Partial, steps: int, start: Array, key: Array) -> tuple[State, Settings]:
    """Return the state of one chain after the warm-up of NUTS, and its settings."""
    warmup = blackjax.window_adaptation(
        blackjax.nuts, density, adaptation_info_fn=get_filter_adapt_info_fn()
    )
    (state, settings), _ = warmup.run(key, start, steps)
    return state, settings


@compiled
def _started(density: Partial, starts: Array) -> State:
    """Return the states of chains of MALA at their starts, shape (chains, D)."""
    return jax.vmap(lambda x: blackjax.mala.init(x, density))(starts)


def _run(
    advance: Advance, settings: Settings, state: State, keys: Keys, calls: int
) -> tuple[State, tuple[Tensor, float, float], Times]:
    """Advance all chains by calls of a compiled loop.

    Returns:
        Their states; draws, (chains, T, D), mean acceptance and gradients; the time of each call.
    """
    parts, seconds, watch = [], [], Watch()
    for key in itertools.islice(keys, calls):
        begun = time.perf_counter()
        state, made = jax.block_until_ready(advance(settings, state, key))
        seconds.append(time.perf_counter() - begun)
        watch.round_ended()
        parts.append(made)
    draws, acceptance, gradients = (np.concatenate(part) for part in zip(*parts, strict=True))
    chains = torch.from_numpy(np.ascontiguousarray(draws.swapaxes(0, 1)))
    return (
        state,
        (chains, float(acceptance.mean()), float(gradients.mean())),
        Times(seconds, watch.loads()),
    )


def _searched(
    advance: Advance, state: State, keys: Keys, exact: Law
) -> tuple[Settings, list[dict[str, float]]]:
    """Return the settings of MALA with most effective draws, and the row of each pilot run."""

    def pilot(step: float, calls: int) -> dict[str, float]:
        settings = _same(step, state)
        later, _, _ = _run(advance, settings, state, keys, 1)
        _, (draws, acceptance, _), _ = _run(advance, settings, later, keys, calls)
        nice = float(metrics.ess_nice(draws, exact.mean, exact.variance).min())
        row = {"step_size": step, "acceptance": acceptance, "draws": draws.shape[1]}
        return {**row, "ess_nice": nice, "ess_bulk": float(metrics.ess_bulk(draws).min())}

    def ranked(rows: list[dict[str, float]]) -> list[dict[str, float]]:
        chains = len(state.position)
        effective = [min(row["ess_bulk"], chains * row["ess_nice"]) for row in rows]
        alike = [min(ess, ALIKE * max(effective)) for ess in effective]
        far = [abs(row["acceptance"] - ACCEPTANCE) for row in rows]
        return [rows[k] for k in sorted(range(len(rows)), key=lambda k: (-alike[k], far[k]))]

    short: list[dict[str, float]] = []
    for step in STEPS:
        row = pilot(step, 1)
        if short and row["acceptance"] < LEAST:
            break
        short.append(row)
    long = [pilot(row["step_size"], PARTS) for row in ranked(short)[:FINALISTS]]
    return _same(ranked(long)[0]["step_size"], state), short + long


def _same(step: float, state: State) -> Settings:
    """Return the settings of MALA at one step for all chains."""
    return {"step_size": np.full(len(state.position), step, np.float32)}


def draw(exact: Law, method: str, chains: int, burn_in: int, steps: int, seed: int) -> Chains:
    """Tune a peer, run its chains from N(0, 4 I), and time them.

    Args:
        exact: the law to draw from, one that `log_density` takes.
        method: one of METHODS.
        chains: how many, 1 or more.
        burn_in: iterations before the draws, 1 or more; NUTS adapts in them, and MALA's are
            rounded up to whole tenths of `steps`.
        steps: draws of each chain that are kept, 4 PARTS or more.
        seed: fixes the starts, which are those of our own chains at this seed, and the draws.

    Raises:
        ValueError: if one of them is out of its range.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    check_count("chains", chains)
    check_count("burn_in", burn_in)
    check_count("steps", steps, 4 * PARTS)
    density, generator = log_density(exact), torch.Generator().manual_seed(seed)
    starts = 2 * torch.randn(chains, exact.dimension, generator=generator).numpy()
    keys = _keys(seed)
    part = math.ceil(steps / PARTS)
    advance = partial(_advance, density, method, part)
    tried: list[dict[str, float]] = []
    if method == "NUTS":
        each = [_warmed_up(density, burn_in, start, next(keys)) for start in starts]
        state, settings = jax.tree.map(lambda *leaves: np.stack(leaves), *each)
        _run(advance, settings, state, keys, 1)  # compiles
    else:
        state = _started(density, starts)
        settings, tried = _searched(advance, state, keys, exact)
        state, _, _ = _run(advance, settings, state, keys, math.ceil(burn_in / part))
    wait_until_quiet()
    _, (draws, acceptance, gradients), times = _run(advance, settings, state, keys, PARTS)
    found = summary(times)
    step, pace = float(np.median(settings["step_size"])), found["seconds"] / part
    machine = {key: found[key] for key in CIRCUMSTANCES} | {"threads": 1}  # of XLA
    return Chains(draws[:, :steps], step, acceptance, gradients, pace, machine, tried)


def _keys(seed: int) -> Keys:
    """Yield keys without end, no two alike."""
    whole = jax.random.key(seed)
    for number in itertools.count():
        yield jax.random.fold_in(whole, number)


def study(
    targets: Sequence[str], params: MixingParams
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Run both peers on the exact densities of laws, by the protocol of our own chains.

    Args:
        targets: names of laws.
        params: chains, burn-in, draws, bound and seed.

    Returns:
        A row for each law and method, and the rows of the search for MALA's step. Effective
        draws per second count the burn-in at the pace of the draws, and no tuning.
    """
    rows, tuning = [], []
    for target in targets:
        exact = law(target)
        reference = exact.sample(REFERENCE, torch.Generator().manual_seed(params.seed + 1))
        for method in METHODS:
            common = {"target": target, "method": method, "library": LIBRARY}
            made = draw(exact, method, params.chains, params.burn_in, params.steps, params.seed)
            found = quality(made.draws, exact, reference)
            seconds = made.seconds * (params.burn_in + params.steps)
            row = {**common, "step_size": made.step_size, "acceptance": made.acceptance}
            row |= {"gradients": made.gradients, **found, "seconds_per_iteration": made.seconds}
            row["ess_bulk_per_second"] = found["ess_bulk"] / seconds
            row["within_bound"] = within(found, params.bias_bound, params.variance_bound)
            row |= made.machine
            rows.append(row)
            tuning += [{**common, **one} for one in made.tried]
            print(f"{target} {method}: ESS {found['ess_bulk']:.0f}", flush=True)
    return rows, tuning


def headline(table: pd.DataFrame) -> dict[str, float]:
    """Return ESS, bias and speed of each peer on each law."""
    return {
        f"{row['target']}.{row['method']}.{column}": row[column]
        for row in table.to_dict("records")
        for column in ("ess_nice", "ess_bulk", "kolmogorov", "ess_bulk_per_second")
    }
