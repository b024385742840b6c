import math
from dataclasses import replace
from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from hosm.experiment.diversity import figures as diversity_figures
from hosm.experiment.presenting import style
from hosm.experiment.report import figures, tables
from hosm.experiment.report.texts import captions
from hosm.experiment.uncertainty import figures as denoiser_figures
from hosm.experiment.uncertainty import pictures
from tests.experiment.report import report_inputs
from tests.experiment.report.report_inputs import write_inputs


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return tables.load_results(write_inputs(tmp_path_factory.mktemp("figures")))


@pytest.fixture(scope="module")
def denoiser(results):
    return results.denoisers["mnist5k"]


@pytest.fixture(scope="module")
def written(results, tmp_path_factory):
    before = dict(mpl.rcParams)
    paths = figures.write_all(results, tmp_path_factory.mktemp("written") / "figures")
    assert dict(mpl.rcParams) == before
    return paths


def _words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(mpl.text.Text) if text.get_text()]


def test_every_figure_is_a_small_png_of_page_width(written):
    names = "accuracy targets whole reduction speed losses growth tuning curves equal-steps"
    names += " step-bias two-modes snapshots single-chains plane training"
    names += " calibration explained variance directions traversals"
    kept = ["calibration-mnist5k-whole", "explained-mnist5k-whole"]  # which have no pictures
    chains = "classes steps noise chains".split()
    own = [name.removesuffix("-mnist5k") for name in written]
    assert own == [*names.split(), *kept, *chains, "classes-mnist5k-whole"]
    assert set(captions()) == {*names.split(), *chains}  # each has a caption
    for name, path in written.items():
        with Image.open(path) as image:
            assert (image.format, image.width) == ("PNG", 902), name
            assert image.height > 180, name
            assert "Software" not in image.info, name
        assert path.stat().st_size < 250_000, name


def test_a_figure_has_the_same_bytes_when_drawn_again(results, written, tmp_path):
    style.save_figure(figures.training_figure(results.training), tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == written["training"].read_bytes()


def test_accuracy_names_the_lowest_error_and_tells_ours_from_the_papers(results):
    figure = figures.accuracy_figure(results.accuracy.table1)
    words = _words(figure)
    assert "gaussian100, streaming, σ = 0.05\nlowest: s2, jacobian, r = 30, 2.10" in words
    assert {"ours, r = 30", "the paper's", "floor of a rank", "constant Hessian"} <= set(words)
    assert "squared Frobenius error, summed over entries" in words
    assert all(ax.get_xscale() == "log" for ax in figure.axes)


def test_accuracy_draws_the_papers_values_where_there_are_any(results):
    ax = figures.accuracy_figure(results.accuracy.table1).axes[0]
    hollow = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "D"]
    assert sorted(x for x in hollow if not math.isnan(x)) == [
        2.05,
        5.07,
        6.91,
        6.91,
        9.39,
        43.76,  # 6.91 of both ways to train by the moment target
    ]


def test_targets_show_error_against_seconds_with_the_references(results):
    figure = figures.targets_figure(results.accuracy.learning, results.accuracy.table1)
    gaussian, logistic = figure.axes
    words = _words(figure)
    assert "gaussian100, streaming, σ = 0.05, r = 30\nends lowest: s2, jacobian, 2.00" in words
    assert {"s2, jacobian", "s2, moment (the paper's)", "constant Hessian"} <= set(words)
    curve = next(line for line in gaussian.lines if line.get_color() == style.BLUE)
    assert list(curve.get_xdata()) == [30.5, 40.5, 50.5]  # the mean over seeds
    levels = [line.get_ydata()[0] for ax in figure.axes for line in ax.lines[-1:]]
    assert levels == [1.76, 17.8]  # the floor of rank 30, the constant


def test_accuracy_leaves_out_a_constant_that_is_exact(results):
    gaussian, logistic = figures.accuracy_figure(results.accuracy.table1).axes
    dashed = [
        [line for line in ax.lines if line.get_linestyle() == "--"] for ax in (gaussian, logistic)
    ]
    assert [len(lines) for lines in dashed] == [0, 1]
    assert dashed[1][0].get_xdata()[0] == 17.8


def test_speed_states_ratios_units_and_the_time_of_s1(results):
    figure = figures.speed_figure(results.cost.speed)
    words = _words(figure)
    found = "24.0× the time of s2 by the loop, 6.00× by the fastest chunked autodiff"
    assert f"MLP, D = 100\nat r = 20: {found}" in words
    assert {"time for the whole batch (ms)", "the paper's (TITAN Xp)", "our s1 alone"} <= set(
        words
    )
    labels = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert labels[-1] == "s1" and labels[0] == "s1 and s2, shared trunk, r = 200"


def test_predicted_variance_and_measured_error_share_one_scale_in_a_line(denoiser):
    figure = pictures.variance_figure(denoiser.pictures, (1, 8, 8), [0.3, 0.5])
    images = [image for ax in figure.axes for image in ax.images]
    scales = {image.get_clim() for image in images if image.get_cmap().name == "viridis"}
    assert len(scales) == 1  # both lines hold the same maps here
    assert scales.pop()[1] == pytest.approx(0.11, rel=0.05)
    assert {"σ = 0.3", "σ = 0.5", "x~", "m", "variance", "(x - m)²"} <= set(_words(figure))


