"""How samplers compare, each tuned alike: by effective samples per second, on each target."""

import math
from dataclasses import dataclass

from hosm.experiment.mixing.looks import SAMPLERS
from hosm.experiment.mixing.results import Sampling
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["Comparison", "comparisons"]

OZAKI = [name for name in SAMPLERS if name.startswith("ozaki") and "adjusted" not in name]


@dataclass(frozen=True)
class Comparison:
    """Tuned Langevin and the best Ozaki, by effective samples per second, on one target.

    `ozaki` and `ratio` are None and NaN if none of its guards ended within the bounds; ratios
    are Ozaki's over Langevin's, `error` is the standard error of `ratio`, per second.
    """

    target: str
    scores: str
    langevin: Row
    ozaki: Row | None
    ratio: float
    error: float
    per_iteration: float
    adjusted: Row | None
    peer: Row | None


def _ratio(first: Row, second: Row) -> tuple[float, float]:
    """Return the ratio of effective samples per second, and its standard error."""
    ratio = first["ess_bulk_per_second"] / second["ess_bulk_per_second"]
    parts = [row["ess_bulk_standard_error"] / row["ess_bulk"] for row in (first, second)]
    return ratio, ratio * math.hypot(*parts)


def _best(rows: list[Row]) -> Row | None:
    sound = [row for row in rows if row["within_bound"]]
    return max(sound, key=lambda row: row["ess_bulk_per_second"], default=None)


def comparisons(found: Sampling) -> list[Comparison]:
    """Compare the samplers, tuned alike, on each target with each kind of scores.

    Args:
        found: tables of the samplers.
    """
    tuned, out = found.final[found.final["setting"] == "tuned"], []
    for (target, scores), group in groups(tuned, "target", "scores"):
        rows = {row["method"]: row for row in records(group)}
        langevin = rows["langevin"]
        ozaki = _best([rows[name] for name in OZAKI if name in rows])
        adjusted = _best([row for name, row in rows.items() if name == "mala"])
        peer = _best(records(found.peers[found.peers["target"] == target]))
        ratio, error, each = math.nan, math.nan, math.nan
        if ozaki is not None:
            ratio, error = _ratio(ozaki, langevin)
            each = ozaki["ess_bulk"] / langevin["ess_bulk"]
        found_here = (langevin, ozaki, ratio, error, each, adjusted)
        out.append(Comparison(target, scores, *found_here, peer if scores == "exact" else None))
    return out
