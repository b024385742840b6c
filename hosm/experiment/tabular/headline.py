"""The headline numbers of the benchmark of tables."""

from collections.abc import Iterator

import numpy as np

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import Finding
from hosm.experiment.shared.rows import groups
from hosm.experiment.tabular.results import OURS, TabularRun

__all__ = ["tabular_findings", "tabular_sentence"]


USUAL = 1000  # rows of a table


def _means(run: TabularRun) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Yield the size of a table in words, number of laws, and mean error by method."""
    usual = min(run.laws["size"].unique(), key=lambda rows: abs(rows - USUAL))
    for (dimension, size), part in groups(
        run.laws[run.laws["size"] == usual], "dimension", "size"
    ):
        logs = np.log(part["diagonal_error"]).groupby(part["method"], sort=False).mean()
        means = {str(name): float(np.exp(value)) for name, value in logs.items()}
        yield f"{dimension} columns and {size:,} rows", part["law"].nunique(), means


def tabular_sentence(run: TabularRun) -> str:
    """Return the error of the default estimator on each size of table, in a sentence."""
    parts = []
    for table, laws, means in _means(run):
        own = formats.number(means.pop(OURS))
        best = min(means, key=lambda name: means[name])
        rival = f"{best}: {formats.number(means[best])}"
        parts.append(f"{own} ({rival}) for {table}, as a geometric mean over {laws} laws")
    return (
        "Second derivatives learned from a table, with no option given, have an error relative "
        f"to that of the best constant of {'; and of '.join(parts)}."
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
