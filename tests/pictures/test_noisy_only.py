"""Learning from noisy pictures alone, judged by pictures of a known Gaussian law."""

import numpy as np
import pytest
import torch
from torch import nn

from hosm.pictures import PictureDenoiser
from hosm.pictures.covariance import window_covariance
from hosm.pictures.noisy_only import NoisyOnlyObjective, means_of_pairs, range_above
from hosm.pictures.objective import PictureObjective, window_likelihood
from hosm.training import Settings
from tests.tolerances import FLOAT32

SIDE, NOISE = 16, 0.5
SMALL = {"widths": (16,), "blocks": 1, "rank": 2, "crop": 32, "batch_size": 8}


def spectrum(height=SIDE, width=SIDE, length=3.0):
    """Power of each frequency of a smooth periodic Gaussian field of variance 1."""
    down, across = np.meshgrid(np.fft.fftfreq(height), np.fft.fftfreq(width), indexing="ij")
    power = np.exp(-2 * (np.pi * length) ** 2 * (down**2 + across**2))
    return power / power.mean()


def fields(rng, count, power):
    """Draws of the field, shape (count, height, width)."""
    white = rng.standard_normal((count, *power.shape))
    return np.fft.ifft2(np.sqrt(power) * np.fft.fft2(white)).real


def posterior_covariance(t):
    """The exact covariance of a field given it with noise of scale t, shape (D, D)."""
    power = spectrum()
    row = np.fft.ifft2(power * t**2 / (power + t**2)).real
    at = np.arange(SIDE)
    apart = (at[:, None] - at) % SIDE
    return row[apart[:, None, :, None], apart[None, :, None, :]].reshape(SIDE**2, SIDE**2)


class Exact(nn.Module):
    """The posterior of the field: Wiener's filter times `factor`, variances times `wide`."""

    channels = 1

    def __init__(self, t, factor=1.0, wide=1.0):
        super().__init__()
        self.sigma, self.factor = (t * (1 - 1e-6), t), factor
        power = torch.from_numpy(spectrum())
        self.filter = power / (power + t**2)
        self.own = wide * self.filter.mean()  # C_ii / t^2

    def trunk(self, y, sigma):
        mean = torch.fft.ifft2(self.filter * torch.fft.fft2(y)).real
        return y - self.factor * mean, y

    def relative(self, noise, features, scale):
        return self.own.expand(noise.shape), noise.new_zeros(len(noise), 0, *noise.shape[1:])


def terms(t, noisy, **options):
    """Both terms of 40 batches of 100 fields, shape (40, 2), of noisy ones or of clean ones."""
    model, rng = Exact(t, **options), np.random.default_rng(0)
    clean = torch.from_numpy(fields(rng, 4000, spectrum()))
    seen = clean + NOISE * torch.from_numpy(rng.standard_normal(clean.shape))
    w = torch.from_numpy(rng.standard_normal((4000, SIDE**2)))
    settings = Settings(sigma=model.sigma)
    if noisy:
        points, objective = seen, NoisyOnlyObjective(model, settings, NOISE)
    else:
        points, objective = clean, PictureObjective(model, settings)
    pairs = zip(points.flatten(1).split(100), w.split(100), strict=True)
    ones = torch.ones(100).double()
    return torch.stack([objective(x, z, x, ones) for x, z in pairs])


def standard_error(values):
    return values.std(0) / len(values) ** 0.5


# The objective --------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [0.4, 1.0, 2.0])
def test_the_two_noises_are_independent_and_as_strong_as_stated(a):
    t = NOISE * (1 + a * a) ** 0.5
    objective = NoisyOnlyObjective(Exact(t), Settings(sigma=Exact(t).sigma), NOISE)
    torch.manual_seed(0)
    n, w = torch.randn(2, 40, 1, 100, 100).double()
    one, other, variance = objective.pair(NOISE * n, w, torch.full((40, 1, 1, 1), t).double())
    count = n.numel()
    assert torch.allclose(variance, torch.tensor(a**-2).double())
    for noise, wanted in ((one, t**2), (other, t**2 / a**2)):
        assert abs(noise.square().mean() / wanted - 1) < 4 * (2 / count) ** 0.5
    correlation = (one * other).mean() / (t * t / a)
    assert abs(correlation) < 4 / count**0.5


