"""Errors, coverage and costs of every method on every task."""

import math

import pandas as pd

from hosm.experiment.inverse.results import EXACT, LEVELS, NAMES, Inverse
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.longer_runs import LONGER
from hosm.experiment.shared.rows import Row, records

__all__ = ["inverse_tables", "methods_table"]

MODELS = {"learned": "learned model", "exact": "exact scores"}


def _row(model: str, row: Row, best: dict[str, float]) -> Row:
    measured = {}
    for title, column in (("Error of the mean", "mean_error"), ("Distance", "distance")):
        text = formats.number(row[column])
        measured[title] = formats.bold(text) if row[column] == best[column] else text
    covered = {f"{100 * p:g} %": f"{100 * row[f'coverage_{p:g}']:.1f} %" for p in LEVELS}
    none = row["method"] == EXACT
    return {
        "Model": MODELS[model],
        "Task": row["task"],
        "Method": NAMES[row["method"]],
        **measured,
        **covered,
        "Evaluations": formats.DASH if none else formats.count(row["evaluations"]),
        "Products": formats.DASH if none else formats.count(row["products"]),
        "Strength": formats.number(row["strength"] if row["strength"] != 1 else math.nan),
        "Seconds": formats.DASH if none else formats.number(row["seconds"], 2),
    }


def methods_table(methods: pd.DataFrame) -> pd.DataFrame:
    """Return what was measured of each method, the best of each task and model marked.

    Args:
        methods: as in `results.InverseRun`.
    """
    rows = []
    for model in MODELS:
        for task in methods["task"].unique():
            there = methods[methods["task"] == task]
            own, exact = there[there["model"] == model], there[there["method"] == EXACT]
            best = {name: float(own[name].min()) for name in ("mean_error", "distance")}
            rows += [_row(model, row, best) for row in records(pd.concat([own, exact]))]
    return pd.DataFrame(rows)


def inverse_tables(found: Inverse) -> dict[str, pd.DataFrame]:
    """Return the tables of the study, by their files' names."""
    tables = {"inverse": methods_table(found.run.methods)}
    if found.whole is not None:
        tables[f"inverse{LONGER}"] = methods_table(found.whole.methods)
    return tables
