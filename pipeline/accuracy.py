"""Stage `accuracy`: table 1, errors of s2 and of autodiff beside the floor and the constant."""

import sys

import pandas as pd

from hosm.experiment.accuracy.study import errors as table
from hosm.experiment.accuracy.study.budgets import budgets
from hosm.experiment.data import datasets
from hosm.experiment.run import provenance
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, write_csv, write_json
from hosm.experiment.shared.files import read_frame

CELL = "dataset regime sigma target rank"


def accuracy() -> None:
    """Write data/results/accuracy (table, curves, cost, budgets, card) and headline metrics."""
    with open_stage("accuracy") as (params, run, _):
        trials = read_frame(PROJECT / "data" / "results" / "sweep" / "trials.csv", CELL)
        rows = table.table1(trials)
        for name in params.sweep.datasets:
            data = datasets.load(PROJECT / "data" / "prepared" / name)
            diagonal = params.sweep.diagonal(name)
            train = data.train[: params.accuracy.constant_points]
            test = data.test[: params.sweep.test_points]
            ranks = () if diagonal else params.sweep.ranks
            known = table.reference_rows(name, train, test, diagonal, ranks)
            rows = pd.concat([rows, known], ignore_index=True)
        folder = PROJECT / "data" / "results" / "accuracy"
        path = folder / "table1.csv"
        write_csv(rows, path)
        curves = read_frame(PROJECT / "data" / "results" / "sweep" / "curves.csv", CELL)
        write_csv(table.middle_curves(curves), folder / "curves.csv")
        write_csv(table.training_cost(trials), folder / "cost.csv")
        write_csv(budgets(params.sweep), folder / "budgets.csv")
        write_json(provenance.facts(PROJECT, params.profile, params), folder / "card.json")
        numbers = table.headline(rows)
        write_json(numbers, PROJECT / "reports" / "metrics" / "accuracy.json")
        run.log_metrics(numbers)
        run.log_artifact(path)


if __name__ == "__main__":
    main(accuracy, *sys.argv[1:])