@pytest.mark.parametrize("factor", [1.0, 0.8])
def test_the_first_term_is_unbiased_for_that_of_clean_pictures(factor):
    t = 2**0.5 * NOISE
    found, clean = (terms(t, noisy, factor=factor)[:, 0] for noisy in (True, False))
    difference = 2 * found - clean  # a = 1: divided by 1 + 1 / a^2 = 2
    assert abs(difference.mean()) < 4 * standard_error(difference)
    assert standard_error(difference) < 0.05 * clean.mean()


def test_the_first_term_at_wieners_filter_is_its_error_and_the_least():
    t = 1.2 * NOISE
    wanted = np.trace(posterior_covariance(t)) / SIDE**2 / t**2
    weight = 1 / (1 + NOISE**2 / (t**2 - NOISE**2))
    best, low, high = (terms(t, True, factor=factor)[:, 0] for factor in (1.0, 0.9, 1.1))
    assert abs(best.mean() - weight * wanted) < 4 * standard_error(best)
    for worse in (low, high):
        assert (worse - best).mean() > 4 * standard_error(worse - best)


def test_the_likelihood_is_least_at_the_covariance_of_the_clean_picture():
    t = 2**0.5 * NOISE
    best, narrow, wide = (terms(t, True, wide=wide)[:, 1] for wide in (1.0, 0.7, 1.4))
    for worse in (narrow, wide):
        assert (worse - best).mean() > 4 * standard_error(worse - best)


def test_what_the_target_misses_has_the_covariance_with_noise_on_the_diagonal():
    t = 2**0.5 * NOISE
    rng = np.random.default_rng(1)
    clean = torch.from_numpy(fields(rng, 8_000, spectrum())).unsqueeze(1)
    n, w = torch.from_numpy(rng.standard_normal((2, *clean.shape)))
    objective = NoisyOnlyObjective(Exact(t), Settings(sigma=Exact(t).sigma), NOISE)
    y1, y2, _ = objective.pair(clean + NOISE * n, w, torch.full((len(clean), 1, 1, 1), t).double())
    missed = (y2 - y1 + Exact(t).trunk(y1, t)[0]).flatten(1)
    wanted = posterior_covariance(t) + t**2 * np.eye(SIDE**2)
    found = (missed.T @ missed / len(missed)).numpy()
    error = np.sqrt((np.outer(wanted.diagonal(), wanted.diagonal()) + wanted**2) / len(missed))
    # the mean of thousands of squares of standard normal numbers that depend on each other
    assert np.square((found - wanted) / error).mean() == pytest.approx(1, abs=0.1)


def test_the_likelihood_with_noise_is_that_of_a_dense_gaussian():
    torch.manual_seed(0)
    objective = NoisyOnlyObjective(Exact(1.0), Settings(sigma=Exact(1.0).sigma), NOISE)
    error, own = torch.randn(3, 1, 4, 4).double(), 0.1 + torch.rand(3, 1, 4, 4).double()
    shared, scale = torch.randn(3, 2, 1, 4, 4).double(), torch.tensor([0.6, 0.8, 1]).double()
    variance = objective.pair(error, error, scale.view(3, 1, 1, 1))[2]
    found = window_likelihood(error, own + variance, shared, 4)
    for e, d, b, t, score in zip(error, own, shared, scale, found, strict=True):
        dense = window_covariance(d, b).to_dense() + torch.eye(16) * NOISE**2 / (t**2 - NOISE**2)
        law = torch.distributions.MultivariateNormal(torch.zeros(16).double(), dense)
        constant = 16 * torch.log(torch.tensor(2 * torch.pi).double()) / 2
        assert torch.isclose(score, -(law.log_prob(e.flatten()) + constant) / 16)


