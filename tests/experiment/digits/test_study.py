"""The studies of digits in miniature: known distances, untrained networks, resuming."""

import argparse

import numpy as np
import pandas as pd
import pytest
import torch

from hosm.experiment.data.datasets import prepare
from hosm.experiment.digits.pictures import draws_figure, problems_figure
from hosm.experiment.digits.study import draws, model, problems
from hosm.experiment.digits.study.distances import precision_and_coverage
from hosm.experiment.diversity.study.classifier import Classifier
from hosm.experiment.train.models import load_model
from hosm.inverse import PosteriorSamples
from hosm.networks import ConditionalMLP
from hosm.scores import ScoreModel
from tests.experiment.digits.test_bounds import DATA, untrained

D = problems.SIDE**2


def test_precision_and_coverage_of_draws_whose_places_are_known():
    """Balls of 0, 1 and 10 on a line reach to their nearest neighbour: radii 1, 1 and 9."""
    real = torch.tensor([[0.0], [1.0], [10.0]])
    assert precision_and_coverage(real, real, 1) == (1.0, 1.0)
    found = precision_and_coverage(torch.tensor([[0.5], [30.0], [40.0], [0.4]]), real, 1)
    assert found == (0.5, pytest.approx(2 / 3))


def test_a_row_for_each_sampler_and_finished_ones_are_not_measured_again(tmp_path):
    torch.manual_seed(0)
    classifier = Classifier((1, 8, 8), 10, 4).eval()
    options = argparse.Namespace(steps=[2], seeds=1, images=12)
    draws._measure(untrained(), classifier, DATA, options, tmp_path)
    first = pd.read_csv(tmp_path / "draws.csv")
    assert len(first) == 1 + 5 + 2 and first["frechet"].gt(0).all()
    assert first["sampler"][0] == draws.REAL
    options.steps = [2, 3]
    draws._measure(
        None, classifier, DATA, argparse.Namespace(**{**vars(options), "steps": [2]}), tmp_path
    )
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "draws.csv"), first)
    kept = dict(np.load(tmp_path / "draws.npz"))
    assert kept["2/DDIM"].shape == (draws.SHOWN, 64)
    assert len(draws_figure(kept).axes) == 7


def test_all_samplers_start_at_the_same_noise():
    """In one step to sigma = 0 every one of them returns the mean of the same point."""
    found = dict(draws.drawn(untrained(), DATA, 1, 0, 5))
    for x in found.values():
        torch.testing.assert_close(x, found["DDIM"], rtol=0, atol=0)


def test_intervals_of_a_right_posterior_hold_atoms_as_often_as_they_state():
    """Of pixels that are 0 with probability 1/2 and else normal; without noise 95 % would."""
    generator = torch.Generator().manual_seed(0)

    def pixels(n):
        shape = (n, 20, D)
        zero = torch.rand(shape, generator=generator) < 0.5
        return torch.randn(shape, generator=generator).masked_fill(zero, 0.0)

    found = PosteriorSamples(pixels(40), 25, 0)
    row = problems.judged(found, pixels(1)[0], torch.ones(D, dtype=torch.bool))
    for level in problems.LEVELS:
        # 15,680 pixels: three standard errors
        assert row[f"coverage_{level:g}"] == pytest.approx(level, abs=0.012)


def test_the_error_is_that_of_the_mean_at_pixels_that_vary():
    truth = torch.zeros(2, D)
    shifted = torch.full((40, 2, D), 0.5)
    shifted[..., :10] = 9.0
    varying = torch.ones(D, dtype=torch.bool)
    varying[:10] = False
    row = problems.judged(PosteriorSamples(shifted, 1, 0), truth, varying)
    assert row["error"] == pytest.approx(0.5) and row["coverage_0.95"] == 0


def test_every_method_on_every_measurement_of_digits(tmp_path):
    torch.manual_seed(0)
    network = ConditionalMLP(D, 4, 8)
    options = {"parametrisation": "denoiser", "psd": True, "data_std": 0.3}
    small = ScoreModel(network, sigma=(0.05, 5.0), rank=2, **options).requires_grad_(False)
    data = prepare("mnist5k", train_points=60, validation_points=20, test_points=20, seed=0)
    methods = list(problems.METHODS)
    sizes = argparse.Namespace(steps=2, draws=39, measurements=1, tuning=1, methods=methods)
    problems._measure(small, data, sizes, tmp_path)
    found = pd.read_csv(tmp_path / "methods.csv")
    assert len(found) == 4 * 6 and (found["evaluations"] == 2).all()
    assert (found["products"] == 0).equals(found["method"].isin(["covariance", "diagonal"]))
    kept = dict(np.load(tmp_path / "pictures.npz"))
    assert kept["Gaussian blur/dps"].shape == (2 + problems.SHOWN, D)
    assert len(problems_figure(kept).axes) == 28


def test_a_training_goes_on_and_ends_with_a_model(tmp_path, monkeypatch):
    data = prepare("mnist5k", train_points=20, validation_points=4, test_points=4, seed=0)
    folder = tmp_path / "model"
    monkeypatch.setattr(model, "VALIDATED", 1)

    def stopped(state, path, save=model.save_checkpoint):
        save(state, path)
        if state["step"] == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(model, "save_checkpoint", stopped)
        with pytest.raises(KeyboardInterrupt):
            model.train(data, folder, steps=2)
    model.train(data, folder, steps=2)
    assert load_model(folder)[1]["best_step"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
