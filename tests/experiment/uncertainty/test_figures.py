"""The figures and pictures of denoisers, on made-up results."""

import numpy as np
import pytest

from hosm.experiment.uncertainty import figures, pictures
from tests.experiment.report import report_inputs


@pytest.fixture(scope="module")
def denoiser(results):
    return results.denoisers["mnist5k"]


def test_predicted_variance_and_measured_error_share_one_scale_in_a_line(denoiser, words):
    figure = pictures.variance_figure(denoiser.pictures, (1, 8, 8), [0.3, 0.5])
    images = [image for ax in figure.axes for image in ax.images]
    scales = {image.get_clim() for image in images if image.get_cmap().name == "viridis"}
    assert len(scales) == 1  # both lines hold the same maps here
    # the 99.5 % that are least bright, of two maps that are uniform up to .1 and .11
    assert scales.pop()[1] == pytest.approx(0.11, rel=0.05)
    found = set(words(figure))
    assert {"σ = 0.3", "σ = 0.5", "noisy", "denoised", "squared\nerror", "pixel²"} <= found


def test_directions_are_diverging_and_their_share_of_variance_is_stated(denoiser, words):
    arrays = denoiser.pictures
    figure = pictures.directions_figure(arrays, (1, 8, 8), 5)
    share = float((arrays["eigenvalues"][:, :11].sum(1) / arrays["trace"]).mean())
    assert f"The first 11 directions hold {share:.0%} of the variance" in words(figure)
    images = [image for ax in figure.axes for image in ax.images]
    limits = [image.get_clim() for image in images if image.get_cmap().name == "RdBu_r"]
    assert len(limits) == pictures.DIRECTED * len(arrays["which"])
    assert all(low == -high for low, high in limits)


def test_directions_beyond_the_rank_are_marked_as_of_the_diagonal(denoiser):
    drawings = figures.uncertainty_drawings("mnist5k", denoiser)
    figure, rank = drawings["directions-mnist5k"](), denoiser.card["settings"]["rank"]
    marked = [ax.get_title() for ax in figure.axes if "diagonal alone" in ax.get_xlabel()]
    beyond = [str(number) for number in denoiser.pictures["which"] if number > rank]
    assert marked == pictures.DIRECTED * beyond and 0 < len(beyond) < len(
        denoiser.pictures["which"]
    )


def test_traversals_step_from_the_mean_by_standard_deviations(denoiser, words):
    arrays = dict(denoiser.pictures)
    arrays["mean"] = np.full_like(arrays["clean"], 0.5)
    arrays["clean"] = np.tile([0.0, 1.0], (4, 32))
    figure = pictures.traversals_figure(arrays, (1, 8, 8))
    shown = figure.axes[2 + pictures.STEPS.index(1)].images[0].get_array()  # +1 along the first
    moved = 0.5 + arrays["eigenvalues"][0, 0] ** 0.5 * arrays["directions"][0, :, 0]
    np.testing.assert_allclose(shown, np.clip(moved.reshape(8, 8), 0, 1))
    assert {"m, v1", "m, v2", "m, v3", "+2", "-1"} <= set(words(figure))


def test_colour_images_are_shown_in_colour_and_their_channels_apart(words):
    arrays = report_inputs.pictures(np.random.default_rng(0), side=4, channels=3)
    figure = pictures.variance_figure(arrays, (3, 4, 4), [0.3, 0.5])
    assert figure.axes[0].images[0].get_array().shape == (4, 4, 3)
    assert figure.axes[2].images[0].get_array().shape == (4, 12)
    assert any("red, green, blue side by side" in text for text in words(figure))
    directions = pictures.directions_figure(arrays, (3, 4, 4), 5)
    assert directions.axes[1].images[0].get_array().shape == (4, 4)


def test_calibration_draws_the_diagonal_and_states_the_largest_gap(denoiser, words):
    figure = figures.calibration_figure(denoiser.reliability)
    found = words(figure)
    assert "Their ratio: largest gap 12%" in found  # 1.1 / 1.25
    assert {"σ = 0.3", "σ = 0.5", "perfect calibration, ± 15 %"} <= set(found)
    diagonal = next(line for line in figure.axes[0].lines if line.get_linestyle() == "--")
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata())


def test_explained_states_share_and_saving(denoiser, words):
    found = words(figures.explained_figure(denoiser.directions))
    assert any("hold 93%" in text and "20.0× to 80.0× faster" in text for text in found)
    assert any("one for all images" in text for text in found)
