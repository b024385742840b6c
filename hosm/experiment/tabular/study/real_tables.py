"""How well the estimator and its rivals fit real tables, judged on rows that were held out.

No one knows the scores of these rows. What can be measured is the loss of implicit score matching
on held-out rows (Hyvarinen, 2005), which is half of the squared error of the score up to a
constant that is the same for all; and whether held-out rows are denoised as well as the posterior
says.
"""

import importlib

import numpy as np
import torch
from torch import Tensor

from hosm.estimator.data_checks import takes_steps
from hosm.experiment.shared.rows import Row
from hosm.experiment.tabular.study.benchmark import OURS, calibration, timed
from hosm.experiment.tabular.study.rivals import RIVALS, Fitted, implicit_loss, ours

__all__ = ["TABLES", "read_table", "table_rows"]

SCIKIT = {
    "wine": "load_wine",
    "breast cancer": "load_breast_cancer",
    "diabetes": "load_diabetes",
    "digits": "load_digits",
    "iris": "load_iris",
}
CARS = "cars"  # fuel use of 392 cars, as mlxtend ships it
TABLES = (*SCIKIT, CARS)
HELD_SHARE = 0.3  # of the rows
SMOOTHING = ("Ledoit-Wolf Gaussian", "Gaussian mixture by BIC", "kernel density")


def read_table(name: str) -> Tensor:
    """Return a table that scikit-learn or mlxtend ships, shape (n, D), float64.

    Args:
        name: one of `TABLES`.

    Raises:
        ValueError: the name is unknown.
    """
    if name not in TABLES:
        raise ValueError(f"table must be one of {', '.join(TABLES)}, got {name!r}")
    if name == CARS:
        rows, fuel = importlib.import_module("mlxtend.data").autompg_data()
        rows = np.column_stack([fuel, rows[:, :-1]])  # the last column is for names, and empty
    else:
        rows = getattr(importlib.import_module("sklearn.datasets"), SCIKIT[name])().data
    return torch.from_numpy(np.asarray(rows, dtype=np.float64))


def _split(rows: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Return rows to fit and rows that judge, standardised by the former.

    Columns that do not vary among the former are left out.
    """
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    count = round(HELD_SHARE * len(rows))
    held, x = rows[order[:count]], rows[order[count:]]
    varies = x.amax(0) > x.amin(0)
    x, held = x[:, varies], held[:, varies]
    mean, std = x.mean(0), x.std(0)
    return (x - mean) / std, (held - mean) / std


def _row(name: str, fitted: Fitted, held: Tensor, noise: Tensor, seconds: float) -> Row:
    return {
        "method": name,
        "held_out_score": -implicit_loss(fitted, held),
        **calibration(fitted, held, noise, seed=0),
        "seconds": seconds,
    }


def table_rows(name: str, seed: int, rivals: tuple[str, ...] = SMOOTHING) -> list[Row]:
    """Fit the estimator and its rivals to most rows of a table, and judge them by the others.

    Args:
        name: one of `TABLES`.
        seed: of the split.
        rivals: names of those of `rivals.RIVALS` that are fitted.

    Returns:
        A row for each: `table`, `seed`, `rows` and `columns` that were fitted, `steps` (whether
        a column takes few values, so that there is no density to score), `method`,
        `held_out_score` (higher is better), what `calibration` gives, seconds of the fit, and of
        ours the noise scale and the choice in words.
    """
    x, held = _split(read_table(name), seed)
    own, seconds = timed(ours, x, seed)
    rows = [_row(OURS, own, held, own.noise, seconds)]
    rows[0] |= {"sigma": own.estimator.sigma_, "chosen": own.estimator.report_}
    for rival in rivals:
        fitted, seconds = timed(RIVALS[rival], x, seed)
        rows.append(_row(rival, fitted, held, own.noise, seconds))
    facts: Row = {"table": name, "seed": seed, "rows": len(x), "columns": x.shape[1]}
    facts["steps"] = takes_steps(x).any().item()
    return [facts | row for row in rows]
