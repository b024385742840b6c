"""The headline numbers of the benchmark of tables."""

from collections.abc import Iterator

import numpy as np

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import Finding, HeadlineLine
from hosm.experiment.shared.rows import groups
from hosm.experiment.tabular.results import OURS, TabularRun

__all__ = ["tabular_findings", "tabular_lines"]


def _means(run: TabularRun) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Yield the size of a table in words, number of laws, and mean error by method."""
    for (dimension, size), part in groups(run.laws, "dimension", "size"):
        logs = np.log(part["diagonal_error"]).groupby(part["method"], sort=False).mean()
        means = {str(name): float(np.exp(value)) for name, value in logs.items()}
        yield f"{dimension} columns and {size:,} rows", part["law"].nunique(), means


def tabular_lines(run: TabularRun) -> Iterator[HeadlineLine]:
    """Yield geometric means over laws of the Hessian diagonal's error, ours beside the rivals'."""
    for table, laws, means in _means(run):
        own = formats.number(means.pop(OURS))
        yield HeadlineLine(
            f"error of the Hessian's diagonal over the best constant's, tables of {table}, "
            f"geometric mean of {laws} laws",
            f"`ScoreEstimator()`; {', '.join(means)}",
            formats.DASH,
            f"{own}; {', '.join(map(formats.number, means.values()))}",
        )


def tabular_findings(run: TabularRun) -> Iterator[Finding]:
    """Yield the same beside the best rival alone."""
    for table, laws, means in _means(run):
        own = formats.number(means.pop(OURS))
        best = min(means, key=lambda name: means[name])
        yield Finding(
            f"Error of the Hessian's diagonal over that of the best constant, by "
            f"`ScoreEstimator()` with no option given, on tables of {table}; geometric mean over "
            f"{laws} laws.",
            own,
            f"{formats.number(means[best])} by {best}",
        )
