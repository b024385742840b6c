"""Tables of the samplers: table 3, and what each target says of Ozaki against Langevin.

Marked is the sampler with the most effective samples per second among those whose draws are
within the bounds on bias.
"""

import math
from typing import Any

import pandas as pd

from hosm.experiment.mixing.comparisons import Comparison, comparisons
from hosm.experiment.mixing.looks import SAMPLERS
from hosm.experiment.mixing.results import Mixing, Sampling
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.timing import marked, with_machine
from hosm.experiment.shared.rows import Row, groups, records

__all__ = [
    "CROSSES",
    "comparison_table",
    "crossing",
    "mixing_table",
    "mixing_tables",
    "peer_table",
    "why",
]

CROSSES = 1.2  # R-hat above which chains do not know each other's modes
LARGE = 1000  # a ratio of variances beyond which its size says no more


def _factor(ratio: float) -> str:
    return f"> {LARGE:,}" if ratio > LARGE else formats.number(ratio, 3)


def _most_effective(final: pd.DataFrame) -> set[Any]:
    """Return the tuned rows with the most effective samples per second within the bounds."""
    within = final[(final["setting"] == "tuned") & final["within_bound"].astype(bool)]
    parts = groups(within, "target", "scores")
    return {group["ess_bulk_per_second"].idxmax() for _, group in parts}


def _setting(row: Row) -> str:
    missed = row["setting"] == "tuned" and not row["tuning_within_bound"]
    return "tuned, none within the bounds" if missed else row["setting"]


def _distance(row: Row) -> str:
    return "diverged" if row["finite_share"] < 1 else formats.number(row["kolmogorov"], 2)


def _common(row: Row) -> dict[str, str]:
    """Return the cells that our samplers share with those of other libraries."""
    return {
        "Distance": _distance(row),
        "Variance ratio": _factor(row["variance_ratio"]),
        "Within both?": "yes" if row["within_bound"] else "no",
        "R-hat": formats.number(row["r_hat"]),
        "Accepted": f"{row['acceptance']:.2f}" if row["acceptance"] < 1 else formats.DASH,
    }


def _microseconds(seconds: float) -> str:
    return formats.number(1e6 * seconds, 3)


def mixing_table(final: pd.DataFrame) -> pd.DataFrame:
    """Return table 3: effective samples and bias of each sampler, exact above learned scores.

    Args:
        final: of `Sampling`.
    """
    best, rows = _most_effective(final), []
    order = ["target", "scores", "setting"]  # stable: methods as they were run
    frame = final.sort_values(order, kind="stable")
    for index, row in zip(frame.index, records(frame), strict=True):
        rate = formats.number(row["ess_bulk_per_second"])
        paper = row["paper_ess"] if row["setting"] != "tuned" else math.nan
        rows.append(
            {
                "Target": row["target"],
                "Scores": row["scores"],
                "Step": _setting(row),
                "Method": SAMPLERS.get(row["method"], row["method"]),
                "ε": f"{row['step_size']:.3g}",
                "ESS nice per chain, paper": f"{paper:.2f}" if paper > 0 else formats.DASH,
                "ESS nice per chain, ours": formats.number(row["ess_nice"]),
                "ESS bulk, total": formats.plus_minus(
                    row["ess_bulk"], row["ess_bulk_standard_error"]
                ),
                **_common(row),
                "Distance of these draws": formats.number(row["distance"], 2),
                "Iterations to the bound": formats.count(row["iterations_to_bound"]),
                "µs / iteration": marked(_microseconds(row["seconds_eager"]), row),
                "compiled": _microseconds(row["seconds_compiled"]),
                "ESS bulk / s": formats.bold(rate) if index in best else rate,
            }
        )
    return pd.DataFrame(rows)


def crossing(each: Comparison) -> bool:
    """Say whether chains of Langevin or of Ozaki cross between the modes, by R-hat.

    Args:
        each: of `comparisons`.
    """
    hats = [row["r_hat"] for row in (each.langevin, each.ozaki) if row is not None]
    return min(hats) <= CROSSES


def why(each: Comparison) -> str:
    """Return what decided a comparison, in words made of its numbers.

    Args:
        each: of `comparisons`.
    """
    langevin, ozaki = each.langevin, each.ozaki
    if ozaki is None:
        return "no guard of Ozaki ended within the bounds"
    if not langevin["within_bound"]:
        return "Langevin did not end within the bounds"
    if not crossing(each):
        hats = f"{langevin['r_hat']:.2f} and {ozaki['r_hat']:.2f}"
        return f"neither crosses between the modes (R-hat {hats})"
    longer = ozaki["seconds_per_iteration"] / langevin["seconds_per_iteration"]
    more = f"{formats.ratio(each.per_iteration)} the samples an iteration, "
    return f"{more}which takes {formats.ratio(longer)} as long"


def comparison_table(found: Sampling) -> pd.DataFrame:
    """Return tuned Langevin against the best guard of Ozaki, and what else there is.

    Args:
        found: tables of the samplers.
    """
    rows = []
    for each in comparisons(found):
        langevin, ozaki = each.langevin, each.ozaki
        best = formats.DASH if ozaki is None else SAMPLERS[ozaki["method"]]
        rows.append(
            {
                "Target": each.target,
                "Scores": each.scores,
                "Langevin: ε, ESS / s": _rate(langevin),
                "Best Ozaki": best,
                "ε, ESS / s": _rate(ozaki),
                "Ozaki / Langevin": f"{formats.plus_minus(each.ratio, each.error)}",
                "Because": why(each),
                "Adjusted Langevin, ESS / s": _rate(each.adjusted),
                "Best peer, ESS / s": _peer(each.peer),
            }
        )
    return pd.DataFrame(rows)


def _rate(row: Row | None) -> str:
    if row is None:
        return formats.DASH
    mark = "" if row["within_bound"] else ", beyond the bounds"
    return f"{row['step_size']:.2g}: {formats.number(row['ess_bulk_per_second'])}{mark}"


def _peer(row: Row | None) -> str:
    if row is None:
        return formats.DASH
    return f"{row['method']}: {formats.number(row['ess_bulk_per_second'])}"


def peer_table(peers: pd.DataFrame) -> pd.DataFrame:
    """Return what the samplers of other libraries reach on the same exact densities.

    Args:
        peers: of `Sampling`.
    """
    rows = [
        {
            "Target": row["target"],
            "Method": f"{row['method']} ({row['library']})",
            "Step": f"{row['step_size']:.3g}",
            "Gradients / draw": formats.number(row["gradients"]),
            "ESS nice per chain": formats.number(row["ess_nice"]),
            "ESS bulk, total": formats.number(row["ess_bulk"]),
            **_common(row),
            "µs / iteration": marked(_microseconds(row["seconds_per_iteration"]), row),
            "ESS bulk / s": formats.number(row["ess_bulk_per_second"]),
        }
        for row in records(peers)
    ]
    return pd.DataFrame(rows)


def mixing_tables(found: Mixing) -> dict[str, pd.DataFrame]:
    """Return the tables of this run and of a longer one, by their files' names."""
    tables = {
        "table3-comparison": comparison_table(found.run),
        "table3-mixing": with_machine(mixing_table(found.run.final), found.run.final),
        "table3-peers": with_machine(peer_table(found.run.peers), found.run.peers),
    }
    if found.whole is not None:
        final = found.whole.final
        tables["table3-whole"] = with_machine(mixing_table(final), final)
        tables["table3-comparison-whole"] = comparison_table(found.whole)
    return tables
