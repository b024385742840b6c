"""What the chains of figure 8 came to: a row for each sampler, and the numbers to follow."""

import math

import numpy as np
import pandas as pd

from hosm.experiment.settings import DiversityParams
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["averaged", "headline", "paired", "summarised"]

MEASURES = ("changed", "entropy", "classes", "confidence", "brightness")
LANGEVIN = "Langevin"
RATIOS = ("noise_ratio", "image_ratio", "energy_ratio", "bias")


def averaged(curves: pd.DataFrame) -> pd.DataFrame:
    """Return means over starts, with their standard errors, at each recorded iteration.

    Args:
        curves: a row for each sampler, recorded iteration and start.
    """
    by = ["sampler", "method", "clock", "step", "iterations", "time", "seconds"]
    grouped = curves.groupby(by, sort=False)[list(MEASURES)]
    return grouped.mean().join(grouped.sem().add_suffix("_standard_error")).reset_index()


def _record(curves: pd.DataFrame, sampler: str, column: str, value: float) -> pd.Series:
    """Return the share that changed, by start, at the record nearest to a value of a column."""
    own = curves[curves["sampler"] == sampler]
    gaps = (own[column] - value).abs()
    return own[gaps == gaps.min()].set_index("start")["changed"]


def paired(
    curves: pd.DataFrame, sampler: str, other: str, column: str, value: float
) -> tuple[float, float]:
    """Return by how much the share of a sampler exceeds that of another, and its standard error.

    Args:
        curves: a row for each sampler, recorded iteration and start.
        sampler: whose share it is.
        other: whose it is compared with, start by start.
        column: iterations, time or seconds.
        value: where on it the nearest records are compared.
    """
    gaps = _record(curves, sampler, column, value) - _record(curves, other, column, value)
    return float(gaps.mean()), float(gaps.std() / math.sqrt(len(gaps)))


def summarised(
    curves: pd.DataFrame, tried: pd.DataFrame, cost: pd.DataFrame, params: DiversityParams
) -> pd.DataFrame:
    """Return for each sampler its cost, its bias, and what its chains reached.

    Args:
        curves: a row for each sampler, recorded iteration and start.
        tried: the search for the largest step; biases of steps that it did not try stay empty.
        cost: seconds of an iteration, by method.
        params: which step and how many iterations are those at equal eps.

    Returns:
        A row for each sampler: the measures at the last iteration; `equal_time_changed` when the
        diffusion has run for as long as Langevin's at equal eps; `gain`, the share over that of
        Langevin at equal eps, after equal iterations, and `equal_time_gain`.
    """
    count, equal, out = params.iterations, params.iterations * params.step / 2, []
    for name, part in groups(averaged(curves), "sampler"):
        rows = records(part)
        end, then = rows[-1], min(rows, key=lambda row: abs(row["time"] - equal))
        row = {key: end[key] for key in ("sampler", "method", "clock", "step", "iterations")}
        row |= {"iteration_time": end["time"] / count, "time": end["time"]}
        own = tried[tried["method"] == end["method"]]
        same = own[np.isclose(own["time"], row["iteration_time"])]
        row |= records(same[list(RATIOS)])[0] if len(same) else dict.fromkeys(RATIOS, math.nan)
        spent = records(cost[cost["method"] == end["method"]])[0]
        row |= {f"iteration_{key}": spent[key] for key in ("seconds", "ratio")}
        row |= {key: spent.get(key, math.nan) for key in ("others", "stolen")}
        row |= {key: value for key, value in end.items() if key.partition("_")[0] in MEASURES}
        row |= {f"equal_time_{key}": then[key] for key in ("iterations", "changed")}
        row["equal_time_changed_standard_error"] = then["changed_standard_error"]
        for prefix, place in {"": ("iterations", count), "equal_time_": ("time", equal)}.items():
            gain = paired(curves, str(name), LANGEVIN, *place)
            row |= {f"{prefix}gain": gain[0], f"{prefix}gain_standard_error": gain[1]}
        out.append(row)
    return pd.DataFrame(out)


def headline(summary: pd.DataFrame, accuracies: Row) -> dict[str, float]:
    """Return the classifier's accuracies, and what each sampler reached at which cost.

    Args:
        summary: as `summarised` returns it.
        accuracies: of the classifier, by name.
    """
    numbers = {key: float(value) for key, value in accuracies.items()}
    for row in records(summary):
        for key in ("step", "iteration_ratio", "bias", "changed", "equal_time_changed", "entropy"):
            numbers[f"{row['sampler']}.{key}"] = float(row[key])
    return numbers
