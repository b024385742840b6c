import math
from dataclasses import replace

import pandas as pd
import pytest

from hosm.experiment.accuracy import tables as accuracy_tables
from hosm.experiment.cost.study.ratios import speed_ratios
from hosm.experiment.presenting import number_formats as cells
from hosm.experiment.report import tables
from hosm.experiment.shared.rows import lowest, records
from hosm.experiment.uncertainty import tables as denoiser_tables
from tests.experiment.report import report_inputs
from tests.experiment.report.report_inputs import write_inputs

FACTS = {"profile": "laptop", "seeds": [0, 1], "hardware": "2 cores of a test"}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def results(root):
    return tables.load_results(root)


def _only(frame, **values):
    for column, value in values.items():
        frame = frame[frame[column] == value]
    assert len(frame) == 1
    return frame.iloc[0]


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [
        (7.3041, 0.0412, "7.304 ± 0.041"),
        (436.2, 12.3, "436 ± 12"),
        (1.2e-5, 2e-7, "0.0000120 ± 0.0000002"),
        (7.3041, math.nan, "7.30"),
        (7.3041, 0.0, "7.30 ± 0"),
        (math.nan, 0.1, "–"),
    ],
)
def test_a_standard_error_sets_the_digits(mean, error, text):
    assert cells.plus_minus(mean, error) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (34612.4, "34,612"), (0.0379, "0.0379"), (2e-7, "2.00e-07"), (math.inf, "∞")],
)
def test_numbers_have_three_significant_digits(value, text):
    assert cells.number(value) == text


def test_table1_shows_the_paper_beside_ours(results):
    table = accuracy_tables.accuracy_table(results.accuracy.table1)
    row = _only(table, Method="s2, moment", Rank="30")
    assert row["Data set"] == "gaussian100 (reconstruction)"
    assert row["Paper, σ = 0.05"] == "2.05 ± 0.544"
    assert row["Ours ± s.e., σ = 0.05"] == "7.200 ± 0.031"
    assert (row["Seeds"], row["Steps"], row["Training (s)"]) == ("2", "2,500", "80.0")
    assert _only(table, Method="s2, jacobian", Rank="30")["Paper, σ = 0.05"] == "–"


def test_table1_lists_baselines_then_estimates_then_references(results):
    table = accuracy_tables.accuracy_table(results.accuracy.table1)
    gaussian = table["Data set"].str.startswith("gaussian")
    methods = list(dict.fromkeys(table[gaussian]["Method"]))
    assert methods[:3] == ["autodiff, DSM", "autodiff, DSM-VR", "autodiff, joint moment"]
    assert methods[3:6] == ["s2, joint moment", "s2, moment", "s2, residual"]
    assert methods[-2:] == ["floor, best diag + rank r", "constant predictor"]
    assert "Hutchinson of 10, DSM-VR" in list(table[~gaussian]["Method"])[:3]
    floors = table[table["Method"].str.startswith("floor")]
    assert list(floors["Ours ± s.e., σ = 0.05"]) == ["7.04", "5.28", "1.76"]
    assert set(floors["Seeds"]) == {"–"}


def test_table1_marks_the_lowest_error_and_what_is_within_two_standard_errors(results):
    table = accuracy_tables.accuracy_table(results.accuracy.table1)
    marked = table[table["Ours ± s.e., σ = 0.05"].map(cells.is_bold)]
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


def test_a_reference_is_never_marked_as_the_best():
    accuracy = report_inputs.accuracy()
    cell = records(accuracy[accuracy["dataset"] == "gaussian100"])
    marked = [row["method"] for row, mark in zip(cell, lowest(cell), strict=True) if mark]
    assert marked == ["s2, jacobian"]


def test_the_constant_is_exact_for_a_gaussian_alone(results):
    table = accuracy_tables.accuracy_table(results.accuracy.table1)
    constants = table[table["Method"] == "constant predictor"]["Ours ± s.e., σ = 0.05"]
    assert list(constants) == ["0 (exact)", "17.8"]


def test_each_sigma_has_its_columns_and_each_regime_its_references(tmp_path):
    root = write_inputs(tmp_path)
    path = root / "data" / "results" / "accuracy" / "table1.csv"
    frame = pd.read_csv(path)
    other = frame[frame["sigma"].notna()].assign(sigma=0.1, mean=lambda f: f["mean"] + 1)
    finite = frame[frame["sigma"].notna()].assign(regime="finite")
    pd.concat([frame, other, finite]).to_csv(path, index=False)
    table = accuracy_tables.accuracy_table(tables.load_results(root).accuracy.table1)
    assert [name for name in table if "σ = 0.1" in name] == [
        "Paper, σ = 0.1",
        "Ours ± s.e., σ = 0.1",
    ]
    row = _only(table, Method="autodiff, DSM", Regime="streaming", **_logistic())
    assert row["Ours ± s.e., σ = 0.1"] == "20.30 ± 0.40"
    constants = table[(table["Method"] == "constant predictor") & (table["Rank"] == "–")]
    assert list(constants["Regime"]) == ["finite", "streaming"] * 2
    assert "–" in set(table["Ours ± s.e., σ = 0.1"])  # the finite regime has one sigma


