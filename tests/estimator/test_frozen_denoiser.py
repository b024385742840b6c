"""Denoisers of one's own: their scores, and the posterior covariance that is learned on them."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import hosm
from hosm.distributions import GaussianMixture
from hosm.estimator import FrozenDenoiser, Recipe, frozen_model, learn_covariance, spread
from hosm.uncertainty import posterior
from tests.tolerances import FLOAT32

SIGMA = 0.5
LAW = GaussianMixture(
    torch.tensor([0.5, 0.3, 0.2]),
    torch.tensor([[1.5, 0.0, 0.0], [-1.5, 0.5, 0.0], [0.0, -1.0, 1.0]]),
    torch.stack(
        [torch.diag(torch.tensor(v)) for v in ([0.3, 0.2, 0.4], [0.4, 0.4, 0.4], [0.1, 0.5, 0.2])]
    ),
)
SMOOTH = LAW.smoothed(SIGMA)
TRAIN = LAW.sample(4000, torch.Generator().manual_seed(0))
HELD = LAW.sample(400, torch.Generator().manual_seed(1))
NOISY = SMOOTH.sample(500, torch.Generator().manual_seed(2))
TRUTH = SIGMA**4 * SMOOTH.hessian(NOISY) + SIGMA**2 * torch.eye(3)
QUICK = Recipe(training=replace(Recipe().training, max_steps=4))


def mean(x_noisy, sigma):
    """The exact E[x | x_noisy] of the mixture."""
    assert sigma == SIGMA
    return x_noisy + sigma**2 * SMOOTH.score(x_noisy)


def by_values(x_noisy, sigma):
    """The same through NumPy: nothing can differentiate it."""
    return torch.from_numpy(mean(x_noisy.detach(), sigma).numpy().copy())


PREDICTED = {
    "mean": mean,
    "score": lambda x, sigma: SMOOTH.score(x),
    "noise": lambda x, sigma: -sigma * SMOOTH.score(x),
}


@pytest.mark.parametrize("predicts", PREDICTED)
def test_score_is_that_of_the_denoiser_whatever_it_predicts(predicts):
    model = frozen_model(PREDICTED[predicts], (3,), SIGMA, spread(TRAIN), predicts)
    torch.testing.assert_close(model.score(NOISY), SMOOTH.score(NOISY), **FLOAT32)


def of_constant(estimate, truth):
    """The squared error over that of the best constant, which does not look at the point."""
    return float((estimate - truth).square().sum() / (truth - truth.mean(0)).square().sum())


# What 1,000 steps leave: .014, .019, .15 and .014 were seen, with or without vector code.
@pytest.mark.parametrize(
    ("target", "denoiser", "psd", "bound"),
    [
        ("jacobian", mean, True, 0.06),
        ("jacobian", mean, False, 0.06),
        ("residual", by_values, True, 0.25),
        ("likelihood", mean, True, 0.06),
    ],
)
def test_covariance_is_that_of_the_posterior(target, denoiser, psd, bound):
    longer = replace(Recipe().training, max_steps=1000, batch_size=128, learning_rate=4e-3)
    recipe = Recipe(training=longer)
    options = {"rank": 3, "target": target, "psd": psd, "recipe": recipe}
    model = learn_covariance(denoiser, TRAIN, HELD, SIGMA, **options)
    law = posterior(model, NOISY, SIGMA)
    torch.testing.assert_close(law.mean, mean(NOISY, SIGMA), **FLOAT32)
    assert of_constant(law.covariance.to_dense(), TRUTH) < bound


def test_variances_alone_are_learned_at_rank_0():
    longer = replace(Recipe().training, max_steps=1000, batch_size=128, learning_rate=4e-3)
    recipe = Recipe(training=longer)
    model = learn_covariance(mean, TRAIN, HELD, SIGMA, rank=0, recipe=recipe)
    truth = TRUTH.diagonal(dim1=1, dim2=2)
    error = of_constant(posterior(model, NOISY, SIGMA).variance, truth)
    assert error < 0.06  # training: .028 was seen


def test_the_denoiser_is_held_and_not_owned():
    network = nn.Linear(3, 3)
    before = copy.deepcopy(network.state_dict())
    seen = []

    def denoiser(x_noisy, sigma):
        seen.append(sigma)
        return network(x_noisy)

    model = learn_covariance(denoiser, TRAIN, HELD, SIGMA, rank=1, recipe=QUICK)
    assert set(seen) == {SIGMA}
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(weight.requires_grad and weight.grad is None for weight in network.parameters())
    trunk = model.trunk
    assert copy.deepcopy(model).trunk is trunk and not [*trunk.parameters()]
    held = FrozenDenoiser(network, (3,), SIGMA, 1.0)
    assert not [*held.parameters()] and not held.state_dict()


def test_points_of_any_shape_are_flat_for_the_model_and_whole_for_the_denoiser():
    images = torch.rand(40, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    shapes = []

    def denoiser(x_noisy, sigma):
        shapes.append(tuple(x_noisy.shape[1:]))
        return x_noisy / (1 + sigma**2)

    head = nn.Linear(16, 3 * 16)
    options = {"rank": 2, "head": head, "recipe": QUICK}
    model = learn_covariance(denoiser, images[:30], images[30:], SIGMA, **options)
    law = posterior(model, images.flatten(1), SIGMA)
    torch.testing.assert_close(law.mean, images.flatten(1) / (1 + SIGMA**2))
    assert set(shapes) == {(1, 4, 4)} and law.covariance.factor.shape[1:] == (16, 2)


def test_bad_denoisers_and_points_are_named():
    with pytest.raises(ValueError, match="predicts must be one of mean, score, noise, got 'x'"):
        frozen_model(mean, (3,), SIGMA, 1.0, "x")
    with pytest.raises(ValueError, match="sigma must be a finite number above 0, got 0"):
        frozen_model(mean, (3,), 0, 1.0)
    model = frozen_model(lambda x, sigma: x[:, :2], (3,), SIGMA, 1.0)
    with pytest.raises(ValueError, match=r"denoiser returns must have shape .*got \(500, 2\)"):
        model.score(NOISY)
    with pytest.raises(ValueError, match="standard deviation of x must be above 0"):
        learn_covariance(mean, torch.ones(9, 3), HELD, SIGMA, rank=1)
    with pytest.raises(ValueError, match=r"held must have shape \(m, 3\).*got \(400, 2\)"):
        learn_covariance(mean, TRAIN, HELD[:, :2], SIGMA, rank=1)
    with pytest.raises(ValueError, match="must have psd=True for the target `likelihood`"):
        learn_covariance(mean, TRAIN, HELD, SIGMA, rank=1, target="likelihood", psd=False)


def test_an_estimator_takes_a_denoiser_in_place_of_its_own_score(tmp_path):
    options = {"standardise": False, "max_steps": 600, "random_state": 0}
    estimator = hosm.ScoreEstimator(SIGMA, denoiser=mean, **options).fit(TRAIN)
    noisy = NOISY.numpy()
    expected = SMOOTH.score(NOISY).numpy()
    np.testing.assert_allclose(estimator.score_function(noisy), expected, **FLOAT32)
    law = estimator.posterior(noisy)
    np.testing.assert_allclose(law.mean, mean(NOISY, SIGMA).numpy(), **FLOAT32)
    truth = TRUTH.diagonal(dim1=1, dim2=2)
    assert of_constant(torch.from_numpy(law.variance), truth) < 0.1  # training: .036 was seen
    assert np.all(estimator.noise_std_ == SIGMA) and estimator.history_["s1"] == []
    assert law.variance.dtype == np.float32
    estimator.save(tmp_path / "a")
    with pytest.raises(ValueError, match="must be loaded with denoiser, got no module"):
        hosm.ScoreEstimator.load(tmp_path / "a")
    back = hosm.ScoreEstimator.load(tmp_path / "a", denoiser=mean)
    np.testing.assert_array_equal(back.posterior(noisy).variance, law.variance)
    with pytest.raises(ValueError, match="backbone must be None with a denoiser"):
        hosm.ScoreEstimator(SIGMA, denoiser=mean, backbone=nn.Linear(3, 3), **options).fit(TRAIN)
