"""The tables of accuracy, on made-up results."""

import math

import pandas as pd

from hosm.experiment.accuracy import tables as accuracy_tables
from hosm.experiment.accuracy.rows_of_table1 import lowest
from hosm.experiment.presenting import formats
from hosm.experiment.report.results import load_results
from hosm.experiment.shared.rows import records
from tests.experiment.report import report_inputs
from tests.experiment.report.report_inputs import write_inputs


def test_table1_shows_the_paper_beside_ours(results, only):
    table = accuracy_tables.accuracy_table(results.accuracy.table1)
    row = only(table, Method="s2, moment", Rank="30")
    assert row["Data set"] == "gaussian100 (reconstruction)"
    assert row["Paper, σ = 0.05"] == "2.05 ± 0.544"
    assert row["Ours ± s.e., σ = 0.05"] == "7.200 ± 0.031"
    assert (row["Seeds"], row["Steps"], row["Training (s)"]) == ("2", "2,500", "80.0")
    assert only(table, Method="s2, jacobian", Rank="30")["Paper, σ = 0.05"] == "–"


def test_table1_lists_baselines_then_estimates_then_references(results):
    table = accuracy_tables.accuracy_table(results.accuracy.table1)
    gaussian = table["Data set"].str.startswith("gaussian")
    methods = list(dict.fromkeys(table[gaussian]["Method"]))
    assert methods[:2] == ["autodiff, DSM", "autodiff, DSM-VR"]
    assert methods[2:4] == ["autodiff, DSM-VR, plain MLP", "autodiff, joint moment"]
    assert methods[4:7] == ["s2, joint moment", "s2, moment", "s2, residual"]
    assert methods[-2:] == ["floor, best diag + rank r", "constant predictor"]
    assert "Hutchinson of 10, DSM-VR" in list(table[~gaussian]["Method"])[:3]
    floors = table[table["Method"].str.startswith("floor")]
    assert list(floors["Ours ± s.e., σ = 0.05"]) == ["7.04", "5.28", "1.76"]
    assert set(floors["Seeds"]) == {"–"}


def test_table1_marks_the_lowest_error_and_what_is_within_two_standard_errors(results):
    table = accuracy_tables.accuracy_table(results.accuracy.table1)
    marked = table[table["Ours ± s.e., σ = 0.05"].map(formats.is_bold)]
    gaussian = marked[marked["Data set"].str.startswith("gaussian")]
    assert list(zip(gaussian["Method"], gaussian["Rank"], strict=True)) == [("s2, jacobian", "30")]
    logistic = marked[marked["Data set"].str.startswith("logistic")]  # 7.8, and 8.1 ± .2, 8.4 ± .3
    assert set(logistic["Method"]) >= {"s2, jacobian", "autodiff, DSM-VR"}
    assert "s2, residual" not in set(logistic["Method"])


def test_cost_is_stated_for_each_kind_of_fit(results):
    table = accuracy_tables.cost_table(results.accuracy.cost)
    assert list(table["Trained"]) == ["s1, DSM-VR", "s2, jacobian", "–"]
    assert list(table["Minutes, one thread each"]) == ["0.500", "1.00", "1.50"]
    assert list(table["Seconds per fit"]) == ["15.0", "30.0", "–"]
    assert list(table["Fits"]) == ["2", "2", "4"]


def test_budgets_say_whether_all_targets_had_the_same(results, only):
    table = accuracy_tables.budget_table(results.accuracy.budgets)
    row = only(table, Trained="s2, moment", Regime="streaming")
    assert (row["Batch"], row["Steps, at most"], row["Points, at most"]) == (
        "200",
        "1,000",
        "200,000",
    )
    assert (row["Learning rate"], row["Patience"]) == ("0.01", "–")
    assert row["Chosen"] == "one budget for all targets"
    row = only(table, Trained="s2, moment", Regime="finite")
    assert (row["Patience"], row["Chosen"]) == ("2", "for each target by itself")
    assert only(table, Trained="s1, DSM-VR")["Chosen"] == "for this fit"


def test_a_reference_is_never_marked_as_the_best():
    accuracy = report_inputs.accuracy()
    cell = records(accuracy[accuracy["dataset"] == "gaussian100"])
    marked = [row["method"] for row, mark in zip(cell, lowest(cell), strict=True) if mark]
    assert marked == ["s2, jacobian"]


def test_the_constant_is_exact_for_a_gaussian_alone(results):
    table = accuracy_tables.accuracy_table(results.accuracy.table1)
    constants = table[table["Method"] == "constant predictor"]["Ours ± s.e., σ = 0.05"]
    assert list(constants) == ["0 (exact)", "17.8"]


def test_each_sigma_has_its_columns_and_each_regime_its_references(tmp_path, only):
    root = write_inputs(tmp_path)
    path = root / "data" / "results" / "accuracy" / "table1.csv"
    frame = pd.read_csv(path)
    other = frame[frame["sigma"].notna()].assign(sigma=0.1, mean=lambda f: f["mean"] + 1)
    finite = frame[frame["sigma"].notna()].assign(regime="finite")
    pd.concat([frame, other, finite]).to_csv(path, index=False)
    table = accuracy_tables.accuracy_table(load_results(root).accuracy.table1)
    assert [name for name in table if "σ = 0.1" in name] == [
        "Paper, σ = 0.1",
        "Ours ± s.e., σ = 0.1",
    ]
    row = only(table, Method="autodiff, DSM", Regime="streaming", **_logistic())
    assert row["Ours ± s.e., σ = 0.1"] == "20.30 ± 0.40"
    constants = table[(table["Method"] == "constant predictor") & (table["Rank"] == "–")]
    assert list(constants["Regime"]) == ["finite", "streaming"] * 2
    assert "–" in set(table["Ours ± s.e., σ = 0.1"])  # the finite regime has one sigma


def _logistic():
    return {"Data set": "logistic50 (reconstruction)"}


def test_one_seed_has_no_standard_error(results, only):
    accuracy = results.accuracy.table1.assign(standard_error=math.nan)
    table = accuracy_tables.accuracy_table(accuracy)
    assert only(table, Method="s2, moment", Rank="30")["Ours, one seed, σ = 0.05"] == "7.20"


def test_errors_of_s1_are_averaged_over_seeds(results, only):
    table = accuracy_tables.first_order_table(results.accuracy.trials)
    row = only(table, Objective="DSM-VR", **_logistic())
    assert row["Squared error of s1, ours ± s.e."] == "0.5250 ± 0.0050"
