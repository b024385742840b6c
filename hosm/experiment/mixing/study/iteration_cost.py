"""What an iteration of each sampler of laws in the plane costs, as it runs and compiled.

Scores of such laws cost so little that an iteration is spent on starting operations one by one,
of which Ozaki has twice as many as Langevin; compiled (`hosm.samplers.compiled`), as the samplers
of other libraries are, it is spent on arithmetic. Every sampler counts at the faster of the two.
A guard is one operation among many, so that guards of one form share a time. On laws whose
samplers are not compiled, all of them count as they run.
"""

from functools import partial
from typing import Any

import torch

from hosm import samplers
from hosm.experiment.data.datasets import law
from hosm.experiment.mixing.study.samplers import METHODS, TargetScores
from hosm.experiment.settings import MixingParams
from hosm.experiment.shared.rows import Row
from hosm.experiment.shared.stopwatch import CIRCUMSTANCES, summary, timed_in_turn

__all__ = ["timed"]

NAN = float("nan")
COMPILED = ("langevin", "ozaki floor", "mala")  # others are far from the best


def _form(method: str) -> str:
    """Return the method that stands for all of its form: Ozaki's of the diagonal are one."""
    alike = method in METHODS and {"guard"} == METHODS[method].keys()
    return "ozaki floor" if alike else method


def timed(rows: list[Row], scores: TargetScores, params: MixingParams) -> None:
    """Add seconds per iteration, and with them effective samples per second, to final rows.

    All kernels take turns in this process: the median of `repeats` rounds, after a warm-up.
    `seconds_eager`, `seconds_compiled` (NaN where it is not) and the less of the two,
    `seconds_per_iteration`, are of the chains of one run.

    Args:
        rows: final rows of one target and these scores.
        scores: what the samplers are given.
        params: chains, repeats, iterations of a round, and the laws whose samplers are compiled.
    """
    generator = torch.Generator().manual_seed(params.seed)
    x0 = law(rows[0]["target"]).sample(params.chains, generator)
    kernels: dict[tuple[str, bool], samplers.Kernel] = {}
    for form in dict.fromkeys(_form(row["method"]) for row in rows):
        kernels[form, False] = kernel = scores.kernel(form, 1e-3, params.floor)
        if rows[0]["target"] in params.compiled and form in COMPILED:
            kernels[form, True] = samplers.compiled(kernel)
    run: Any = partial(samplers.sample_chain, steps=params.timed_iterations, generator=generator)
    works = {key: partial(run, kernel, x0) for key, kernel in kernels.items()}
    found = {
        key: summary(times)
        for key, times in timed_in_turn(works, params.repeats, x0.device, 0.0).items()
    }
    seconds = {key: each["seconds"] / params.timed_iterations for key, each in found.items()}
    machine = {key: next(iter(found.values()))[key] for key in CIRCUMSTANCES}  # of all in turn
    for row in rows:
        form = _form(row["method"])
        row["seconds_eager"] = seconds[form, False]
        row["seconds_compiled"] = seconds.get((form, True), NAN)
        row["seconds_per_iteration"] = min(seconds[form, False], seconds.get((form, True), 1e9))
        spent = row["seconds_per_iteration"] * (row["draws"] + params.burn_in)
        row["ess_bulk_per_second"] = row["ess_bulk"] / spent
        row |= machine
