"""The comparison of causal orders: graphs are what they say, rivals find small ones."""

import zipfile

import numpy as np
import pandas as pd
import pytest

from hosm.experiment.causal.study import study
from hosm.experiment.causal.study.graphs import (
    draw,
    hamming_distance,
    order_divergence,
    random_graph,
    sachs,
    true_order,
)
from hosm.experiment.causal.study.orders import by_variance, nogam, score


def test_a_drawn_graph_has_no_cycle_and_as_many_edges_as_asked():
    rng = np.random.default_rng(0)
    graphs = [random_graph(10, 20, rng) for _ in range(200)]
    for parents in graphs[:20]:
        assert order_divergence(parents, true_order(parents)) == 0
    # 45 pairs of chance 4/9: a mean of 200 has a standard error of .24, four of which are allowed
    assert np.mean([parents.sum() for parents in graphs]) == pytest.approx(20, abs=0.95)


def test_a_variable_without_parents_is_noise_and_a_child_is_not():
    parents = np.array([[False, True], [False, False]])
    x = draw(parents, 4000, np.random.default_rng(1))
    # variances of 4,000 draws, four standard errors of 2 %
    assert 0.4 * 0.9 < x[:, 0].var() < 0.8 * 1.1 and x[:, 1].var() > x[:, 0].var() * 0.4
    order = np.argsort(x[:, 0])
    near = x[order, 1].reshape(-1, 40)  # of nearly equal parents: noise alone
    assert 0.4 * 0.85 < near.var(1).mean() < 0.8 * 1.15 < x[:, 1].var()


def test_a_turned_edge_counts_once_and_a_missing_one_too():
    true = np.array([[0, 1, 1], [0, 0, 0], [0, 0, 0]], bool)
    found = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0]], bool)
    assert hamming_distance(true, true) == 0 and hamming_distance(true, found) == 2
    assert order_divergence(true, [1, 2, 0]) == 2 and order_divergence(true, [0, 2, 1]) == 0


@pytest.mark.parametrize("order", [score, nogam])
def test_rivals_find_the_order_of_a_chain(order):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(3, 400))
    x1 = np.sin(2 * noise[0]) + 0.4 * noise[1]
    x = np.stack([x1**2 + 0.4 * noise[2], noise[0], x1], 1)
    assert order((x - x.mean(0)) / x.std(0)) == [1, 2, 0]


def test_columns_are_sorted_by_their_variance():
    x = np.random.default_rng(0).normal(size=(500, 3)) * [3, 1, 2]
    assert by_variance(x) == [1, 2, 0]


def test_the_table_of_a_wheel(tmp_path):
    with zipfile.ZipFile(tmp_path / "cdt.whl", "w") as files:
        files.writestr("cdt/data/resources/cyto_full_data.csv", "a,b,c\n1,2,3\n4,5,6\n")
        files.writestr("cdt/data/resources/cyto_full_target.csv", '"Cause","Effect"\n"c","a"\n')
    x, parents = sachs(tmp_path / "cdt.whl")
    np.testing.assert_array_equal(x, [[1, 2, 3], [4, 5, 6]])
    assert parents.sum() == 1 and parents[2, 0]


def test_a_graph_has_a_row_for_each_method_and_a_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "POINTS", 120)
    options = [str(tmp_path), "--variables", "3", "--seeds", "1"]
    monkeypatch.setattr("sys.argv", ["study", *options])
    study.main()
    graphs = pd.read_csv(tmp_path / "graphs.csv")
    assert len(graphs) == 2 * len(study.METHODS) and set(graphs["graph"]) == {"ER1", "ER4"}
    assert (graphs["divergence"] <= graphs["edges"]).all() and (graphs["distance"] <= 3).all()
    monkeypatch.setattr(study, "measure", None)  # not called again
    study.main()
    found = pd.read_csv(tmp_path / "summary.csv")
    own = found[found["method"] == "hosm"]
    assert {*own["pruning"]} == {"gaussian_process", "additive"} and (own["seeds"] == 1).all()


def test_the_summary_is_a_mean_over_seeds():
    keys = {"graph": "ER1", "variables": 5, "method": "a", "pruning": "p", "edges": 4}
    rows = [
        {**keys, "seed": s, "divergence": d, "distance": d, "order_seconds": 1.0}
        | {"pruning_seconds": 2.0}
        for s, d in ((0, 1), (1, 3))
    ]
    found = study.summary(pd.DataFrame(rows)).iloc[0]
    assert found["seeds"] == 2 and found["divergence"] == 2
    assert found["divergence_error"] == pytest.approx(1.0)
