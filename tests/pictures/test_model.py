"""The model of a picture given a noisy one: homogeneous, positive, and blind beyond its reach."""

import pytest
import torch

from hosm.pictures.covariance import window_covariance
from hosm.pictures.model import LEAST_RELATIVE_VARIANCE, PictureModel
from hosm.pictures.objective import (
    WINDOW,
    PictureObjective,
    pixel_likelihood,
    window_likelihood,
    windows,
)
from hosm.training import Settings
from tests.tolerances import FLOAT32

SIGMA = (0.01, 0.2)


def model(channels=1, **options):
    torch.manual_seed(0)
    made = PictureModel(channels, sigma=SIGMA, widths=(8, 16), blocks=1, rank=3, **options)
    for parameter in made.parameters():  # the layers that begin at zero would hide mistakes
        parameter.data += 0.1 * torch.randn_like(parameter)
    return made


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("factor", [1e-3, 255.0])
def test_mean_and_deviations_are_in_the_units_of_the_picture(channels, factor):
    made = model(channels).double()
    y, sigma = torch.rand(2, channels, 16, 24).double(), torch.tensor([0.05, 0.1]).double()
    one, other = made(y, sigma), made(factor * y, factor * sigma)
    assert torch.allclose(factor * one.mean, other.mean)
    assert torch.allclose(factor**2 * one.own, other.own)
    assert torch.allclose(factor * one.shared, other.shared)


def test_a_map_of_one_noise_scale_is_that_scale():
    made, y = model(3), torch.rand(2, 3, 16, 16)
    sigma = torch.tensor([0.05, 0.1])
    maps = sigma.view(2, 1, 1, 1).expand(2, 1, 16, 16)
    for one, other in zip(made(y, sigma), made(y, maps), strict=True):
        assert torch.allclose(one, other, **FLOAT32)
    assert torch.equal(made.mean(y, sigma), made(y, sigma).mean)


def test_variances_are_positive_and_those_of_the_columns_and_the_rest():
    found = model(3)(torch.rand(2, 3, 16, 16), torch.tensor([0.01, 0.2]))
    assert (found.own > 0).all()
    assert torch.allclose(found.variance, found.own + found.shared.square().sum(1))
    assert found.shared.shape == (2, 3, 3, 16, 16)


def test_columns_share_the_variance_of_a_pixel_and_do_not_add_to_it():
    made = model(3).double()
    y, sigma = torch.rand(2, 3, 16, 16).double(), torch.tensor([0.05, 0.1]).double()
    before = made(y, sigma)
    last, alone = made.covariance.layers[-1], 3 * 2**2  # outputs that give the variances
    for parameter in (last.weight, last.bias):
        parameter.data[alone:] *= 3
    after = made(y, sigma)
    assert torch.allclose(before.variance, after.variance)
    w_before, w_after = (  # |w|^2 is what is shared over what is not, but for the least variance
        each.shared.square().sum(1) / (each.own - LEAST_RELATIVE_VARIANCE * s**2)
        for each, s in zip((before, after), 2 * [sigma.view(2, 1, 1, 1)], strict=True)
    )
    # some variances are so small that the least one leaves few digits of them
    assert torch.allclose(9 * w_before, w_after, rtol=1e-2)


def test_a_pixel_beyond_the_reach_changes_nothing():
    made = model().double()
    y, sigma = torch.rand(1, 1, 8, 160).double(), torch.tensor([0.1]).double()
    changed = y.clone()
    changed[..., 0] += 1
    before, after = made(y, sigma), made(changed, sigma)
    reached = [
        (one != other).flatten(0, -2).any(0).nonzero().max().item()
        for one, other in zip(before, after, strict=True)
    ]
    assert 8 <= max(reached) <= made.reach
    assert made.reach < 100


