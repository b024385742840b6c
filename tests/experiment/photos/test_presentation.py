"""What a reader sees of the study of photographs, and what is claimed, on made-up numbers."""

from dataclasses import replace

import pytest

from hosm.experiment.photos import figures
from hosm.experiment.photos.claims import photos_claims
from hosm.experiment.photos.headline import photos_sentence
from hosm.experiment.photos.tables import bars_table, coverage_table, photos_tables, psnr_table


@pytest.fixture
def run(results):
    return results.photos.run


def judged(run):
    return {claim.name.removeprefix("photos-"): claim for claim in photos_claims(run)}


def test_all_hold_where_ours_is_best_and_honest(run):
    found = judged(run)
    assert {name: claim.verdict for name, claim in found.items()} == {
        name: "holds"
        for name in ("beats-bm3d beats-scikit-image calibrated coverage conformal").split()
        + ["tells-where"]
    }
    assert not any(claim.paper for claim in found.values())


def test_without_bm3d_nothing_is_claimed_of_it(run):
    free = run.quality[run.quality["method"] != "BM3D"]
    assert "beats-bm3d" not in judged(replace(run, quality=free))


@pytest.mark.parametrize(
    ("name", "frame", "of", "column", "value"),
    [
        ("beats-bm3d", "quality", "method == 'BM3D' and sigma == 50", "psnr", 40.0),
        ("beats-scikit-image", "quality", "method == 'wavelets'", "psnr", 40.0),
        ("calibrated", "tenths", "method == 'ours' and tenth == 3", "ratio", 1.3),
        ("calibrated", "tenths", "method == 'ours' and tenth == 10", "ratio", 0.75),
        ("coverage", "coverage", "level == 0.8 and sigma == 25", "plain", 0.76),
        ("conformal", "coverage", "level == 0.5", "calibrated", 0.515),
        ("tells-where", "error_bars", "sigma == 25", "local_correlation", 0.95),
    ],
)
def test_each_fails_at_one_bad_place(run, name, frame, of, column, value):
    changed = getattr(run, frame).copy()
    changed.loc[changed.eval(of), column] = value
    assert judged(replace(run, **{frame: changed}))[name].verdict == "does not hold"


def test_bad_tenths_of_rivals_do_not_count(run):
    changed = run.tenths.assign(ratio=run.tenths["ratio"].where(run.tenths["method"] == "ours", 9))
    assert judged(replace(run, tenths=changed))["calibrated"].verdict == "holds"


def test_the_best_is_marked_and_what_is_missing_is_a_dash(run, only):
    quality = run.quality[(run.quality["kind"] == "grey") | (run.quality["method"] != "BM3D")]
    table = psnr_table(quality)
    row = only(table, **{"Pictures": "3 colour", "Noise": "25 of 255"})
    assert row["PictureDenoiser"] == "**31.00**" and row["BM3D"] == "–"
    assert only(table, **{"Pictures": "3 grey", "Noise": "25 of 255"})["BM3D"] == "30.00"


def test_rows_of_error_bars_and_coverage(run, only):
    bars = bars_table(run.error_bars)
    place = {"Pictures": "grey", "Noise": "25 of 255", "Error bars": "PictureDenoiser"}
    row = only(bars, **place)
    assert row["Coverage of 50 / 80 / 95 %"] == "51.0 / 80.5 / 94.0"
    assert row["Measured over predicted variance"] == "1.05"
    kept = coverage_table(run.coverage)
    row = only(kept, Pictures="grey", Noise="25 of 255", Stated="80 %")
    assert (row["Held"], row["Held, calibrated"]) == ("81.0 %", "80.2 %")
    assert row["In a picture"] == "78.0 to 83.0"
    assert list(row)[-1] == "–"


def test_each_table_has_one_of_the_longer_run_and_the_published_stand_once(results):
    names = [*photos_tables(results.photos)]
    assert sum(name.endswith("-whole") for name in names) == 5
    assert names.count("photos-published") == 1


def test_the_headline_names_the_best_rival(run):
    told = photos_sentence(run)
    assert told.count("31.0 dB (BM3D: 30.0 dB) on 3") == 2
    assert "grey photographs under noise of 25 of 255" in told


def test_figures_say_what_they_show(run, words):
    texts = words(figures.reliability_figure(run.tenths))
    assert "grey: ours 0.95 to 1.04" in texts and "ours, noise 25" in texts
    texts = words(figures.psnr_figure(run.quality))
    assert {"BM3D", "wavelets", "colour, 3 pictures", "noise 50 of 255"} <= {*texts}
    shown = figures.gallery_figure(run.shown)
    assert {"clean", "denoised", "absolute error"} <= {*words(shown)}
    assert len(shown.axes) == 2 * 6  # five pictures and a colour bar for each


def test_error_and_prediction_share_a_colour_scale(run):
    axes = figures.gallery_figure(run.shown).axes
    assert axes[3].images[0].get_clim() == axes[4].images[0].get_clim()
