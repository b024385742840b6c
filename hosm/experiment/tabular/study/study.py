"""All cells of the benchmark of tables, each on one CPU of a Ray cluster."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import chain, product
from pathlib import Path

import numpy as np
import pandas as pd

import hosm.estimator
from hosm.experiment.cluster.parallel import map_on_cluster
from hosm.experiment.settings import TabularParams
from hosm.experiment.shared.files import Arrays
from hosm.experiment.shared.finished_parts import FinishedParts, code_hash
from hosm.experiment.shared.rows import Row
from hosm.experiment.tabular.study.benchmark import OURS, Cell, cell_rows
from hosm.experiment.tabular.study.draws import digits_draws
from hosm.experiment.tabular.study.laws import LAWS
from hosm.experiment.tabular.study.real_tables import table_rows

__all__ = ["cells", "headline", "run_study"]


def cells(params: TabularParams) -> list[Cell]:
    """Return the cells of the grid, small ones first; laws that need more columns are left out.

    Raises:
        ValueError: a law is unknown.
    """
    if unknown := set(params.laws) - set(LAWS):
        raise ValueError(f"laws must be among {', '.join(LAWS)}, got {', '.join(unknown)}")
    grid = product(params.seeds, params.sizes, params.dimensions, params.laws)
    return [
        Cell(law, dimension, size, seed)
        for seed, size, dimension, law in grid
        if dimension >= LAWS[law][1]
    ]


def _code() -> str:
    """Return a hash of what is judged and of what judges."""
    return code_hash(Path(hosm.estimator.__file__).parent, Path(__file__).parent)


def _finished_rows(work: Cell | tuple[str, int], test_points: int, folder: Path) -> list[Row]:
    """Return the rows of a cell or of a split of a real table, made now or by a stopped run."""
    depends = {"code": _code()}
    with _warnings_of_data_ignored():  # the rows say what was chosen
        if isinstance(work, Cell):
            parts = FinishedParts(folder, depends | {"test_points": test_points})
            rows: list[Row] = parts.part(asdict(work), partial(cell_rows, work, test_points))
        else:
            rows = FinishedParts(folder, depends).part([*work], partial(table_rows, *work))
    print(f"{work}: {rows[0]['seconds']:.0f} s", flush=True)
    return rows


def _draws(rows: int) -> Arrays:
    """Return draws of digits, which are shown as they are."""
    with _warnings_of_data_ignored():
        return digits_draws(rows)


@contextmanager
def _warnings_of_data_ignored() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def run_study(params: TabularParams, folder: Path) -> tuple[list[Row], list[Row], Arrays]:
    """Fit the estimator and its rivals to all cells and tables, and draw digits.

    Args:
        params: which.
        folder: where finished cells are kept.

    Returns:
        Rows of laws (see `benchmark.cell_rows`), of real tables (see `real_tables.table_rows`),
        and pictures (see `draws.digits_draws`).
    """
    laws, tables = cells(params), [*product(params.tables, params.splits)]
    fits = [(each, params.test_points, folder) for each in (*laws, *tables)]
    (drawn,), found = map_on_cluster((_draws, [(params.drawn_from,)]), (_finished_rows, fits))
    return [*chain(*found[: len(laws)])], [*chain(*found[len(laws) :])], drawn


def headline(laws: pd.DataFrame) -> dict[str, float]:
    """Return geometric means over cells of the Hessian diagonal's relative error, by method."""
    names = {name: name.lower().replace(",", "").replace(" ", "-") for name in laws["method"]}
    logs = np.log(laws["diagonal_error"]).groupby(laws["method"]).mean()
    means = {f"diagonal_error_{names[str(name)]}": float(np.exp(v)) for name, v in logs.items()}
    return dict(sorted(means.items(), key=lambda each: OURS not in each[0]))
