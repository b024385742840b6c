"""What each estimate of table 1 was given to train with: batch, steps, rate, points."""

import pandas as pd

from hosm.experiment.settings import SweepParams

__all__ = ["budgets"]

GIVEN = ("batch_size", "max_steps", "learning_rate", "weight_decay", "patience")
KEYS = ("dataset", "regime", "target")


def budgets(sweep: SweepParams) -> pd.DataFrame:
    """Return the budget of each kind of fit, a row for each data set, regime and target.

    `points` are the points that a fit draws at most: those of a batch times the steps. Only the
    finite regime stops early, after `patience` validations; 0 is never.

    Args:
        sweep: the grid, and how each of its models trains.
    """
    cells = [cell for trial in sweep.grid() for cell in sweep.estimates(trial)]
    rows = {}
    for cell in cells:
        spec, key = sweep.model(cell), tuple(cell[name] for name in KEYS)
        given = {name: getattr(spec, name) for name in GIVEN}
        given |= {"points": spec.batch_size * spec.max_steps}
        given["patience"] = spec.patience if spec.regime == "finite" else 0
        rows[key] = {**dict(zip(KEYS, key, strict=True)), **given}
    return pd.DataFrame(list(rows.values()))
