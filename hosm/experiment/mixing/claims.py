"""What the samplers' numbers say of the paper's claims about mixing (section 6.2, table 3)."""

import math
from collections.abc import Iterator

import pandas as pd

from hosm.experiment.mixing.comparisons import SAMPLERS, Comparison, comparisons
from hosm.experiment.mixing.results import Sampling
from hosm.experiment.mixing.tables import why
from hosm.experiment.presenting import number_formats as cells
from hosm.experiment.presenting.claims import Claim, Verdict, verdict
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["sampling_claims"]

CHEAP = 1.15  # largest cost of an iteration, over Langevin's


def _told(row: Row, column: str) -> str:
    beyond = "" if row["within_bound"] else ", beyond the bounds"
    lost = ", diverged" if row["finite_share"] < 1 else beyond
    name = SAMPLERS.get(row["method"], row["method"])
    return f"{name} {cells.number(row[column])} (ε = {row['step_size']:.3g}{lost})"


def _judged(each: Comparison) -> Verdict:
    """Judge whether Ozaki has more effective samples per second: by two standard errors."""
    if not each.langevin["within_bound"] or each.ozaki is None or math.isnan(each.ratio):
        return "undecided"
    if abs(each.ratio - 1) < 2 * each.error:
        return "undecided"
    return verdict(each.ratio > 1)


def _tuned(found: Sampling) -> Iterator[Claim]:
    for each in comparisons(found):
        where = f"{each.target}, {each.scores} scores"
        statement = "tuned alike, the best Ozaki has more effective samples per second"
        rates = [row for row in (each.ozaki, each.langevin) if row is not None]
        told = "; ".join(_told(row, "ess_bulk_per_second") for row in rates)
        evidence = f"ratio {cells.plus_minus(each.ratio, each.error)}: {why(each)}; {told}"
        yield Claim(where, statement, _judged(each), evidence, True)


def _paper_steps(final: pd.DataFrame) -> Iterator[Claim]:
    """Yield the paper's table 3: ESS (nice) at its own steps, and whether those are biased."""
    for (target, scores), group in groups(final[final["setting"] != "tuned"], "target", "scores"):
        rows = {row["method"]: row for row in records(group)}
        langevin, where = rows["langevin"], f"{target}, {scores} scores"
        for name in ("ozaki none", "ozaki floor"):
            ozaki = rows[name]
            statement = f"{SAMPLERS[name]}, has the higher ESS (nice) at the paper's steps"
            told = "; ".join(_told(row, "ess_nice") for row in (ozaki, langevin))
            higher = verdict(bool(ozaki["ess_nice"] > langevin["ess_nice"]))
            yield Claim(where, statement, higher, told, True)
        beyond = [_told(row, "kolmogorov") for row in rows.values() if not row["within_bound"]]
        statement = "at the paper's steps draws are within the bounds on bias"
        yield Claim(where, statement, verdict(not beyond), "; ".join(beyond) or "all are")


def _cost(final: pd.DataFrame) -> Iterator[Claim]:
    """Yield whether an iteration of Ozaki costs what one of Langevin does, where both compile."""
    tuned = final[(final["setting"] == "tuned") & final["seconds_compiled"].notna()]
    for (target, scores), group in groups(tuned, "target", "scores"):
        rows = {row["method"]: row for row in records(group)}
        compiled, eager = (
            rows["ozaki floor"][f"seconds_{kind}"] / rows["langevin"][f"seconds_{kind}"]
            for kind in ("compiled", "eager")
        )
        statement = f"compiled, an iteration of Ozaki costs at most {CHEAP} times one of Langevin"
        evidence = f"{cells.ratio(compiled)}, as they run {cells.ratio(eager)}"
        where = f"{target}, {scores} scores"
        yield Claim(where, statement, verdict(compiled <= CHEAP), evidence)


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
        "ozaki floor": "Ozaki converges faster at the same ε, as printed (twice the clock)",
        "ozaki floor, Langevin's clock": "Ozaki converges faster at the same ε on one clock",
    }
    for method, statement in statements.items():
        distance = curves[method][middle]
        evidence = (
            f"distance after {middle:,.0f} iterations at ε = .01: {cells.number(distance, 2)}, "
            f"Langevin {cells.number(langevin, 2)}"
        )
        noise = 0.03  # of two distances of 500 chains or more
        faster = verdict(distance < langevin - noise)
        yield Claim("two-modes, learned scores", statement, faster, evidence, True)


def _orders(bias: pd.DataFrame) -> Iterator[Claim]:
    """Yield whether Langevin's bias is of first order in eps, and adjusted chains have none."""
    for (target, method), group in groups(bias, "target", "method"):
        rows = [row for row in records(group) if row["bias"] > 3 * row["standard_error"]]
        if method == "mala":
            worst = max(abs(row["bias"]) / row["standard_error"] for row in records(group))
            statement = "the energy of adjusted chains is within 4 standard errors at every ε"
            evidence = f"at most {worst:.1f} standard errors"
            yield Claim(target, statement, verdict(worst < 4), evidence)
        elif method == "langevin" and len(rows) > 1:
            first, last = rows[0], rows[-1]
            slope = math.log(last["bias"] / first["bias"])
            slope /= math.log(last["relative"] / first["relative"])
            statement = "the bias of Langevin's energy is of first order in ε"
            evidence = (
                f"slope {slope:.2f} from ε = {first['step_size']:.2g} to {last['step_size']:.2g}"
            )
            yield Claim(target, statement, verdict(0.75 < slope < 1.35), evidence)


def sampling_claims(found: Sampling) -> list[Claim]:
    """Judge every claim about the samplers.

    Args:
        found: tables of the samplers.
    """
    compared = (_tuned(found), _paper_steps(found.final), _cost(found.final))
    parts = (*compared, _clock(found.approach), _orders(found.bias))
    return [claim for part in parts for claim in part]
