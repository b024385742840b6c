"""Displays: what is drawn is what was computed, with names, colour bars and bounds."""

import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import hosm
from hosm.pictures import DenoisedPicture
from hosm.plot import (
    ChainsDisplay,
    HessianDisplay,
    OutlierDisplay,
    ReliabilityDisplay,
    VarianceMapDisplay,
)
from tests.tolerances import FLOAT32

RNG = np.random.default_rng(0)
NAMES = ["a", "b", "c"]
X = pd.DataFrame(RNG.normal(size=(60, 3)) * [1.0, 10.0, 0.1], columns=NAMES)
NETWORK = {"method": "network", "max_steps": 2, "random_state": 0}


@pytest.fixture(scope="module")
def estimator():
    return hosm.ScoreEstimator(0.3, **NETWORK).fit(X)


@pytest.fixture
def axes():
    """Axes of a figure that no window shows."""
    return lambda count=1: Figure().subplots(1, count, squeeze=False)[0]


@pytest.mark.parametrize("row", [None, 7])
def test_a_hessian_is_drawn_with_names_and_colours_that_are_white_at_0(estimator, axes, row):
    shown = HessianDisplay.from_estimator(estimator, X, row=row, ax=axes())
    dense = np.asarray(estimator.hessian(X, dense=True))
    wanted = dense.mean(0) if row is None else dense[row]
    scale = X.std(ddof=0).to_numpy()
    np.testing.assert_allclose(shown.hessian, wanted * np.outer(scale, scale), **FLOAT32)
    (own,), (image,) = shown.ax_, shown.ax_[0].images
    assert [each.get_text() for each in own.get_xticklabels()] == NAMES
    assert image.norm.vmin == -image.norm.vmax and len(shown.figure_.axes) == 2
    plain = HessianDisplay.from_estimator(estimator, X, row=row, scaled=False, ax=axes())
    np.testing.assert_allclose(plain.hessian, wanted, **FLOAT32)


def test_a_hessian_of_ones_own_is_its_mean(axes):
    several = RNG.normal(size=(5, 2, 2))
    shown = HessianDisplay.from_predictions(several, ax=axes())
    np.testing.assert_allclose(shown.ax_[0].images[0].get_array(), several.mean(0))
    with pytest.raises(ValueError, match=r"hessian must have shape \(D, D\)"):
        HessianDisplay.from_predictions(np.ones((2, 3)))


@pytest.mark.parametrize("colour", [(), (3,)])
def test_a_map_of_variances_stands_beside_the_error_in_the_same_colours(axes, colour):
    mean, variance = (RNG.uniform(1, 2, (6, 8, *colour)) for _ in range(2))
    found = DenoisedPicture(mean, variance, 1.0, lambda tile: None)
    clean = mean + 3
    shown = VarianceMapDisplay.from_predictions(found, clean, ax=axes(2))
    left, right = (own.images[0] for own in shown.ax_)
    over = variance.mean(2) if colour else variance
    np.testing.assert_allclose(left.get_array(), np.sqrt(over))
    np.testing.assert_allclose(right.get_array(), np.full((6, 8), 3.0))
    assert left.norm.vmax == right.norm.vmax and len(shown.figure_.axes) == 4
    alone = VarianceMapDisplay.from_predictions(found, ax=axes())
    assert len(alone.figure_.axes) == 2
    with pytest.raises(ValueError, match="ax must hold 2 axes, got 1"):
        VarianceMapDisplay.from_predictions(found, clean, ax=axes())


@pytest.mark.parametrize("colour", [(), (3,)])
def test_a_map_has_titles_units_an_arrow_where_colours_end_and_the_picture(axes, colour):
    mean, variance = RNG.uniform(-5, 260, (30, 40, *colour)), np.ones((30, 40, *colour))
    variance[0, 0] = 400
    found = DenoisedPicture(mean, variance, 1.0, lambda tile: None)
    shown = VarianceMapDisplay.from_predictions(found, picture=True, ax=axes(2))
    left, right = shown.ax_
    assert left.get_title() == "denoised picture"
    drawn = np.asarray(left.images[0].get_array())
    expected = (mean - mean.min()) / np.ptp(mean) if colour else mean
    np.testing.assert_allclose(drawn, expected)
    title, over = right.get_title(), "(root mean square over the 3 channels)"
    assert title.startswith("predicted standard deviation") and (over in title) == bool(colour)
    bar = right.images[0].colorbar
    assert bar.extend == "max" and bar.ax.get_ylabel() == "in units of the picture's values"
    even = DenoisedPicture(mean, np.ones_like(mean), 1.0, lambda tile: None)
    alone = VarianceMapDisplay.from_predictions(even, ax=axes()).ax_[0]
    assert alone.images[0].colorbar.extend == "neither"


def test_the_label_of_a_map_keeps_away_from_the_next_panel():
    mean = np.ones((40, 60))
    found = DenoisedPicture(mean, mean, 1.0, lambda tile: None)
    figure = Figure(figsize=(9.6, 4), layout="constrained")
    shown = VarianceMapDisplay.from_predictions(found, mean + 1, ax=figure.subplots(1, 2))
    figure.draw_without_rendering()
    label = shown.ax_[0].images[0].colorbar.ax.yaxis.label.get_window_extent()
    assert label.x1 + label.width / 3 < shown.ax_[1].get_tightbbox().x0


