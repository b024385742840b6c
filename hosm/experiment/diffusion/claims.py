"""What a user of few steps relies on: the learned covariance, and likelihoods by its trace.

None of this is the paper's. Bounds and distances are means over seeds of one network, compared
seed by seed; with one seed nothing is known of chance. Times are ranges of rounds in turn.
"""

import math
from collections.abc import Iterator, Mapping

import pandas as pd

from hosm.experiment.diffusion.results import BOTH, EXACT, LEARNED, TRACE, DiffusionRun
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import Claim, Pair, decisive
from hosm.experiment.presenting.timing import marked
from hosm.experiment.shared.rows import groups, records

__all__ = ["diffusion_claims"]

NEAR_EXACT = 1.05  # times the result of the exact covariance
FEW = 50  # steps, at most
LARGEST_ERROR = 0.02  # nats for each dimension
RIVALS = ("beta", "beta-tilde", "optimal isotropic", "diagonal")


def _by_seed(run: DiffusionRun, measure: str) -> dict[int, pd.DataFrame]:
    """Return a measure of the network's steps by their number: a column for each covariance."""
    own = run.steps[run.steps["mean"] == LEARNED]
    return {
        int(count): part.pivot(index="seed", columns="covariance", values=measure)
        for count, part in groups(own, "steps")
    }


def _pair(left: pd.Series, right: pd.Series, factor: float) -> Pair:
    change = left - factor * right
    error = float(change.std()) / math.sqrt(len(change)) if len(change) > 1 else math.nan
    return Pair(float(left.mean()), factor * float(right.mean()), error)


def _claim(name: str, statement: str, pairs: Mapping[str, Pair]) -> Claim:
    worst = decisive("<=", [*pairs.values()])
    told = {place: pair.left / pair.right for place, pair in pairs.items()}
    return Claim(
        f"diffusion-{name}",
        "a mixture of Gaussians",
        statement,
        worst.left,
        "<=",
        worst.right,
        f"left over right: {formats.at_each(told)}",
        error=worst.error,
    )


def _near_exact(run: DiffusionRun, measure: str, words: str) -> Claim:
    pairs = {
        f"{count} steps": _pair(part[BOTH], part["exact"], NEAR_EXACT)
        for count, part in _by_seed(run, measure).items()
    }
    statement = (
        f"with the network's diagonal plus low rank {words} is at most {NEAR_EXACT:g} times that "
        "with the exact covariance and the same mean, at every number of steps"
    )
    return _claim(f"near-exact-{measure}", statement, pairs)


def _best(run: DiffusionRun, measure: str, words: str) -> Claim:
    pairs = {}
    for count, part in _by_seed(run, measure).items():
        best = min(RIVALS, key=lambda name: part[name].mean())
        if count <= FEW:
            pairs[f"{count} steps, {best}"] = _pair(part[BOTH], part[best], 1.0)
    statement = (
        f"with the diagonal plus low rank {words} is at most that with any constant, the best "
        f"multiple of I or the diagonal, at every number of steps up to {FEW}"
    )
    return _claim(f"best-{measure}", statement, pairs)


def _accurate(run: DiffusionRun) -> Iterator[Claim]:
    """Yield the claims about the error of the flow, with exact scores and with the network's."""
    own = run.likelihood[run.likelihood["mean"] == LEARNED]
    told = {str(row["trace"]): row["error"] for row in records(own)}
    exact = float(run.likelihood.loc[run.likelihood["mean"] == EXACT, "error"].iloc[0])
    statement = f"is within {LARGEST_ERROR:g} nats a dimension of the exact value"
    yield Claim(
        "diffusion-likelihood-exact-scores",
        "a mixture of Gaussians",
        f"with exact scores the likelihood by the flow {statement}",
        exact,
        "<=",
        LARGEST_ERROR,
        formats.number(exact),
        by_construction=True,
    )
    yield Claim(
        "diffusion-likelihood-network",
        "a mixture of Gaussians",
        f"with the network's s1 and the trace of its s2 the likelihood by the flow {statement}",
        told[TRACE],
        "<=",
        LARGEST_ERROR,
        formats.at_each(told),
    )


def _of_trace(run: DiffusionRun) -> dict[str, float]:
    own = run.likelihood[run.likelihood["mean"] == LEARNED]
    return records(own[own["trace"] == TRACE])[0]


def _faster(run: DiffusionRun) -> Claim:
    own = _of_trace(run)
    others = run.likelihood[
        (run.likelihood["mean"] == LEARNED) & (run.likelihood["trace"] != TRACE)
    ]
    fastest = records(others.sort_values("seconds"))[0]
    return Claim(
        "diffusion-likelihood-seconds",
        "a mixture of Gaussians",
        "the flow takes less time with the trace of s2 than with one of Hutchinson's probes",
        own["seconds"],
        "<",
        fastest["seconds"],
        f"{formats.number(own['seconds'])} s against "
        f"{marked(formats.number(fastest['seconds']) + ' s', own, fastest)}, "
        f"whose noise is {formats.number(fastest['noise'])} nats a dimension",
        ends=(own["seconds_low"], own["seconds_high"]),
    )


def diffusion_claims(run: DiffusionRun) -> Iterator[Claim]:
    """Yield what the study says of few steps and of likelihoods.

    Args:
        run: what was measured.
    """
    for measure, words in (("gap", "the bound's gap"), ("distance", "the distance of draws")):
        yield _near_exact(run, measure, words)
        yield _best(run, measure, words)
    yield from _accurate(run)
    yield _faster(run)
