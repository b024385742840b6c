"""Table 3: effective sample size of Langevin and Ozaki sampling, at a stated bias.

Protocol: 32 chains from N(0, 4 I), burn-in, then 10,000 draws (Meng, Song, Li and Ermon,
NeurIPS 2021, section 6.2 and appendix F). Each method's step size is tuned alike: of those
tried, the one with the most effective samples whose draws stay within a bound of exact draws in
Kolmogorov distance, on the worst of the coordinates and the distance from the mean (a sampler
that blurs the modes into one blob can have good coordinates, but not a good radius). The paper's
own step sizes stand as rows of their own. Scores are those of the exact law, or learned at
sigma = 0.1. As printed, Ozaki(eps) runs at twice the clock of Langevin(eps).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hosm import metrics, samplers
from hosm.experiment.datasets import law
from hosm.experiment.params import MixingParams
from hosm.laws import Law
from hosm.scores import ScoreModel

__all__ = ["Scores", "exact_scores", "headline", "learned_scores", "study"]

REFERENCE = 20_000
PAPER_STEPS = {"ring6": {"langevin": 0.5, "ozaki": 5.0}, "ring8": {"langevin": 2.0, "ozaki": 6.0}}
PAPER_ESS = {
    "ring6": {"langevin": 21.81, "ozaki": 28.89},
    "ring8": {"langevin": 26.33, "ozaki": 46.57},
}


@dataclass(frozen=True)
class Scores:
    """What a sampler is given: s1 alone, and s1 with the diagonal of s2."""

    name: str
    first: Callable[[Tensor], Tensor]
    both: Callable[[Tensor], tuple[Tensor, Any]]


def exact_scores(target: str) -> Scores:
    """Return the exact scores of a law."""
    exact = law(target).tolerant()  # a diverging chain is a result, not an error
    return Scores("exact", exact.score, lambda x: (exact.score(x), exact.hessian_diag(x)))


def learned_scores(model: ScoreModel) -> Scores:
    """Return the scores of a trained model."""
    return Scores("learned", model.score, model)


def _kernel(method: str, scores: Scores, step: float, guard: str) -> samplers.Kernel:
    if method == "langevin":
        return samplers.langevin(scores.first, step)
    return samplers.ozaki(scores.both, step, guard)


def _bias(draws: Tensor, exact: Law, reference: Tensor) -> float:
    """Return the largest Kolmogorov distance over the coordinates and the radius."""
    if not torch.isfinite(draws).all():
        return 1.0
    both = [
        torch.cat([x, (x - exact.mean).norm(dim=1, keepdim=True)], 1) for x in (draws, reference)
    ]
    return float(metrics.kolmogorov_distance(*both).max())


def _measure(
    draws: Tensor, exact: Law, reference: Tensor, seconds: float, iterations: int
) -> dict[str, float]:
    """Return ESS, bias and speed of one set of chains."""
    flat = draws.flatten(0, 1)
    nice = metrics.ess_nice(draws, exact.mean, exact.variance)
    bulk = metrics.ess_bulk(draws)
    finite = float(torch.isfinite(flat).all(1).float().mean())
    return {
        "ess_nice": float(nice.min()),
        "ess_bulk": float(bulk.min()),
        "r_hat": float(metrics.r_hat(draws).max()),
        "kolmogorov": _bias(flat, exact, reference),
        "variance_ratio": float(metrics.variance_ratio(flat, reference).max()),
        "finite_share": finite,
        "seconds_per_iteration": seconds / iterations,
        "ess_bulk_per_second": float(bulk.min()) / seconds,
    }


def _run(
    kernel: samplers.Kernel, exact: Law, reference: Tensor, steps: int, params: MixingParams
) -> tuple[Tensor, dict[str, float]]:
    """Run the chains of one kernel and measure them."""
    generator = torch.Generator().manual_seed(params.seed)
    start = 2 * torch.randn(params.chains, reference.shape[1], generator=generator)
    begun = time.perf_counter()
    draws = samplers.sample_chain(kernel, start, steps, params.burn_in, generator)
    seconds = time.perf_counter() - begun
    return draws, _measure(draws, exact, reference, seconds, steps + params.burn_in)


def _best(tried: list[dict[str, Any]], bound: float) -> tuple[float, bool]:
    """Return the step size with most effective samples within the bias bound.

    Where none lies within, the least biased one is returned, with False.
    """
    within = [row for row in tried if row["kolmogorov"] <= bound]
    if within:
        return max(within, key=lambda row: row["ess_bulk"])["step_size"], True
    return min(tried, key=lambda row: row["kolmogorov"])["step_size"], False


def _distances(
    draws: Tensor, exact: Law, reference: Tensor, points: int = 30
) -> list[dict[str, float]]:
    """Return the Kolmogorov distance of all draws up to an iteration, on a log grid."""
    grid = np.unique(np.geomspace(1, draws.shape[1], points).astype(int))
    biases = [_bias(draws[:, :t].flatten(0, 1), exact, reference) for t in grid]
    return [
        {"iterations": int(t), "kolmogorov": bias} for t, bias in zip(grid, biases, strict=True)
    ]


def study(
    target: str, scores: Scores, params: MixingParams
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]], dict[str, Tensor]]:
    """Tune and run both methods on one target.

    Returns:
        The final rows, the rows of tuning, the curves of distance against iterations, and a
        sample of the draws by method.
    """
    exact = law(target)
    reference = exact.sample(REFERENCE, torch.Generator().manual_seed(params.seed + 1))
    final, tuning, curves, samples = [], [], [], {}
    for method in ("langevin", "ozaki"):
        common = {"target": target, "scores": scores.name, "method": method}
        tried = []
        for step in getattr(params, f"{method}_steps"):
            kernel = _kernel(method, scores, step, params.guard)
            measured = _run(kernel, exact, reference, params.tuning_steps, params)[1]
            tried.append({**common, "step_size": step, **measured})
        tuning += tried
        best, within = _best(tried, params.bias_bound)
        settings = {"tuned": best}
        if target in PAPER_STEPS:
            settings["paper's step"] = PAPER_STEPS[target][method]
        for setting, step in settings.items():
            kernel = _kernel(method, scores, step, params.guard)
            draws, measured = _run(kernel, exact, reference, params.steps, params)
            row = {**common, "setting": setting, "step_size": step, **measured}
            row["within_bound"] = measured["kolmogorov"] <= params.bias_bound
            row["tuning_within_bound"] = within
            row["paper_ess"] = PAPER_ESS.get(target, {}).get(method, float("nan"))
            final.append(row)
            if setting == "tuned":
                samples[method] = draws.flatten(0, 1)[:: max(1, draws[..., 0].numel() // 4000)]
                curves += [{**common, **point} for point in _distances(draws, exact, reference)]
        ess, distance = final[-1]["ess_bulk"], final[-1]["kolmogorov"]
        print(f"{target} {scores.name} {method}: ESS {ess:.0f} at {distance:.3f}", flush=True)
    samples["exact draws"] = reference[:4000]
    return final, tuning, curves, samples


def headline(table: pd.DataFrame) -> dict[str, float]:
    """Return ESS, bias and speed of each tuned sampler."""
    numbers = {}
    for row in table[table["setting"] == "tuned"].to_dict("records"):
        for column in ("ess_nice", "ess_bulk", "kolmogorov", "ess_bulk_per_second"):
            numbers[f"{row['target']}.{row['scores']}.{row['method']}.{column}"] = row[column]
    return numbers
