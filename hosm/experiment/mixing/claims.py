"""What the samplers' numbers say of the paper's claims about mixing (section 6.2, table 3).

An effective sample size means something only where draws have the law that they are to have: it
says how many independent draws of *their* law they are worth. So a comparison at the paper's steps
is vacuous if its winner is beyond the bounds on bias; one of tuned steps, if either is, or if no
chain crosses between the modes. Whether a sampler is
within the bounds is what the study recorded, without an error of its own.

ESS bulk is known with its standard error over runs, ESS nice without: the relative error of the
former, which is that of the same draws, stands in for it. Times of an iteration are known as
medians alone; they are judged as means over the laws, with the standard error of that mean; of one
law alone, any difference decides.
"""

import math
from collections.abc import Iterator

import pandas as pd

from hosm.experiment.mixing.comparisons import Comparison, comparisons
from hosm.experiment.mixing.looks import SAMPLERS
from hosm.experiment.mixing.results import Sampling
from hosm.experiment.mixing.tables import crossing, why
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import Claim, Pair, decisive, error_of_difference
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["sampling_claims"]

CHEAP = 1.15  # largest time of an iteration that counts as alike, over Langevin's
HALF = 0.5  # share of a lead of which at least that much is explained
NOISE = 0.03  # two standard errors of the difference of two distances of 500 chains or more
SEEN = 3  # standard errors from which a bias is told from chance
UNBIASED = 4.0  # standard errors within which a mean over many step sizes shows no bias
FIRST_ORDER = (0.75, 1.35)  # slopes in logarithms between which a bias is of first order
HIGHER = {  # method -> name of the claim, and which Ozaki that is
    "ozaki none": ("printed-ess-higher", "as printed"),
    "ozaki floor": ("guarded-ess-higher", "with a guard"),
}


def _told(row: Row, column: str) -> str:
    biased = "" if row["within_bound"] else ", biased"
    state = ", diverged" if row["finite_share"] < 1 else biased
    name = SAMPLERS.get(row["method"], row["method"])
    return f"{name} {formats.number(row[column])} (ε = {row['step_size']:.3g}{state})"


def _tuned_sound(each: Comparison) -> bool:
    """Say whether both are within the bounds on bias, and cross between the modes."""
    return each.ozaki is not None and bool(each.langevin["within_bound"]) and crossing(each)


def _tuned(found: Sampling) -> Iterator[Claim]:
    """Yield whether Ozaki has more effective samples per second than Langevin, both tuned."""
    for each in comparisons(found):
        rates = [row for row in (each.ozaki, each.langevin) if row is not None]
        told = "; ".join(_told(row, "ess_bulk_per_second") for row in rates)
        yield Claim(
            "tuned-ozaki-faster",
            f"{each.target}, {each.scores} scores",
            "with step sizes tuned alike, the best Ozaki sampler has more effective samples per "
            "second than Langevin",
            each.ratio,
            ">",
            1.0,
            f"Ozaki over Langevin {formats.plus_minus(each.ratio, each.error)}: {why(each)}; "
            f"effective samples per second: {told}",
            paper=True,
            error=each.error,
            sound=_tuned_sound(each),
        )


def _ess_error(row: Row) -> float:
    """Return the standard error of ESS nice, by the relative one of ESS bulk."""
    return float(row["ess_nice"] * row["ess_bulk_standard_error"] / row["ess_bulk"])


def _sound(ozaki: Row, langevin: Row) -> bool:
    """Say whether the one with more effective samples is within the bounds on bias."""
    if math.isnan(ozaki["ess_nice"]):  # it diverged, and has none
        return True
    winner = ozaki if ozaki["ess_nice"] > langevin["ess_nice"] else langevin
    return bool(winner["within_bound"])


def _paper_steps(final: pd.DataFrame) -> Iterator[Claim]:
    """Yield the paper's table 3: ESS (nice) at its own steps, and whether those are biased."""
    for (target, scores), group in groups(final[final["setting"] != "tuned"], "target", "scores"):
        rows = {row["method"]: row for row in records(group)}
        langevin, where = rows["langevin"], f"{target}, {scores} scores"
        for method, (name, kind) in HIGHER.items():
            ozaki = rows[method]
            told = [_told(row, "ess_nice") for row in (ozaki, langevin)]
            yield Claim(
                name,
                f"{where}, {kind}",
                f"at the paper's step sizes, {SAMPLERS[method]}, has a larger effective sample "
                "size (nice) than Langevin",
                ozaki["ess_nice"],
                ">",
                langevin["ess_nice"],
                f"effective samples per chain: {'; '.join(told)}",
                paper=True,
                error=error_of_difference(_ess_error(ozaki), _ess_error(langevin)),
                sound=_sound(ozaki, langevin),
            )
        biased = [_told(row, "kolmogorov") for row in rows.values() if not row["within_bound"]]
        yield Claim(
            "paper-steps-unbiased",
            where,
            "at the paper's step sizes, the bias of every sampler is within the tolerance",
            len(biased),
            "<=",
            0,
            f"Kolmogorov distance to exact draws: {'; '.join(biased)}"
            if biased
            else "none is biased",
        )


