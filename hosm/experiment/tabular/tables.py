"""Errors of the default estimator beside its rivals, law by law and table by table."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from hosm.experiment.presenting import formats
from hosm.experiment.shared.rows import Row, groups, records
from hosm.experiment.tabular.results import (
    OURS,
    Tabular,
    TabularRun,
    errors_by_method,
    standard_error,
)

__all__ = ["laws_table", "real_table", "tabular_tables"]

NAMES = {OURS: "ScoreEstimator()"}
ERRORS = {
    "diagonal_error": "Hessian's diagonal",
    "hessian_error": "Hessian",
    "score_error": "score",
}


def _mean(values: pd.Series) -> str:
    """Return the mean over seeds, with its standard error where there are several."""
    return formats.plus_minus(float(values.mean()), float(standard_error(values)))


def _marked(cells: dict[str, float], texts: dict[str, str]) -> dict[str, str]:
    """Mark the least of some numbers in their texts."""
    best = min(cells, key=lambda name: cells[name] if math.isfinite(cells[name]) else math.inf)
    return {**texts, best: formats.bold(texts[best])}


def laws_table(laws: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return one kind of error by law, dimension, rows and method.

    Args:
        laws: as in `TabularRun`.
        measure: a column of it.
    """
    rows = []
    for (law, dimension, size), errors in errors_by_method(laws, measure):
        means: dict[str, float] = {str(name): float(errors[name].mean()) for name in errors}
        texts = _marked(means, {name: _mean(errors[name]) for name in means})
        ordered = [OURS, *(name for name in laws["method"].unique() if name != OURS)]
        own = {NAMES.get(name, name): texts[name] for name in ordered if name in texts}
        place = {"Columns": f"{dimension} columns", "Rows": f"{size:,} rows", "Law": law}
        rows.append({**place, **own, "Seeds": f"{len(errors)}"})
    return pd.DataFrame(rows).fillna(formats.DASH)  # of methods that were not fitted there


def _real_row(name: Any, method: str, part: pd.DataFrame) -> Row:  # noqa: ANN401
    first = records(part)[0]
    scored = formats.DASH if first["steps"] else _mean(part["held_out_score"])
    return {
        "Table": name,
        "Rows fitted": formats.count(first["rows"]),
        "Columns": formats.count(first["columns"]),
        "Method": NAMES.get(method, method),
        "Held-out score": scored,
        "Held-out denoising error": _mean(part["denoising_error"]),
        "Predicted over measured variance": _mean(part["variance_ratio"]),
        "Seconds": formats.number(float(part["seconds"].mean()), 2),
    }


def real_table(tables: pd.DataFrame) -> pd.DataFrame:
    """Return what was measured of real tables, a row for each table and method.

    Args:
        tables: as in `TabularRun`.
    """
    found = groups(tables, "table", "method")
    return pd.DataFrame([_real_row(name, method, part) for (name, method), part in found])


def seconds_table(laws: pd.DataFrame) -> pd.DataFrame:
    """Return the seconds of a fit by columns, rows and method: medians over laws and seeds."""
    rows = []
    for (dimension, size), part in groups(laws, "dimension", "size"):
        medians = part.groupby("method", sort=False)["seconds"].median()
        texts = {NAMES.get(str(k), str(k)): formats.number(v, 2) for k, v in medians.items()}
        rows.append({"Columns": f"{dimension}", "Rows": formats.count(size), **texts})
    return pd.DataFrame(rows).fillna(formats.DASH)  # of methods that were not fitted there


def _of_run(run: TabularRun, names: Sequence[str]) -> dict[str, pd.DataFrame]:
    laws = [laws_table(run.laws, measure) for measure in ERRORS]
    tables = [*laws, seconds_table(run.laws), real_table(run.tables)]
    return dict(zip(names, tables, strict=True))


def tabular_tables(found: Tabular) -> dict[str, pd.DataFrame]:
    """Return the tables of the benchmark, by their files' names."""
    parts = ("diagonal", "hessian", "score", "seconds", "real")
    tables = _of_run(found.run, [f"tabular-{part}" for part in parts])
    if found.whole is not None:
        tables |= _of_run(found.whole, [f"tabular-{part}-whole" for part in parts])
    return tables
