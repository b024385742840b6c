"""The command line: each subcommand on each kind of file, exit codes, one-line errors."""

import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pandas
import pytest
import tifffile
from PIL import Image

import hosm
from hosm.cli import arguments as cli
from hosm.cli import commands
from hosm.io import read_pages, read_rows, write
from tests.tolerances import FLOAT32

RNG = np.random.default_rng(0)
NAMES = ["a", "b", "c"]
X = RNG.normal(size=(80, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 0.0]
PHOTO = RNG.integers(0, 255, (20, 24)).astype(np.float64)
SCENE = np.add.outer(2 * np.arange(70) % 90, np.arange(66) % 30 * 4).astype(np.float64)
SCENE += RNG.normal(scale=8, size=SCENE.shape) + 30
NETWORK = ("--method", "network", "--steps", "2")
QUICK = ["--method", "network", "--steps", "2", "--quiet", "--json"]
TABLES = ("npy", "npz", "csv", "parquet")
PICTURES = ("png", "tif", "jpg")


def save(path, values, names=None):
    """Write what tests read, .jpg files too."""
    if path.suffix == ".jpg":
        Image.fromarray(values.astype(np.uint8)).save(path, quality=95)
    elif path.suffix == ".png":
        write(path, {"x": values}, pixels=np.uint8)
    else:
        write(path, {"x": values}, names)
    return str(path)


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run the command line in a folder of its own; return exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = cli.main([*map(str, arguments)])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def facts(run):
    """Run the command line, which must succeed; return what it prints as JSON."""

    def facts(*arguments):
        code, out, err = run(*arguments, "--json", "--quiet")
        notes = [
            line for line in err.splitlines() if line.startswith(f"hosm {arguments[0]}: note")
        ]
        assert code == 0 and len(notes) == err.count("\n"), err
        assert out.count("\n") == 1
        return json.loads(out)

    return facts


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models of a table, grey and colour patches, whole pictures, and pictures of any size."""
    folder = tmp_path_factory.mktemp("models")
    names = save(folder / "x.csv", X, NAMES)
    grey = save(folder / "grey.png", PHOTO)
    scene = save(folder / "scene.png", SCENE)
    colour = folder / "colour.npy"
    np.save(colour, np.stack([PHOTO, PHOTO / 2, PHOTO / 3], 2)[None])
    many = folder / "many.npy"
    np.save(many, RNG.normal(size=(50, 4, 6)))
    options = {
        "table": (names,),
        "grey": (grey, "--sigma", "25", "--patch", "4"),
        "colour": (str(colour), "--sigma", "25", "--patch", "4", "--rank", "1"),
        "whole": (str(many), "--sigma", "0.5", "--whole"),
    }
    for name, given in options.items():
        assert cli.main(["fit", *given, "-o", str(folder / name), *QUICK]) == 0
    options["scene"] = (scene,)
    assert cli.main(["fit", scene, "-o", str(folder / "scene"), "--steps", "2", "--quiet"]) == 0
    return {name: str(folder / name) for name in options}


@pytest.mark.parametrize("suffix", TABLES)
def test_fit_and_hessian_on_each_kind_of_table(facts, tmp_path, suffix):
    data = save(tmp_path / f"x.{suffix}", X, NAMES)
    found = facts("fit", data, "-o", "m", *NETWORK, "--sigma", "0.2", "--rank", "1")
    assert (found["command"], found["points"], found["dimension"]) == ("fit", 80, 3)
    assert found["sigma"] == 0.2 and found["rank"] == 1 and found["files"] == ["m"]
    assert set(found["losses"]) == {"s1", "s2"}
    out = facts("hessian", "m", data, "-o", f"h.{suffix}")
    assert out == {"command": "hessian", "points": 80, "shape": [80, 3], "files": [f"h.{suffix}"]}
    model = hosm.ScoreEstimator.load("m")
    named = suffix in ("csv", "parquet")
    assert hasattr(model, "feature_names_in_") == named
    rows = read_rows(f"h.{suffix}")
    np.testing.assert_array_equal(rows.values, model.hessian_diag(X))
    assert rows.names == (NAMES if named else [])


@pytest.mark.parametrize("suffix", PICTURES)
def test_a_denoiser_of_pictures_on_each_kind_of_file(run, facts, models, tmp_path, suffix):
    data = save(tmp_path / f"x.{suffix}", SCENE[:40].astype(np.float32))
    out = facts("denoise", models["scene"], data, "-o", "out.npz", "--sigma", "9")
    (page,), model = read_pages(data), hosm.PictureDenoiser.load(models["scene"])
    expected = model.denoise(page, 9)
    with np.load("out.npz") as maps:
        np.testing.assert_array_equal(maps["mean"], expected.mean)
        np.testing.assert_array_equal(maps["variance"], expected.variance)
    assert out["sigma"] == [9.0] and out["predicted_rmse"] == pytest.approx(
        np.sqrt(expected.variance.mean())
    )
    files = facts("denoise", data, "--model", models["scene"], "-o", "out.tif")["files"]
    assert files == ["out.mean.tif", "out.variance.tif"]
    assert read_pages("out.mean.tif")[0].shape == page.shape
    if suffix == "tif":  # whose float32 a .png file cannot hold
        code, _, err = run("denoise", models["scene"], data, "-o", "out.png")
        assert code == 1 and "uint8 or uint16, got float32; use .tif or .npy" in err
        return
    assert facts("denoise", models["scene"], data, "-o", "out.png", "--sigma", "9")["files"] == [
        "out.mean.png",
        "out.std.png",
    ]
    (written,) = read_pages("out.mean.png")
    np.testing.assert_array_equal(written, np.clip(np.round(expected.mean), 0, 255))


def test_fit_learns_a_denoiser_from_pictures(facts, tmp_path):
    save(tmp_path / "x.png", SCENE)
    np.save("x.npy", np.stack([SCENE, SCENE[::-1]]))
    for data, count in (("x.png", 1), ("x.npy", 2)):
        given = ("--pictures",) if count == 2 else ("--sigma", "5,30", "--rank", "2")
        found = facts("fit", data, "-o", "m", "--steps", "1", *given)
        assert found["pictures"] == count and found["channels"] == 1
        assert found["held_out_error"] > 0
        about = facts("info", "m")
        assert about["sigma"] == found["sigma"] and about["rank"] == found["rank"]
    assert facts("fit", "x.png", "-o", "m", "--steps", "1", "--sigma", "5,30")["sigma"] == [5, 30]


def test_fit_learns_from_noisy_pictures_and_goes_on_from_a_model(
    facts, models, monkeypatch, tmp_path
):
    save(tmp_path / "x.png", SCENE)
    save(tmp_path / "y.png", SCENE[::-1])
    quick = ("-o", "m", "--steps", "1")
    facts("fit", "x.png", *quick, "--noise", "9", "--pairs", "y.png")
    seen = hosm.PictureDenoiser.load("m")
    assert (seen.noise_, seen.pairs_) == (9, True)
    facts("fit", "x.png", *quick, "--noise", "auto")
    assert 0 < hosm.PictureDenoiser.load("m").noise_ < 255
    starts, fit = [], hosm.PictureDenoiser.fit

    def recorded(self, pictures, **given):
        starts.append(given["start"])
        return fit(self, pictures, **given)

    monkeypatch.setattr(hosm.PictureDenoiser, "fit", recorded)
    facts("fit", "x.png", *quick, "--start", models["scene"])
    facts("fit", "x.png", *quick, "--start", "photos")
    assert starts == [models["scene"], "photos"]


def test_the_mean_over_symmetries_is_asked_for(facts, models, tmp_path):
    save(tmp_path / "x.png", SCENE)
    given = ("denoise", models["scene"], "x.png", "-o", "o.npy", "--sigma", "9")
    facts(*given, "--symmetries", "8")
    page, model = read_pages("x.png")[0], hosm.PictureDenoiser.load(models["scene"])
    np.testing.assert_array_equal(np.load("o.mean.npy"), model.denoise(page, 9, symmetries=8).mean)


def test_what_a_denoiser_of_pictures_writes_besides(facts, models, tmp_path):
    save(tmp_path / "x.png", SCENE)
    options = ("--interval", ".9", "--window", "8,4,16,12", "--directions", "3", "--draws", "2")
    out = facts("denoise", models["scene"], "x.png", "-o", "out.npz", "--sigma", "9", *options)
    found = hosm.PictureDenoiser.load(models["scene"]).denoise(read_pages("x.png")[0], 9)
    window = (8, 4, 16, 12)
    with np.load("out.npz") as maps:
        low, high = found.interval(0.9)
        np.testing.assert_array_equal(maps["low"], low)
        np.testing.assert_array_equal(maps["high"], high)
        np.testing.assert_array_equal(maps["draws"], found.sample(2, window, 0))
        values, vectors = found.directions(window, 3)
        size = np.linalg.norm(maps["directions"].reshape(3, -1), axis=1)
        np.testing.assert_allclose(size, np.sqrt(values), **FLOAT32)
    assert out["files"] == ["out.npz"]


def test_each_file_is_told_with_what_it_holds_and_its_unit(run, models, tmp_path):
    save(tmp_path / "x.png", SCENE)
    given = ("denoise", models["scene"], "x.png", "--sigma", "9", "--quiet", "-o")
    _, out, _ = run(*given, "o.png", "--map", "map.png")
    assert "\no.mean.png: the denoised picture, in the units of the input\n" in out
    assert "\no.std.png: " in out and "\nmap.png: a picture of mean and" in out
    _, out, _ = run(*given, "o.tif")
    assert "in the units of the input squared; float32, which few viewers show\n" in out
    with tifffile.TiffFile("o.mean.tif") as file:
        about = json.loads(file.pages[0].description)["description"]
    assert about == "the denoised picture, in the units of the input"
    assert read_pages("o.mean.tif")[0].shape == SCENE.shape
    _, out, _ = run(*given, "o.npz")
    assert "\no.npz, variance: " in out


def test_noise_that_is_cut_off_is_told_and_mended(run, models, tmp_path):
    save(tmp_path / "x.png", np.clip(4 * (SCENE - 80), 0, 255))
    given = ("denoise", models["scene"], "x.png", "--sigma", "30", "--quiet", "-o", "o.npy")
    code, _, err = run(*given)
    assert code == 0 and "where noise is cut off: it was put back" in err
    mended = np.load("o.mean.npy")
    code, _, err = run(*given, "--clipping", "ignore")
    assert code == 0 and "come out too grey" in err
    assert not np.array_equal(np.load("o.mean.npy"), mended) and mended.min() >= 0


def test_info_tells_of_the_shipped_denoisers(facts):
    found = facts("info", "photos")
    assert found["grey"]["channels"] == 1 and found["colour"]["channels"] == 3
    assert found["grey"]["sigma"] == pytest.approx([2, 60])


def test_a_photograph_is_denoised_by_the_shipped_model(run, tmp_path):
    save(tmp_path / "x.png", SCENE)
    code, _, err = run("denoise", "x.png", "-o", "o.npy", "--model", "photos", "--sigma", "90")
    assert code == 0 and "trained at noise of 2 to 60 in pictures of this type, got 90" in err
    code, _, err = run("denoise", "x.png", "-o", "o.npy", "--model", "photos", "--sigma", "8")
    assert code == 0 and "trained" not in err
    assert np.load("o.mean.npy").shape == SCENE.shape


def test_the_noise_of_a_picture_is_estimated(facts, models, tmp_path):
    tall = np.kron(np.arange(64).reshape(8, 8) * 3.0, np.ones((24, 24)))
    noisy = tall + 20 + 6 * RNG.standard_normal(tall.shape)
    np.save("noisy.npy", noisy)
    found = facts("denoise", models["scene"], "noisy.npy", "-o", "out.npz")
    assert found["sigma"][0] == pytest.approx(6, rel=0.1)  # steps of shades bias it a little
    counts = 2.0 * RNG.poisson((tall + 20) / 2)
    np.save("counts.npy", counts)
    found = facts("denoise", models["scene"], "counts.npy", "-o", "out.npz", "--gain", "auto")
    assert found["gain"][0] == pytest.approx(2, rel=0.25)  # its own error, of few flat parts
    given = ("--gain", "2", "--sigma", "1")
    facts("denoise", models["scene"], "counts.npy", "-o", "out.npz", *given)
    with np.load("out.npz") as maps:
        dark, bright = maps["variance"][:24, :24].mean(), maps["variance"][-24:, -24:].mean()
    assert bright > 3 * dark  # 9.5 times the counts


def test_a_stack_and_a_folder_are_denoised_page_by_page(facts, models, tmp_path):
    stack = np.stack([SCENE, SCENE[::-1]])
    save(tmp_path / "stack.tif", stack)
    (tmp_path / "folder").mkdir()
    for number, page in enumerate(stack):
        save(tmp_path / "folder" / f"{number}.png", np.round(page))
    for data in ("stack.tif", "folder"):
        found = facts("denoise", models["scene"], data, "-o", "out.npy")
        assert found["pictures"] == 2 and found["files"] == ["out.mean.npy", "out.variance.npy"]
        assert np.load("out.mean.npy").shape == stack.shape


def test_whole_pictures(facts, models, tmp_path):
    save(tmp_path / "whole.tif", RNG.normal(size=(3, 4, 6)))
    facts("denoise", models["whole"], "whole.tif", "-o", "out.npz")
    model = hosm.ScoreEstimator.load(models["whole"])
    pages = np.stack(read_pages("whole.tif"))
    with np.load("out.npz") as maps:
        expected = model.posterior(pages.reshape(3, 24)).variance
        np.testing.assert_allclose(maps["variance"].reshape(3, 24), expected, **FLOAT32)


def test_hessians_dense_and_by_column(facts, models, tmp_path):
    data, model = save(tmp_path / "x.csv", X, NAMES), hosm.ScoreEstimator.load(models["table"])
    facts("hessian", models["table"], data, "-o", "h.npy", "--dense")
    np.testing.assert_array_equal(np.load("h.npy"), model.hessian(X, dense=True))
    for column in ("b", "1"):
        facts("hessian", models["table"], data, "-o", "h.npy", "--column", column)
        np.testing.assert_array_equal(np.load("h.npy"), model.hessian_column(X, 1))
    pages = facts("hessian", models["grey"], save(tmp_path / "x.png", PHOTO), "-o", "h.npy")
    assert pages["shape"] == [5 * 6, 16]  # 20 x 24 in squares of 4 x 4


def test_denoise_writes_a_table_of_means_and_one_of_variances(
    facts, models, tmp_path, monkeypatch
):
    data = save(tmp_path / "x.csv", X, NAMES)
    monkeypatch.setattr(commands, "POINTS_PER_CHUNK", 30)
    facts("denoise", models["table"], data, "-o", "out.csv")
    law = hosm.ScoreEstimator.load(models["table"]).posterior(X)
    rows = read_rows("out.variance.csv")
    assert rows.names == NAMES
    np.testing.assert_allclose(rows.values, law.variance, **FLOAT32)
    np.testing.assert_allclose(read_rows("out.mean.csv").values, law.mean, **FLOAT32)


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A model in closed form of a table of two columns."""
    folder = tmp_path_factory.mktemp("closed")
    data = save(folder / "x.csv", X[:, :2], NAMES[:2])
    given = ("--sigma", "0.3", "--seed", "0", "--quiet", "--json")
    assert cli.main(["fit", data, "-o", str(folder / "m"), *given]) == 0
    return str(folder / "m")


def test_a_law_in_closed_form_has_no_rank_and_tells_its_gain_by_column(run, facts, tmp_path):
    skewed = np.random.default_rng(0).normal(size=(300, 2))
    skewed[:, 0] = np.exp(0.8 * skewed[:, 0])
    data = save(tmp_path / "x.csv", skewed, NAMES[:2])
    fitted = facts("fit", data, "-o", "m", "--sigma", ".1", "--seed", "0")
    assert "rank" not in fitted
    assert [*fitted].index("report") < [*fitted].index("noise_std")
    model, found = hosm.ScoreEstimator.load("m"), facts("info", "m")["column_gain"]
    pairs = zip(model.column_gain_, model.column_gain_error_, strict=True)
    expected = [{"gain": gain, "standard_error": error} for gain, error in pairs]
    assert found == dict(zip(NAMES, expected, strict=False))
    code, out, err = run("hessian", "m", data, "-o", "h.csv", "--quiet")
    assert code == 0
    assert err == f"hosm hessian: note: {model.fitted_.gain.doubt(NAMES).rstrip('.')}\n"
    assert "In column 'b' no gain over a plain Gaussian could be shown: do not read" in err
    assert "\ncolumn_gain.a: gain " in run("info", "m")[1]


def test_standard_errors_stand_beside_their_second_derivatives(facts, closed, tmp_path):
    data = save(tmp_path / "x.csv", X[:, :2], NAMES[:2])
    value, error = hosm.ScoreEstimator.load(closed).hessian_diag(X[:, :2], return_std=True)
    facts("hessian", closed, data, "-o", "h.csv", "--std")
    rows = read_rows("h.csv")
    assert rows.names == ["a", "a.std", "b", "b.std"]
    np.testing.assert_array_equal(rows.values[:, ::2], value)
    np.testing.assert_array_equal(rows.values[:, 1::2], error)
    facts("hessian", closed, data, "-o", "h.npz", "--std")
    with np.load("h.npz") as arrays:
        np.testing.assert_array_equal(arrays["hessian"], value)
        np.testing.assert_array_equal(arrays["std"], error)


@pytest.fixture
def gappy(tmp_path):
    """A file of 80 rows with labels, of which those of numbers 4 and 9 lack a cell."""
    cells = np.where(np.isin(np.arange(80), [4, 9])[:, None] & [False, True, False], np.nan, X)
    frame = pandas.DataFrame(cells, [f"plot {i}" for i in range(80)], NAMES)
    frame.to_csv(tmp_path / "gaps.csv")
    return np.setdiff1d(np.arange(80), [4, 9])


def test_answers_stay_beside_their_rows_where_some_are_skipped(run, facts, models, gappy):
    skip = ("gaps.csv", "--skip-missing")
    code, out, err = run("fit", *skip, "-o", "m", *NETWORK, "--quiet")
    assert code == 0 and "points: 78\n" in out
    assert "gaps.csv: 2 of 80 rows, which have a missing cell, are left out" in err
    model = hosm.ScoreEstimator.load(models["table"])
    expected = {"h": model.hessian_diag(X[gappy]), "d.mean": model.posterior(X[gappy]).mean}
    assert facts("hessian", models["table"], *skip, "-o", "h.csv")["points"] == 78
    facts("denoise", models["table"], *skip, "-o", "d.csv")
    for name, values in expected.items():
        frame = pandas.read_csv(f"{name}.csv", index_col=0)
        assert [*frame.index] == [f"plot {i}" for i in range(80)]
        assert frame.isna().all(axis=1).tolist() == [i in (4, 9) for i in range(80)]
        np.testing.assert_allclose(frame.to_numpy()[gappy], values, **FLOAT32)
    facts("dimension", *skip, "-o", "n.csv")
    assert len(pandas.read_csv("n.csv").dropna()) == 78


def test_outliers_are_told_by_the_labels_of_their_rows(run, facts, models, gappy):
    skip = ("gaps.csv", "--skip-missing")
    labels = [f"plot {i}" for i in gappy]
    found = facts("ood", models["table"], *skip)["scores"]
    assert [*found][:2] == ["index", "deviation"] and found["index"] == labels
    facts("ood", models["table"], *skip, "-o", "s.csv")
    assert [*pandas.read_csv("s.csv", index_col=0).index] == labels
    facts("ood", models["table"], *skip, "-o", "s.npy")
    np.testing.assert_array_equal(np.load("s.npy")[:, 0], gappy)
    assert run("ood", models["table"], *skip)[1].splitlines()[-1].startswith("plot 79\t")


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_a_map_shows_a_denoised_picture_beside_its_standard_deviation(
    facts, models, tmp_path, suffix
):
    data = save(tmp_path / "x.png", SCENE)
    given = (models["scene"], data, "-o", "o.npz", "--sigma", "9", "--map", f"map.{suffix}")
    assert facts("denoise", *given)["files"] == ["o.npz", f"map.{suffix}"]
    start = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[suffix]
    assert (tmp_path / f"map.{suffix}").read_bytes().startswith(start)


def test_a_map_without_matplotlib_says_what_to_install_before_the_work(
    run, models, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    data = save(tmp_path / "x.png", SCENE)
    code, _, err = run("denoise", models["scene"], data, "-o", "o.npz", "--map", "map.png")
    assert code == 1 and err.count("\n") == 1 and "pip install 'hosm[plot]'" in err
    assert not (tmp_path / "o.npz").exists()


def test_sample_writes_draws(facts, models):
    for law in ("noisy", "clean"):
        given = ("--law", law, "-n", "7", "--steps", "3", "--seed", "5")
        assert facts("sample", models["table"], "-o", "d.csv", *given)["draws"] == 7
        model = hosm.ScoreEstimator.load(models["table"])
        expected = model.sample(7, 5, law=law, steps=3)
        np.testing.assert_array_equal(read_rows("d.csv").values, expected)
    facts("sample", models["grey"], "-o", "d.tif", "-n", "2", "--steps", "1")
    assert np.stack(read_pages("d.tif")).shape == (2, 4, 4)


def test_ood_scores_rows_and_patches(run, facts, models, tmp_path):
    new = np.vstack([X[:9], X[:1] + [0, 500, 0]])
    data, held = save(tmp_path / "new.csv", new, NAMES), save(tmp_path / "held.csv", X, NAMES)
    found = facts("ood", models["table"], data, "--reference", held)
    assert found["reference"] == held and found["points"] == 10
    scores = found["scores"]
    assert [*scores] == ["row", "deviation", "tail", "length", "trace", "curvature", "implicit"]
    assert scores["row"] == [*range(10)]
    assert scores["tail"][-1] == 1 / 81 and np.argmax(scores["deviation"]) == 9
    facts("ood", models["table"], data, "-o", "s.csv", "--order", "1")
    rows = read_rows("s.csv")
    assert rows.names == [*scores] and rows.values.shape == (10, 7)
    code, out, _ = run("ood", models["table"], data)
    assert code == 0 and out.splitlines()[-10].startswith("0\t")
    assert out.splitlines()[-10].count("\t") == 6
    facts("ood", models["table"], data, "-o", "s.npy")
    np.testing.assert_array_equal(np.load("s.npy")[:, 0], range(10))
    page = save(tmp_path / "x.png", PHOTO)
    scores = facts("ood", models["grey"], page, "--stride", "2")["scores"]
    assert scores["row"][-1] == 16 and scores["column"][-1] == 20 and scores["page"][-1] == 0


def test_dimension_sums_up_and_writes(run, facts, tmp_path):
    data = save(tmp_path / "plane.csv", np.column_stack([X, X.sum(1)]), [*NAMES, "d"])
    found = facts("dimension", data)
    assert found["points"] == len(X) and found["columns"] == 4
    assert 2 < found["dimension"] < 3.5
    facts("dimension", data, "-o", "d.csv", "--neighbours", "20")
    rows = read_rows("d.csv")
    assert rows.names == ["dimension", "standard_error"]
    expected = hosm.local_dimension(read_rows(data).values, neighbours=20)
    np.testing.assert_allclose(rows.values[:, 0], expected, **FLOAT32)
    code, _, err = run("dimension", data, "--neighbours", "3")
    assert code == 1 and "neighbours must be a whole number of 4 or more, got 3" in err


def test_info_tells_what_a_model_is(run, facts, models):
    found = facts("info", models["table"])
    noise = hosm.ScoreEstimator.load(models["table"]).noise_std_
    assert found["noise_std"] == dict(zip(NAMES, noise.tolist(), strict=True))
    many = commands._by_column(np.arange(1.0, 31), [f"x{j}" for j in range(30)])
    assert many == {"least": 1, "largest": 30}
    assert found["names"] == NAMES and found["version"] == hosm.__version__
    assert found["parameters"]["max_steps"] == 2 and found["training_points_held"] == 80
    code, out, _ = run("info", models["grey"])
    assert code == 0 and "sigma: 25\n" in out and "parameters.standardise: False" in out


def test_progress_goes_to_stderr_and_facts_to_stdout(run, tmp_path):
    data = save(tmp_path / "x.npy", X)
    given = ("fit", data, "-o", "m", *NETWORK, "--sigma", "0.1,0.3")
    code, out, err = run(*given)
    assert code == 0 and "s1 at sigma 0.3: 100%" in err and "held-out loss " in err
    assert out.startswith("points: 80\n") and "search.0.3: " in out and "losses.s1: " in out
    assert err.count("\n") == 3  # a bar of s1 at each sigma, and one of s2
    assert run(*given, "--quiet")[2] == ""


def test_the_same_seed_gives_the_same_model(facts, tmp_path):
    data = save(tmp_path / "x.npy", X)
    for name in ("a", "b"):
        facts("fit", data, "-o", name, "--steps", "2", "--seed", "3")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


BAD = {
    "missing": ("fit {}/no.csv -o m", "no.csv does not exist"),
    "NaN": (
        "fit {}/nan.csv -o m",
        "nan.csv cannot be read: every cell must hold a number, got a missing cell or NaN in 1 "
        "of 80 rows, first in line 4, column b; --skip-missing leaves such rows out",
    ),
    "NaN in an array": ("fit {}/nan.npy -o m", "in 1 of 80 rows, first in row 3, column 1;"),
    "std of matrices": (
        "hessian {table} {}/x.csv -o h.npz --std --dense",
        "standard errors are known for the diagonal only; leave out --dense",
    ),
    "std of networks": ("hessian {table} {}/x.csv -o h.csv --std", "closed form"),
    "map of a stack": (
        "denoise {scene} {}/sizes -o o.npz --map m.png",
        "--map must be given for one picture, got 2",
    ),
    "map of a table": (
        "denoise {table} {}/x.csv -o o.npz --map m.png",
        "--map must be given for a denoiser of pictures alone, got another model",
    ),
    "text": ("fit {}/text.csv -o m", "the column 'b' must hold numbers, got 'red' in row 2"),
    "one row": ("fit {}/one.csv -o m", "a minimum of 4"),
    "sigma of patches": ("fit {}/x.png -o m --patch 4", "--sigma must be given for pictures"),
    "range of pictures": ("fit {}/x.png -o m --sigma 9", "--sigma must be LOW,HIGH for pictures"),
    "small pictures": ("fit {}/x.png -o m", "no smaller than a crop of 64, got (20, 24)"),
    "method of pictures": (
        "fit {}/x.png -o m --method network",
        "--method must be given for tables alone, got pictures",
    ),
    "window": (
        "denoise {scene} {}/x.png -o o.npz --sigma 9 --draws 1 --window 1,2,3",
        "--window must be ROW,COLUMN,HEIGHT,WIDTH, got 1,2,3",
    ),
    "sigma of a picture": (
        "denoise {scene} {}/x.png -o o.npz --sigma much",
        "--sigma must be a number or auto, got much",
    ),
    "hessian of pictures": (
        "hessian {scene} {}/x.png -o h.npy",
        "must hold a model of points, got a denoiser of pictures; `hosm denoise`",
    ),
    "rank of pictures": ("fit {}/scene.png -o m --rank 65", "from 0 to 64, got 65"),
    "two models": (
        "denoise {scene} {}/x.png -o o.npz --model photos",
        "give MODEL and DATA, or DATA and --model",
    ),
    "gain of a table": (
        "denoise {table} {}/x.csv -o o.npz --gain 2",
        "--gain must be given for a denoiser of pictures alone, got another model",
    ),
    "start of a table": (
        "fit {}/x.csv -o m --start photos",
        "--start must be given for a denoiser of pictures alone, got another model",
    ),
    "pairs without noise": (
        "fit {}/scene.png -o m --pairs {}/scene.png",
        "pairs must come with the noise of the pictures",
    ),
    "sigma below 0": ("fit {}/x.csv -o m --sigma -1", "got -1.0"),
    "rank": ("fit {}/x.csv -o m --rank 9", "must be a whole number from 0 to 3, got 9"),
    "steps": ("fit {}/x.csv -o m --steps 0", "max_steps must be a whole"),
    "patch": (
        "fit {}/x.png -o m --sigma 9 --patch 21",
        "fit into a picture of (20, 24), got (21, 21)",
    ),
    "folder of sizes": ("fit {}/sizes -o m --sigma 9 --whole", "must hold pictures of one size"),
    "empty folder": ("fit {} -o m", "holds no file that ends in .png"),
    "device": (
        "fit {}/x.csv -o m --device moon",
        "--device must be one that torch finds here, got 'moon'",
    ),
    "nowhere": ("fit {}/x.csv -o nowhere/m", "the folder nowhere of m does not exist"),
    "no model": ("hessian {}/none.hosm {}/x.csv -o h.csv", "damaged or no safetensors file"),
    "data first": (
        "hessian {}/x.csv {table} -o h.csv",
        "x.csv is no model; the model comes first, then the data",
    ),
    "picture first": ("denoise {}/x.png {scene} -o o.npz", "x.png is no model; the model comes"),
    "photo": (
        "denoise {}/x.png --model photo -o o.npz",
        "photo does not exist; the model that comes with hosm is `photos`",
    ),
    "capital": ("fit {}/x.csv -o m --drop B", "got 'B'; did you mean 'b'?"),
    "columns": ("hessian {table} {}/two.csv -o h.csv", "X has 2 features"),
    "other names": (
        "hessian {table} {}/other.csv -o h.csv",
        "the columns ['a', 'b', 'c'], got ['a', 'b', 'd']",
    ),
    "column": (
        "hessian {table} {}/x.csv -o h.csv --column z",
        "--column must be one of a, b, c, or a number, got 'z'",
    ),
    "column 7": ("hessian {table} {}/x.csv -o h.csv --column 7", "j must be a whole number"),
    "dense csv": (
        "hessian {table} {}/x.csv -o h.csv --dense",
        "--dense needs -o FILE.npz or FILE.npy, got h.csv",
    ),
    "kind": ("hessian {table} {}/x.csv -o h.xlsx", "must end in .npy, .npz"),
    "no patches": (
        "denoise {table} {}/x.png -o o.npz",
        "pictures must have 3 numbers, as those of the model, got (20, 24)",
    ),
    "pixels": ("ood {table} {}/colour.png", "must have square patches of 3"),
    "colours": (
        "denoise {colour} {}/x.png -o o.npz",
        "`hosm fit` without --patch makes a denoiser of any size",
    ),
    "stride 0": ("ood {grey} {}/x.png --stride 0", "stride must be a whole number from 1"),
    "count": (
        "sample {table} -n 0 -o d.csv",
        "n_samples must be a whole number of 1 or more, got 0",
    ),
    "png of draws": ("sample {grey} -o d.png", "uint8 or uint16, got float64; use .tif or .npy"),
    "columns of pictures": (
        "ood {grey} {}/x.png --drop a",
        "--drop must be given for tables alone, got pictures",
    ),
    "no square": (
        "sample {table} -o d.png",
        "draws must be square to be written as pictures, got 3",
    ),
    "reference": ("ood {table} {}/x.csv --reference {}/two.csv", "X has 2 features"),
    "few": (
        "ood {table} {}/x.csv --reference {}/one.csv",
        "reference must hold 4 points or more, got 1",
    ),
    "info": ("info {}/x.csv", "x.csv is no model"),
}


def test_columns_are_taken_or_left_out(run, facts, tmp_path):
    rows = [f"town {i},{a},{b},{c}" for i, (a, b, c) in enumerate(X)]
    (tmp_path / "x.csv").write_text("\n".join(["town,a,b,c", *rows]))
    plain = facts("fit", "x.csv", "-o", "m", *NETWORK, "--drop", "town")
    assert plain["dimension"] == 3
    facts("hessian", "m", "x.csv", "-o", "h.csv", "--columns", "a,b,c")
    assert read_rows("h.csv").names == NAMES
    facts("denoise", "m", "x.csv", "-o", "d.csv", "--drop", "town")
    found = facts("ood", "m", "x.csv", "--drop", "town", "--reference", "x.csv")
    assert found["points"] == 80
    expected = read_rows("h.csv").values
    code, _, err = run("hessian", "m", "x.csv", "-o", "h.csv", "--quiet")
    assert code == 0 and err.count("\n") == 1
    assert "columns that the model does not have are left out: town" in err
    np.testing.assert_array_equal(read_rows("h.csv").values, expected)
    code, out, err = run("fit", "x.csv", "-o", "m", *NETWORK)
    assert code == 1 and err.count("\n") == 1 and "the column 'town' must hold numbers" in err
    assert "--columns" in err and "--drop" in err
    save(tmp_path / "order.csv", X[:, ::-1], NAMES[::-1])
    assert run("hessian", "m", "order.csv", "-o", "h.csv", "--quiet")[2] == ""
    np.testing.assert_array_equal(read_rows("h.csv").values, expected)
    two = facts("fit", "x.csv", "-o", "m", *NETWORK, "--columns", "c, a")
    assert two["dimension"] == 2


def test_a_table_that_may_be_read_in_two_ways_is_read_as_it_is_told(run, facts, tmp_path):
    lines = ["0;1", *(f"{a:.3f};{b:.3f}".replace(".", ",") for a, b, _ in X + [2, 0, 0])]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    code, _, err = run("fit", "x.csv", "-o", "m", *NETWORK, "--decimal", ",")
    assert code == 1 and "say --header yes or no" in err
    for header, points in (("yes", 80), ("no", 81)):
        given = ("--header", header, "--decimal", ",")
        assert facts("fit", "x.csv", "-o", "m", *NETWORK, *given)["points"] == points


def test_notes_are_lines_on_stderr_and_those_of_many_files_are_counted(run, models, tmp_path):
    (tmp_path / "many").mkdir()
    clear = np.dstack([PHOTO, np.full_like(PHOTO, 255)]).astype(np.uint8)
    for number in range(3):
        Image.fromarray(clear).save(tmp_path / "many" / f"{number}.png")
    code, out, err = run("ood", models["grey"], "many", "--quiet", "-o", "out.npy")
    assert code == 0
    assert err.splitlines() == [
        "hosm ood: note: many/0.png: the alpha channel, opaque everywhere, is left out",
        "hosm ood: note: the same of 2 more files: "
        "the alpha channel, opaque everywhere, is left out",
    ]


def test_a_png_file_has_the_units_of_the_picture_and_tells_what_it_clips(run, models, tmp_path):
    save(tmp_path / "x.png", np.where(SCENE > 100, 255, SCENE))
    given = ("--sigma", "60", "--clipping", "ignore", "--quiet")
    assert run("denoise", models["scene"], "x.png", "-o", "out.npy", *given)[0] == 0
    code, _, err = run("denoise", models["scene"], "x.png", "-o", "out.png", *given)
    mean, exact = read_pages("out.mean.png")[0], np.load("out.mean.npy")
    assert code == 0 and mean.dtype == np.uint8
    np.testing.assert_array_equal(mean, np.clip(np.round(exact), 0, 255))
    clipped = ((np.round(exact) > 255) | (np.round(exact) < 0)).sum()
    text = f"out.mean.png: {clipped} of {SCENE.size} values, beyond 0 to 255, were clipped"
    assert clipped > 0 and f"hosm denoise: note: {text}\n" in err


@pytest.mark.parametrize("command", ["ood", "fit --help"])
def test_a_reader_that_leaves_ends_the_command_quietly(models, tmp_path, command):
    data = save(tmp_path / "x.csv", X, NAMES)
    given = command.split() + ([models["table"], data, "--quiet"] if command == "ood" else [])
    reader, writer = os.pipe()
    os.close(reader)  # as `head` does after its lines
    done = subprocess.run(
        [sys.executable, "-m", "hosm.cli.arguments", *given],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=120,
    )
    os.close(writer)
    assert done.returncode == 0
    assert b"Error" not in done.stderr and b"Traceback" not in done.stderr


def test_a_command_that_cannot_tell_its_progress_has_failed(tmp_path):
    data = save(tmp_path / "x.npy", X)
    reader, writer = os.pipe()
    os.close(reader)  # as `2>&1 | head` does
    given = ("fit", data, "-o", tmp_path / "m", *NETWORK, "--sigma", "0.1")
    words = [sys.executable, "-m", "hosm.cli.arguments", *map(str, given)]
    done = subprocess.run(words, stdout=writer, stderr=writer, timeout=120)
    os.close(writer)
    assert done.returncode == 1
    assert not (tmp_path / "m").exists()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("bad")
    files = {
        "x.csv": (X, NAMES),
        "two.csv": (X[:, :2], NAMES[:2]),
        "nan.csv": (np.where(X == X[2, 1], np.nan, X), NAMES),
        "nan.npy": (np.where(X == X[2, 1], np.nan, X), None),
        "other.csv": (X, ["a", "b", "d"]),
        "one.csv": (X[:1], NAMES),
        "x.png": (PHOTO, None),
        "scene.png": (SCENE, None),
    }
    for name, (values, names) in files.items():
        save(place / name, values, names)
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(place / "colour.png")
    (place / "text.csv").write_text("a,b\n1,2\n3,red\n")
    (place / "none.hosm").write_bytes(b"no model")
    (place / "sizes").mkdir()
    save(place / "sizes" / "1.png", PHOTO)
    save(place / "sizes" / "2.png", PHOTO[:-1])
    return place


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said_in_one_line_with_exit_code_1(run, models, folder, tmp_path, name):
    line, message = BAD[name]
    place = tmp_path if name == "empty folder" else folder
    arguments = shlex.split(line.replace("{}", str(place)).format(**models))
    code, out, err = run(*arguments, "--quiet")
    assert code == 1 and out == ""
    assert err.startswith(f"hosm {arguments[0]}: error: ") and err.count("\n") == 1
    assert message in err
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "arguments",
    [[], ["learn"], ["fit", "x.csv"], ["fit", "x.csv", "-o", "m", "--sigma", "much"], ["info"]],
)
def test_a_command_line_that_cannot_be_read_has_exit_code_2(run, capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2
    assert "usage: hosm" in capsys.readouterr().err


@pytest.mark.parametrize("name", cli.EXAMPLES)
def test_help_has_an_example_that_can_be_parsed(run, capsys, name):
    with pytest.raises(SystemExit) as caught:
        run(name, "--help")
    assert caught.value.code == 0
    text = capsys.readouterr().out
    lines = [line for line in text.splitlines() if line.startswith("  hosm ")]
    assert lines
    for line in lines:
        assert cli.parser().parse_args(shlex.split(line, comments=True)[1:]).command == name


def test_an_interrupted_command_ends_in_one_line(run, monkeypatch, models):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "info", interrupted)
    assert run("info", models["table"]) == (1, "", "hosm info: error: KeyboardInterrupt\n")


def test_help_takes_no_torch():
    code = """
import sys
from hosm.cli import main
try:
    main(["fit", "--help"])
except SystemExit as end:
    assert end.code == 0
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