def test_directions_are_diverging_and_their_share_of_variance_is_stated(denoiser):
    arrays = denoiser.pictures
    figure = pictures.directions_figure(arrays, (1, 8, 8))
    share = float((arrays["eigenvalues"][:, :11].sum(1) / arrays["trace"]).mean())
    assert f"The first 11 directions hold {share:.0%} of the variance" in _words(figure)
    images = [image for ax in figure.axes for image in ax.images]
    limits = [image.get_clim() for image in images if image.get_cmap().name == "RdBu_r"]
    assert len(limits) == pictures.DIRECTED * len(arrays["which"])
    assert all(low == -high for low, high in limits)


def test_traversals_step_from_the_mean_by_standard_deviations(denoiser):
    arrays = dict(denoiser.pictures)
    arrays["mean"] = np.full_like(arrays["clean"], 0.5)
    arrays["clean"] = np.tile([0.0, 1.0], (4, 32))
    figure = pictures.traversals_figure(arrays, (1, 8, 8))
    shown = figure.axes[2 + pictures.STEPS.index(1)].images[0].get_array()  # +1 along the first
    moved = 0.5 + arrays["eigenvalues"][0, 0] ** 0.5 * arrays["directions"][0, :, 0]
    np.testing.assert_allclose(shown, np.clip(moved.reshape(8, 8), 0, 1))
    assert {"m, v1", "m, v2", "m, v3", "+2", "-1"} <= set(_words(figure))


def test_colour_images_are_shown_in_colour_and_their_channels_apart():
    arrays = report_inputs.pictures(np.random.default_rng(0), side=4, channels=3)
    figure = pictures.variance_figure(arrays, (3, 4, 4), [0.3, 0.5])
    assert figure.axes[0].images[0].get_array().shape == (4, 4, 3)
    assert figure.axes[2].images[0].get_array().shape == (4, 12)
    assert any("red, green, blue side by side" in words for words in _words(figure))
    directions = pictures.directions_figure(arrays, (3, 4, 4))
    assert directions.axes[1].images[0].get_array().shape == (4, 4)


def test_calibration_draws_the_diagonal_and_states_the_largest_gap(denoiser):
    figure = denoiser_figures.calibration_figure(denoiser.reliability)
    words = _words(figure)
    assert "Their ratio: largest gap 12%" in words  # 1.1 / 1.25
    assert {"σ = 0.3", "σ = 0.5", "perfect calibration, ± 15 %"} <= set(words)
    diagonal = next(line for line in figure.axes[0].lines if line.get_linestyle() == "--")
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata())


def test_explained_states_share_and_saving(denoiser):
    words = _words(denoiser_figures.explained_figure(denoiser.directions))
    assert any("hold 93%" in text and "20.0× to 80.0× faster" in text for text in words)
    assert any("one for all images" in text for text in words)


def test_plane_has_a_line_for_each_set_of_points_on_the_clean_ones_axes(results):
    figure = denoiser_figures.plane_figure(results.denoising.points, results.denoising.posteriors)
    assert len(figure.axes) == 2 * 5
    assert {ax.get_xlim() for ax in figure.axes[:5]} == {figure.axes[0].get_xlim()}
    assert any("error of C: 6.0 %" in text for text in _words(figure))


def _titles(figure):
    """Return the places of a figure's titles, in pixels, by their words."""
    figure.canvas.draw()
    titles = [text for ax in figure.axes for text in (ax.title, ax._left_title) if text.get_text()]
    return {text.get_text(): text.get_window_extent().padded(-3) for text in titles}


def test_no_title_leaves_the_figure_or_covers_another(results, monkeypatch, tmp_path):
    seven = {f"model-{i}": frame for i in range(7) for frame in [*results.training.values()][:1]}
    drawn = {}
    keep = lambda figure, path: drawn.update({path.name: figure})  # noqa: E731
    monkeypatch.setattr(figures, "save_figure", keep)
    figures.write_all(replace(results, training=seven), tmp_path)
    for name, figure in drawn.items():
        places = _titles(figure)
        for words, place in places.items():
            assert place.x0 >= 0 and place.x1 <= figure.bbox.width, (name, words)
        for (one, place), (other, beside) in combinations(places.items(), 2):
            assert not place.overlaps(beside), (name, one, other)


def test_classes_state_the_shares_and_how_many_chains_the_seconds_are_of(results):
    found = results.diversity["mnist5k"]
    figure = diversity_figures.classes_figure(found.curves, found.summary, found.cost)
    words = _words(figure)
    rows = found.summary.set_index("sampler")["changed"]
    shares = f"Ozaki {rows['Ozaki']:.0%}, Langevin {rows['Langevin']:.0%}"
    assert f"Equal ε = 0.03\n{shares}" in words
    assert {"iterations", "time of the diffusion", "seconds for 50 chains"} <= set(words)


def test_training_has_a_column_for_each_model(results):
    figure = figures.training_figure(results.training)
    assert [ax.get_title(loc="left").splitlines()[0] for ax in figure.axes[:3]] == [
        "mnist5k",
        "ring6",
        "two-modes",
    ]
    assert "lowest at step 500" in figure.axes[0].get_title(loc="left")


def test_colours_are_those_of_okabe_and_ito():
    assert {to_hex(colour).upper() for colour in style.COLOURS} <= {
        *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
        *("#56B4E9", "#E69F00", "#F0E442", "#000000"),
    }
