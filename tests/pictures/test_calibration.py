"""Calibration of pictures against laws whose answer is known."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from hosm.pictures import DenoisedPicture, PictureDenoiser, conformal_factors, variance_ratio
from hosm.pictures.calibration import _ranked
from tests.pictures.test_picture_denoiser import SMALL, picture

LEVELS = (0.5, 0.8, 0.95)


def answer(mean, std, **more):
    """A posterior of independent pixels."""
    spread = np.broadcast_to(std, np.shape(mean)).astype(float)
    return DenoisedPicture(np.asarray(mean), spread**2, 1.0, lambda tile: None, **more)


def gaussian_pictures(count, true=1.0, seed=0):
    """Pictures whose errors are `true` times what is predicted, and their truths."""
    rng = np.random.default_rng(seed)
    found, clean = [], []
    for _ in range(count):
        std = rng.uniform(0.5, 5, (60, 50))
        found.append(answer(np.zeros((60, 50)), std))
        clean.append(true * std * rng.standard_normal((60, 50)))
    return found, clean


def test_the_factor_is_the_quantile_of_split_conformal_prediction():
    clean = np.arange(1.0, 10)  # of 9 pixels the ceil(10 level)-th
    found = conformal_factors(answer(np.zeros((1, 9)), 2), clean[None], (0.5, 0.51, 0.9))
    assert found == {0.5: 2.5, 0.51: 3.0, 0.9: 4.5}
    with pytest.raises(ValueError, match="a level of 0.95 needs 19 pixels or more, got 9"):
        conformal_factors(answer(np.zeros((1, 9)), 2), clean[None], [0.95])


@pytest.mark.parametrize("true", [0.6, 1.0, 1.7])
def test_factors_of_gaussian_errors_are_those_of_the_gaussian(true):
    found, clean = gaussian_pictures(30, true)
    for level, factor in conformal_factors(found, clean, LEVELS).items():
        exact = true * NormalDist().inv_cdf((1 + level) / 2)
        assert factor == pytest.approx(exact, rel=0.02)  # 90,000 pixels: some 5 x .004


def test_a_new_number_is_covered_with_the_probability_that_is_guaranteed():
    """Heavy tails, few numbers: level to level + 1 / (n + 1), by exchangeability alone."""
    rng, level, count = np.random.default_rng(0), 0.8, 11
    scores = np.abs(rng.standard_t(2, (40_000, count + 1)))
    covered = np.mean([row[-1] <= _ranked(row[:-1], level, "numbers") for row in scores])
    error = math.sqrt(level * (1 - level) / len(scores))
    assert covered == pytest.approx(10 / 12, abs=4 * error)  # ceil(12 x .8) of 12


def test_by_picture_the_factor_is_a_quantile_of_the_pictures_factors():
    """Pictures whose errors are 1 to 9 times what is predicted: of 9, the eighth for .8."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((40, 40))
    found = [answer(np.zeros((40, 40)), 1)] * 9
    clean = [scale * z for scale in range(1, 10)]
    own = np.sort(np.abs(z).ravel())[math.ceil(0.9 * 1600) - 1]
    factors = conformal_factors(found, clean, [0.9], "pictures", confidence=0.8)
    assert factors[0.9] == pytest.approx(8 * own)
    with pytest.raises(ValueError, match="a level of 0.95 needs 19 pictures or more, got 9"):
        conformal_factors(found, clean, [0.9], "pictures", confidence=0.95)


def test_intervals_of_a_calibrated_answer_reach_as_far_as_its_factors():
    plain = answer(np.full((4, 5), 7.0), 3)
    low, high = plain.interval(0.95)
    assert np.allclose(high - low, 2 * 3 * NormalDist().inv_cdf(0.975))
    fitted = answer(np.full((4, 5), 7.0), 3, factors={0.9: 2.0})
    low, high = fitted.interval(0.9)
    assert np.array_equal(low, np.full((4, 5), 1.0)) and np.array_equal(high, low + 12)
    with pytest.raises(ValueError, match="among those calibrated, 0.9, got 0.8"):
        fitted.interval(0.8)
    assert fitted.scaled(4).interval(0.8)[1][0, 0] > 7  # the Gaussian's again


