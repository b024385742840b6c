"""Figure 2: sets of points in the plane, their exact posteriors, and the study of a model."""

import math
from dataclasses import replace

import pytest
import torch

from hosm.distributions import FiniteData
from hosm.experiment.data.datasets import prepare
from hosm.experiment.data.planar import PLANAR
from hosm.experiment.denoising import study as denoising
from hosm.experiment.settings import DenoisingParams
from tests.tolerances import monte_carlo

MODEL = {
    "backbone": {"kind": "mlp", "width": 32, "frequencies": 16, "shared": True},
    "rank": 1,
    "parametrisation": "denoiser",
    "psd": True,
    "gamma": 44.4,
    "regime": "finite",
    "learning_rate": 4e-3,
    "batch_size": 64,
    "average_width": 0.1,
    "max_steps": 60,
    "validate_every": 60,
}


def params(**changes):
    sizes = {"datasets": ["moons"], "sigma": 0.15, "train_points": 300, "test_points": 200}
    return DenoisingParams(**{**sizes, "seed": 0, "model": MODEL, **changes})


def draw(name, n=20_000):
    return PLANAR[name](n, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", PLANAR)
def test_points_of_the_plane_are_prepared_with_a_card(name):
    data = prepare(name, train_points=50, validation_points=9, test_points=8, seed=0)
    assert data.train.shape == (50, 2) and data.labels is None
    assert data.card["reconstruction"] and data.card["source"] == "hosm.experiment.data.planar"
    assert "without exact scores" in data.card["description"]


def test_the_checkerboard_fills_every_second_square_alike():
    x = draw("checkerboard")
    assert -4 <= x.min() and x.max() <= 4
    square = torch.floor((x + 4) / 2)
    assert bool(((square.sum(1) % 2) == 0).all())
    counts = torch.bincount((4 * square[:, 0] + square[:, 1]).long(), minlength=16)
    assert (counts > 0).sum() == 8
    assert (counts[counts > 0] - 2500).abs().max() < 5 * math.sqrt(2500)


def test_rings_moons_and_gaussians_lie_where_their_definitions_say():
    radius = draw("rings").norm(dim=1)
    nearest = (radius / 0.75).round().clamp(1, 4)
    # the noise along a ring adds less than 1 % to the spread of the radius
    spread = float((radius - 0.75 * nearest).std())
    assert spread == pytest.approx(0.08, rel=monte_carlo(2 * 20_000) + 0.01)
    assert torch.bincount(nearest.long())[1:].min() > 4500
    moons = draw("moons") + torch.tensor([1.0, 0.2])
    arcs = torch.stack([moons.norm(dim=1), (moons - torch.tensor([2.0, 1.0])).norm(dim=1)], 1)
    assert float((arcs - 2).abs().min(1).values.mean()) < 0.2
    eight = draw("eight-gaussians").norm(dim=1)
    expected = math.sqrt(8) + 0.125 / (2 * math.sqrt(8))  # of noise along the circle
    assert float(eight.mean()) == pytest.approx(expected, abs=monte_carlo(20_000, 0.125**0.5))


def test_the_exact_posterior_has_the_moments_of_its_draws():
    data = FiniteData(draw("moons", 400).double())
    x_noisy = (data.points[:3] + 0.15).repeat_interleave(4000, 0)
    law, draws = denoising.exact_posterior(data, x_noisy, 0.15)
    for i in range(3):
        part = slice(4000 * i, 4000 * (i + 1))
        offset = draws[part] - law.mean[part]
        assert (offset.mean(0).abs() < monte_carlo(4000) * law.variance[part][0].sqrt()).all()
        products = offset.unsqueeze(2) * offset.unsqueeze(1)
        error = (products.mean(0) - law.covariance.to_dense()[part][0]).abs()
        assert (error < monte_carlo(4000) * products.std(0)).all()


def test_a_study_measures_the_model_against_the_exact_posterior():
    row, arrays = denoising.study("moons", params())
    assert row["dataset"] == "moons" and row["points"] == 200
    assert 0 < row["covariance_error"] < 1 and 0 < row["mean_error"] < 1
    assert all(0 <= row[f"coverage_{level:g}"] <= 1 for level in denoising.LEVELS)
    assert abs(row["exact_coverage_0.8"] - 0.8) < 0.15
    assert row["clipped_share"] == 0
    names = ("clean x", "noisy x~", "mean m", "draws of N(m, C)", "exact posterior")
    assert set(arrays) == set(names)
    assert all(points.shape == (200, 2) for points in arrays.values())
    step = (arrays["noisy x~"] - arrays["clean x"]).std()
    assert float(step) == pytest.approx(0.15, rel=monte_carlo(2 * 400))


def test_a_model_that_is_exact_has_no_error():
    data = FiniteData(draw("rings", 300).double())
    x_noisy = data.sample(50, torch.Generator().manual_seed(0)) + 0.1
    law, _ = denoising.exact_posterior(data, x_noisy, 0.15)
    errors = denoising._relative_errors(law, law, 0.15)
    assert all(float(value.max()) == 0 for value in errors.values())
    other = denoising._relative_errors(law.scaled(1.2), law, 0.15)
    torch.testing.assert_close(other["covariance_error"], torch.full((50,), 0.2).double())


def test_a_row_tells_the_learned_law_from_the_exact_one():
    """A law that is shifted by sigma / 2 and too narrow, beside one that is right."""
    data = FiniteData(draw("eight-gaussians", 2000).double())
    x, sigma = data.sample(500, torch.Generator().manual_seed(0)), 0.15
    x_noisy = x + sigma * torch.randn(x.shape, generator=torch.Generator().manual_seed(1)).double()
    exact, _ = denoising.exact_posterior(data, x_noisy, sigma)
    shift = torch.tensor([sigma / 2, 0.0], dtype=torch.float64)
    wrong = replace(exact.scaled(0.25), mean=exact.mean + shift)
    row = denoising._row("eight-gaussians", wrong, exact, x.float(), sigma)
    assert row["mean_error"] == pytest.approx(0.5)
    assert row["covariance_error"] == pytest.approx(0.75)
    assert row["exact_coverage_0.8"] == pytest.approx(0.8, abs=monte_carlo(500, 0.4))
    assert row["coverage_0.8"] < 0.5


def test_points_of_no_plane_are_named():
    with pytest.raises(ValueError, match="among moons, checkerboard, rings.*, got 'ring6'"):
        denoising.study("ring6", params())