def test_variances_that_are_right_lie_on_the_line(estimator, axes):
    variance = RNG.uniform(0.1, 10, (4000, 3))
    shown = ReliabilityDisplay.from_predictions(variance, variance, ax=axes())
    line, means = shown.ax_[0].lines[:2]
    assert len(means.get_xdata()) == 10 and line.get_linestyle() == "--"
    np.testing.assert_allclose(means.get_xdata(), means.get_ydata())
    twice = ReliabilityDisplay.from_predictions(variance, 2 * variance, ax=axes()).ax_[0].lines[1]
    np.testing.assert_allclose(twice.get_ydata(), 2 * twice.get_xdata())  # errors stand upwards
    noisy = X + estimator.noise_std_ * RNG.normal(size=X.shape)
    own = ReliabilityDisplay.from_estimator(estimator, noisy, X, bins=5, ax=axes())
    law, noise = estimator.posterior(noisy), estimator.noise_std_
    # bins of equal counts: the mean of their means is that of all entries
    total = (law.variance / noise**2).to_numpy().mean()
    assert float(own.table.predicted.mean()) == pytest.approx(total)
    measured = ((X - law.mean) / noise).pow(2).to_numpy().mean()
    assert float(own.table.observed.mean()) == pytest.approx(measured)


def test_chains_are_lines_of_their_coordinates(estimator, axes):
    draws = RNG.normal(size=(4, 20, 6))
    shown = ChainsDisplay.from_predictions(draws, columns=[5, 1], ax=axes(2))
    for own, j in zip(shown.ax_, (5, 1), strict=True):
        assert own.get_title() == f"coordinate {j}"
        drawn = [line.get_ydata() for line in own.lines]
        np.testing.assert_array_equal(drawn, draws[:, :, j])
    one = ChainsDisplay.from_estimator(estimator, 3, 9, random_state=0, ax=axes(3))
    assert one.draws.shape == (3, 9, 3) and one.ax_[2].get_title() == "c"
    away = (one.draws[:, -1] - X.mean().to_numpy()) / X.std().to_numpy()
    assert np.abs(away).max() < 10  # standard deviations: chains stay with the rows


def test_chains_of_a_law_in_closed_form_move():
    fitted = hosm.ScoreEstimator(0.3, random_state=0).fit(X[["a"]][:30])
    own = Figure().subplots()
    shown = ChainsDisplay.from_estimator(fitted, 2, 50, random_state=0, ax=own)
    assert (np.ptp(shown.draws, 1) > 0).all() and shown.ax_ is own


def test_outliers_lie_left_of_the_bound(axes):
    network = hosm.ScoreEstimator(0.3, **NETWORK)
    detector = hosm.OutlierDetector(0.4, estimator=network).fit(X)
    shown = OutlierDisplay.from_estimator(detector, X, ax=axes())
    (own,) = shown.ax_
    beyond = int((detector.predict(X) == -1).sum())
    texts = [each.get_text() for each in own.get_legend().get_texts()]
    assert f"outliers: {beyond}" in texts and f"other rows: {60 - beyond}" in texts
    assert own.lines[0].get_xdata()[0] == detector.offset_
    assert sum(patch.get_height() for patch in own.patches) == 60


ONES = np.ones(100)
BAD = {
    "hessian must be finite, got nan": lambda: HessianDisplay.from_predictions([[np.nan]]),
    "hessian .* not be empty": lambda: HessianDisplay.from_predictions(np.zeros((0, 0))),
    "names must hold 2 names, got 1": lambda: HessianDisplay.from_predictions(np.eye(2), ["a"]),
    "variance must be finite": lambda: ReliabilityDisplay.from_predictions(ONES * np.nan, ONES),
    "must have one shape": lambda: ReliabilityDisplay.from_predictions(ONES, ONES[1:]),
    "scores must be finite": lambda: OutlierDisplay.from_predictions([np.nan, 1.0], 0.0),
    r"scores must have shape \(n,\)": lambda: OutlierDisplay.from_predictions([], 0.0),
    "columns must be a whole number from 0 to 1, got 7": lambda: ChainsDisplay.from_predictions(
        np.zeros((3, 5, 2)), columns=[7]
    ),
    "found must be a DenoisedPicture, got ndarray": lambda: VarianceMapDisplay.from_predictions(
        np.eye(4)
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()


def test_points_of_other_numbers_are_named(estimator):
    with pytest.raises(ValueError, match=r"X_noisy and X must have one shape \(n, D\)"):
        ReliabilityDisplay.from_estimator(estimator, X, X[:10])


def test_variances_of_zero_and_whole_numbers_are_drawn(axes):
    whole = list(range(100))
    (own,) = ReliabilityDisplay.from_predictions(whole, whole, ax=axes()).ax_
    assert own.get_xscale() == "log"
    (own,) = ReliabilityDisplay.from_predictions(0 * ONES, ONES, ax=axes()).ax_
    assert own.get_xscale() == "linear" and own.lines[1].get_ydata()[0] == 1


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"need the package matplotlib: pip install 'hosm\[plot"):
        HessianDisplay.from_predictions(np.eye(2))
