"""Figure 1: the study's frames, exact scores without error, and the noise that sigma brings."""

import numpy as np
import pandas as pd
import pytest
import torch

from hosm.experiment.data.datasets import law
from hosm.experiment.reduction import study as reduction
from hosm.experiment.reduction.figures import reduction_figure
from hosm.experiment.settings import ReductionParams
from hosm.objectives import joint_terms
from hosm.operators import DiagonalPlusLowRank
from tests.tolerances import FLOAT32, monte_carlo

TARGETS = ("moment", "residual", "jacobian")


def choices(**changes):
    base = {"sigmas": (0.01, 0.1), "targets": TARGETS, "seeds": (0, 1), "width": 8}
    base |= {"learning_rate": 1e-2, "batch_size": 16, "max_steps": 20, "record_every": 10}
    return ReductionParams(**{**base, **changes})


@pytest.fixture(scope="module")
def frames():
    return reduction.study(choices())


def test_every_cell_has_its_curves_estimates_and_errors(frames):
    curves, estimates, numbers = frames
    cells = 2 * 2 * len(TARGETS)  # sigmas, reductions
    assert len(numbers) == cells and set(numbers["seeds"]) == {2}
    assert len(curves) == cells * 2 * 2 and set(curves["step"]) == {10, 20}
    assert len(estimates) == cells * 2 * len(reduction.LINE)
    last = curves[(curves["step"] == 20)].groupby(["sigma", "reduction", "target"])["s2_error"]
    merged = numbers.set_index(["sigma", "reduction", "target"])["s2_error"]
    assert np.allclose(last.mean().sort_index(), merged.sort_index())
    assert set(estimates["exact_s2"].round(4)) == {round(-1 / 1.0001, 4), round(-1 / 1.01, 4)}


def test_all_targets_stand_on_one_s1_whatever_else_is_trained(frames):
    curves = frames[0]
    cell = ["sigma", "reduction", "seed", "step"]
    assert (curves.groupby(cell)["s1_error"].nunique() == 1).all()
    alone = reduction.study(choices(targets=("jacobian",), sigmas=(0.1,)))[0]
    keys = [*cell, "target"]
    both = curves.merge(alone, on=keys, suffixes=("", "_alone"))
    assert len(both) == len(alone) == 8
    assert np.allclose(both["s2_error"], both["s2_error_alone"], **FLOAT32)


def test_exact_scores_have_no_error_and_the_least_loss():
    smoothed = law("gaussian2").smoothed(0.3)
    exact = lambda x: (  # noqa: E731
        smoothed.score(x),
        DiagonalPlusLowRank.from_diagonal(smoothed.hessian_diag(x)),
    )
    x = smoothed.sample(100, torch.Generator().manual_seed(0))
    squares = FLOAT32["atol"] ** 2
    assert reduction.errors(exact, smoothed, x) == pytest.approx((0, 0), abs=squares)  # rounding
    least = reduction.least_losses(smoothed)
    precision = 1 / 1.09
    # -1/2 E |s1|^2 = -D precision / 2, of |s1|^2 that is exponential
    assert least["dsm"] == pytest.approx(-precision, rel=monte_carlo(reduction.LEAST_POINTS))
    assert least["residual"] == pytest.approx(-2 * precision**2, rel=FLOAT32["rtol"])


@pytest.mark.parametrize(("target", "power"), [("moment", -4), ("residual", -4)])
def test_noise_grows_as_sigma_falls_unless_it_is_reduced(target, power):
    """Variances over samples of fixed scores, on a log-log axis: slopes -2, -4, and none."""
    exact, draw = law("gaussian2"), torch.Generator().manual_seed(0)
    x, z = exact.sample(300, draw).double(), torch.randn(300, 2, generator=draw).double()
    wrong = lambda points: (  # noqa: E731
        -0.7 * points,
        DiagonalPlusLowRank.from_diagonal(-0.8 * torch.ones_like(points)),
    )
    sigmas = np.array([1e-3, 1e-2])

    def slopes(kind):
        variances = []
        for sigma in sigmas:
            one = [
                torch.stack(
                    joint_terms(wrong, a, float(sigma), target, kind, z=b)  # type: ignore[arg-type]
                )
                for a, b in zip(x.split(1), z.split(1), strict=True)
            ]
            variances.append(torch.stack(one).var(0).numpy())
        return np.log(variances[1] / variances[0]) / np.log(10)

    # the same draws at both; a share of sigma = .01 is of the next order: log10 1.01 = .004
    assert slopes(None) == pytest.approx([-2, power], abs=0.02)
    assert slopes("antithetic") == pytest.approx([0, 0], abs=0.02)  # as said


def test_a_run_that_diverges_is_told(capsys):
    curves, estimates, numbers = reduction.study(
        choices(learning_rate=1e20, seeds=(0,), sigmas=(0.1,))
    )
    assert (numbers["diverged"] > 0).any() and "diverged at step" in capsys.readouterr().out
    assert not np.isfinite(curves["s2_error"]).all()
    assert reduction.headline(numbers)["diverged"] == numbers["diverged"].sum()
    none_left = reduction_figure(curves, estimates.iloc[:0])
    assert none_left.axes[-1].get_title(loc="left") == "no estimates: every run diverged"


def test_runs_that_are_finished_are_not_repeated(frames, tmp_path, monkeypatch):
    """A study that is stopped in its third run goes on with it, and ends alike."""
    begun, run = [], reduction._run

    def stopped(settings, cell):
        if len(begun) == 2:
            raise KeyboardInterrupt
        begun.append(cell)
        return run(settings, cell)

    monkeypatch.setattr(reduction, "_run", stopped)
    with pytest.raises(KeyboardInterrupt):
        reduction.study(choices(), tmp_path)
    later = []
    monkeypatch.setattr(reduction, "_run", lambda s, cell: later.append(cell) or run(s, cell))
    for whole, again in zip(frames, reduction.study(choices(), tmp_path), strict=True):
        timed = [name for name in whole if name == "seconds"]
        pd.testing.assert_frame_equal(whole.drop(columns=timed), again.drop(columns=timed))
    assert len(later) == 6 and not [cell for cell in later if cell in begun]
    later.clear()
    reduction.study(choices(seeds=(0, 1, 2)), tmp_path)
    assert {cell["seed"] for cell in later} == {2}
    later.clear()
    reduction.study(choices(max_steps=30), tmp_path)
    assert len(later) == 8  # of other settings nothing is taken


def test_the_figure_names_what_it_shows(frames):
    figure = reduction_figure(*frames[:2])
    words = [text.get_text() for ax in figure.axes for text in (ax.title, *ax.texts)]
    words += [ax.get_title(loc="left") for ax in figure.axes]
    assert len(figure.axes) == 4
    assert words.count("What every seed learned at σ = 0.01") == 2
    for text in ("without variance reduction", "with variance reduction", "the answer 0"):
        assert words.count(text) == 2  # of s1 and of s2
    far = frames[1].assign(s2=np.where(frames[1]["seed"] == 0, 99.0, frames[1]["s2"]))
    texts = [text.get_text() for text in reduction_figure(frames[0], far).axes[-1].texts]
    assert texts == ["off the chart: 2 of 4 runs", "grey: exact"]
