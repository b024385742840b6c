"""Progress: quiet by default, a bar on stderr if it is asked for, the same answers either way."""

import re

import numpy as np
import pytest

import hosm
from hosm.progress import ProgressBar, print_beside

X = np.random.default_rng(0).normal(size=(60, 3))
NETWORK = {"method": "network", "max_steps": 2, "random_state": 0}


def test_a_bar_has_a_title_steps_and_words_and_the_next_title_begins_another(capsys):
    with ProgressBar(True) as bar:
        bar.move("first", 1, 4, "loss .5")
        bar.move("first", 4, 4, "loss .2")
        bar.count("second", "a part")
        print_beside("a note")
        bar.count("second", "another part")
    out, err = capsys.readouterr()
    assert out == "" and "a note\n" in err
    assert "first: 100%" in err and "4/4" in err and "loss .2" in err
    assert "second: 2 parts [" in err and "another part" in err


def test_each_state_of_a_bar_is_drawn_once_in_its_unit(capsys):
    with ProgressBar(True, unit="picture") as bar:
        for step in range(3):
            bar.move("denoise", step, 2)
        for part in "abc":
            bar.count("fit", part)
    *pictures, parts = re.split("fit: 0 parts", capsys.readouterr().err)
    assert [pictures[0].count(f"| {step}/2 ") for step in range(3)] == [1, 1, 1]
    assert "picture/s" in pictures[0]
    assert [parts.count(f", {part}]") for part in "abc"] == [1, 1, 1]


def test_a_bar_that_is_not_shown_writes_nothing(capsys):
    with ProgressBar(False) as bar:
        bar.move("first", 1, 4)
        bar.count("second", "a part")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("verbose", [False, True])
def test_networks_and_chains_tell_their_progress_only_if_asked(capsys, verbose):
    estimator = hosm.ScoreEstimator(0.3, **NETWORK, verbose=verbose).fit(X)
    fitted = capsys.readouterr().err
    estimator.sample(2, 0, steps=3)
    drawn = capsys.readouterr().err
    if verbose:
        assert "s1 at sigma 0.3: 100%" in fitted and "s2 at sigma 0.3: 100%" in fitted
        assert "chains: 100%" in drawn and "3/3" in drawn
    else:
        assert fitted == drawn == ""
    quiet = hosm.ScoreEstimator(0.3, **NETWORK).fit(X)
    np.testing.assert_array_equal(quiet.hessian_diag(X), estimator.hessian_diag(X))


def test_laws_in_closed_form_count_their_parts(capsys):
    rows = X[:30, :1]
    estimator = hosm.ScoreEstimator(0.3, random_state=0, verbose=True).fit(rows)
    assert "draws of the clean law" in capsys.readouterr().err
    estimator.set_params(verbose=False).fit(rows)
    assert capsys.readouterr().err == ""


def test_a_detector_hands_verbose_on_and_orders_and_graphs_have_bars(capsys):
    network = hosm.ScoreEstimator(0.3, **NETWORK)
    detector = hosm.OutlierDetector(0.4, estimator=network, verbose=True).fit(X)
    assert detector.estimator_.verbose and not network.verbose
    assert "s1 at sigma 0.3: 100%" in capsys.readouterr().err
    hosm.causal.graph(X, pruning="additive", verbose=True)
    err = capsys.readouterr().err
    assert "order: 100%" in err and "graph: 100%" in err
    hosm.causal.graph(X, pruning="additive")
    assert capsys.readouterr().err == ""


def test_a_training_of_pictures_shows_a_bar(capsys):
    picture = np.random.default_rng(0).integers(0, 255, (40, 40)).astype(np.uint8)
    options = {"widths": (4, 4), "blocks": 1, "crop": 16, "batch_size": 2, "max_steps": 2}
    hosm.PictureDenoiser(**options, rank=1, verbose=True).fit([picture])
    err = capsys.readouterr().err
    assert "denoiser: 100%" in err and "held-out squared error" in err
