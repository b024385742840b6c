"""The study of digits in miniature, with an untrained network of vectors."""

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
    rows = list(bounds.bound_rows(model, DATA, [2, 3], 2, 10))
    assert len(rows) == 2 * 2 * 5
    assert all(row["bits"] > row["decoder"] > 0 for row in rows)
    assert [row["covariance"] for row in bounds.second_rows(model, DATA)] == [
        row["covariance"] for row in rows[:5]
    ]


def test_scores_are_kept_for_the_same_points_alone():
    model = bounds.Remembered(untrained())
    x = torch.zeros(2, 64)
    first = model(x, 1.0)
    assert model(x.clone(), 1.0)[0] is first[0]
    assert model(x + 1, 1.0)[0] is not first[0]
    assert model.score(x, 2.0) is not model.score(x, 1.0)