def test_noise_must_lie_below_the_scales_that_are_learned():
    with pytest.raises(ValueError, match="sigma must be above the noise 0.5 of the pictures"):
        NoisyOnlyObjective(Exact(NOISE), Settings(sigma=Exact(NOISE).sigma), NOISE)
    assert range_above(2.0)[0] > 2
    with pytest.raises(ValueError, match="sigma must be a finite number above 0, got -1"):
        range_above(-1)


# The front door -------------------------------------------------------------------------------


def seen_fields(count, seed, side=64):
    rng = np.random.default_rng(seed)
    clean = 10 * fields(rng, count, spectrum(side, side))
    return clean, *(clean + 10 * NOISE * rng.standard_normal(clean.shape) for _ in range(2))


@pytest.fixture(scope="module", params=[False, True], ids=["single", "pairs"])
def fitted(request):
    """A denoiser that has seen noisy fields alone."""
    _, one, other = seen_fields(20, 0)
    made = PictureDenoiser(max_steps=200, learning_rate=1e-2, **SMALL)
    return made.fit(list(one), noise=10 * NOISE, pairs=list(other) if request.param else None)


def test_it_comes_near_the_exact_posterior_and_knows_its_error(fitted):
    clean, noisy, _ = seen_fields(4, 1)
    found = [fitted.denoise(each, 10 * NOISE) for each in noisy]
    power = spectrum(64, 64)
    exact = 100 * (power * NOISE**2 / (power + NOISE**2)).mean()
    error = np.mean([np.square(f.mean - x).mean() for f, x in zip(found, clean, strict=True)])
    predicted = np.mean([f.variance.mean() for f in found])
    assert error < 2 * exact < 0.2 * np.square(noisy - clean).mean()
    assert 0.6 < error / predicted < 1.6


def test_a_saved_model_remembers_the_noise(fitted, tmp_path):
    fitted.save(tmp_path / "m.hosm")
    again = PictureDenoiser.load(tmp_path / "m.hosm")
    assert (again.noise_, again.pairs_) == (10 * NOISE, fitted.pairs_)
    assert again.sigma_ == fitted.sigma_


def test_the_units_of_noisy_pictures_do_not_matter():
    _, one, _ = seen_fields(3, 0)
    first, second = (
        PictureDenoiser(max_steps=3, **SMALL).fit(list(f * one), noise=f * 5) for f in (1, 100)
    )
    found = [made.denoise(one[0], 5).mean for made in (first, second)]
    assert np.allclose(*found, **FLOAT32)
    assert np.allclose(np.multiply(100, first.sigma_), second.sigma_)


def test_a_pair_is_learned_from_by_its_mean():
    a, b = np.full((2, 3), 200, np.uint8), np.full((2, 3), 255, np.uint8)
    (found,) = means_of_pairs([a], [b])
    assert found.dtype == np.float32 and (found == 227.5).all()
    with pytest.raises(ValueError, match="pairs must hold 1 pictures, got 2"):
        means_of_pairs([a], [a, a])
    with pytest.raises(ValueError, match="pairs must have the shapes of the pictures"):
        means_of_pairs([a], [b.T])


def test_noise_that_cannot_be_learned_from():
    _, one, other = seen_fields(2, 0)
    made = PictureDenoiser((1.0, 9.0), max_steps=1, **SMALL)
    with pytest.raises(ValueError, match="sigma must be a finite number above 0, got 0"):
        made.fit(list(one), noise=0)
    with pytest.raises(ValueError, match="pairs must come with the noise"):
        made.fit(list(one), pairs=list(other))
    with pytest.raises(ValueError, match="sigma must be above the noise"):
        made.fit(list(one), noise=5)
