"""The benchmark of tables: what it measures, on answers that are known."""

import math

import pytest
import torch

from hosm.distributions import GaussianMixture
from hosm.experiment.settings import load_params
from hosm.experiment.shared.finished_parts import code_hash
from hosm.experiment.tabular.study import benchmark, real_tables, study
from hosm.experiment.tabular.study.benchmark import Cell, calibration, cell_rows
from hosm.experiment.tabular.study.rivals import Answer, Mixture, ledoit_wolf
from tests.project.test_layers import ROOT
from tests.tolerances import FLOAT64

DOUBLE = torch.float64
RIVAL = ("Ledoit-Wolf Gaussian",)


def test_errors_are_over_those_of_the_best_constant():
    true = torch.tensor([[1.0], [3.0]], dtype=DOUBLE)
    assert benchmark._relative(true, true) == 0
    assert benchmark._relative(torch.full_like(true, 2.0), true) == 1
    assert benchmark._relative(torch.zeros_like(true), true) == 5
    same = torch.ones(2, 1, dtype=DOUBLE)  # over the square where the truth is a constant
    assert benchmark._relative(torch.zeros_like(same), same) == 1


def test_the_truth_is_that_of_standardised_columns():
    """For a Gaussian of any scale the standardised Hessian is minus the inverse correlation."""
    _, truth = benchmark._split(benchmark.tabular_law("thin", 2), Cell("thin", 2, 4000, 0), 50)
    x = benchmark.tabular_law("thin", 2).sample(4000, 0)
    inverse = torch.linalg.inv(torch.corrcoef(x.mT))
    found = -truth.answer.hessian[0]
    torch.testing.assert_close(found, inverse, rtol=0.2, atol=0)  # of 4,000 rows: some 2 / 63
    steps, changes = truth.x.diff(dim=0), truth.answer.score.diff(dim=0)
    torch.testing.assert_close(changes, -steps @ found, **FLOAT64)


def test_an_exact_law_is_calibrated_and_an_inflated_one_is_not():
    law = GaussianMixture(
        torch.ones(1, dtype=DOUBLE), torch.zeros(1, 2).double(), torch.eye(2).double()[None]
    )
    x = law.sample(20_000, torch.Generator().manual_seed(1))
    noise = torch.tensor([0.5, 0.1], dtype=DOUBLE)
    found = calibration(Mixture(law), x, noise, 0)
    share = (noise / (1 + noise)).sum() / noise.sum()  # posterior variance 1 / (1 + 1 / noise)
    assert found["predicted"] == pytest.approx(float(share), rel=1e-9)
    assert found["variance_ratio"] == pytest.approx(1, abs=0.05)  # 5 / 20,000^(1/2) is .035
    narrow = GaussianMixture(law.weights, law.means, law.covariances / 4)
    assert calibration(Mixture(narrow), x, noise, 0)["variance_ratio"] < 0.8


def test_a_law_without_smoothing_gives_no_calibration():
    class Rough:
        smooths = False

        def __call__(self, x, noise):
            return Answer(x, torch.zeros(len(x), x.shape[1], x.shape[1]))

    assert calibration(Rough(), torch.zeros(3, 2, dtype=DOUBLE), torch.ones(2), 0) == {}


def test_a_cell_has_a_row_for_each_method():
    rows = cell_rows(Cell("mixture3", 2, 150, 0), 40, RIVAL)
    assert [row["method"] for row in rows] == ["ours", *RIVAL]
    for row in rows:
        assert (row["law"], row["dimension"], row["size"], row["seed"]) == ("mixture3", 2, 150, 0)
        assert all(math.isfinite(row[f"{kind}_error"]) for kind in ("score", "diagonal"))
        assert row["mixture"] and row["seconds"] > 0
    assert rows[0]["diagonal_error"] < rows[1]["diagonal_error"]  # three clusters, far apart
    assert rows[0]["sigma"] > 0 and "Chosen of" in rows[0]["chosen"]


@pytest.mark.parametrize("name", real_tables.TABLES)
def test_real_tables_are_numbers(name):
    rows = real_tables.read_table(name)
    assert rows.ndim == 2 and rows.dtype == DOUBLE and bool(rows.isfinite().all())
    x, held = real_tables._split(rows, 0)
    assert len(x) + len(held) == len(rows) and x.shape[1] == held.shape[1]
    torch.testing.assert_close(x.std(0), torch.ones(x.shape[1], dtype=DOUBLE))


def test_a_real_table_is_judged_on_rows_that_were_held_out():
    rows = real_tables.table_rows("iris", 0, RIVAL)
    assert [row["method"] for row in rows] == ["ours", *RIVAL]
    x, held = real_tables._split(real_tables.read_table("iris"), 0)
    gaussian, none = ledoit_wolf(x, 0), torch.zeros(4, dtype=DOUBLE)
    s, h = gaussian(held, none)
    loss = (s.square().sum(1) / 2 + h.diagonal(dim1=1, dim2=2).sum(1)).mean()
    assert rows[1]["held_out_score"] == pytest.approx(-float(loss))
    assert not rows[0]["steps"]


def test_unknown_tables_are_named():
    with pytest.raises(ValueError, match="table must be one of wine.*got 'whine'"):
        real_tables.read_table("whine")


def test_the_grid_leaves_out_laws_that_need_more_columns():
    params = load_params(ROOT / "params.yaml").tabular
    one = params.model_copy(update={"dimensions": (1, 2), "laws": ("gamma", "ring")})
    places = {(cell.law, cell.dimension) for cell in study.cells(one)}
    assert places == {("gamma", 1), ("gamma", 2), ("ring", 2)}
    with pytest.raises(ValueError, match="laws must be among .*, got bananas"):
        study.cells(params.model_copy(update={"laws": ("bananas",)}))


def test_cells_are_finished_once(tmp_path, monkeypatch):
    calls = []

    def rows(cell, test_points):
        calls.append(cell)
        return [{"method": "ours", "diagonal_error": 0.5, "seconds": 1.0}]

    monkeypatch.setattr(study, "cell_rows", rows)
    cell = Cell("gamma", 2, 100, 0)
    first = study._finished_rows(cell, 10, tmp_path)
    assert study._finished_rows(cell, 10, tmp_path) == first and calls == [cell]
    study._finished_rows(Cell("gamma", 2, 100, 1), 10, tmp_path)
    assert len(calls) == 2


def test_cells_of_other_code_are_made_anew(tmp_path, monkeypatch):
    rows = [{"method": "ours", "diagonal_error": 0.5, "seconds": 1.0}]
    monkeypatch.setattr(study, "cell_rows", lambda *about: rows)
    cell = Cell("gamma", 2, 100, 0)
    study._finished_rows(cell, 10, tmp_path / "runs")
    monkeypatch.setattr(study, "_code", lambda: "other")
    study._finished_rows(cell, 10, tmp_path / "runs")
    assert len([*(tmp_path / "runs").iterdir()]) == 2
    (tmp_path / "a.py").write_text("1")
    before = code_hash(tmp_path)
    (tmp_path / "a.py").write_text("2")
    assert code_hash(tmp_path) != before
