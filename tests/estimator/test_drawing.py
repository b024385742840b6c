"""Draws of a law in closed form against numerical integrals, and what is said of draws."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from hosm.distributions import GaussianMixture
from hosm.estimator import drawing
from hosm.estimator.closed_form import ClosedFormModel
from hosm.estimator.drawing import differences, metropolis_draws, warn_of_differences
from hosm.estimator.kernel_correction import bumps_at
from hosm.progress import ProgressBar

DOUBLE = torch.float64
CHAINS = 4000


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(n: int, dimension: int, seed: int = 0) -> Tensor:
    return torch.randn(n, dimension, generator=generator(seed), dtype=DOUBLE)


def model(dimension: int, distance: float) -> ClosedFormModel:
    """Two Gaussians, one thin, and kernels that change the density by factors of up to 10."""
    means = torch.zeros(2, dimension, dtype=DOUBLE)
    means[1] = distance
    thin = torch.diag(torch.linspace(0.05, 0.5, dimension, dtype=DOUBLE))
    covariances = torch.stack([torch.eye(dimension, dtype=DOUBLE), thin])
    law = GaussianMixture(torch.tensor([0.3, 0.7], dtype=DOUBLE), means, covariances)
    bumps = bumps_at(law.sample(200, generator()), 0.7, 0.5, most=10)
    weights = 0.6 * normal(bumps.size, 1, seed=1).flatten()
    return ClosedFormModel(law, bumps.with_weights(weights), 0.1)


def moments(x: Tensor) -> Tensor:
    """Statistics of points x, (n, D), shape (n, S): first and second moments, and a mode."""
    products = (x.unsqueeze(2) * x.unsqueeze(1)).flatten(1)
    return torch.cat([x, products, (x.sum(1, keepdim=True) > 1).double()], 1)


def integrals(law: ClosedFormModel) -> Tensor:
    """The same as sums over a grid that covers the law; the steps are a tenth of its scales."""
    axis = torch.linspace(-6, 10, 4001 if law.dimension == 1 else 801, dtype=DOUBLE)
    x = torch.cartesian_prod(*[axis] * law.dimension).view(-1, law.dimension)
    return law.log_density(x).softmax(0) @ moments(x)


def errors(law: ClosedFormModel, draws: Tensor) -> Tensor:
    """Moments of draws less those of a law, in standard errors, shape (S,)."""
    found = moments(draws)
    return (found.mean(0) - integrals(law)) / (found.std(0) / math.sqrt(len(draws)))


def test_a_bar_moves_with_the_transitions_of_all_chains(monkeypatch, capsys):
    monkeypatch.setattr(drawing, "CHAINS", 3)
    law, start = model(1, 1.5), normal(7, 1)
    with ProgressBar(True) as bar:
        draws = metropolis_draws(law, start, 4, generator(3), bar)
    err = capsys.readouterr().err
    assert "chains: 100%" in err and "12/12" in err
    assert torch.equal(draws, metropolis_draws(law, start, 4, generator(3)))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("dimension", [1, 2])
def test_chains_find_the_law(dimension):
    law = model(dimension, 1.5)
    draws = metropolis_draws(law, normal(CHAINS, dimension, seed=2), 100, generator(3))
    assert errors(law, draws).abs().max() < 5


@pytest.mark.parametrize("share", drawing.SHARES)
def test_every_kind_of_proposal_leaves_the_law_as_it_is(share, monkeypatch):
    """Modes that touch, and starts that are draws: what a wrong rule moves, it moves at once."""
    law = model(1, 1.5)
    axis = torch.linspace(-6, 10, 16001, dtype=DOUBLE).unsqueeze(1)
    weights = law.log_density(axis).softmax(0)
    chosen = torch.multinomial(weights, 4 * CHAINS, True, generator=generator(2))
    monkeypatch.setattr(drawing, "SHARES", (share,))
    assert errors(law, metropolis_draws(law, axis[chosen], 40, generator(3))).abs().max() < 5


@pytest.mark.parametrize("dimension", [1, 2])
def test_far_modes_have_their_weights_wherever_chains_start(dimension):
    law = model(dimension, 6.0)
    start = 0.1 * normal(CHAINS, dimension, seed=2)  # all at one mode
    assert errors(law, metropolis_draws(law, start, 100, generator(3))).abs().max() < 5


def test_without_kernels_draws_are_those_of_the_simple_law_and_without_steps_the_starts():
    law = model(2, 6.0)
    alone, start = replace(law, bumps=None), normal(50, 2)
    exact = law.law.sample(50, generator(3))
    assert torch.equal(metropolis_draws(alone, start, 1, generator(3)), exact)
    assert torch.equal(metropolis_draws(law, start, 0, generator(3)), start)


def test_many_chains_are_run_in_parts(monkeypatch):
    law, start = model(2, 1.5), normal(10, 2)
    monkeypatch.setattr(drawing, "CHAINS", 5)
    source = generator(3)
    parts = [metropolis_draws(law, part, 4, source) for part in start.split(5)]
    assert torch.equal(metropolis_draws(law, start, 4, generator(3)), torch.cat(parts))


def test_draws_of_the_rows_law_do_not_differ():
    rows = torch.cat([normal(500, 3), normal(500, 1, seed=1).exp()], 1)
    for seed in range(20):
        draws = torch.cat([normal(1000, 3, seed + 2), normal(1000, 1, seed + 50).exp()], 1)
        assert differences(draws, rows) == {}


def test_noise_is_expected_of_noisy_draws():
    mixing = torch.tensor([[1.0, 0.9], [0.0, 0.3]], dtype=DOUBLE)
    rows, noise = normal(2000, 2) @ mixing, normal(2000, 2, seed=2)
    draws = normal(2000, 2, seed=1) @ mixing + noise
    assert differences(draws, rows, 1.0) == {}
    assert differences(draws, rows) == {"standard deviations": [0, 1], "correlations": [0, 1]}


def test_what_differs_is_found():
    rows, draws = normal(1000, 5), normal(1000, 5, seed=1)
    draws[:, 1] += 0.5
    draws[:, 2] *= 0.5
    draws[:, 4] = draws[:, 3] + 0.5 * draws[:, 4]
    expected = {"means": [1], "standard deviations": [2], "correlations": [3, 4]}
    assert differences(draws, rows) == expected


def test_a_column_that_hardly_ever_varies_is_not_accused():
    rows, draws = normal(1000, 3), normal(1000, 3, seed=1)
    rows[:, 1:] = draws[:, 1:] = 0
    rows[:3, 1] = rows[2:5, 2] = 20.0
    draws[:2, 1] = draws[:2, 2] = 20.0
    assert differences(draws, rows) == {}
    draws[:, 1] = 1 + normal(1000, 1, seed=3)[:, 0]
    assert differences(draws, rows)["means"] == [1]


def test_a_warning_names_the_columns():
    rows, draws = normal(1000, 3), normal(1000, 3, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_differences(draws, rows)
        warn_of_differences(draws[:29] + 100, rows)
    draws[:, 0] += 1
    draws[:, 2] = 3 * draws[:, 2] + 5
    with pytest.warns(UserWarning) as caught:
        warn_of_differences(draws, rows, names=["age", "height", "weight"])
    assert [str(each.message) for each in caught] == [
        "the draws are not like the training rows: they differ in the means of columns 'age', "
        "'weight' and the standard deviations of column 'weight'"
    ]
    with pytest.warns(UserWarning, match=r"of column 2; do this$"):
        warn_of_differences(draws, rows, advice="; do this")


def test_standard_errors_of_correlations_are_those_of_repeated_draws():
    """One in the formula: over 400 tables of correlated, skewed columns."""
    found = []
    for seed in range(400):
        x = normal(300, 2, seed).exp()
        x[:, 1] += x[:, 0]
        z, _ = drawing._standardised(x)
        r = z.mT @ z / len(z)
        found.append((float(r[0, 1]), float(drawing._variance_of_correlations(z, r)[0, 1])))
    r, variance = np.array(found).T
    # a variance over 400 tables, and a bias of 300 heavy-tailed rows: a third
    assert np.sqrt(variance.mean()) == pytest.approx(r.std(), rel=0.33)