def shrinking(variance, predicted):
    """The exact denoiser of N(0, variance) pixels, which predicts its variance times a number."""

    def denoise(noisy, sigma):
        gain = variance / (variance + sigma**2)
        return answer(gain * noisy, math.sqrt(predicted * gain) * sigma)

    return denoise


@pytest.mark.parametrize("predicted", [0.5, 1.0, 2.0])
def test_the_variance_ratio_is_known_without_truth(predicted):
    rng, sigma, side = np.random.default_rng(0), 2.0, 400
    noisy = 3 * rng.standard_normal((side, side)) + sigma * rng.standard_normal((side, side))
    found = variance_ratio(shrinking(9.0, predicted), noisy, sigma, added=1.0)
    mean = predicted * 9 * 8 / (9 + 8)
    error = sigma**2 * math.sqrt(2 + 4) / side / mean
    # five standard errors
    assert found == pytest.approx(1 / predicted, abs=5 * error)


def test_the_estimate_over_many_pictures_is_unbiased():
    """One small picture says little, the mean of many the truth."""
    rng, found = np.random.default_rng(1), []
    for seed in range(400):
        noisy = math.sqrt(10) * rng.standard_normal((10, 10))
        found.append(variance_ratio(shrinking(9.0, 1), noisy, 1.0, random_state=seed))
    # four standard errors of the mean of 400
    assert np.mean(found) == pytest.approx(1, abs=4 * np.std(found) / 20)
    more = [variance_ratio(shrinking(9.0, 1), noisy, 1.0, draws=n) for n in (1, 200)]
    assert abs(more[1] - 1) < 1 and more[0] != more[1]


def test_to_take_the_denoised_picture_for_the_truth_is_optimistic():
    """Why that is not offered: texture that the denoiser removes leaves no trace."""
    rng, sigma = np.random.default_rng(0), 3.0
    denoise = shrinking(1.0, 1)
    noisy = rng.standard_normal((200, 200)) + sigma * rng.standard_normal((200, 200))
    taken = denoise(noisy, sigma).mean
    again = denoise(taken + sigma * rng.standard_normal(taken.shape), sigma)
    assert np.mean((again.mean - taken) ** 2) < 0.3 * np.mean(again.variance)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda f, c: conformal_factors(f, c[:-1], LEVELS), "clean must have shape"),
        (lambda f, c: conformal_factors(f, c, [1.0]), "levels must be between 0 and 1"),
        (lambda f, c: conformal_factors(f, c, LEVELS, "tiles"), "pixels or pictures, got tiles"),
        (lambda f, c: variance_ratio(lambda y, s: f, c, 1.0, added=0), "added must be"),
    ],
)
def test_what_is_wrong_is_told(call, text):
    (found,), (clean,) = gaussian_pictures(1)
    with pytest.raises(ValueError, match=text):
        call(found, clean)


def test_a_denoiser_is_calibrated_saved_and_asked(tmp_path):
    made = PictureDenoiser(max_steps=40, learning_rate=1e-2, **SMALL)
    made.fit([picture(seed) for seed in range(6)])
    made.calibrate([picture(seed) for seed in range(20, 26)], 25, LEVELS)
    clean = [picture(seed) for seed in range(30, 36)]
    rng, covered = np.random.default_rng(1), []
    made.save(tmp_path / "m.hosm")
    again = PictureDenoiser.load(tmp_path / "m.hosm")
    assert again.factors_ == made.factors_ and [*made.factors_] == [*LEVELS]
    for each in clean:
        found = again.denoise(each + 25 * rng.standard_normal(each.shape), 25)
        covered.append(
            [((a <= each) & (each <= b)).mean() for a, b in map(found.interval, LEVELS)]
        )
    assert np.allclose(np.mean(covered, 0), LEVELS, atol=0.06)  # of six pictures and six
    with pytest.raises(ValueError, match="one picture or more"):
        made.calibrate([], 25)
