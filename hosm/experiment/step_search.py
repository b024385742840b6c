r"""The largest step of a sampler of noisy images that a bias bound allows, and what a step costs.

A learned q_sigma has no draws that are known to be exact, but any law has Stein's identity
E f . s1 = -E div f. With the denoised image m = x + sigma^2 s1, and C = sigma^4 s2 + sigma^2 I the
covariance that goes with it, f = x - m and f = m say of the noise and of the image apart that

$$E |x - m|^2 = D \sigma^2 - E \operatorname{tr} C, \qquad
          E\, m \cdot (x - m) = E \operatorname{tr} C.$$

The ratio of left to right is 1 in the stationary law, as far as the model is right; how far a
chain's is from that of noisy test images, which are exact draws, is its bias. Both are needed. A
Langevin step of time t = eps / 2 gives noise of variance sigma^2 the variance
sigma^2 / (1 - t / (2 sigma^2)), and errs little along the few directions in which images differ,
where s1 is small. Ozaki's diagonal step is exact for the noise; but it takes those directions for
as stiff as single pixels are, so that they get down to half the variance that is theirs.

Chains start at noisy test images, run for some time, and are judged in its second half. Samplers:
`langevin`; `ozaki`, which asks for s1 and the diagonal of s2; `fixed`, the same with the curvature
of the noise, -1 / sigma^2, for every pixel, which takes no s2 at all: the exponential integrator.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from hosm import samplers
from hosm.experiment.chain_sections import METHODS, DiversityParams
from hosm.experiment.rows import Row, records
from hosm.experiment.stopwatch import summary, timed_in_turn
from hosm.noise import standard_normal
from hosm.scores import FixedScale

__all__ = [
    "BLOCK",
    "Sampler",
    "Scores",
    "costs",
    "judged",
    "largest",
    "largest_of_each",
    "search",
    "stein_ratios",
]

BLOCK = 100  # chains that step together: more fit no cache
JUDGED = 4  # points of a chain that are judged, spread over its second half
LEAST = 2  # iterations from one to the next
FEWEST = 20  # chains
GUARD = "floor"


@dataclass(frozen=True)
class Scores:
    """What the samplers ask of a model: s1, and s1 with the diagonal of s2, at one noise scale.

    Attributes:
        first: from x of shape (n, D) to s1, shape (n, D).
        both: from x to s1 and an operator or a tensor (n, D) for the diagonal of s2.
        sigma: the noise scale.
    """

    first: Callable[[Tensor], Tensor]
    both: Callable[[Tensor], tuple[Tensor, Any]]
    sigma: float

    @classmethod
    def of(cls, model: FixedScale) -> "Scores":
        """Return those of a trained model, without the outputs that no sampler asks for."""
        return cls(model.first_order().score, model.diagonal_only(), model.sigma)

    def fixed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return s1 and, for s2, the curvature of the noise alone, both of shape (n, D)."""
        return self.first(x), torch.full_like(x, -1 / self.sigma**2)

    def denoised(self, x: Tensor, s1: Tensor) -> Tensor:
        """Return m = x + sigma^2 s1, shape (n, D) as x and s1."""
        return x + self.sigma**2 * s1


@dataclass(frozen=True)
class Sampler:
    """A method with its step eps and its clock, as in `hosm.samplers`.

    Langevin's own clock is "langevin": an iteration takes the diffusion a time eps / 2.
    """

    method: str
    step: float
    clock: str

    @classmethod
    def at(cls, method: str, time: float) -> "Sampler":
        """Return a method as printed, whose iteration takes a time."""
        plain = method == "langevin"
        return cls(method, 2 * time if plain else time, "langevin" if plain else "paper")

    @property
    def time(self) -> float:
        """Time of the diffusion that an iteration takes."""
        return self.step if self.clock == "paper" else self.step / 2

    def kernel(self, scores: Scores) -> samplers.Kernel:
        """Return the transition of chains."""
        if self.method == "langevin":
            return samplers.langevin(scores.first, self.step)
        both = scores.both if self.method == "ozaki" else scores.fixed
        return samplers.ozaki(both, self.step, GUARD, clock=self.clock)


