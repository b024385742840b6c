"""The tables of costs, on made-up results."""

import pytest

from hosm.experiment.cost import figures as cost_figures
from hosm.experiment.cost import tables as cost_tables
from hosm.experiment.report.results import load_results
from tests.experiment.report.report_inputs import write_inputs


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return load_results(write_inputs(tmp_path_factory.mktemp("costs")))


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


def test_figures_name_what_they_found(results):
    growth = cost_figures.growth_figure(results.cost.growth, results.cost.slopes)
    assert "1.00 and 1.00" in growth.axes[0].get_title(loc="left")
    losses = cost_figures.loss_figure(results.cost.training)
    assert losses.axes[0].get_title(loc="left") == "Dense over ours at D = 784: 784× to 784×"
