"""Table 3: effective sample size of Langevin and Ozaki sampling, at a stated bias.

Protocol: 32 chains from N(0, 4 I), burn-in, then 10,000 draws (Meng, Song, Li and Ermon,
NeurIPS 2021, section 6.2 and appendix F), in several runs alike, over which effective sample sizes
are averaged: chains that rarely cross differ by luck. One search tunes every method alike: step
sizes on a geometric grid, then more between the neighbours of the best; of those whose bias
stays within two bounds, on the Kolmogorov distance from exact draws and on the ratio of variances,
the one with the most effective samples. The search keeps a quarter of each bound away from it,
since a bias is known up to chance only. Bounds hold for the worst of the coordinates and the
distance from the mean (see `draws_quality`), after many chains that began with exact draws have
drifted for a while.
The final chains have another seed than the search. The paper's own step sizes stand as rows of
their own, with draws of their own number. Scores are those of the exact law, or learned at sigma =
0.1; with the exact law's log-density, steps are also adjusted after Metropolis and Hastings.
As printed, Ozaki(eps) runs at twice the clock of Langevin(eps).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hosm import metrics, samplers
from hosm.distributions import Law
from hosm.experiment.data.datasets import law
from hosm.experiment.mixing.study.draws_quality import bias, quality, within
from hosm.experiment.mixing.study.samplers import TargetScores, starts
from hosm.experiment.settings import MixingParams
from hosm.experiment.shared.rows import Row

__all__ = ["Study", "headline", "study"]

REFERENCE = 20_000
MARGIN = 0.25  # share of each bound that the search keeps away from it, for other chains' sake
DRIFT_DRAWS = 10  # of each chain that tells a bias
PASSES = 2  # of the search: a grid, then between the neighbours of the best
PAPER_STEPS = {
    "ring6": {"langevin": 0.5, "ozaki none": 5.0, "ozaki floor": 5.0},
    "ring8": {"langevin": 2.0, "ozaki none": 6.0, "ozaki floor": 6.0},
}
PAPER_ESS = {
    "ring6": {"langevin": 21.81, "ozaki none": 28.89},
    "ring8": {"langevin": 26.33, "ozaki none": 46.57},
}


@dataclass(frozen=True)
class Study:
    """What is found on one target with one kind of scores: rows of three tables, and draws."""

    final: list[Row]
    tuning: list[Row]
    curves: list[Row]
    draws: dict[str, Tensor]


def _tried(
    scores: TargetScores,
    method: str,
    sizes: Tensor,
    exact: Law,
    reference: Tensor,
    params: MixingParams,
) -> list[Row]:
    """Return a row for each step size, all of whose chains run in one batch."""
    generator = torch.Generator().manual_seed(params.seed)
    start = starts(params.tuning_chains, exact.dimension, generator).repeat(len(sizes), 1)
    kernel = scores.kernel(method, sizes.repeat_interleave(params.tuning_chains), params.floor)
    options: dict[str, Any] = {"burn_in": params.burn_in, "diverged": "keep"}
    draws = samplers.sample_chain(
        kernel, start, params.tuning_steps, generator=generator, **options
    )
    found = _drifts(kernel_of(scores, method, params), sizes, exact, reference, params)
    for row, part in zip(found, draws.split(params.tuning_chains), strict=True):
        row["ess_bulk"] = float(metrics.ess_bulk(part).min())
    return found


def kernel_of(
    scores: TargetScores, method: str, params: MixingParams
) -> Callable[[float | Tensor], samplers.Kernel]:
    """Return what makes a sampler's kernel of a step size."""
    return lambda step_size: scores.kernel(method, step_size, params.floor)


