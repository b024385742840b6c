"""The study of photographs: what it measures, on answers that are known."""

import math

import numpy as np
import pytest

from hosm.experiment.data import photographs
from hosm.experiment.photos.study import held_out, rivals, spreads, study
from hosm.experiment.photos.study.error_bars import Answer, correlations, error_bars, tenths
from hosm.experiment.photos.study.study import Place
from hosm.experiment.settings import PhotosParams
from hosm.pictures import DenoisedPicture, PictureDenoiser

PARAMS = PhotosParams(
    models="models",
    ensemble=(),
    kinds=("grey",),
    pictures=2,
    side=40,
    sigmas=(25.0,),
    passes=2,
    tuning_side=32,
    seed=0,
)


def answer(true=1.0, side=160, seed=0):
    """Errors of standard deviation `true` times the predicted one, which varies smoothly."""
    rng = np.random.default_rng(seed)
    down, across = np.mgrid[:side, :side] / side
    std = 1 + 9 * down * across
    clean = 100 + true * std * rng.standard_normal((side, side))
    return Answer(np.full((side, side), 100.0), std**2, clean)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two denoisers that have hardly learned, in two folders."""
    root = tmp_path_factory.mktemp("root")
    options = {"widths": (8, 8), "blocks": 1, "rank": 1, "crop": 32, "batch_size": 2}
    for name, seed in (("models", 0), ("other", 1)):
        made = PictureDenoiser(max_steps=3, random_state=seed, **options)
        (root / name).mkdir()
        made.fit([photographs.photo("clock_motion").astype(float)] * 2)
        made.save(study.model_files(root / name)["grey"])
    return root


@pytest.mark.parametrize("true", [0.7, 1.0, 1.5])
def test_gaussian_errors_have_their_ratio_in_each_tenth_and_their_coverage(true):
    found = answer(true)
    rows = tenths([found, answer(true, seed=1)])
    assert [row["tenth"] for row in rows] == [*range(1, 11)]
    ratios = [row["ratio"] for row in rows]
    # five standard errors of a mean of 5,120 squares
    assert np.allclose(ratios, true**2, rtol=5 * math.sqrt(2 / 5120))
    predicted = [row["predicted"] for row in rows]
    assert predicted == sorted(predicted)
    bars = error_bars(found)
    # its own error is 2^(1/2) of 160: ten are left for the variances that differ
    assert bars["ratio"] == pytest.approx(true**2, rel=0.1)
    exact = math.erf(1.959964 / true / math.sqrt(2))
    # four standard errors of a share of 25,600 pixels
    assert bars["coverage_0.95"] == pytest.approx(exact, abs=4 * math.sqrt(0.25 / 25600))


def test_squares_correlate_where_the_prediction_is_right():
    """Of squares of 64 numbers, the mean squared error has a relative spread of (2 / 64)^(1/2)."""
    found = answer()
    predicted, local = correlations(found._replace(mean=found.mean + np.zeros((160, 160))))
    assert predicted > 0.9
    assert math.isnan(local)  # m is flat
    textured = np.random.default_rng(5).standard_normal((160, 160)) * np.sqrt(found.variance)
    moved = Answer(textured, found.variance, textured + found.clean - 100)
    assert correlations(moved)[1] > 0.8
    assert correlations(Answer(textured.T, found.variance[::-1], found.clean - 100))[0] < 0.3


def test_the_peak_signal_to_noise_ratio_is_of_clipped_answers():
    clean = np.full((10, 10), 250.0)
    assert held_out.psnr(clean + 20, clean) == pytest.approx(20 * math.log10(255 / 5))


def test_the_noise_is_of_its_scale_and_fixed():
    clean = held_out.held_out("colour", 1, 96)["astronaut"]
    one, again = (held_out.noisy(clean, "astronaut", 25, 0) for _ in range(2))
    assert np.array_equal(one, again) and one.max() > 255
    # 27,648 numbers: four standard errors are .017
    assert np.std(one - clean) == pytest.approx(25, rel=0.02)
    assert not np.allclose(one - clean, held_out.noisy(clean, "coffee", 25, 0) - clean)


def test_pictures_that_judge_tune_nothing():
    assert not {*photographs.COLOUR, *photographs.GREY} & {*photographs.TUNING}
    grey, colour = (held_out.held_out(kind, 100, 2000) for kind in ("grey", "colour"))
    assert (len(grey), len(colour)) == (16, 10)
    assert colour["hubble_deep_field"].shape == colour["retina"].shape == (512, 512, 3)
    for name, picture in colour.items():
        exact = np.rint(picture @ [0.299, 0.587, 0.114])
        assert np.array_equal(grey[name], exact)
    about = held_out.sources(grey)
    assert all(each["licence"] and each["source"] for each in about)


def test_the_middle_of_a_picture():
    page = np.arange(7 * 5).reshape(7, 5)
    assert np.array_equal(held_out.middle(page, 3), page[2:5, 1:4])
    assert np.array_equal(held_out.middle(page, 6), page[:6])


@pytest.mark.parametrize("method", [*rivals.METHODS])
@pytest.mark.parametrize("kind", ["grey", "colour"])
def test_rivals_denoise(method, kind):
    if method not in rivals.installed():
        pytest.skip("its licence is not free, and it is not installed")
    clean = held_out.held_out(kind, 1, 48)
    noisy = {name: held_out.noisy(each, name, 25, 0) for name, each in clean.items()}
    for name, each in noisy.items():
        found = rivals.denoise(method, each, 25, rivals.CANDIDATES[method][-1])
        assert held_out.psnr(found, clean[name]) > held_out.psnr(each, clean[name]) + 2


def test_tuning_takes_the_best(monkeypatch):
    monkeypatch.setitem(rivals.METHODS, "scaled", lambda y, sigma, factor: factor * y)
    options = [{"factor": factor} for factor in (0.2, 1.0, 2.0)]
    monkeypatch.setitem(rivals.CANDIDATES, "scaled", options)
    best, means = rivals.tuned("scaled", held_out.tuning("grey", 32), 5, 0)
    assert best == {"factor": 1.0} and means[1] == max(means)


def test_a_spread_is_scaled_to_the_errors_of_other_pictures():
    """Errors of variance 25, since nothing is denoised; a spread of 4."""

    def spread(picture, sigma):
        return picture, np.full_like(picture, 4.0)

    others = {"flat": np.full((200, 200), 99.0)}
    scaled, _ = spreads._scaled(spread, others, 5.0, 0)
    # five standard errors of a mean of 40,000 squares
    assert scaled.factor == pytest.approx(25 / 4, rel=5 * math.sqrt(2 / 40_000))
    assert scaled(np.zeros((8, 8)), 5.0)[1] == pytest.approx(4 * scaled.factor)


def test_dropout_spreads_answers_and_leaves_the_denoiser_as_it_was(models):
    denoiser = PictureDenoiser.load(study.model_files(models / "models")["grey"])
    picture = held_out.noisy(held_out.held_out("grey", 1, 40)["camera"], "camera", 25, 0)
    before = denoiser.denoise(picture, 25).mean
    mean, variance = spreads._dropout_spread(denoiser, 3, 0.3, 0, picture, 25)
    assert np.array_equal(mean, before) and (variance > spreads.LEAST).mean() > 0.9
    assert np.array_equal(denoiser.denoise(picture, 25).mean, before)
    again = spreads._dropout_spread(denoiser, 3, 0.3, 0, picture, 25)[1]
    assert np.array_equal(variance, again)


def _posterior(true, seed):
    """A posterior whose errors are `true` times what it predicts, and its truth."""
    rng = np.random.default_rng(seed)
    variance = rng.uniform(1, 9, (64, 64))
    clean = true * np.sqrt(variance) * rng.standard_normal((64, 64))
    return DenoisedPicture(np.zeros((64, 64)), variance, 1.0, lambda tile: None), clean


@pytest.mark.parametrize("true", [0.6, 1.4])
def test_other_pictures_mend_the_coverage(true):
    found, clean = zip(*[_posterior(true, seed) for seed in range(10)], strict=True)
    for row in study.calibrated(found, clean):
        assert abs(row["plain"] - row["level"]) > 0.02
        # the bound that the study claims: one point
        assert row["calibrated"] == pytest.approx(row["level"], abs=0.01)
        assert row["least"] <= row["calibrated"] <= row["most"]
        assert row["pictures"] >= 0.5  # of ten pictures four of five, give or take


def test_few_pictures_calibrate_by_pixel_alone():
    found, clean = zip(*[_posterior(1.0, seed) for seed in range(2)], strict=True)
    assert all(math.isnan(row["pictures"]) for row in study.calibrated(found, clean))


def test_the_study_judges_all_and_goes_on_after_a_stop(models, tmp_path, monkeypatch):
    monkeypatch.setattr(rivals, "installed", lambda: ["total variation"])
    params = PARAMS.model_copy(update={"ensemble": ("models", "other")})
    frames, shown = study.run_study(params, models, tmp_path)
    assert {*frames["quality"]["method"]} == {"ours", "deep ensemble", "total variation"}
    assert {*frames["error_bars"]["method"]} == {"ours", "Monte Carlo dropout", "deep ensemble"}
    assert len(frames["tenths"]) == 3 * 10 and len(frames["coverage"]) == 3
    assert shown["mean|camera"].shape == (40, 40)
    assert study.headline(frames["quality"])["psnr_grey_25_ours"] == pytest.approx(
        frames["quality"].query("method == 'ours'")["psnr"].mean()
    )
    for name in ("judge_rival", "judge_ours"):
        monkeypatch.setattr(study, name, lambda *args, **options: pytest.fail("it ran again"))
    again, _ = study.run_study(params, models, tmp_path)
    assert again["quality"].equals(frames["quality"])


def test_another_model_is_judged_anew_beside_the_same_rivals(models, tmp_path, monkeypatch):
    monkeypatch.setattr(rivals, "installed", lambda: ["total variation"])
    first, _ = study.run_study(PARAMS, models, tmp_path)
    monkeypatch.setattr(study, "judge_rival", lambda *args, **options: pytest.fail("it ran again"))
    params = PARAMS.model_copy(update={"models": "other"})
    second, _ = study.run_study(params, models, tmp_path)
    ours, rival = (first["quality"]["method"] == name for name in ("ours", "total variation"))
    assert (first["quality"]["psnr"] != second["quality"]["psnr"])[ours].all()
    assert (first["quality"]["psnr"] == second["quality"]["psnr"])[rival].all()


def test_a_missing_model_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="photos-grey.hosm"):
        study.run_study(PARAMS, tmp_path, None)


def test_a_rival_is_tuned_and_judged():
    rows = study.judge_rival(Place("grey", 25.0), PARAMS, "total variation")["quality"]
    assert [row["picture"] for row in rows] == photographs.GREY[:2]
    assert all(row["psnr"] > 20.5 for row in rows)  # of the noise alone: 20.2
