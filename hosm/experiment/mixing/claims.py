"""What the samplers' numbers say of the paper's claims about mixing (section 6.2, table 3)."""

import math
from collections.abc import Iterator

import pandas as pd

from hosm.experiment.mixing.comparisons import Comparison, comparisons
from hosm.experiment.mixing.looks import SAMPLERS
from hosm.experiment.mixing.results import Sampling
from hosm.experiment.mixing.tables import why
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import Claim
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["sampling_claims"]

CHEAP = 1.15  # largest time of an iteration that counts as alike, over Langevin's
NOISE = 0.03  # chance in the difference of two Kolmogorov distances of 500 chains or more
SEEN = 3  # standard errors from which a bias is told from chance
UNBIASED = 4.0  # standard errors within which a mean over many step sizes shows no bias
FIRST_ORDER = (0.75, 1.35)  # slopes in logarithms between which a bias is of first order
HIGHER = {"ozaki none": "printed-ess-higher", "ozaki floor": "guarded-ess-higher"}


def _told(row: Row, column: str) -> str:
    biased = "" if row["within_bound"] else ", biased"
    state = ", diverged" if row["finite_share"] < 1 else biased
    name = SAMPLERS.get(row["method"], row["method"])
    return f"{name} {formats.number(row[column])} (ε = {row['step_size']:.3g}{state})"


def _tuned_ratio(each: Comparison) -> float | None:
    """Return Ozaki's effective samples per second over Langevin's, None unless both are sound."""
    sound = each.ozaki is not None and each.langevin["within_bound"]
    return each.ratio if sound and not math.isnan(each.ratio) else None


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
            _tuned_ratio(each),
            ">",
            1.0,
            f"Ozaki over Langevin {formats.plus_minus(each.ratio, each.error)}: {why(each)}; "
            f"effective samples per second: {told}",
            paper=True,
            error=each.error,
        )


def _paper_steps(final: pd.DataFrame) -> Iterator[Claim]:
    """Yield the paper's table 3: ESS (nice) at its own steps, and whether those are biased."""
    for (target, scores), group in groups(final[final["setting"] != "tuned"], "target", "scores"):
        rows = {row["method"]: row for row in records(group)}
        langevin, where = rows["langevin"], f"{target}, {scores} scores"
        for method, name in HIGHER.items():
            ozaki = rows[method]
            told = [_told(row, "ess_nice") for row in (ozaki, langevin)]
            yield Claim(
                name,
                where,
                f"at the paper's step sizes, {SAMPLERS[method]}, has a larger effective sample "
                "size (nice) than Langevin",
                ozaki["ess_nice"],
                ">",
                langevin["ess_nice"],
                f"effective samples per chain: {'; '.join(told)}",
                paper=True,
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
    for (target, scores), group in groups(tuned, "target", "scores"):
        rows = {row["method"]: row for row in records(group)}
        compiled, eager = (
            rows["ozaki floor"][f"seconds_{kind}"] / rows["langevin"][f"seconds_{kind}"]
            for kind in ("compiled", "eager")
        )
        yield Claim(
            "compiled-iteration-cheap",
            f"{target}, {scores} scores",
            f"compiled, an iteration of Ozaki takes at most {CHEAP} times as long as one of "
            "Langevin",
            compiled,
            "<=",
            CHEAP,
            f"time over that of Langevin: {formats.ratio(compiled)} compiled, "
            f"{formats.ratio(eager)} without compilation",
        )


def _clock(approach: pd.DataFrame) -> Iterator[Claim]:
    """Yield whether Ozaki converges faster at equal eps, and whether it does on an equal clock."""
    equal = approach[approach["target"] == "two-modes"]
    curves = {
        method: {row["iterations"]: row["kolmogorov"] for row in records(group)}
        for method, group in groups(equal, "method")
    }
    middle = sorted(curves["langevin"])[len(curves["langevin"]) // 2 + 2]
    langevin = curves["langevin"][middle]
    statements = {
        "ozaki floor": (
            "faster-at-equal-steps",
            "at the same ε, Ozaki as printed, whose clock runs twice as fast, converges in fewer "
            "iterations than Langevin",
        ),
        "ozaki floor, Langevin's clock": (
            "faster-at-equal-time",
            "at the same ε and on the same clock, Ozaki converges in fewer iterations than "
            "Langevin",
        ),
    }
    for method, (name, statement) in statements.items():
        distance = curves[method][middle]
        yield Claim(
            name,
            "two-modes, learned scores",
            statement,
            distance,
            "<",
            langevin - NOISE,
            f"Kolmogorov distance to exact draws after {middle:,.0f} iterations at ε = 0.01: "
            f"{formats.number(distance, 2)}, Langevin's {formats.number(langevin, 2)}",
            paper=True,
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
    )


def _first_order(target: str, first: Row, last: Row) -> Claim:
    """Return the claim that a bias is of first order in eps, between two step sizes."""
    slope = math.log(last["bias"] / first["bias"])
    slope /= math.log(last["relative"] / first["relative"])
    least, largest = FIRST_ORDER
    return Claim(
        "bias-of-first-order",
        target,
        "the bias of the mean energy of Langevin chains is of first order in ε",
        max(least - slope, slope - largest),  # how far the slope is outside; inside, negative
        "<",
        0.0,
        f"slope {slope:.2f} of log bias in log ε from ε = {first['step_size']:.2g} to "
        f"{last['step_size']:.2g}",
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
