"""What table 2 and the cost of training say of the paper's claims (section 4.4).

Times are medians of repeated runs; a ratio of two ranges from the least over the largest time to
the largest over the least. Bytes are the same in every run.
"""

import math
from collections.abc import Iterator

import pandas as pd

from hosm.experiment.cost.study.ratios import speed_ratios
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import Claim, Pair, decisive
from hosm.experiment.presenting.timing import marked
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["cost_claims", "speed_claims"]

HALF = 0.5  # a speed-up counts as confirmed from half of the paper's on
SIMILAR = 1.5  # the time of s2 counts as similar to that of s1 up to this ratio
STEP = 1.5  # largest time of a step of s1 and s2 that users accept, over a step of s1 alone
LINEAR = 1.1  # largest slope in logarithms of what counts as growth in proportion to D


def _range(row: Row, name: str) -> str:
    """Return a ratio of times with its range, in words."""
    return marked(formats.ratio(row[name], row[f"{name}_low"], row[f"{name}_high"]), row)


def _speed_up(where: str, row: Row) -> Iterator[Claim]:
    """Yield how s2 compares with the loop of autodiff, and with its fastest version."""
    rank = f"r = {row['rank']:.0f}"
    if row["paper"] > 0:
        yield Claim(
            "s2-beats-loop",
            where,
            "s2 is faster than differentiating s1 one coordinate after another, by at least half "
            "of the paper's factor",
            row["loop"],
            ">=",
            HALF * row["paper"],
            f"time of the loop over that of s2: {_range(row, 'loop')} here, "
            f"{formats.ratio(row['paper'])} in the paper, at {rank}",
            paper=True,
            ends=(row["loop_low"], row["loop_high"]),
        )
    yield Claim(
        "s2-beats-chunked",
        where,
        "s2 is faster than the fastest differentiation of s1 in chunks of coordinates",
        row["chunked"],
        ">",
        1.0,
        f"time over that of s2: {_range(row, 'chunked')} at {rank} by {row['chunked_method']}",
        ends=(row["chunked_low"], row["chunked_high"]),
    )


def speed_claims(speed: pd.DataFrame) -> Iterator[Claim]:
    """Yield what table 2 says of each network.

    Args:
        speed: rows of table 2.
    """
    ratios = speed_ratios(speed[speed["device"] == "cpu"])
    for backbone in dict.fromkeys(row["backbone"] for row in ratios):
        rows = [row for row in ratios if row["backbone"] == backbone and not row["compiled"]]
        where = f"{formats.network(backbone)}, D = {rows[0]['dimension']:.0f}"
        yield from _speed_up(where, rows[0])
        costs = [f"{_range(row, 's1')} at r = {row['rank']:.0f}" for row in rows]
        pairs = [Pair(row["s1"], SIMILAR, ends=(row["s1_low"], row["s1_high"])) for row in rows]
        worst = decisive("<=", pairs)
        yield Claim(
            "s2-costs-like-s1",
            where,
            f"s2 takes at most {SIMILAR:g} times as long as s1, at every rank",
            worst.left,
            "<=",
            worst.right,
            f"time of s2 over that of s1: {', '.join(costs)}",
            ends=worst.ends,
        )


def _step(part: pd.DataFrame, reduction: str) -> Iterator[Claim]:
    """Yield what a step of s1 and s2 costs beside one of s1 alone, at the largest rank."""
    alone = records(part[part["target"] == "dsm"])[0]
    for row in records(part[part["target"] == "jacobian"].nlargest(1, "rank")):
        over = row["seconds"] / alone["seconds"]
        ends = (
            row["seconds_low"] / alone["seconds_high"],
            row["seconds_high"] / alone["seconds_low"],
        )
        found = marked(formats.ratio(over, *ends), row, alone)
        yield Claim(
            "joint-step-cost",
            f"U-Net, D = {row['dimension']:.0f}, variance reduction {reduction}",
            f"a training step of s1 and s2 takes at most {STEP:g} times as long as one of s1 "
            "alone",
            over,
            "<=",
            STEP,
            f"time over that of s1 alone: {found} at r = {row['rank']:.0f}, target jacobian",
            ends=ends,
        )


def _late_times(fit: Row, growth: pd.DataFrame) -> tuple[float, float]:
    """Return the range of the slope of log time in log D between the two largest sizes."""
    alike = growth[(growth["method"] == fit["method"]) & (growth["rank"] == fit["rank"])]
    alike = alike[alike["device"] == fit["device"]]
    before, last = records(alike.nlargest(2, "dimension").sort_values("dimension"))
    width = math.log(last["dimension"] / before["dimension"])
    least = math.log(last["seconds_low"] / before["seconds_high"]) / width
    largest = math.log(last["seconds_high"] / before["seconds_low"]) / width
    return least, largest


def _growth(slopes: pd.DataFrame, growth: pd.DataFrame) -> Iterator[Claim]:
    """Yield whether time and memory of a step grow in proportion to D at the largest sizes."""
    fits = slopes[(slopes["method"] == "joint step") & (slopes["device"] == "cpu")]
    fits = fits[fits["variable"] == "D"]
    for row in records(fits.nlargest(1, "rank")):
        low, high = _late_times(row, growth)
        late = Pair(row["late_time"], LINEAR, ends=(low, high))
        worst = decisive("<=", [late, Pair(row["late_memory"], LINEAR)])
        yield Claim(
            "step-grows-like-dimension",
            f"D = {row['from']:,.0f} to {row['to']:,.0f}",
            "at the two largest sizes, where no overhead flattens them, time and memory of a "
            "training step grow in proportion to D or less",
            worst.left,
            "<=",
            worst.right,
            f"slopes of log time and log memory in log D: {row['late_time']:.2f} ({low:.2f} to "
            f"{high:.2f}) and {row['late_memory']:.2f}; {row['time']:.2f} and {row['memory']:.2f} "
            "over all sizes",
            ends=worst.ends,
        )


def cost_claims(
    training: pd.DataFrame, slopes: pd.DataFrame, growth: pd.DataFrame
) -> Iterator[Claim]:
    """Yield what training costs beside s1 alone, and how that grows.

    Args:
        training: times of losses and of steps.
        slopes: of log time and log memory against log D and log r.
        growth: times and bytes by D and rank.
    """
    steps = training[(training["part"] == "step") & (training["device"] == "cpu")]
    for reduction, part in groups(steps, "variance_reduction"):
        yield from _step(part, reduction)
    yield from _growth(slopes, growth)
