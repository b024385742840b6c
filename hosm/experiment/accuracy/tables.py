"""Table 1 for readers: errors beside the paper's, the error of s1, and what training cost.

The lowest error is marked, and those within two of its standard errors.
"""

import math

import pandas as pd

from hosm.experiment.accuracy.results import Accuracy
from hosm.experiment.accuracy.rows_of_table1 import is_exact, is_reference, lowest, method_order
from hosm.experiment.accuracy.study.budgets import GIVEN
from hosm.experiment.presenting import formats
from hosm.experiment.settings.accuracy import HEADS
from hosm.experiment.shared.rows import Row, groups, records

__all__ = [
    "accuracy_table",
    "accuracy_tables",
    "budget_table",
    "cost_table",
    "first_order_table",
    "named",
]

FIRST = {"dsm": "s1, DSM", "dsm-vr": "s1, DSM-VR", "plain": "s1, DSM-VR, plain MLP"}
RECONSTRUCTIONS = ("gaussian100", "logistic50", "logistic80", "ring6", "ring8")


def named(law: str) -> str:
    """Return the name of a law, and whether it is a reconstruction."""
    return f"{law} (reconstruction)" if law in RECONSTRUCTIONS else law


def _rank(method: str, rank: float) -> str:
    if not math.isnan(rank) and rank > 0:
        return f"{rank:.0f}"
    return "diagonal" if method.startswith("s2") or "joint" in method else formats.DASH


def _marked(accuracy: pd.DataFrame) -> list[Row]:
    """Return the rows of table 1 in order, with `best` set where an error is the lowest."""
    out: list[Row] = []
    for _, group in groups(accuracy, "dataset", "regime", "sigma"):
        cell = records(group)
        out += [{**row, "best": best} for row, best in zip(cell, lowest(cell), strict=True)]
    return sorted(out, key=lambda row: (row["dataset"], row["regime"], method_order(row)))


def accuracy_table(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return table 1: a row for each method and rank, a pair of columns for each sigma."""
    rows: dict[tuple[str, ...], Row] = {}
    ours_of = _column(accuracy["standard_error"])
    for entry in _marked(accuracy):
        rank = _rank(entry["method"], entry["rank"])
        key = (named(entry["dataset"]), entry["regime"], entry["method"], rank)
        first = dict(zip(("Data set", "Regime", "Method", "Rank"), key, strict=True))
        row = rows.setdefault(key, {**first, "entries": []})
        ours = formats.plus_minus(entry["mean"], entry["standard_error"])
        ours = "0 (exact)" if is_exact(entry) else ours
        paper = formats.paper_value(entry["paper"], entry["paper_deviation"])
        row[f"Paper, σ = {entry['sigma']:g}"] = paper
        row[f"{ours_of}, σ = {entry['sigma']:g}"] = formats.bold(ours) if entry["best"] else ours
        row["entries"].append(entry)
    return pd.DataFrame([_with_cost(row) for row in rows.values()]).fillna(formats.DASH)


def _column(errors: pd.Series) -> str:
    """Return the head of a column of ours: a single seed has no standard error."""
    return "Ours ± s.e." if errors.notna().any() else "Ours, one seed"


def _with_cost(row: Row) -> Row:
    """Put seeds, steps and training time last, the fewest and the longest over sigmas."""
    entries = row.pop("entries")
    if is_reference(entries[0]):
        return {**row, "Seeds": formats.DASH, "Steps": formats.DASH, "Training (s)": formats.DASH}
    return {
        **row,
        "Seeds": formats.count(min(entry["seeds"] for entry in entries)),
        "Steps": formats.count(max(entry["steps"] for entry in entries)),
        "Training (s)": formats.number(max(entry["seconds"] for entry in entries)),
    }


def first_order_table(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the error of s1 by objective: what joint training does to it."""
    keys = ["dataset", "regime", "sigma", "target", "rank"]
    means = trials.groupby(keys)["s1_error"].agg(["mean", "sem", "count"]).reset_index()
    means = means[~means["target"].isin(HEADS)]  # which train no s1
    head = f"Squared error of s1, {_column(means['sem']).lower()}"
    rows = [
        {
            "Data set": named(row["dataset"]),
            "Regime": row["regime"],
            "σ": f"{row['sigma']:g}",
            "Objective": _trained(row["target"]).removeprefix("s1, ").removeprefix("s2, "),
            "Rank": formats.DASH if row["target"] in FIRST else _rank("s2", row["rank"]),
            head: formats.plus_minus(row["mean"], row["sem"]),
            "Seeds": formats.count(row["count"]),
        }
        for row in records(means)
    ]
    return pd.DataFrame(rows)


def budget_table(budgets: pd.DataFrame) -> pd.DataFrame:
    """Return what each kind of fit may train with, and whether heads of all targets may alike."""
    rows = []
    for (dataset, regime), part in groups(budgets, "dataset", "regime"):
        heads = part.loc[part["target"].isin(HEADS), list(GIVEN)]
        alike = len(heads.drop_duplicates()) <= 1
        chosen = "one budget for all targets" if alike else "for each target by itself"
        rows += [
            {"Data set": named(dataset), "Regime": regime, **_budget(row, chosen)}
            for row in records(part)
        ]
    return pd.DataFrame(rows)


def _budget(row: Row, chosen: str) -> Row:
    return {
        "Trained": _trained(row["target"]),
        "Batch": formats.count(row["batch_size"]),
        "Steps, at most": formats.count(row["max_steps"]),
        "Points, at most": formats.count(row["points"]),
        "Learning rate": f"{row['learning_rate']:g}",
        "Weight decay": f"{row['weight_decay']:g}",
        "Patience": formats.count(row["patience"] or math.nan),
        "Chosen": chosen if row["target"] in HEADS else "for this fit",
    }


def _trained(target: str) -> str:
    """Return what a fit trains, in words."""
    return FIRST.get(target, f"s2, {target.replace('-', ' ')}")


def cost_table(cost: pd.DataFrame) -> pd.DataFrame:
    """Return what table 1 cost to train, for each data set and kind of fit, and in all."""
    rows = [
        {
            "Data set": named(row["dataset"]),
            "Regime": row["regime"],
            "Trained": _trained(row["target"]),
            "Fits": formats.count(row["fits"]),
            "Minutes, one thread each": formats.number(row["seconds"] / 60),
            "Seconds per fit": formats.number(row["seconds"] / row["fits"]),
        }
        for row in records(cost)
    ]
    fits, minutes = cost["fits"].sum(), cost["seconds"].sum() / 60
    total = (
        "all",
        formats.DASH,
        formats.DASH,
        formats.count(fits),
        formats.number(minutes),
        formats.DASH,
    )
    rows.append(dict(zip(rows[0], total, strict=True)))
    return pd.DataFrame(rows)


def accuracy_tables(found: Accuracy) -> dict[str, pd.DataFrame]:
    """Return the tables of errors, by their files' names."""
    return {
        "table1-accuracy": accuracy_table(found.table1),
        "table1-budgets": budget_table(found.budgets),
        "table1-cost": cost_table(found.cost),
        "table1-whole": accuracy_table(found.whole.table1),
        "table1-whole-budgets": budget_table(found.whole.budgets),
        "table1-whole-cost": cost_table(found.whole.cost),
        "table1-first-order": first_order_table(found.trials),
    }