def _drifts(
    kernel_at: Callable[[float | Tensor], samplers.Kernel],
    sizes: Tensor,
    exact: Law,
    reference: Tensor,
    params: MixingParams,
) -> list[Row]:
    """Return the bias of each step size: of chains that began with exact draws, some time later.

    Chains that rarely cross between modes would need very long to tell their bias from chance if
    they began elsewhere; the law in each mode, which the step size bends, settles soon. Draws are
    of the second half of the chains, several of each: a variance which a few steps far astray make
    is otherwise known to a third only.
    """
    generator = torch.Generator().manual_seed(params.seed + 3)
    start = exact.sample(params.drift_chains, generator).repeat(len(sizes), 1)
    kernel = kernel_at(sizes.repeat_interleave(params.drift_chains))
    half = params.drift_iterations // 2
    kept = min(half, DRIFT_DRAWS)
    options: dict[str, Any] = {"thin": half // kept, "diverged": "keep"}
    draws = samplers.sample_chain(kernel, start, kept, half, generator, **options)
    rows: list[Row] = []
    for size, part in zip(sizes.tolist(), draws.split(params.drift_chains), strict=True):
        row = {"step_size": size, **bias(part, exact, reference)}
        bounds = (params.bias_bound, params.variance_bound)
        row |= {"within_bound": within(row, *bounds), "sure": within(row, *bounds, MARGIN)}
        rows.append(row)
    return rows


def _best(tried: list[Row]) -> tuple[Row, bool]:
    """Return the row with most effective samples within the bounds by the margin.

    Where none lies within, the least biased one is returned, with False.
    """
    sound = [row for row in tried if row["sure"]]
    if sound:
        return max(sound, key=lambda row: row["ess_bulk"]), True
    return min(tried, key=lambda row: row["kolmogorov"]), False


def _search(
    scores: TargetScores, method: str, exact: Law, reference: Tensor, params: MixingParams
) -> tuple[list[Row], float, bool]:
    """Return what was tried, the best step size, and whether it is within the bounds."""
    low, high = params.step_sizes
    sizes = torch.logspace(math.log10(low), math.log10(high), params.tries)
    ratio, tried = (high / low) ** (1 / (params.tries - 1)), []
    for _ in range(PASSES):
        tried += _tried(scores, method, sizes, exact, reference, params)
        best, sound = _best(tried)
        powers = torch.linspace(-1, 1, params.tries // 2 + 2)[1:-1]
        sizes, ratio = best["step_size"] * ratio**powers, ratio ** (2 / (len(powers) + 1))
    return sorted(tried, key=lambda row: row["step_size"]), best["step_size"], sound


def _distances(draws: Tensor, exact: Law, reference: Tensor, points: int = 24) -> Iterator[Row]:
    """Yield the Kolmogorov distance of all draws up to an iteration, on a log grid."""
    for t in np.unique(np.geomspace(2, draws.shape[1], points).astype(int)):
        distance = bias(draws[:, :t], exact, reference)["kolmogorov"]
        yield {"iterations": int(t), "kolmogorov": distance}


def _iterations_to(curve: list[Row], bound: float) -> float:
    """Return the iterations after which the distance stays within the bound; NaN if never."""
    beyond = [i for i, point in enumerate(curve) if not point["kolmogorov"] <= bound]
    first = beyond[-1] + 1 if beyond else 0
    return float(curve[first]["iterations"]) if first < len(curve) else math.nan


def study(target: str, scores: TargetScores, params: MixingParams) -> Study:
    """Tune and run every sampler on one target.

    Args:
        target: name of a law.
        scores: what the samplers are given.
        params: chains, step sizes and bounds.
    """
    exact = law(target)
    reference = exact.sample(REFERENCE, torch.Generator().manual_seed(params.seed + 1))
    found = Study([], [], [], {"exact draws": reference[:4000]})
    for method in scores.methods(params.guards):
        common = {"target": target, "scores": scores.name, "method": method}
        tried, best, found_within = _search(scores, method, exact, reference, params)
        found.tuning.extend({**common, **row} for row in tried)
        own = PAPER_STEPS.get(target, {}).get(method)
        for setting, size in {"tuned": best, "paper's step": own}.items():
            if size is None:
                continue
            acceptance: list[float] = []
            count = params.steps if setting == "tuned" else params.paper_steps
            kernel = scores.kernel(method, size, params.floor)
            draws = _final(kernel, exact, params, count, acceptance)
            row: Row = {**common, "setting": setting, "step_size": size, "draws": count}
            row |= quality(draws, exact, reference, params.chains)
            row["distance"] = row["kolmogorov"]  # of these draws; below, of the step size
            row |= _drifts(
                kernel_of(scores, method, params), torch.tensor([size]), exact, reference, params
            )[0]
            row["acceptance"] = float(np.mean(acceptance))
            row["tuning_within_bound"] = found_within
            row["paper_ess"] = PAPER_ESS.get(target, {}).get(method, math.nan)
            curve = list(_distances(draws[: params.chains], exact, reference))
            row["iterations_to_bound"] = _iterations_to(curve, params.bias_bound)
            found.final.append(row)
            if setting == "tuned":
                found.draws[method] = draws.flatten(0, 1)[:: max(1, draws[..., 0].numel() // 4000)]
                found.curves.extend({**common, **point} for point in curve)
                told = f"eps {size:.3g}, ESS {row['ess_bulk']:.0f} at {row['kolmogorov']:.3f}"
                print(f"{target}, {scores.name} scores, {method}: {told}", flush=True)
    return found


def _final(
    kernel: samplers.Kernel, exact: Law, params: MixingParams, count: int, acceptance: list[float]
) -> Tensor:
    """Run the chains of one kernel, those of all runs, and note a tenth of their acceptances."""
    generator = torch.Generator().manual_seed(params.seed + 2)
    start = starts(params.runs * params.chains, exact.dimension, generator)

    def note(i: int, info: samplers.ChainInfo) -> None:
        if i % 10 == 0:
            acceptance.append(float(info.acceptance.mean()))

    options: dict[str, Any] = {"progress": note, "diverged": "keep"}
    return samplers.sample_chain(kernel, start, count, params.burn_in, generator, **options)


def headline(table: pd.DataFrame) -> dict[str, float]:
    """Return ESS, bias and speed of each tuned sampler."""
    numbers = {}
    for row in table[table["setting"] == "tuned"].to_dict("records"):
        method = row["method"].replace(" ", "_")
        for column in ("ess_nice", "ess_bulk", "kolmogorov", "ess_bulk_per_second"):
            numbers[f"{row['target']}.{row['scores']}.{method}.{column}"] = row[column]
    return numbers
