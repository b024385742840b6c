"""What figure 1 says of the paper's claims about variance reduction (section 4.3).

Without variance reduction errors of different seeds differ by factors of hundreds, so that a mean
is that of its largest: geometric means are compared, seed by seed, since runs of a seed share
their data. An error is infinite where a run diverged.
"""

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import Claim, Pair, decisive
from hosm.experiment.shared.rows import groups

__all__ = ["reduction_claims"]

ZERO = 2.0  # squared error of the scores 0 on N(0, I) in the plane, of s1 as of s2
OPTIONAL = 2.0  # variance reduction counts as optional up to this ratio of errors
SIMILAR = 1.5  # errors at two noise scales count as similar up to this ratio

ORDERS = ("s1_error", "s2_error")

Errors = dict[tuple[float, str], pd.DataFrame]  # (sigma, reduction) -> errors of s1, s2 by seed


def _told(values: pd.Series) -> str:
    """Return a geometric mean over seeds with its range, in words."""
    middle = float(np.exp(np.log(values).mean()))
    ends = " to ".join(formats.number(end) for end in (values.min(), values.max()))
    return f"{formats.number(middle)} ({ends})"


def _shown(errors: Errors, sigma: float) -> str:
    """Return the errors at a noise scale, without variance reduction and with, in words."""
    without, reduced = (
        " and ".join(_told(errors[sigma, kind][order]) for order in ORDERS)
        for kind in ("none", "antithetic")
    )
    return (
        f"geometric means over seeds of the squared errors of s1 and s2: {without} without "
        f"variance reduction, {reduced} with it"
    )


def _ratio(first: pd.Series, second: pd.Series | float, bound: float = 1.0) -> Pair:
    """Return the mean of log first / second over seeds beside log bound."""
    logs = np.log(first) - np.log(second)
    error = float(logs.sem()) if np.isfinite(logs).all() else math.nan
    return Pair(float(logs.mean()), math.log(bound), error)


def _without_it(errors: Errors, least: float, largest: float) -> Iterator[Claim]:
    """Yield that plain losses fail at the smallest noise scale, and suffice at the largest."""
    plain = [errors[least, "none"][order] for order in ORDERS]
    worst = decisive(">", [_ratio(each, ZERO) for each in plain])
    yield Claim(
        "plain-fails-at-small-sigma",
        f"N(0, I) in the plane, σ = {least:g}",
        "at the smallest σ, s1 and s2 trained without variance reduction have larger errors than "
        "the constant 0",
        worst.left,
        ">",
        worst.right,
        _shown(errors, least),
        paper=True,
        error=worst.error,
    )
    found, reduced = errors[largest, "none"], errors[largest, "antithetic"]
    pairs = [_ratio(found[order], reduced[order], OPTIONAL) for order in ORDERS]
    worst = decisive("<=", pairs)
    yield Claim(
        "plain-suffices-at-large-sigma",
        f"N(0, I) in the plane, σ = {largest:g}",
        f"at the largest σ, errors without variance reduction are at most {OPTIONAL:g} times "
        "those with it",
        worst.left,
        "<=",
        worst.right,
        _shown(errors, largest),
        paper=True,
        error=worst.error,
    )


def _with_it(errors: Errors, sigmas: list[float]) -> Claim:
    """Return the claim that the noise scale does not matter with variance reduction."""
    found = [[errors[sigma, "antithetic"][order] for sigma in sigmas] for order in ORDERS]
    pairs = [_ratio(*each, SIMILAR) for row in found for each in product(row, row)]
    worst, largest = decisive("<=", pairs), max(pair.left for pair in pairs)
    return Claim(
        "reduced-alike-at-all-sigma",
        f"N(0, I) in the plane, σ = {sigmas[0]:g} to {sigmas[-1]:g}",
        f"with variance reduction, errors at different σ differ by a factor of at most "
        f"{SIMILAR:g}",
        worst.left,
        "<=",
        worst.right,
        f"largest squared error over the smallest: {formats.ratio(math.exp(largest))}, as "
        "geometric means over seeds",
        error=worst.error,
    )


def reduction_claims(curves: pd.DataFrame) -> Iterator[Claim]:
    """Yield what figure 1 says of the paper's objective with and without variance reduction.

    Args:
        curves: a row for each noise scale, variance reduction, seed, target and record.
    """
    moment = curves[curves["target"] == "moment"]
    sigmas = sorted(moment["sigma"].unique())
    found = {
        place: part.groupby("seed").last()[[*ORDERS]]
        for place, part in groups(moment, "sigma", "reduction")
    }
    yield from _without_it(found, sigmas[0], sigmas[-1])
    yield _with_it(found, sigmas)
