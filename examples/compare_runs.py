"""Comparing runs in MLflow: errors by rank and target, from the store of the experiment.

After `make repro` (or any sweep) each estimate is a run of its own in MLflow, with its settings as
params and its errors as metrics. In MLflow's pages (`make ui`) one ticks runs and presses Compare;
here the same table is read by program, as one would for a report of one's own.

    python examples/compare_runs.py                     # runs/mlflow.db of this clone
    MLFLOW_TRACKING_URI=http://host:5000 python examples/compare_runs.py
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from mlflow import MlflowClient

EXPERIMENT = "hosm"
# Sizes depend on the profile, so that estimates of two profiles have no mean.
CELL = ["profile", "dataset", "regime", "sigma", "target", "rank"]


def trials(uri: str) -> pd.DataFrame:
    """Return the finished estimates of all sweeps: settings, seed, and the error of the Hessian.

    Args:
        uri: the MLflow store.

    Raises:
        ValueError: the store holds none.
    """
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    chosen = "tags.stage = 'trial' and attributes.status = 'FINISHED'"
    ids = [experiment.experiment_id] if experiment else []
    runs = client.search_runs(ids, chosen, max_results=50_000) if ids else []
    rows = [
        {
            "profile": run.data.tags.get("profile", ""),
            **{name: run.data.params[name] for name in (*CELL[1:], "seed")},
            "error": error,
        }
        for run in runs
        if (error := run.data.metrics.get("hessian_error")) is not None
    ]
    if not rows:
        raise ValueError(f"{uri} holds no finished estimate; run `dvc repro sweep` first")
    table = pd.DataFrame(rows).astype({"rank": int, "sigma": float})
    return table.drop_duplicates([*CELL, "seed"])  # newest first


def compared(table: pd.DataFrame) -> pd.DataFrame:
    """Return mean and standard error over seeds of each cell, the least error first."""
    groups = table.groupby(CELL)["error"].agg(["mean", "sem", "count"])
    return groups.sort_values(["profile", "dataset", "mean"]).reset_index()


def draw(table: pd.DataFrame, path: Path) -> None:
    """Draw the errors against the rank, a chart for each data set, a line for each target."""
    path.parent.mkdir(parents=True, exist_ok=True)
    charts = list(table.groupby(["profile", "dataset"]))
    figure = Figure(figsize=(4 * len(charts), 3.2), layout="constrained")
    axes = figure.subplots(1, len(charts), squeeze=False)[0]
    for ax, ((profile, dataset), rows) in zip(axes, charts, strict=True):
        for key, part in rows.groupby(["regime", "sigma", "target"]):
            part = part.sort_values("rank")
            label = f"{key[2]}, {key[0]}, σ = {key[1]:g}"
            ax.errorbar(part["rank"], part["mean"], part["sem"], marker="o", label=label)
        title = dataset if table["profile"].nunique() == 1 else f"{dataset}, {profile}"
        ax.set(title=title, xlabel="rank (0: a diagonal)", ylabel="squared error of the Hessian")
        ax.set_xticks(sorted(rows["rank"].unique()))
        ax.set_yscale("log")
        ax.legend(fontsize=7)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print the table and draw it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    default = f"sqlite:///{Path.cwd() / 'runs' / 'mlflow.db'}"
    parser.add_argument("--store", default=os.environ.get("MLFLOW_TRACKING_URI", default))
    parser.add_argument("--out", type=Path, default=Path("build/compare_runs.png"))
    given = parser.parse_args()
    table = compared(trials(given.store))
    print(table.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    draw(table, given.out)
    print(given.out)


if __name__ == "__main__":
    main()
