r"""The largest step of a sampler of noisy images that a bias bound allows.

A learned q_sigma has no draws that are known to be exact, but any law has Stein's identity
E f . s1 = -E div f. With the denoised image m = x + sigma^2 s1, and C = sigma^4 s2 + sigma^2 I the
covariance that goes with it, f = x - m and f = m say that

$$E |x - m|^2 = D \sigma^2 - E \operatorname{tr} C, \qquad
          E\, m \cdot (x - m) = E \operatorname{tr} C.$$

These are two of the three parts of E |x|^2: the noise, and what the image and the noise have in
common. The third, the energy E |m|^2 of the image, has no such identity, but must stay what it is.
Noisy test images are draws of q_sigma; how far the ratio of left to right is from theirs, or the
energy from that at the start, is the bias of a chain. A Langevin step of time t = eps / 2 gives
noise of variance sigma^2 the variance sigma^2 / (1 - t / (2 sigma^2)), and errs little along the
few directions in which images differ, where s1 is small. Ozaki's diagonal step is exact for the
noise; but it takes those directions for as stiff as single pixels are, so that they get down to
half the variance that is theirs: images lose energy. That is slow, so a search of short runs tells
large biases of the image only; the curves of long chains must be looked at besides.

Chains start at noisy test images, run for some time, and are judged in its second half.
"""

import math

import pandas as pd
import torch
from torch import Tensor

from hosm.experiment.diversity.study.methods import METHODS
from hosm.experiment.diversity.study.samplers import BLOCK, DenoiserScores, Sampler
from hosm.experiment.settings import DiversityParams
from hosm.experiment.shared.rows import Row, records
from hosm.noise import standard_normal

__all__ = ["PARTS", "judged", "largest", "largest_of_each", "ratios", "search"]

PARTS = ("noise", "image", "energy")  # of |x|^2
JUDGED = 4  # points of a chain that are judged, spread over its second half
LEAST = 2  # iterations from one to the next
FEWEST = 20  # chains


def _parts(scores: DenoiserScores, x: Tensor) -> Tensor:
    """Return |x - m|^2, m . (x - m), tr C and |m|^2 of each point x, (n, D): shape (n, 4)."""
    s1, s2 = scores.both(x)
    diagonal = s2 if isinstance(s2, Tensor) else s2.diagonal()
    m, variance = scores.denoised(x, s1), scores.sigma**2
    trace = (variance * (1 + variance * diagonal)).sum(1)
    noise = x - m
    columns = [noise.square().sum(1), (m * noise).sum(1), trace, m.square().sum(1)]
    return torch.stack(columns, 1).double()


def _ratio(part: Tensor, expected: Tensor) -> tuple[float, float]:
    """Return mean(part) / mean(expected) and its standard error, for values of shape (n,)."""
    ratio = part.mean() / expected.mean()
    error = (part - ratio * expected).std() / math.sqrt(len(part)) / expected.mean()
    return float(ratio), float(error)


def ratios(parts: Tensor, total: float) -> dict[str, float]:
    """Return what is measured over what is expected, with standard errors over chains.

    Args:
        parts: |x - m|^2, m . (x - m), tr C, |m|^2, a control of mean 0, and |m|^2 at the start, of
            each chain, shape (n, 6).
        total: D sigma^2.

    Returns:
        Ratios of `noise`, `image` and `energy`, each with its standard error.
    """
    noise, image, trace, energy, control, start = parts.unbind(1)
    slope = ((image - image.mean()) * control).mean() / control.square().mean()
    row = {}
    pairs = (noise, total - trace), (image - slope * control, trace), (energy, start)
    for name, pair in zip(PARTS, pairs, strict=True):
        row[f"{name}_ratio"], row[f"{name}_standard_error"] = _ratio(*pair)
    return row


@torch.inference_mode()
def judged(
    scores: DenoiserScores,
    sampler: Sampler,
    noisy: Tensor,
    length: int,
    generator: torch.Generator,
) -> Tensor:
    """Return the parts that `ratios` takes, of chains in the second half of their time.

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
        start = scores.denoised(x, state.score).square().sum(1, keepdim=True)
        for block in range(2 * JUDGED):
            m, w = scores.denoised(state.x, state.score), torch.zeros_like(x)
            for _ in range(length):
                mean, (state, _) = state.mean, kernel.step(state, generator)
                w = fade * w + (state.x - mean)
            if block >= JUDGED:
                control = (m * w).sum(1, keepdim=True)
                parts.append(torch.cat([_parts(scores, state.x), control, start], 1))
        found.append(torch.stack(parts).mean(0))
    return torch.cat(found)


def _of_draws(scores: DenoiserScores, clean: Tensor, generator: torch.Generator) -> Tensor:
    """Return the parts of noisy images themselves; what was added is their control."""
    parts = []
    for x in clean.split(BLOCK):
        noise = scores.sigma * standard_normal(x, generator)
        found, control = _parts(scores, x + noise), (x * noise).sum(1, keepdim=True)
        parts.append(torch.cat([found, control, found[:, 3:4]], 1))
    return torch.cat(parts)


def _bias(row: Row, draws: Row) -> float:
    """Return the largest of the relative gaps between a chain's ratios and those of draws."""
    gaps = [abs(row[f"{name}_ratio"] / draws[f"{name}_ratio"] - 1) for name in PARTS]
    return max(gaps) if all(map(math.isfinite, gaps)) else math.inf


@torch.inference_mode()
def search(scores: DenoiserScores, clean: Tensor, params: DiversityParams) -> pd.DataFrame:
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
    draws: Row = ratios(_of_draws(scores, clean, generator), total)
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
            found = ratios(judged(scores, sampler, noisy, length, generator), total)
            about = {"method": method, "time": time, "step": sampler.step, "chains": count}
            about |= {"iterations": 2 * JUDGED * length, "bias": _bias(found, draws)}
            rows.append({**about, **found})
            shown = ", ".join(f"{name} {found[f'{name}_ratio']:.3f}" for name in PARTS)
            print(f"{METHODS[method]}, t = {time:g}: {shown}", flush=True)
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
