"""The headline numbers of the benchmark of tables."""

from collections.abc import Iterator

import numpy as np

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import HeadlineLine
from hosm.experiment.shared.rows import groups
from hosm.experiment.tabular.results import OURS, TabularRun

__all__ = ["tabular_lines"]


def tabular_lines(run: TabularRun) -> Iterator[HeadlineLine]:
    """Yield geometric means over laws of the Hessian diagonal's error, ours beside the rivals'."""
    for (dimension, size), part in groups(run.laws, "dimension", "size"):
        logs = np.log(part["diagonal_error"]).groupby(part["method"], sort=False).mean()
        means = {str(name): float(np.exp(value)) for name, value in logs.items()}
        own = formats.number(means.pop(OURS))
        yield HeadlineLine(
            f"error of the Hessian's diagonal over the best constant's, tables of {dimension} "
            f"columns and {size:,} rows, geometric mean of {part['law'].nunique()} laws",
            f"`ScoreEstimator()`; {', '.join(means)}",
            formats.DASH,
            f"{own}; {', '.join(map(formats.number, means.values()))}",
        )
