"""Stage `tabular`: the default estimator on tables of few rows, beside simple answers."""

import shutil
import sys

import numpy as np
import pandas as pd

from hosm.experiment.cluster import connection
from hosm.experiment.run import provenance
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, write_json, write_tables
from hosm.experiment.tabular.study import study


def tabular() -> None:
    """Write data/results/tabular: a row for each fit to rows of a law, and to a real table; draws.

    Cells that are finished lie in runs/tabular until all are, so that a stop costs the ones at
    work.
    """
    folder, finished = PROJECT / "data" / "results" / "tabular", PROJECT / "runs" / "tabular"
    with open_stage("tabular") as (params, run, _):
        run.log_params(params.tabular.model_dump())
        with connection.connect(params.cluster, dashboard=False):
            laws, tables, drawn = study.run_study(params.tabular, finished)
        frames = {"laws": pd.DataFrame(laws), "tables": pd.DataFrame(tables)}
        write_tables(frames, folder, run)
        np.savez_compressed(folder / "digits.npz", **drawn)  # type: ignore[arg-type]
        write_json(provenance.facts(PROJECT, params.profile, params), folder / "card.json")
        numbers = study.headline(frames["laws"])
        write_json(numbers, PROJECT / "reports" / "metrics" / "tabular.json")
        run.log_metrics(numbers)
        shutil.rmtree(finished)  # what follows, perhaps by other code, runs anew


if __name__ == "__main__":
    main(tabular, *sys.argv[1:])
