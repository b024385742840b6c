"""Ratios of times: how much faster s2 is than automatic differentiation, with their ranges."""

import math

import pandas as pd

from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["speed_ratios"]


VECTORISED = ("autodiff reverse", "autodiff forward")


def _ratio(name: str, over: Row, under: Row) -> Row:
    """Return the ratio of two median times, and its range by the least and largest ones."""
    return {
        name: over["seconds"] / under["seconds"],
        f"{name}_low": over["seconds_low"] / under["seconds_high"],
        f"{name}_high": over["seconds_high"] / under["seconds_low"],
    }


def speed_ratios(speed: pd.DataFrame) -> list[Row]:
    """Return how many times longer autodiff takes than s2, and s2 than s1, for each rank.

    `loop`, `chunked`, `s1` and `joint` are loop / s2, the fastest chunked autodiff / s2, s2 / s1
    and (s1 and s2 of a shared trunk) / s1; `_low` and `_high` bound them. `others` and `stolen`
    are those of the rounds in which all of them were timed, where they are known.

    Args:
        speed: table 2.
    """
    out = []
    for _, group in groups(speed, "device", "backbone", "dimension", "batch"):
        rows = records(group.sort_values("rank"))
        s1 = next(row for row in rows if row["method"] == "s1")
        loop = next(row for row in rows if row["method"] == "autodiff loop")
        joint = {row["rank"]: row for row in rows if row["method"].startswith("s1 and")}
        for s2 in (row for row in rows if row["method"] in ("s2", "s2, compiled")):
            compiled = "compiled" in s2["method"]
            names = ("device", "backbone", "dimension", "batch", "rank")
            ratios = {"compiled": compiled, **{name: s2[name] for name in names}}
            chunked = _fastest_chunked(rows, compiled)
            ratios |= _ratio("loop", loop, s2) | _ratio("chunked", chunked, s2)
            ratios |= _ratio("s1", s2, s1)
            ratios |= {name: s2.get(name, math.nan) for name in ("others", "stolen")}  # of all
            if s2["rank"] in joint and not compiled:
                ratios |= _ratio("joint", joint[s2["rank"]], s1)
            ratios["paper"] = loop["paper_seconds"] / s2["paper_seconds"]
            out.append({"joint": math.nan, **ratios, "chunked_method": chunked["method"]})
    return out


def _fastest_chunked(rows: list[Row], compiled: bool) -> Row:
    """Return the fastest chunked autodiff; a compiled one only beside a compiled s2."""
    chunked = [row for row in rows if row["method"].startswith(VECTORISED)]
    alike = [row for row in chunked if compiled or "compiled" not in row["method"]]
    return min(alike, key=lambda row: row["seconds"])
