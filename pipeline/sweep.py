"""Stage `sweep`: the trials of table 1 over sigma x rank x target x seed, by Ray Tune."""

import sys
from datetime import UTC, datetime
from functools import partial
from typing import Any

from hosm.experiment.accuracy.study import sweep as study
from hosm.experiment.accuracy.study.logged import describe, log_estimate
from hosm.experiment.cluster import connection
from hosm.experiment.cluster import train as cluster
from hosm.experiment.data import datasets
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, storage_path, write_csv
from hosm.experiment.run.tags import standard_tags


def sweep() -> None:
    """Write data/results/sweep: trials.csv, a row for each estimate; curves.csv; diverged.csv."""
    with open_stage("sweep") as (params, run, tracker):
        names = params.sweep.datasets
        data = {name: datasets.load(PROJECT / "data" / "prepared" / name) for name in names}
        arrays: dict[str, dict[str, Any]] = {
            name: {
                "train": part.train,
                "validation": part.validation,
                "test": part.test,
                "std": part.card["std"],
            }
            for name, part in data.items()
        }
        hashes = {name: part.card["sha256"] for name, part in data.items()}
        run.log_params(params.sweep.model_dump(exclude={"models"}))
        run.set_tags({f"data_hash_{name}": value for name, value in hashes.items()})
        describe(tracker, run)
        inputs = study.SweepInputs(arrays, params.sweep)
        key = f"sweep-{cluster.key_of(params.sweep.model_dump(), hashes)}"
        began = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        tags = {**standard_tags(PROJECT, params.profile, None), "sweep": began}
        tell = partial(log_estimate, tracker, run, params.sweep, key, tags)
        with connection.connect(params.cluster, echo=False):
            tables = study.run_sweep(inputs, params.cluster, storage_path("sweep"), key, tell)
        describe(tracker, run, tables[0])
        for table, name in zip(tables, ("trials", "curves", "diverged"), strict=True):
            path = PROJECT / "data" / "results" / "sweep" / f"{name}.csv"
            write_csv(table, path)
            run.log_artifact(path)


if __name__ == "__main__":
    main(sweep, *sys.argv[1:])