def _cost(final: pd.DataFrame) -> Iterator[Claim]:
    """Yield whether an iteration of Ozaki costs what one of Langevin does, where both compile."""
    tuned = final[(final["setting"] == "tuned") & final["seconds_compiled"].notna()]
    for scores, group in groups(tuned, "scores"):
        times = group.pivot_table(
            index="target", columns="method", values=["seconds_compiled", "seconds_eager"]
        )
        compiled, eager = (
            times[f"seconds_{kind}"]["ozaki floor"] / times[f"seconds_{kind}"]["langevin"]
            for kind in ("compiled", "eager")
        )
        several = len(compiled) > 1
        laws = f"{len(compiled)} laws in the plane" if several else str(compiled.index[0])
        yield Claim(
            "compiled-iteration-cheap",
            f"{laws}, {scores} scores",
            f"compiled, an iteration of Ozaki takes at most {CHEAP} times as long as one of "
            "Langevin, as a mean over the laws",
            float(compiled.mean()),
            "<=",
            CHEAP,
            f"time over that of Langevin: {formats.plus_minus(compiled.mean(), compiled.sem())} "
            f"compiled ({formats.number(compiled.min())} to {formats.number(compiled.max())}), "
            f"{formats.plus_minus(eager.mean(), eager.sem())} without compilation",
            error=float(compiled.sem()) if several else None,
        )


def _clock(approach: pd.DataFrame) -> Iterator[Claim]:
    """Yield whether Ozaki converges faster at equal eps, and whether that is its clock."""
    equal = approach[approach["target"] == "two-modes"]
    curves = {
        method: {row["iterations"]: row["kolmogorov"] for row in records(group)}
        for method, group in groups(equal, "method")
    }
    middle = sorted(curves["langevin"])[len(curves["langevin"]) // 2 + 2]
    langevin, ozaki, same = (
        curves[method][middle]
        for method in ("langevin", "ozaki floor", "ozaki floor, Langevin's clock")
    )
    size = float(equal["step_size"].iloc[0])
    told = f"Kolmogorov distance to exact draws after {middle:,.0f} iterations at ε = {size:g}: "
    beside = f"Langevin's {formats.number(langevin, 2)}"
    yield Claim(
        "faster-at-equal-steps",
        "two-modes, learned scores",
        "at the same ε, Ozaki as printed, whose clock runs twice as fast, converges in fewer "
        "iterations than Langevin",
        ozaki,
        "<",
        langevin,
        f"{told}{formats.number(ozaki, 2)}, {beside}",
        paper=True,
        error=NOISE / 2,
    )
    # of three distances with errors e = NOISE / sqrt(8): langevin - same - (langevin - ozaki) / 2
    error = NOISE / math.sqrt(8) * math.sqrt(HALF**2 + 1 + HALF**2)
    yield Claim(
        "clock-explains-approach",
        "two-modes, learned scores",
        "at the same ε and on the same clock, Ozaki is ahead of Langevin by at most half of its "
        "lead on its own clock: most of that is the clock",
        langevin - same,
        "<=",
        HALF * (langevin - ozaki),
        f"{told}{formats.number(same, 2)} on Langevin's clock, {formats.number(ozaki, 2)} on its "
        f"own, {beside}",
        error=error,
    )


def _adjusted(target: str, rows: list[Row]) -> Claim:
    """Return the claim that adjusted chains have no bias at any step size."""
    worst = max(abs(row["bias"]) / row["standard_error"] for row in rows)
    return Claim(
        "adjusted-unbiased",
        target,
        f"the mean energy of Langevin chains with a Metropolis test differs from the exact one by "
        f"less than {UNBIASED:g} standard errors at every ε",
        worst,
        "<",
        UNBIASED,
        f"largest difference {worst:.1f} standard errors",
        by_construction=True,
    )


def _first_order(target: str, first: Row, last: Row) -> Claim:
    """Return the claim that a bias is of first order in eps, between two step sizes."""
    width = math.log(last["relative"] / first["relative"])
    slope = math.log(last["bias"] / first["bias"]) / width
    parts = [row["standard_error"] / row["bias"] for row in (first, last)]
    error, (least, largest) = math.hypot(*parts) / width, FIRST_ORDER
    # how far the slope is outside of the bounds; inside, negative
    worst = decisive("<", [Pair(gap, 0.0, error) for gap in (least - slope, slope - largest)])
    return Claim(
        "bias-of-first-order",
        target,
        f"the bias of the mean energy of Langevin chains is of first order in ε: its slope in "
        f"logarithms is between {least:g} and {largest:g}",
        worst.left,
        "<",
        worst.right,
        f"slope {formats.plus_minus(slope, error)} of log bias in log ε from ε = "
        f"{first['step_size']:.2g} to {last['step_size']:.2g}",
        error=error,
    )


def _orders(bias: pd.DataFrame) -> Iterator[Claim]:
    """Yield whether Langevin's bias is of first order in eps, and adjusted chains have none."""
    for (target, method), group in groups(bias, "target", "method"):
        rows = records(group)
        seen = [row for row in rows if row["bias"] > SEEN * row["standard_error"]]
        if method == "mala":
            yield _adjusted(target, rows)
        elif method == "langevin" and len(seen) > 1:
            yield _first_order(target, seen[0], seen[-1])


def sampling_claims(found: Sampling) -> list[Claim]:
    """Return every claim about the samplers.

    Args:
        found: tables of the samplers.
    """
    compared = (_tuned(found), _paper_steps(found.final), _cost(found.final))
    parts = (*compared, _clock(found.approach), _orders(found.bias))
    return [claim for part in parts for claim in part]
