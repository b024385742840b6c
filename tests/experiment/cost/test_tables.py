"""The tables of costs, on made-up results."""

import math
from dataclasses import replace

import pandas as pd
import pytest

from hosm.experiment.cost import tables as cost_tables
from hosm.experiment.cost.study.ratios import speed_ratios
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.timing import NOTE


def test_losses_stand_beside_their_dense_twins(results):
    table = cost_tables.loss_table(results.cost.training).set_index("D")
    assert table.loc["784", "Dense / ours"] == "784×"  # D squared over D
    assert table.loc["100", "Dense / ours, memory"] == "100×"
    assert table.loc["784", "Ours (ms)"] == "0.784"


def test_steps_stand_over_that_of_s1_alone(results):
    table = cost_tables.step_table(results.cost.training)
    assert list(table["Step"]) == ["s1 alone (DSM)", "s1 and s2, jacobian"]
    assert list(table["Time over DSM"]) == ["1.00×", "1.40×"]


def test_variants_stand_over_float32(results):
    table = cost_tables.variant_table(results.cost.training)
    assert list(table["Time over float32"]) == ["1.00×", "0.500×"]


def test_growth_has_a_column_for_each_size_and_its_slopes(results):
    table = cost_tables.growth_table(results.cost.growth, results.cost.slopes)
    row = table.set_index("What").loc["joint step, r = 10"]
    assert row["D = 784"] == "0.784 ms, 0.784 MB"
    assert row["Slope of time (last two)"] == row["Slope of memory (last two)"] == "1.00 (1.00)"
    ranks = cost_tables.rank_table(results.cost.growth, results.cost.slopes)
    assert list(ranks["r"]) == ["10", "20", "40"]


def test_workers_stand_over_the_plain_loop(results):
    table = cost_tables.workers_table(results.cost.workers)
    assert list(table["Time over the plain loop"]) == ["1.00×", "1.01×", "1.33×"]
    assert list(table["Points a second"]) == ["8,533", "8,449", "12,800"]


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
    assert "20, compiled" in set(cost_tables.ratio_table(speed)["Rank"])


def test_ratios_are_shown_with_their_range_and_the_papers(results, only):
    row = only(
        cost_tables.ratio_table(results.cost.speed), Network="U-Net, D = 784, batch 10", Rank="20"
    )
    assert row["Loop / s2, paper"] == "510×"
    assert row["Loop / s2, ours (range)"] == "600× (432 to 833)"
    other = cost_tables.ratio_table(results.cost.speed).iloc[2]
    assert other["s1 and s2 of a shared trunk / s1, ours"] == "–"


def test_table2_says_where_rows_were_scaled_and_marks_the_fastest(results):
    table = cost_tables.speed_table(results.cost.speed)
    loops = table[table["Method"] == "autodiff loop"]
    assert list(loops["Jacobian rows timed"]) == ["all", "scaled from 49 of 784 rows"]
    assert list(loops["Paper, TITAN Xp (ms)"]) == ["32.1", "34,600"]
    marked = table[table["Ours, median (ms)"].map(formats.is_bold)]
    assert list(marked["Method"]) == ["s2", "s2"]
    assert list(marked["Ours, median (ms)"]) == ["**0.500**", "**42.0**"]


def test_tables_of_times_name_machine_and_load_and_mark_a_busy_row(results):
    """Others are busy while the larger losses are timed, and not before."""
    training = results.cost.training
    busy = training["dimension"] == 784
    training = training.assign(stolen=0.0, machine="2 cores of a test", threads=1)
    training["others"] = [0.6 if each else 0.02 for each in busy]
    found = replace(results.cost, training=training)
    tables = cost_tables.cost_tables(found)
    losses = tables["cost-losses"].set_index("D")["Dense / ours"]
    assert dict(losses) == {"100": "100×", "784": "784× (busy machine)"}
    note = tables["cost-losses"].attrs[NOTE]
    assert note.startswith("Timed on 2 cores of a test, 1 thread. ")
    assert "other processes used at most 60% of the cores" in note
    assert tables["table2-speed"].attrs[NOTE].endswith("is unknown.")


def test_runs_of_several_workers_are_marked_too(results):
    load = {"others": [0.0, 0.0, 0.3], "stolen": 0.0}
    table = cost_tables.workers_table(results.cost.workers.assign(**load))
    assert list(table["Time over the plain loop"]) == ["1.00×", "1.01×", "1.33× (busy machine)"]
