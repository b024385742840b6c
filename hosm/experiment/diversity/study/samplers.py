"""Samplers of noisy images: what they ask of a model, their steps and clocks, and their cost.

They are `langevin`; `ozaki`, which asks for s1 and the diagonal of s2 (Meng, Song, Li and Ermon,
"Estimating High Order Gradients of the Data Distribution by Denoising", NeurIPS 2021, section 5);
and `fixed`, the same with the curvature of the noise, -1 / sigma^2, for every pixel. It takes no
s2 at all, so that what Ozaki gains over it is what the learned s2 is worth.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from hosm import samplers
from hosm.experiment.diversity.study.methods import METHODS
from hosm.experiment.shared.stopwatch import summary, timed_in_turn
from hosm.scores import FixedScale

__all__ = ["BLOCK", "Sampler", "DenoiserScores", "costs"]

BLOCK = 50  # chains that step together: more fit no cache
GUARD = "floor"


@dataclass(frozen=True)
class DenoiserScores:
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
    def of(cls, model: FixedScale) -> "DenoiserScores":
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
    """A method with its step eps and its clock, as in `hosm.samplers.langevin_ozaki`.

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

    def kernel(self, scores: DenoiserScores) -> samplers.Kernel:
        """Return the transition of chains."""
        if self.method == "langevin":
            return samplers.langevin(scores.first, self.step)
        both = scores.both if self.method == "ozaki" else scores.fixed
        return samplers.ozaki(both, self.step, GUARD, clock=self.clock)


@torch.inference_mode()
def costs(
    scores: DenoiserScores, whole: Callable[[Tensor], Any], x: Tensor, repeats: int
) -> pd.DataFrame:
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
    base = times["langevin"].counted
    for method, own in times.items():
        ratios = [over / under for over, under in zip(own.counted, base, strict=True)]
        spread = {"ratio_low": min(ratios), "ratio_high": max(ratios)}
        ratio = {"ratio": statistics.median(ratios), **spread}
        rows.append({"method": method, "chains": len(x), **summary(own), **ratio})
    return pd.DataFrame(rows)
