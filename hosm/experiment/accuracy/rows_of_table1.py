"""Rows of table 1: the order of its methods, which of them are references, the lowest error."""

import math
from typing import Any

from hosm.experiment.shared.rows import Row

__all__ = ["BASELINE", "PLAIN", "is_exact", "is_reference", "lowest", "method_order"]

BASELINE = "autodiff, DSM-VR"
PLAIN = f"{BASELINE}, plain MLP"  # the same of a network without a linear map beside it
ORDER = ("autodiff, DSM", BASELINE, PLAIN, "autodiff", "Hutchinson", "s2", "floor", "constant")
OBJECTIVES = ("joint moment", "moment", "residual", "jacobian")
ROUNDING = 1e-3  # an error that float32 leaves of zero, summed over entries


def is_reference(row: Row) -> bool:
    """Say whether a row of table 1 is a reference (floor, constant) and no estimate."""
    return str(row["method"]).startswith(("floor", "constant"))


def method_order(row: Row) -> tuple[Any, ...]:
    """Return where a row of table 1 stands: baselines, estimates, references."""
    method = str(row["method"])
    place = next(i for i, start in enumerate((*ORDER, "")) if method.startswith(start))
    if method in ORDER:
        place = ORDER.index(method)
    objective = [i for i, name in enumerate(OBJECTIVES) if name in method]
    return place, objective, 0 if math.isnan(row["rank"]) else row["rank"]


def is_exact(row: Row) -> bool:
    """Say whether an error is zero up to rounding: a constant Hessian is, for a Gaussian law."""
    return bool(row["mean"] < ROUNDING)


def lowest(cell: list[Row]) -> list[bool]:
    """Mark the estimate with the lowest error, and those within two of its standard errors.

    Args:
        cell: rows of table 1 of one data set, regime and sigma.
    """
    estimates = [row for row in cell if not is_reference(row) and math.isfinite(row["mean"])]
    if not estimates:
        return [False] * len(cell)
    best = min(estimates, key=lambda row: row["mean"])
    error = 0.0 if math.isnan(best["standard_error"]) else best["standard_error"]
    return [row in estimates and row["mean"] - best["mean"] <= 2 * error for row in cell]
