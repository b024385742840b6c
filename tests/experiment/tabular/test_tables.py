"""What a reader sees of the benchmark of tables, on made-up numbers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hosm.experiment.tabular.figures import digits_figure, laws_figure
from hosm.experiment.tabular.headline import tabular_sentence
from hosm.experiment.tabular.tables import laws_table, real_table


def test_the_least_error_is_marked_and_ours_stands_first(results):
    table = laws_table(results.tabular.run.laws, "diagonal_error")
    assert list(table.columns[:5]) == [
        "Columns",
        "Rows",
        "Law",
        "ScoreEstimator()",
        "Ledoit-Wolf Gaussian",
    ]
    row = table.iloc[0]
    assert (row["ScoreEstimator()"], row["Ledoit-Wolf Gaussian"]) == ("**0.200**", "2.00")


def test_several_seeds_have_a_standard_error(results):
    laws = results.tabular.run.laws
    more = laws.assign(seed=1, diagonal_error=laws["diagonal_error"] + 0.02)
    table = laws_table(pd.concat([laws, more]), "diagonal_error")
    assert table.iloc[0]["ScoreEstimator()"] == "**0.210 ± 0.010**"
    assert set(table["Seeds"]) == {"2"}


def test_a_method_that_was_not_fitted_at_some_places_has_a_dash_there(results):
    laws = results.tabular.run.laws
    fewer = laws[laws["method"] != "Stein kernel"].assign(size=300)
    table = laws_table(pd.concat([laws, fewer]), "diagonal_error").set_index("Rows")
    assert set(table.loc["300 rows", "Stein kernel"]) == {"–"}
    assert not (table.drop(index="300 rows") == "–").any(axis=None)


def test_columns_of_few_values_have_no_score(results):
    table = real_table(results.tabular.run.tables).set_index("Table")["Held-out score"]
    assert set(table["digits"]) == {"–"}
    assert table["iris"].iloc[0] == "19.8"


def test_headlines_are_geometric_means_over_laws(results):
    laws = results.tabular.run.laws.copy()
    laws.loc[(laws["law"] == "ring") & (laws["method"] == "ours"), "diagonal_error"] = 0.8
    told = tabular_sentence(replace(results.tabular.run, laws=laws))
    assert "of 0.400 (Gaussian mixture by BIC: 0.500) for 2 columns" in told  # of .2 and .8


@pytest.mark.parametrize(("error", "count"), [(0.2, 2), (9.0, 0)])
def test_the_figure_counts_where_ours_is_least(results, error, count):
    laws = results.tabular.run.laws
    ours = laws["method"] == "ours"
    figure = laws_figure(laws.assign(diagonal_error=np.where(ours, error, laws["diagonal_error"])))
    assert f"ours is least for {count} of 2 laws" in figure.axes[0].get_title(loc="left")


def test_the_figure_of_draws_has_a_line_for_each_law(results):
    digits = results.tabular.run.digits
    figure = digits_figure(digits)
    pictures = [ax.images[0].get_array() for ax in figure.axes if ax.images]
    assert np.allclose(pictures, np.concatenate([digits[law] for law in digits]))
    assert [ax.get_ylabel() for ax in figure.axes[::5]][1:] == ["law='noisy'", "law='clean'"]
