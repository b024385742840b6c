"""Noise of pictures: known noise is found again, and the transform against exact sums."""

import itertools
import warnings

import numpy as np
import pytest
from numpy.polynomial import hermite_e
from scipy import fft, stats
from sklearn.datasets import load_sample_image

from hosm.pictures import noise_level
from hosm.pictures.noise_level import (
    estimate_poisson_gaussian,
    estimate_sigma,
    stabilised,
    unstabilised,
)
from tests.tolerances import FLOAT64, ILL_CONDITIONED

PHOTOGRAPHS = {
    name: load_sample_image(f"{name}.jpg").astype(float) for name in ("china", "flower")
}
NODES, WEIGHTS = hermite_e.hermegauss(80)
ROWS, COLUMNS = np.mgrid[:160, :200]
SMOOTH = 120 + 60 * np.sin(ROWS / 40) * np.cos(COLUMNS / 30)


def noisy(picture, sigma, seed=0):
    return picture + sigma * np.random.default_rng(seed).standard_normal(picture.shape)


def micrograph(peak, background, size=200):
    """Expected counts: 40 round spots of several sizes on a background."""
    rng = np.random.default_rng(7)
    rows, columns = np.mgrid[:size, :size]
    spots = np.zeros((size, size))
    for row, column, radius, height in rng.uniform([0, 0, 3, 0.3], [size, size, 12, 1], (40, 4)):
        spots += height * np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / 2 / radius**2)
    return background + peak * np.minimum(spots, 1)


def counted(expected, gain, sigma, seed=0):
    """A picture of expected values above 0 as a detector sees it."""
    rng = np.random.default_rng(seed)
    return gain * rng.poisson(expected / gain) + sigma * rng.standard_normal(expected.shape)


def exact_moments(counts, sigma):
    """Mean and variance of the stabilised picture, of gain 1, by sums over both laws."""
    n = np.arange(int(counts + 12 * counts**0.5) + 40)
    law = stats.poisson.pmf(n, counts)[:, None] * WEIGHTS / WEIGHTS.sum()
    u = stabilised(n[:, None] + sigma * NODES, 1, sigma)
    mean = (law * u).sum()
    return mean, (law * (u - mean) ** 2).sum()


@pytest.mark.parametrize("name", PHOTOGRAPHS)
@pytest.mark.parametrize("sigma", [2, 15, 75])
def test_noise_of_photographs_is_found(name, sigma):
    found = estimate_sigma(noisy(PHOTOGRAPHS[name], sigma))
    # 21 coefficients of hundreds of blocks, which overlap: their chance error is about 1 %
    assert found == pytest.approx(sigma, rel=0.03)


def test_noise_of_a_grey_photograph_is_found():
    found = estimate_sigma(noisy(PHOTOGRAPHS["flower"].mean(2), 5))
    assert found == pytest.approx(5, rel=0.05)  # a third of the blocks of colours