def _parts(scores: Scores, x: Tensor) -> Tensor:
    """Return |x - m|^2, m . (x - m) and tr C of each point x, (n, D): shape (n, 3)."""
    s1, s2 = scores.both(x)
    diagonal = s2 if isinstance(s2, Tensor) else s2.diagonal()
    m, variance = scores.denoised(x, s1), scores.sigma**2
    trace = (variance * (1 + variance * diagonal)).sum(1)
    noise = x - m
    return torch.stack([noise.square().sum(1), (m * noise).sum(1), trace], 1).double()


def _ratio(part: Tensor, expected: Tensor) -> tuple[float, float]:
    """Return mean(part) / mean(expected) and its standard error, for values of shape (n,)."""
    ratio = part.mean() / expected.mean()
    error = (part - ratio * expected).std() / math.sqrt(len(part)) / expected.mean()
    return float(ratio), float(error)


def stein_ratios(parts: Tensor, total: float) -> dict[str, float]:
    """Return the ratios of noise and image, with their standard errors over chains.

    Args:
        parts: |x - m|^2, m . (x - m), tr C and a control of mean 0 of each chain, shape (n, 4).
        total: D sigma^2.
    """
    noise, image, trace, control = parts.unbind(1)
    slope = ((image - image.mean()) * control).mean() / control.square().mean()
    row = {}
    pairs = {"noise": (noise, total - trace), "image": (image - slope * control, trace)}
    for name, pair in pairs.items():
        row[f"{name}_ratio"], row[f"{name}_standard_error"] = _ratio(*pair)
    return row


@torch.inference_mode()
def judged(
    scores: Scores, sampler: Sampler, noisy: Tensor, length: int, generator: torch.Generator
) -> Tensor:
    """Return the parts that `stein_ratios` takes, of chains in the second half of their time.

    The noise of m . (x - m) is mostly that of x, which is known: with m_0 and w_0 = 0 at the
    beginning of a block of iterations, and w the noise added since, fading as that in x does,
    m_0 . w has mean 0 and the control variate takes it out.

    Args:
        scores: of the model.
        sampler: what moves the chains.
        noisy: where chains start, shape (n, D).
        length: iterations of a block, of `JUDGED` that are skipped and as many that count.
        generator: source of the noise, on the device of `noisy`.
    """
    kernel, fade, found = sampler.kernel(scores), math.exp(-sampler.time / scores.sigma**2), []
    for x in noisy.split(BLOCK):
        state, parts = kernel.init(x), []
        for block in range(2 * JUDGED):
            m, w = scores.denoised(state.x, state.score), torch.zeros_like(x)
            for _ in range(length):
                mean, (state, _) = state.mean, kernel.step(state, generator)
                w = fade * w + (state.x - mean)
            if block >= JUDGED:
                control = (m * w).sum(1, keepdim=True)
                parts.append(torch.cat([_parts(scores, state.x), control.double()], 1))
        found.append(torch.stack(parts).mean(0))
    return torch.cat(found)


def _of_draws(scores: Scores, clean: Tensor, generator: torch.Generator) -> Tensor:
    """Return the parts of noisy images themselves; what was added is their control."""
    parts = []
    for x in clean.split(BLOCK):
        noise = scores.sigma * standard_normal(x, generator)
        control = (x * noise).sum(1, keepdim=True).double()
        parts.append(torch.cat([_parts(scores, x + noise), control], 1))
    return torch.cat(parts)


def _bias(row: Row, draws: Row) -> float:
    """Return the larger of the relative gaps between a chain's ratios and those of exact draws."""
    gaps = [abs(row[name] / draws[name] - 1) for name in ("noise_ratio", "image_ratio")]
    return max(gaps) if all(map(math.isfinite, gaps)) else math.inf


