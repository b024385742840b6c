"""The study of digits in miniature, with an untrained network of vectors."""

import pandas as pd
import torch

from hosm.experiment.data.datasets import prepare
from hosm.experiment.digits.study import bounds
from hosm.networks import ConditionalMLP
from hosm.scores import ScoreModel

DATA = prepare("digits8", train_points=100, validation_points=20, test_points=20, seed=0)


def untrained():
    torch.manual_seed(0)
    network = ConditionalMLP(64, 4, 16)
    options = {"parametrisation": "denoiser", "psd": True, "data_std": 0.4}
    return ScoreModel(network, sigma=(0.05, 5.0), rank=2, **options).requires_grad_(False)


def test_bounds_and_seconds_have_a_row_for_each_covariance():
    model = untrained()
    found = list(bounds.bound_rows(model, DATA, [(2, 0), (2, 1), (3, 0)], 10))
    assert [(rows[0]["steps"], rows[0]["seed"]) for rows in found] == [(2, 0), (2, 1), (3, 0)]
    rows = sum(found, [])
    assert len(rows) == 3 * 5
    assert all(row["bits"] > row["decoder"] > 0 for row in rows)
    seconds = bounds.second_rows(model, DATA)
    assert [row["covariance"] for row in seconds] == [row["covariance"] for row in rows[:5]]
    assert seconds[0]["ratio"] == 1 and all(row["seconds"] > 0 for row in seconds)


def test_finished_bounds_are_not_measured_again(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "digits", lambda: DATA)
    monkeypatch.setattr(bounds, "learned", lambda folder, data: untrained())
    command = ["bounds", "model", str(tmp_path), "--seeds", "1", "--points", "5", "--steps"]
    monkeypatch.setattr("sys.argv", [*command, "2"])
    bounds.main()
    kept = [pd.read_csv(tmp_path / name) for name in ("bounds.csv", "seconds.csv")]
    monkeypatch.setattr("sys.argv", [*command, "2", "3"])
    places = []
    measure = bounds.bound_rows
    monkeypatch.setattr(
        bounds, "bound_rows", lambda m, d, at, n: places.extend(at) or measure(m, d, at, n)
    )
    bounds.main()
    assert places == [(3, 0)]
    after = pd.read_csv(tmp_path / "bounds.csv")
    assert after["steps"].tolist() == [2] * 5 + [3] * 5
    pd.testing.assert_frame_equal(after[:5], kept[0])
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "seconds.csv"), kept[1])


def test_scores_are_kept_for_the_same_points_alone():
    model = bounds.Remembered(untrained())
    x = torch.zeros(2, 64)
    first = model(x, 1.0)
    assert model(x.clone(), 1.0)[0] is first[0]
    assert model(x + 1, 1.0)[0] is not first[0]
    assert model.score(x, 2.0) is not model.score(x, 1.0)
