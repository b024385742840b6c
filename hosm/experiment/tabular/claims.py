"""What a user of the default estimator relies on: never worse than a simple answer.

None of this is the paper's. Errors are those of the Hessian's diagonal over that of the best
constant, which is at 1; means over seeds are compared seed by seed. With one seed nothing is known
of chance, and any difference decides.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import Claim, Pair, decisive
from hosm.experiment.shared.rows import groups
from hosm.experiment.tabular.results import OURS, TabularRun, errors_by_method, standard_error

__all__ = ["tabular_claims"]

GAUSSIAN, MIXTURE = "Ledoit-Wolf Gaussian", "Gaussian mixture by BIC"
KERNELS = ("kernel density", "Stein kernel")
NO_WORSE = 1.05  # times the error of a constant or of the Gaussian
MOST_CELLS = 0.95  # share of cells with at most the error of both kernel methods
NEAR_MIXTURE = 1.15  # times the mixture's error, where the truth is one
BELOW_MIXTURE, HALF = 0.8, 0.5  # times its error, and of how many laws that are none
ENOUGH_ROWS = 1000  # for the comparisons with the mixture
CALIBRATED = (0.85, 1.15)  # predicted over measured variance

Place = tuple[str, int, int]
Errors = dict[Place, pd.DataFrame]


def _pair(left: pd.Series, right: pd.Series | float, factor: float) -> Pair:
    """Return the mean of left beside factor times the mean of right, seed by seed."""
    scaled = factor * right
    change = left - scaled
    error = standard_error(change) if len(change) > 1 else None
    return Pair(float(left.mean()), float(np.mean(scaled)), error)


def _where(errors: Errors) -> str:
    """Return the columns and rows of cells, in words."""
    columns, sizes = ({place[i] for place in errors} for i in (1, 2))
    words = [", ".join(f"{value:,}" for value in sorted(values)) for values in (columns, sizes)]
    return f"tables of {words[0]} columns, {words[1]} rows"


def _told(places: Sequence[Place]) -> str:
    named = [f"{law} ({dimension} columns, {size:,} rows)" for law, dimension, size in places]
    return ", ".join(named) if named else "none"


def _in_every_cell(
    name: str, errors: Errors, statement: str, pairs: Mapping[Place, Pair]
) -> Claim:
    """Return the claim that left is at most right in every cell, which names those where not."""
    missed = [place for place, pair in pairs.items() if pair.left > pair.right]
    worst = decisive("<=", [*pairs.values()])
    return Claim(
        name,
        _where(errors),
        statement,
        worst.left,
        "<=",
        worst.right,
        f"{len(missed)} of {len(pairs)} cells are above: {_told(missed)}",
        error=worst.error,
    )


def _never_worse(errors: Errors) -> Claim:
    """Return the claim about a constant and the Gaussian, whichever is better."""
    pairs = {}
    for place, part in errors.items():
        gaussian = part[GAUSSIAN]
        pairs[place] = _pair(part[OURS], gaussian if gaussian.mean() < 1 else 1.0, NO_WORSE)
    return _in_every_cell(
        "tabular-never-worse-than-constant",
        errors,
        f"by default the error of the Hessian's diagonal is at most {NO_WORSE:g} times that of "
        "the best constant, or of the Gaussian where that is better",
        pairs,
    )


def _against_gaussian(errors: Errors) -> Claim:
    """Return the claim about the best constant that the rows give."""
    return _in_every_cell(
        "tabular-never-worse-than-gaussian",
        errors,
        f"by default the error of the Hessian's diagonal is at most {NO_WORSE:g} times that of "
        "the Gaussian of Ledoit and Wolf, a constant that the rows give",
        {place: _pair(part[OURS], part[GAUSSIAN], NO_WORSE) for place, part in errors.items()},
    )


def _where_mixture(errors: Errors) -> Claim:
    """Return the claim about laws that are mixtures of Gaussians."""
    return _in_every_cell(
        "tabular-near-mixture",
        errors,
        f"where the truth is a mixture of Gaussians, the error is at most {NEAR_MIXTURE:g} times "
        "that of a mixture by BIC",
        {place: _pair(part[OURS], part[MIXTURE], NEAR_MIXTURE) for place, part in errors.items()},
    )


def _against_kernels(errors: Errors) -> Claim:
    """Return the claim about kernel density and Stein's kernel, whichever is better."""
    missed = [
        place
        for place, part in errors.items()
        if part[OURS].mean() > min(part[name].mean() for name in KERNELS)
    ]
    share = 1 - len(missed) / len(errors)
    return Claim(
        "tabular-beats-kernels",
        _where(errors),
        "the error is at most that of the better of kernel density and Stein's kernel in at "
        f"least {MOST_CELLS:.0%} of cells",
        share,
        ">=",
        MOST_CELLS,
        f"{share:.0%} of {len(errors)} cells; not {_told(missed)}",
    )


def _where_no_mixture(errors: Errors) -> Claim:
    """Return the claim about laws that are none, each law by its geometric mean over cells."""
    ratios: dict[str, list[float]] = {}
    for (law, _, _), part in errors.items():
        ratio = float(part[OURS].mean() / part[MIXTURE].mean())
        ratios.setdefault(law, []).append(math.log(ratio))
    means = {law: math.exp(float(np.mean(logs))) for law, logs in ratios.items()}
    share = sum(mean <= BELOW_MIXTURE for mean in means.values()) / len(means)
    return Claim(
        "tabular-beats-mixture",
        _where(errors),
        f"where the truth is no mixture of Gaussians, the error is at most {BELOW_MIXTURE:g} "
        f"times that of a mixture by BIC on at least {HALF:.0%} of the laws",
        share,
        ">=",
        HALF,
        f"geometric means of the ratio over cells: {formats.at_each(means, 2)}",
    )


def _calibrated(tables: pd.DataFrame) -> Claim:
    """Return the claim about the posterior's variance on real tables."""
    own = tables[tables["method"] == OURS]
    means = {
        str(name): float(part["variance_ratio"].mean()) for name, part in groups(own, "table")
    }
    low, high = CALIBRATED
    worst = max(means.values(), key=lambda ratio: max(low / ratio, ratio / high))
    return Claim(
        "tabular-calibrated",
        f"{len(means)} real tables, held-out rows",
        f"the posterior's variance is {low:g} to {high:g} times the measured error of denoising",
        max(low / worst, worst / high),
        "<=",
        1.0,
        f"predicted over measured: {formats.at_each(means)}",
    )


def tabular_claims(run: TabularRun) -> Iterator[Claim]:
    """Yield what the benchmark of tables says of the default estimator.

    Args:
        run: what was measured.
    """
    errors: Errors = dict(errors_by_method(run.laws))
    mixtures = set(run.laws.loc[run.laws["mixture"], "law"])
    yield _never_worse(errors)
    yield _against_gaussian(errors)
    yield _against_kernels(errors)
    many = {place: part for place, part in errors.items() if place[2] >= ENOUGH_ROWS}
    of_mixtures = {place: part for place, part in many.items() if place[0] in mixtures}
    others = {place: part for place, part in many.items() if place[0] not in mixtures}
    if of_mixtures:
        yield _where_mixture(of_mixtures)
    if others:
        yield _where_no_mixture(others)
    yield _calibrated(run.tables)
