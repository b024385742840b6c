"""Errors and seconds of each estimator of local dimension on each surface.

    python -m hosm.experiment.dimension.study.study reports/whole/dimension

A surface that is finished is not measured again, so that a run goes on after a stop.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from hosm.experiment.dimension.study.estimators import ESTIMATORS
from hosm.experiment.dimension.study.surfaces import OURS, benchmark, surface
from hosm.io import write_whole

__all__ = ["measure", "summary"]

POINTS = 30  # of each surface at which the estimators are asked
KEYS = ["surface", "n", "seed"]


def measure(name: str, n: int, seed: int) -> list[dict[str, Any]]:
    """Return a row for each estimator: its mean absolute error, mean, and seconds.

    Args:
        name: of the surface.
        n: number of points.
        seed: of the points.
    """
    x, truth = surface(name, n, seed)
    places = np.random.default_rng(seed).permutation(n)[:POINTS]
    rows = []
    for method, estimate in ESTIMATORS.items():
        start = time.process_time()
        found = estimate(x, places)
        seconds = time.process_time() - start
        error = float(np.abs(found - truth[places]).mean())
        row = {"surface": name, "D": x.shape[1], "n": n, "seed": seed, "method": method}
        row |= {"d": float(truth[places].mean()), "mean": float(found.mean())}
        rows.append(row | {"error": error, "seconds": seconds})
    return rows


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return, of each n and method, means over surfaces, and the relative error's median too."""
    relative = table.assign(relative=table["error"] / table["d"])
    return (
        relative.groupby(["n", "method"], sort=False)
        .agg(
            error=("error", "mean"),
            relative=("relative", "mean"),
            median_relative=("relative", "median"),
            seconds=("seconds", "sum"),
        )
        .reset_index()
    )


def main() -> None:
    """Measure all surfaces, and write the table after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the tables")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 5000], help="points")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.folder / "surfaces.csv"
    rows: list[Any] = pd.read_csv(file).to_dict("records") if file.exists() else []
    done = {tuple(row[key] for key in KEYS) for row in rows}
    for n in options.sizes:
        for seed in options.seeds:
            for name in [*benchmark(), *OURS]:
                if (name, n, seed) not in done:
                    rows += measure(name, n, seed)
                    _write(pd.DataFrame(rows), file)
    found = summary(pd.DataFrame(rows))
    _write(found, options.folder / "summary.csv")
    print(found.to_string(index=False))


def _write(table: pd.DataFrame, file: Path) -> None:
    write_whole(table.to_csv(index=False, float_format="%.4g").encode(), file)


if __name__ == "__main__":
    main()
