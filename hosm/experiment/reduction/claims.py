"""What figure 1 says of the paper's claims about variance reduction (section 4.3)."""

from collections.abc import Iterator

import pandas as pd

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import Claim
from hosm.experiment.shared.rows import records

__all__ = ["reduction_claims"]

ZERO = 2.0  # squared error of the scores 0 on N(0, I) in the plane, of s1 as of s2
OPTIONAL = 2.0  # variance reduction counts as optional up to this ratio of errors
SIMILAR = 1.5  # errors at two noise scales count as similar up to this ratio

Errors = dict[tuple[float, str], tuple[float, float]]  # (sigma, reduction) -> of s1 and of s2


def _shown(errors: Errors, sigma: float) -> str:
    """Return the errors at a noise scale, without variance reduction and with, in words."""
    pairs = (errors[sigma, "none"], errors[sigma, "antithetic"])
    without, reduced = (" and ".join(map(formats.number, pair)) for pair in pairs)
    return f"squared errors of s1 and s2: {without} without variance reduction, {reduced} with it"


def _without_it(errors: Errors, least: float, largest: float) -> Iterator[Claim]:
    """Yield that plain losses fail at the smallest noise scale, and suffice at the largest."""
    yield Claim(
        "plain-fails-at-small-sigma",
        f"N(0, I) in the plane, σ = {least:g}",
        "at the smallest σ, s1 and s2 trained without variance reduction have larger errors than "
        "the constant 0",
        min(errors[least, "none"]),
        ">",
        ZERO,
        _shown(errors, least),
        paper=True,
    )
    pairs = zip(errors[largest, "none"], errors[largest, "antithetic"], strict=True)
    yield Claim(
        "plain-suffices-at-large-sigma",
        f"N(0, I) in the plane, σ = {largest:g}",
        f"at the largest σ, errors without variance reduction are at most {OPTIONAL:g} times "
        "those with it",
        max(plain / reduced for plain, reduced in pairs),
        "<=",
        OPTIONAL,
        _shown(errors, largest),
        paper=True,
    )


def _with_it(errors: Errors, sigmas: list[float]) -> Claim:
    """Return the claim that the noise scale does not matter with variance reduction."""
    orders = zip(*(errors[sigma, "antithetic"] for sigma in sigmas), strict=True)
    ratio = max(max(values) / min(values) for values in orders)
    return Claim(
        "reduced-alike-at-all-sigma",
        f"N(0, I) in the plane, σ = {sigmas[0]:g} to {sigmas[-1]:g}",
        f"with variance reduction, errors at different σ differ by a factor of at most "
        f"{SIMILAR:g}",
        ratio,
        "<=",
        SIMILAR,
        f"largest squared error over the smallest: {formats.ratio(ratio)}",
    )


def reduction_claims(errors: pd.DataFrame) -> Iterator[Claim]:
    """Yield what figure 1 says of the paper's objective with and without variance reduction.

    Args:
        errors: squared errors by noise scale, target and variance reduction.
    """
    moment = errors[errors["target"] == "moment"]
    sigmas = sorted(moment["sigma"].unique())
    found = {
        (row["sigma"], row["reduction"]): (row["s1_error"], row["s2_error"])
        for row in records(moment)
    }
    yield from _without_it(found, sigmas[0], sigmas[-1])
    yield _with_it(found, sigmas)
