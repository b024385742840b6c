"""How fast chains reach a law, and how far a step size keeps them from it.

`approach`: many chains from N(0, 4 I) with one step size for both methods, as in figure 6 of Meng,
Song, Li and Ermon, "Estimating High Order Gradients of the Data Distribution by Denoising",
NeurIPS 2021, and at the step sizes and iterations of its figure 5 and appendix F. Ozaki(eps) is
run on the paper's clock, twice Langevin's, and on Langevin's own: at equal eps only the second
compares the two methods, the first compares two clocks too.

`step_size_bias`: chains that begin with exact draws of the law drift to the law of their
discretisation. Langevin's bias is of first order in eps (Roberts and Tweedie, "Exponential
convergence of Langevin distributions and their discrete approximations", Bernoulli 1996); on
N(0, v I) the energy's is (D/2) (eps/4v) / (1 - eps/4v). Adjusted chains have none.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hosm import samplers
from hosm.experiment.data.datasets import law
from hosm.experiment.mixing.study.draws_quality import bias
from hosm.experiment.mixing.study.samplers import TargetScores, exact_scores, starts
from hosm.experiment.settings import MixingParams
from hosm.experiment.shared.rows import Row

__all__ = ["SHOWN", "approach", "single_chains", "step_size_bias"]

REFERENCE = 20_000
EQUAL = ("langevin", "ozaki floor", "ozaki floor, Langevin's clock")
Shown = list[tuple[str, float | None, list[int]]]  # method, eps, iterations shown
SHOWN: dict[str, Shown] = {  # where eps is None, it is the equal step of the settings
    "two-modes": [(method, None, [50, 100, 200, 300, 400]) for method in EQUAL],
    "ring6": [
        ("ozaki none", 5.0, [5000]),
        ("ozaki floor", 5.0, [5000]),
        ("langevin", 5.0, [5000]),
        ("langevin", 0.5, [5000, 30000]),
    ],
    "ring8": [
        ("ozaki none", 6.0, [3000]),
        ("ozaki floor", 6.0, [3000]),
        ("langevin", 6.0, [3000]),
        ("langevin", 2.0, [3000, 9000]),
    ],
}
RELATIVE = (0.1, 0.2, 0.4, 0.8)  # step sizes of the bias, over the curvature radius v
LENGTH = 12.0  # of its chains, in units of v


def _kernel(scores: TargetScores, method: str, size: float, floor: float) -> samplers.Kernel:
    name, _, slower = method.partition(", ")
    return scores.kernel(name, size / 2 if slower else size, floor)


def _shown(target: str, params: MixingParams) -> Iterator[tuple[str, float, list[int]]]:
    """Yield the methods on a target, with their step sizes and the iterations shown."""
    for method, size, shown in SHOWN[target]:
        yield method, params.equal_step if size is None else size, shown


@torch.no_grad()
def approach(
    target: str, scores: TargetScores, params: MixingParams
) -> tuple[list[Row], dict[str, Tensor]]:
    """Return the distance of many chains from the law against iterations, and points of theirs.

    Args:
        target: one of SHOWN.
        scores: what the samplers are given.
        params: how many chains, and the bound on iterations.

    Returns:
        A row for each method, step size and iteration; points by 'target|method|eps|iterations',
        of those chains that are finite.
    """
    exact = law(target)
    reference = exact.sample(REFERENCE, torch.Generator().manual_seed(params.seed + 1))
    rows: list[Row] = []
    points = {f"{target}|exact draws||": reference[: params.picture_chains]}
    for method, size, shown in _shown(target, params):
        generator = torch.Generator().manual_seed(params.seed)
        x = starts(params.picture_chains, exact.dimension, generator)
        kernel = _kernel(scores, method, size, params.floor)
        kept = [min(t, params.longest) for t in shown]
        grid = np.unique([*np.geomspace(1, kept[-1], 20).astype(int), *kept])
        state, done = kernel.init(x), 0
        for t in grid.tolist():
            for _ in range(t - done):
                state, _ = kernel.step(state, generator)
            done, finite = t, state.x[state.x.isfinite().all(1)]
            row = {"target": target, "scores": scores.name, "method": method, "step_size": size}
            row |= {"iterations": t, "kolmogorov": bias(state.x, exact, reference)["kolmogorov"]}
            rows.append({**row, "finite_share": len(finite) / len(x)})
            if t in kept:
                points[f"{target}|{method}|{size:g}|{t}"] = finite
    return rows, points


def single_chains(target: str, scores: TargetScores, params: MixingParams) -> dict[str, Tensor]:
    """Return one long chain of each method at the paper's steps, as 'target|method|eps|single'.

    Args:
        target: one of SHOWN.
        scores: what the samplers are given.
        params: the bound on iterations, of which up to 1,000 are burn-in.
    """
    chains = {}
    for method, size in dict.fromkeys((name, size) for name, size, _ in _shown(target, params)):
        generator = torch.Generator().manual_seed(params.seed)
        burn_in = min(1000, params.longest // 2)
        kernel = _kernel(scores, method, size, params.floor)
        x0 = starts(1, law(target).dimension, generator)
        options: dict[str, Any] = {"burn_in": burn_in, "diverged": "keep"}
        draws = samplers.sample_chain(
            kernel, x0, params.longest - burn_in, generator=generator, **options
        )[0]
        chains[f"{target}|{method}|{size:g}|single"] = draws[draws.isfinite().all(1)]
    return chains


def step_size_bias(target: str, params: MixingParams) -> list[Row]:
    """Return the bias of the energy -log p against the step size, with its standard error.

    Step sizes are in units of v = D / E |s1|^2, the variance of a Gaussian of that information.
    Ozaki's step is on Langevin's clock, so that equal eps is equal time.

    Args:
        target: name of a law.
        params: how many chains.
    """
    exact, scores, rows = law(target), exact_scores(target), []
    generator = torch.Generator().manual_seed(params.seed)
    x0 = exact.sample(params.bias_chains, generator)
    unit = exact.dimension / float(exact.score(x0).square().sum(1).mean())
    truth = exact.log_prob(exact.sample(10 * params.bias_chains, generator)).double()
    for method in ("langevin", "ozaki floor, Langevin's clock", "mala"):
        for relative in RELATIVE:
            size = relative * unit
            kernel = _kernel(scores, method, size, params.floor)
            count = max(10, round(LENGTH / relative))
            x = samplers.sample_chain(kernel, x0, 1, count - 1, generator, diverged="keep")[:, 0]
            energy = -exact.tolerant().log_prob(x).double()
            error = (energy.var() / len(energy) + truth.var() / len(truth)).sqrt()
            row = {"target": target, "method": method, "relative": relative, "step_size": size}
            row |= {"bias": float(energy.mean() + truth.mean()), "standard_error": float(error)}
            rows.append(row)
    return rows