def _logistic():
    return {"Data set": "logistic50 (reconstruction)"}


def test_one_seed_has_no_standard_error(results):
    accuracy = results.accuracy.table1.assign(standard_error=math.nan)
    table = accuracy_tables.accuracy_table(accuracy)
    assert _only(table, Method="s2, moment", Rank="30")["Ours ± s.e., σ = 0.05"] == "7.20"


def test_errors_of_s1_are_averaged_over_seeds(results):
    table = accuracy_tables.first_order_table(results.accuracy.trials)
    row = _only(table, Objective="DSM-VR", **_logistic())
    assert row["Squared error of s1, ours ± s.e."] == "0.5250 ± 0.0050"


def test_ratios_of_table2_are_those_of_the_medians(results):
    ratios = {(row["backbone"], row["rank"]): row for row in speed_ratios(results.cost.speed)}
    row = ratios["mlp", 20]
    assert row["loop"] == pytest.approx(12 / 0.5)
    assert row["loop_low"] == pytest.approx(12 * 0.9 / (0.5 * 1.25))
    assert row["loop_high"] == pytest.approx(12 * 1.25 / (0.5 * 0.9))
    assert row["chunked"] == pytest.approx(3 / 0.5)  # reverse is the faster of the two
    assert row["chunked_method"] == "autodiff reverse, chunked"
    assert row["s1"] == pytest.approx(0.5 / 0.3)
    assert row["joint"] == pytest.approx(1.1 * 0.5 / 0.3)
    assert row["paper"] == pytest.approx(32.1e-3 / 380e-6)
    assert math.isnan(ratios["mlp", 200]["joint"])


def test_a_compiled_s2_is_measured_against_the_best_compiled_autodiff(results):
    rows = results.cost.speed[
        (results.cost.speed["backbone"] == "mlp") & (results.cost.speed["rank"] <= 20)
    ]
    names = {"s2": "s2, compiled", "autodiff reverse, chunked": "autodiff reverse, compiled"}
    fast = rows[rows["method"].isin(names)].replace({"method": names})
    fast = fast.assign(seconds=fast["seconds"] / 4)
    speed = pd.concat([results.cost.speed, fast])
    ratios = [row for row in speed_ratios(speed) if row["backbone"] == "mlp" and row["rank"] == 20]
    plain, compiled = ratios
    assert not plain["compiled"] and plain["chunked"] == pytest.approx(3 / 0.5)
    assert compiled["chunked"] == pytest.approx(3 / 0.5)
    assert compiled["loop"] == pytest.approx(4 * plain["loop"])
    assert "20, compiled" in set(tables.ratio_table(speed)["Rank"])


def test_ratios_are_shown_with_their_range_and_the_papers(results):
    row = _only(
        tables.ratio_table(results.cost.speed), Network="U-Net, D = 784, batch 10", Rank="20"
    )
    assert row["Loop / s2, paper"] == "510×"
    assert row["Loop / s2, ours (range)"] == "600× (432 to 833)"
    other = tables.ratio_table(results.cost.speed).iloc[2]
    assert other["s1 and s2 of a shared trunk / s1, ours"] == "–"


def test_table2_says_where_rows_were_scaled_and_marks_the_fastest(results):
    table = tables.speed_table(results.cost.speed)
    loops = table[table["Method"] == "autodiff loop"]
    assert list(loops["Jacobian rows timed"]) == ["all", "scaled from 49 of 784 rows"]
    assert list(loops["Paper, TITAN Xp (ms)"]) == ["32.1", "34,600"]
    marked = table[table["Ours, median (ms)"].map(cells.is_bold)]
    assert list(marked["Method"]) == ["s2", "s2"]
    assert list(marked["Ours, median (ms)"]) == ["**0.500**", "**42.0**"]


def test_posteriors_in_the_plane_stand_beside_the_exact_ones(results):
    row = _only(denoiser_tables.posterior_table(results.denoising.posteriors), Points="moons")
    assert row["Error of C, relative ± s.e."] == "0.0600 ± 0.0020"
    assert row["Coverage of 50 / 80 / 95 %"] == "51.0 / 81.0 / 96.0"
    assert row["Of N with exact moments"] == "49.0 / 79.0 / 94.0"


def test_calibration_names_units_and_the_model_of_the_range_alone(results):
    found = results.denoisers["mnist5k"]
    table = denoiser_tables.calibration_table(found.numbers)
    assert list(table["σ"]) == ["0.3", "0.5"]
    assert table["Variance at edges / elsewhere (pixel²)"][0] == "0.0310 / 0.0024"
    bins = denoiser_tables.reliability_table(found.reliability)
    assert len(bins) == 10
    assert set(bins["Error / scaled, σ = 0.5"]) == {"0.880×"}  # 1.1 / 1.25