def test_what_a_picture_must_be():
    made = model()
    with pytest.raises(ValueError, match="sides divisible by 4"):
        made(torch.rand(1, 1, 10, 8), torch.tensor([0.1]))
    with pytest.raises(ValueError, match="sigma must have shape"):
        made(torch.rand(2, 1, 8, 8), torch.tensor([0.1]))
    with pytest.raises(ValueError, match="rank must be"):
        PictureModel(1, sigma=SIGMA, rank=-1)


# The objective --------------------------------------------------------------------------------


def test_windows_are_squares_of_the_picture():
    maps = torch.arange(2 * 3 * 2 * 4 * 6).view(2, 3, 2, 4, 6)
    found = windows(maps, 2)
    assert found.shape == (2 * 6, 3, 2, 2, 2)
    assert torch.equal(found[4], maps[0, :, :, 2:4, 2:4])


@pytest.mark.parametrize("rank", [0, 2])
def test_the_likelihood_of_windows_is_that_of_dense_gaussians(rank):
    error = torch.randn(2, 3, 4, 4).double()
    own, shared = 0.1 + torch.rand_like(error), torch.randn(2, rank, 3, 4, 4).double()
    found = window_likelihood(error, own, shared, 2)
    wanted = []
    parts = (windows(maps, 2) for maps in (error[:, None], own[:, None], shared))
    for e, d, b in zip(*parts, strict=True):
        matrix = window_covariance(d[0], b).to_dense()
        law = torch.distributions.MultivariateNormal(torch.zeros(12).double(), matrix)
        constant = 12 * torch.log(torch.tensor(2 * torch.pi).double()) / 2
        wanted.append(-(law.log_prob(e[0].flatten()) + constant) / 12)
    assert torch.allclose(found, torch.stack(wanted))


def test_the_likelihood_of_pixels_is_that_of_normal_laws():
    error, variance = torch.randn(2, 3).double(), 0.1 + torch.rand(2, 3).double()
    law = torch.distributions.Normal(0, variance.sqrt())
    constant = torch.log(torch.tensor(2 * torch.pi).double()) / 2
    found = pixel_likelihood(error, variance)
    assert torch.allclose(found, -(law.log_prob(error) + constant))


def test_the_score_of_crops_is_that_of_pixels_and_of_the_windows_of_a_quarter_of_them():
    error, own = torch.randn(8, 1, 32, 32).double(), 0.1 + torch.rand(8, 1, 32, 32).double()
    shared = torch.randn(8, 3, 1, 32, 32).double()
    objective = PictureObjective(model(), Settings(sigma=SIGMA, target="likelihood"))
    alone = pixel_likelihood(error, own + shared.square().sum(1)).mean()
    together = window_likelihood(error[:2], own[:2], shared[:2], WINDOW).mean()
    assert torch.isclose(objective.likelihood(error, own, shared), alone + together)


def test_the_likelihood_does_not_train_the_mean():
    made = model()
    objective = PictureObjective(made, Settings(sigma=SIGMA, target="likelihood"))
    x = torch.rand(4, 256)
    dsm, likelihood = objective(x, torch.randn_like(x), x, torch.rand(4))
    likelihood.backward(retain_graph=True)
    assert not any(p.grad.any() for p in made.trunk.parameters())
    assert all(p.grad.any() for p in made.covariance.parameters())
    dsm.backward()
    assert all(p.grad.any() for p in made.trunk.parameters())


def test_the_first_term_is_the_squared_error_over_that_of_the_noise():
    made = PictureModel(1, sigma=SIGMA, widths=(8,), blocks=1)  # untrained: the mean is y
    objective = PictureObjective(made, Settings(sigma=SIGMA, target="likelihood"))
    x, z = torch.rand(4, 256), torch.randn(4, 256)
    found = objective(x, z, x, torch.rand(4))[0]
    # z is recovered from x + sigma z, with sigma down to .01: a hundred roundings of x
    assert torch.isclose(found, z.square().mean(), rtol=1e-4)
    with pytest.raises(ValueError, match="sigma must be the model's"):
        PictureObjective(made, Settings(sigma=0.1))