@torch.inference_mode()
def search(scores: Scores, clean: Tensor, params: DiversityParams) -> pd.DataFrame:
    """Return the bias of every method by the time of an iteration.

    Args:
        scores: of the model.
        clean: test images, shape (n, D), all of which are draws; chains start at the first ones,
            and again from the first where there are fewer.
        params: the times, how many chains there are of the fewest iterations (of more, chains are
            fewer, `FEWEST` at least), how long they run, the bound, and the seed.

    Returns:
        A row of method `draws`, and one for each method and time. Once a method's bias is twice
        the bound, longer times are not tried.
    """
    generator = torch.Generator(clean.device).manual_seed(params.seed)
    total = clean.shape[1] * scores.sigma**2
    draws: Row = stein_ratios(_of_draws(scores, clean, generator), total)
    about = {"method": "draws", "time": 0.0, "chains": len(clean), "iterations": 0}
    rows: list[Row] = [{**about, **draws, "bias": 0.0}]
    for method in METHODS:
        for time in sorted(params.times):
            sampler = Sampler.at(method, time)
            length = max(LEAST, math.ceil(params.bias_time / time / (2 * JUDGED)))
            count = max(FEWEST, params.bias_chains * LEAST // length)
            x = clean[torch.arange(count, device=clean.device) % len(clean)]
            generator = torch.Generator(clean.device).manual_seed(params.seed + 1)
            noisy = x + scores.sigma * standard_normal(x, generator)
            found = stein_ratios(judged(scores, sampler, noisy, length, generator), total)
            about = {"method": method, "time": time, "step": sampler.step, "chains": count}
            about |= {"iterations": 2 * JUDGED * length, "bias": _bias(found, draws)}
            rows.append({**about, **found})
            ratios = f"noise {found['noise_ratio']:.3f}, image {found['image_ratio']:.3f}"
            print(f"{METHODS[method]}, t = {time:g}: {ratios}", flush=True)
            if rows[-1]["bias"] > 2 * params.bias_bound:
                break
    return pd.DataFrame(rows)


def largest(tried: pd.DataFrame, method: str, bound: float) -> tuple[Sampler, bool]:
    """Return a method at the largest time whose bias is within the bound, and True.

    Where none is, the least biased is returned, with False.

    Args:
        tried: as `search` returns it.
        method: one of `METHODS`.
        bound: largest bias.
    """
    rows = records(tried[tried["method"] == method].sort_values("time"))
    within = [row["time"] for row in rows if row["bias"] <= bound]
    time = within[-1] if within else min(rows, key=lambda row: row["bias"])["time"]
    return Sampler.at(method, time), bool(within)


def largest_of_each(tried: pd.DataFrame, params: DiversityParams) -> dict[str, Sampler]:
    """Return every method at its largest step within the bound, by what reports call it."""
    found = {method: largest(tried, method, params.bias_bound)[0] for method in METHODS}
    return {f"{METHODS[method]}, largest step": sampler for method, sampler in found.items()}


@torch.inference_mode()
def costs(scores: Scores, whole: Callable[[Tensor], Any], x: Tensor, repeats: int) -> pd.DataFrame:
    """Return the seconds of one iteration of every method, timed in turn in this process.

    Args:
        scores: of the model.
        whole: the model with all outputs of s2; `ozaki` by it stands as the method `whole`.
        x: points of as many chains as step together, shape (n, D).
        repeats: rounds, after a warm-up.

    Returns:
        A row for each method: median, least and largest seconds, and the same of the ratio to
        `langevin`, round by round.
    """
    generator = torch.Generator(x.device).manual_seed(0)
    kernels = {method: Sampler.at(method, 1e-3).kernel(scores) for method in METHODS}
    kernels["whole"] = samplers.ozaki(whole, 1e-3, GUARD)
    states = {method: kernel.init(x) for method, kernel in kernels.items()}
    works = {
        method: lambda kernel=kernel, state=states[method]: kernel.step(state, generator)
        for method, kernel in kernels.items()
    }
    times = timed_in_turn(works, repeats, x.device)
    rows = []
    for method, seconds in times.items():
        ratios = [own / base for own, base in zip(seconds, times["langevin"], strict=True)]
        spread = {"ratio_low": min(ratios), "ratio_high": max(ratios)}
        ratio = {"ratio": statistics.median(ratios), **spread}
        rows.append({"method": method, "chains": len(x), **summary(seconds), **ratio})
    return pd.DataFrame(rows)