def test_likelihoods_are_listed_by_scale_and_model(results):
    table = denoiser_tables.likelihood_table(results.denoisers["mnist5k"].numbers)
    assert list(table["σ"]) == ["0.3", "0.5", "0.5", "0.5"]
    free = _only(table, Model="one σ, jacobian, no psd")
    assert (free["C"], free["Clipped share"]) == ("-1,300", "7.0%")


def test_directions_have_shares_and_a_time_for_each_image(results):
    table = denoiser_tables.direction_table(results.denoisers["mnist5k"].directions)
    ours = _only(table, **{"Directions by": "s2"})
    assert (ours["k = 10"], ours["Time per image (ms)"]) == ("56.0%", "2.50")
    assert _only(table, **{"Directions by": "PCA of residuals"})["Time per image (ms)"] == "–"


def test_tables_are_written_as_csv_without_marks_and_as_markdown(results, tmp_path):
    tables.write_all(results, tmp_path / "tables")
    names = {path.stem for path in (tmp_path / "tables").glob("*.csv")}
    assert names == set(tables.display_tables(results))
    assert names == {path.stem for path in (tmp_path / "tables").glob("*.md")}
    csv = (tmp_path / "tables" / "table1-accuracy.csv").read_text()
    markdown = (tmp_path / "tables" / "table1-accuracy.md").read_text()
    assert "2.100 ± 0.031" in csv and "**" not in csv
    assert "**2.100 ± 0.031**" in markdown
    assert all(line.startswith("|") for line in markdown.splitlines())


@pytest.mark.parametrize(
    ("file", "column"),
    [("mixing/table3.csv", "kolmogorov"), ("uncertainty/mnist5k/reliability.csv", "observed")],
)
def test_a_missing_column_is_named(tmp_path, file, column):
    path = write_inputs(tmp_path) / "data" / "results" / file
    pd.read_csv(path).drop(columns=column).to_csv(path, index=False)
    with pytest.raises(ValueError, match=rf"{path.name} lacks {column}; it has"):
        tables.load_results(tmp_path)


def test_missing_files_entries_and_rows_are_named(tmp_path):
    folder = write_inputs(tmp_path) / "data" / "results"
    (folder / "uncertainty" / "mnist5k" / "card.json").write_text("{}")
    with pytest.raises(ValueError, match="card.json lacks shape"):
        tables.load_results(tmp_path)
    (folder / "speed" / "table2.csv").unlink()
    with pytest.raises(FileNotFoundError, match="table2.csv does not exist; run the stage"):
        tables.load_results(tmp_path)
    report_inputs.speed().iloc[:0].to_csv(folder / "speed" / "table2.csv", index=False)
    with pytest.raises(ValueError, match="table2.csv holds no rows"):
        tables.load_results(tmp_path)


def test_the_readme_block_holds_the_headline_numbers(results):
    block = tables.readme_block(results, FACTS)
    lines = [line for line in block.splitlines() if line.startswith("|")][2:]
    assert 8 <= len(lines) <= 20
    for text in ("2.05 ± 0.544", "7.200 ± 0.031", "2.100 ± 0.031", "floor 1.76", "600×", "510×"):
        assert text in block
    assert "21.81 / 28.89" in block
    assert "6.0 % / 11.0 %" in block
    assert "-2,005 / -1,568 / -766" in block  # of the denoiser trained at length
    assert "-1,605" not in block
    assert "21.7 at variance ratio 1.34, beyond the bounds / 28.9 at variance ratio 3.90" in block
    assert "2.00 ± 0.28" in block  # of the samplers' longer study
    assert block.endswith("ranges are least to largest.")
    assert "means over 2 seeds (`make table1`)" in block
    assert "profile `laptop`, seeds 0, 1, on 2 cores of a test;" in block


def test_the_readme_block_shows_fresh_draws_at_the_papers_middle_sigma(results):
    accuracy = results.accuracy.whole.table1
    other = [accuracy.assign(regime="finite", mean=0.5), accuracy.assign(sigma=0.1, mean=0.6)]
    whole = replace(results.accuracy.whole, table1=pd.concat([*other, accuracy]))
    changed = replace(results, accuracy=replace(results.accuracy, whole=whole))
    assert tables.readme_block(changed, FACTS) == tables.readme_block(results, FACTS)


def test_a_block_replaces_what_stands_between_markers():
    text = "before\n<!-- a -->\nold\n<!-- b -->\nafter\n"
    once = tables.replace_between_markers(text, "<!-- a -->", "<!-- b -->", "new\n")
    assert once == "before\n<!-- a -->\nnew\n<!-- b -->\nafter\n"
    assert tables.replace_between_markers(once, "<!-- a -->", "<!-- b -->", "new") == once


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing, END", "'BEGIN' occurs 0 times"),
        ("BEGIN, nothing", "'END' occurs 0 times"),
        ("BEGIN END BEGIN", "'BEGIN' occurs 2 times"),
        ("END BEGIN", "'END' stands before 'BEGIN'"),
    ],
)
def test_markers_must_be_there_once_and_in_order(text, message):
    with pytest.raises(ValueError, match=message):
        tables.replace_between_markers(text, "BEGIN", "END", "new")