def test_edges_do_not_count_as_noise():
    picture = noisy(255.0 * ((ROWS // 20 + COLUMNS // 20) % 2), 5)
    differences = np.diff(picture, axis=0).std() / 2**0.5
    assert estimate_sigma(picture) == pytest.approx(5, rel=0.06)  # chance, as above
    assert differences > 10


def test_a_picture_without_noise_gives_about_0():
    assert estimate_sigma(SMOOTH) < 1e-4 * np.ptp(SMOOTH)  # what is left of a slow wave


def test_units_do_not_matter():
    picture = noisy(SMOOTH, 10)
    factor = 2.0**-8  # no rounding: the same blocks are chosen
    assert estimate_sigma(picture * factor) == pytest.approx(
        factor * estimate_sigma(picture), rel=FLOAT64["rtol"]
    )
    scaled = estimate_poisson_gaussian(picture * factor)
    expected = factor * np.array(estimate_poisson_gaussian(picture))
    np.testing.assert_allclose(scaled, expected, **ILL_CONDITIONED)


def test_small_pictures_are_judged():
    found = [estimate_sigma(noisy(np.zeros((16, 16)), 1, seed)) for seed in range(20)]
    # 21 coefficients of 4 blocks apart: 8 % each; the median of so few squares is 4 % too small
    assert np.mean(found) == pytest.approx(1, abs=0.1)
    assert np.std(found) < 0.2


@pytest.mark.parametrize("sigma", [5, 25])
@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_clipped_pictures_lose_little(name, sigma):
    clipped = np.clip(np.round(noisy(PHOTOGRAPHS[name], sigma)), 0, 255).astype(np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # much of both is near white or black
        assert estimate_sigma(clipped) == pytest.approx(sigma, rel=0.05)  # chance and clipping


def test_white_areas_are_not_taken_for_silence():
    picture = np.clip(noisy(SMOOTH + np.where(COLUMNS > 80, 500, 0), 8), 0, 255)
    assert estimate_sigma(picture) == pytest.approx(8, rel=0.06)  # chance
    counts = np.clip(counted(SMOOTH + np.where(COLUMNS > 80, 500, 0), 0.5, 4), 0, 255)
    gain, sigma = estimate_poisson_gaussian(counts)
    assert gain * 120 + sigma**2 == pytest.approx(76, rel=0.12)  # a variance: twice the chance


def test_saturation_everywhere_is_told():
    clipped = np.clip(noisy(SMOOTH, 100), 0, 255)
    with pytest.warns(UserWarning, match="noise saturates nearly every part of the picture"):
        assert 50 < estimate_sigma(clipped) < 100
    with pytest.raises(ValueError, match="must have blocks that are not saturated, got none"):
        noise_level._unsaturated(np.zeros(100), np.float64(1))


@pytest.mark.parametrize("estimate", [estimate_sigma, estimate_poisson_gaussian])
@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (np.ones((15, 40)), r"picture must have sides of \d+ pixels or more, got \(15, 40\)"),
        (np.ones((40, 40)), r"picture must not be constant, got 1.0 everywhere"),
        (np.full((40, 40), np.nan), r"picture must be finite, got nan"),
        (np.ones(40), r"picture must have shape \(height, width\) or .*, got \(40,\)"),
        (np.ones((40, 40, 4)), r"picture must have shape .*, got \(40, 40, 4\)"),
        (np.ones((40, 40), dtype=complex), r"picture must be of real numbers, got complex128"),
    ],
)
def test_what_cannot_be_judged_is_told_in_one_line(estimate, picture, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        estimate(picture)


def test_cosines_are_those_of_the_transform():
    blocks = noise_level._blocks(noisy(SMOOTH, 1), 5)
    dense = fft.dctn(blocks.reshape(-1, 8, 8), axes=(1, 2), norm="ortho").reshape(-1, 64)
    np.testing.assert_allclose(noise_level._spectrum(noisy(SMOOTH, 1), 5), dense, **FLOAT64)
    assert (noise_level.LOW.sum(), noise_level.HIGH.sum()) == (42, 21)


@pytest.mark.parametrize(
    ("name", "gain", "sigma"), [("flower", 0.5, 2), ("flower", 8, 10), ("china", 2, 5)]
)
def test_gain_and_sigma_of_photographs_are_found(name, gain, sigma):
    found = estimate_poisson_gaussian(counted(PHOTOGRAPHS[name], gain, sigma))
    # the variances of 24 brightnesses err by some per cent; sigma lies at the end of the line
    assert found == (pytest.approx(gain, rel=0.06), pytest.approx(sigma, rel=0.15))


@pytest.mark.parametrize(
    ("peak", "background", "sigma"), [(10, 0.5, 0), (50, 0.5, 0), (10, 2, 1.5), (50, 1, 1)]
)
def test_gain_and_sigma_of_micrographs_are_found(peak, background, sigma):
    expected = micrograph(peak, background)
    found = [estimate_poisson_gaussian(counted(expected, 1, sigma, seed)) for seed in range(2)]
    gain, offset = np.mean(found, axis=0)
    # 2 pictures of 40,000 pixels, most of them dark: 0.05 for the gain of each, 0.1 for sigma
    assert gain == pytest.approx(1, abs=0.08)
    # 0.1 for sigma in each; a sigma of 0 shows the positive errors of its square alone
    assert offset == pytest.approx(sigma, abs=0.25 if sigma == 0 else 0.12)


def test_noise_that_does_not_depend_on_light_has_no_gain():
    gain, sigma = estimate_poisson_gaussian(noisy(PHOTOGRAPHS["flower"], 10))
    assert 0 <= gain < 0.15  # of a variance of 100, at brightnesses of some 100
    assert sigma == pytest.approx(10, rel=0.05)  # chance


def test_a_picture_without_noise_has_no_gain_and_no_sigma():
    gain, sigma = estimate_poisson_gaussian(SMOOTH)
    assert max(gain, sigma) < 1e-4 * np.ptp(SMOOTH)  # what is left of a slow wave


def test_a_line_with_textured_brightnesses_is_found():
    mean = np.linspace(0, 50, 24)
    variance = 2 * mean + 9
    variance[[3, 8, 15, 20]] *= 5
    # least absolute deviations pass through the others; what is left of the smoothing at 0
    np.testing.assert_allclose(noise_level._line(mean, variance, np.ones(24)), [2, 9], rtol=1e-3)


def test_textured_brightnesses_count_little():
    textured = noisy(SMOOTH, 5) + np.where(ROWS > 80, 0, 20 * np.sin(ROWS) * np.cos(COLUMNS))
    groups = np.array_split(np.arange(4), 2)
    mean, low, high = (np.array(each) for each in ([1, 1, 2, 2], [4, 4, 30, 30], [5, 5, 15, 15]))
    means, variances, weights = noise_level._flattest_of_each(groups, mean, low, high, mean)
    assert (means.tolist(), variances.tolist(), weights.tolist()) == ([1, 2], [5, 15], [1, 2**-8])
    assert estimate_sigma(textured) == pytest.approx(5, rel=0.06)  # chance


def test_a_line_has_no_negative_gain_or_variance():
    mean = np.linspace(1, 50, 24)
    for variance, zero in ((100 - mean, 0), (2 * mean - 1, 1)):
        line = noise_level._line(mean, variance, np.ones(24))
        assert line[zero] == 0 < line[1 - zero]
        grid = [
            *itertools.product(line[0] * np.linspace(0, 2, 41), line[1] * np.linspace(0, 2, 41))
        ]
        losses = [abs(variance / (g * mean + b) - 1).sum() for g, b in grid if g * 50 + b > 0]
        fitted = abs(variance / (line[0] * mean + line[1]) - 1).sum()
        assert fitted <= 1.1 * min(losses)  # a weight by the fit is not its own loss


@pytest.mark.parametrize("sigma", [0, 0.5, 1, 2, 5])
def test_noise_is_1_from_4_counts_on(sigma):
    for counts in (4, 6, 10, 30, 100):
        assert exact_moments(counts, sigma)[1] ** 0.5 == pytest.approx(1, abs=0.03)  # documented
    deviations = [exact_moments(counts, sigma)[1] ** 0.5 for counts in np.linspace(0, 4, 17)]
    assert max(deviations) < 1.1  # documented
    assert (min(deviations) > 0.95) == (sigma >= 1)


@pytest.mark.parametrize(
    ("sigma", "bias"), [(0, 0.02), (0.1, 0.05), (0.3, 0.05), (1, 0.05), (3, 0.05)]
)
def test_the_inverse_has_little_bias(sigma, bias):
    for counts in np.geomspace(0.01, 200, 20):
        mean, _ = exact_moments(counts, sigma)
        x, _ = unstabilised(mean, 0.0, 1, sigma)
        assert abs(x - counts) < bias  # documented
        if (
            0.5 < counts < 20 and sigma == 0
        ):  # the algebraic inverse is off by a quarter of a count
            assert counts - (mean**2 / 4 - 3 / 8) > 0.1


@pytest.mark.parametrize(("gain", "sigma"), [(1, 0), (1, 2), (0.1, 3), (5, 0.2)])
def test_the_transform_is_the_published_one_less_a_constant(gain, sigma):
    y = np.linspace(0, 60, 50)
    published = 2 / gain * np.sqrt(gain * y + 3 / 8 * gain**2 + sigma**2)
    np.testing.assert_allclose(stabilised(y, gain, sigma) + 2 * sigma / gain, published, **FLOAT64)
    x, _ = unstabilised(stabilised(y, gain, sigma), np.zeros(50), gain, sigma)
    root = (3 / 2) ** 0.5
    terms = published**2 / 4 + root / 4 / published - 11 / 8 / published**2
    terms += 5 / 8 * root / published**3 - 1 / 8 - (sigma / gain) ** 2
    np.testing.assert_allclose(x, gain * terms, **ILL_CONDITIONED)


@pytest.mark.parametrize("gain", [0, 1e-12, 1e-6])
def test_without_gain_the_transform_divides_by_sigma(gain):
    y = np.linspace(-50, 50, 11)
    u = stabilised(y, gain, 4)
    near = {"rtol": 0, "atol": 100 * gain + 1e-12}  # y^2 gain / sigma^3, and rounding
    np.testing.assert_allclose(u, y / 4, **near)
    mean, variance = unstabilised(u, np.full(11, 0.5), gain, 4)
    np.testing.assert_allclose(mean, y, **near)
    np.testing.assert_allclose(variance, 8, **near)


@pytest.mark.parametrize(("gain", "sigma"), [(1, 0), (2, 1), (0.5, 3), (0, 2)])
def test_the_variance_is_that_of_the_tangent(gain, sigma):
    u = np.linspace(1.5, 20, 30)
    step = 1e-5
    above, below = (unstabilised(u + s, np.ones(30), gain, sigma)[0] for s in (step, -step))
    slope = (above - below) / (2 * step)
    _, variance = unstabilised(u, np.full(30, 0.3), gain, sigma)
    np.testing.assert_allclose(variance, 0.3 * slope**2, rtol=1e-6)  # of the finite difference
    assert (slope > 0).all()


def test_what_the_tangent_leaves_out_is_as_documented():
    u = stabilised(4.0, 1, 0)
    mean, variance = unstabilised(u, 1.0, 1, 0)
    x, _ = unstabilised(u + NODES, np.ones(80), 1, 0)
    weights = WEIGHTS / WEIGHTS.sum()
    exact = (weights * x**2).sum() - (weights * x).sum() ** 2
    assert exact - variance == pytest.approx(1 / 8, abs=0.05)  # terms in D^-1
    assert mean == pytest.approx(4 + 1 / 4, abs=0.05)  # the unbiased inverse of u(4), not 4


def test_the_inverse_ends_where_noise_would_vanish():
    for gain, sigma in ((1, 0), (2, 3)):
        u = np.linspace(-20, 5, 500)
        x, _ = unstabilised(u, np.zeros(500), gain, sigma)
        assert x.min() == pytest.approx(-(sigma**2) / gain, abs=FLOAT64["atol"])
        assert (np.diff(x) >= -FLOAT64["atol"]).all()
        lowest = stabilised(np.array([-1e3]), gain, sigma)
        assert lowest == pytest.approx(-2 * sigma / gain, abs=FLOAT64["atol"])


def test_a_micrograph_whose_noise_was_estimated_becomes_one_of_noise_1():
    picture = counted(micrograph(50, 5), 1, 2)
    even = stabilised(picture, *estimate_poisson_gaussian(picture))
    assert estimate_sigma(even) == pytest.approx(1, abs=0.08)  # of the estimated line
    assert estimate_poisson_gaussian(even - even.min())[0] < 0.02  # no slope is left: 0.2 in 1


@pytest.mark.parametrize(
    ("gain", "sigma", "message"),
    [
        (-1, 1, "gain must be a finite number of 0 or more, got -1"),
        (1, np.nan, "sigma must be a finite number of 0 or more, got nan"),
        (0, 0, "gain or sigma must be above 0, got 0 and 0"),
    ],
)
def test_impossible_noise_is_named(gain, sigma, message):
    with pytest.raises(ValueError, match=message):
        stabilised(SMOOTH, gain, sigma)
    with pytest.raises(ValueError, match=message):
        unstabilised(SMOOTH, SMOOTH, gain, sigma)


def test_impossible_variances_are_named():
    with pytest.raises(ValueError, match=r"one shape, got \(2,\) and \(3,\)"):
        unstabilised(np.zeros(2), np.zeros(3), 1, 1)
    with pytest.raises(ValueError, match="variance must be 0 or more, got -1.0"):
        unstabilised(np.zeros(1), -np.ones(1), 1, 1)
