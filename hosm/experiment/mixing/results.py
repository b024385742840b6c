"""What the stages `mixing` and `peers` found, and how samplers compare: table 3 and beside it."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hosm.experiment.shared.files import Arrays, read_arrays, read_frame, read_json
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["SAMPLERS", "Comparison", "Sampling", "comparisons", "load_sampling"]

SAMPLERS = {  # as tables and figures call them; those of other libraries keep their names
    "langevin": "Langevin",
    "ozaki none": "Ozaki, as printed",
    "ozaki floor": "Ozaki, floor",
    "ozaki abs": "Ozaki, abs",
    "ozaki langevin": "Ozaki, langevin",
    "ozaki full": "Ozaki, full s2",
    "ozaki floor, Langevin's clock": "Ozaki, floor, Langevin’s clock",
    "mala": "Langevin, adjusted",
    "ozaki adjusted": "Ozaki, floor, adjusted",
    "ozaki full adjusted": "Ozaki, full s2, adjusted",
}
OZAKI = [name for name in SAMPLERS if name.startswith("ozaki") and "adjusted" not in name]
MEASURED = "ess_nice ess_bulk r_hat kolmogorov variance_ratio finite_share within_bound"
FRAMES = {  # field of Sampling -> file, and the columns that a report needs
    "final": (
        "mixing/table3.csv",
        f"target scores method setting step_size {MEASURED} ess_bulk_standard_error acceptance "
        "distance tuning_within_bound paper_ess iterations_to_bound seconds_eager "
        "seconds_compiled seconds_per_iteration ess_bulk_per_second",
    ),
    "tuning": (
        "mixing/tuning.csv",
        "target scores method step_size ess_bulk kolmogorov variance_ratio within_bound",
    ),
    "curves": ("mixing/curves.csv", "target scores method iterations kolmogorov"),
    "approach": (
        "mixing/approach.csv",
        "target scores method step_size iterations kolmogorov finite_share",
    ),
    "bias": ("mixing/bias.csv", "target method relative step_size bias standard_error"),
    "peers": (
        "peers/peers.csv",
        f"target method library step_size {MEASURED} acceptance gradients "
        "seconds_per_iteration ess_bulk_per_second",
    ),
}


@dataclass(frozen=True, eq=False)
class Sampling:
    """Tables of the samplers, and points by 'target|scores|method' or 'target|method|eps|when'.

    A study that is kept from a longer run (see `make mixing`) has no points and tells in `card`
    how it was made.
    """

    final: pd.DataFrame
    tuning: pd.DataFrame
    curves: pd.DataFrame
    approach: pd.DataFrame
    bias: pd.DataFrame
    peers: pd.DataFrame
    draws: Arrays
    card: dict[str, Any]


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


def load_sampling(folder: Path, *, pictured: bool = True) -> Sampling:
    """Read the tables of the samplers.

    Args:
        folder: with the results of the stages `mixing` and `peers`.
        pictured: whether points were kept; if not, a card was.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column, or holds no rows.
    """
    frames: dict[str, Any] = {
        field: read_frame(folder / file, columns) for field, (file, columns) in FRAMES.items()
    }
    draws = read_arrays(folder / "mixing" / "samples.npz") if pictured else {}
    card = {} if pictured else read_json(folder / "card.json", "profile commit hardware")
    return Sampling(**frames, draws=draws, card=card)
