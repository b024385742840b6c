"""The study of linear inverse problems: its truth, its measures, and a small run."""

import math
from pathlib import Path

import pandas as pd
import pytest
import torch

from hosm.experiment.inverse.study import study
from hosm.experiment.inverse.study.problems import DIMENSION, curves, exact_posterior, tasks
from hosm.experiment.settings import load_params
from hosm.inverse import METHODS, PosteriorSamples
from tests.project.test_layers import ROOT
from tests.tolerances import monte_carlo

DOUBLE = torch.float64


def test_the_exact_posterior_is_bayes_rule():
    """log p(x | y) - log p(x) - log N(y; A x, s^2) is one number for all x."""
    law, operator, noise = curves(), tasks()["random projections"], 0.5
    generator = torch.Generator().manual_seed(0)
    y = operator.forward(law.sample(1, generator))[0]
    posterior = exact_posterior(law, operator, y, noise)
    x = posterior.sample(20, generator)
    seen = -(y - operator.forward(x)).square().sum(1) / (2 * noise**2)
    gap = posterior.log_prob(x) - law.log_prob(x) - seen
    # covariances of condition 1e5 in float64, in log-densities of some hundreds
    torch.testing.assert_close(gap, gap[:1].expand(20), rtol=0, atol=1e-6)


def test_the_tasks_measure_fewer_or_as_many_numbers():
    sizes = {name: operator.measurements for name, operator in tasks().items()}
    expected = {"inpainting": 25, "super-resolution": 10, "blur": DIMENSION}
    assert sizes == expected | {"random projections": 10}


def test_the_distance_of_a_shift_is_its_share_of_each_direction():
    x = torch.randn(50, 4, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    # sums in another order, of numbers of order 1 in float64
    assert study.sliced_distance(x, x.flip(0)) == pytest.approx(0, abs=1e-12)
    shift = torch.tensor([3.0, 0, 0, 0], dtype=DOUBLE)
    mean = 3 * math.gamma(2) / (math.gamma(2.5) * math.pi**0.5)  # of |v_1| on the sphere in 4 D
    bound = 3 * monte_carlo(study.DIRECTIONS, 0.27)  # the deviation of |v_1|
    assert study.sliced_distance(x, x + shift) == pytest.approx(mean, abs=bound)


def test_exact_draws_are_calibrated_and_narrow_ones_are_not():
    law, operator = curves(), tasks()["blur"]
    generator = torch.Generator().manual_seed(0)
    y = operator.forward(law.sample(3, generator))
    posteriors = [exact_posterior(law, operator, each, 0.1) for each in y]
    draws = torch.stack([each.sample(200, generator) for each in posteriors], 1)
    right = study.judged(PosteriorSamples(draws, 0, 0), posteriors, 1)
    means = torch.stack([each.mean for each in posteriors])
    narrow = study.judged(PosteriorSamples(means + (draws - means) / 2, 0, 0), posteriors, 1)
    # intervals of 200 draws in 50 related coordinates: some 1 point off
    assert right["coverage_0.8"] == pytest.approx(0.8, abs=0.03)
    assert narrow["coverage_0.8"] < 0.55 and narrow["distance"] > 2 * right["distance"]
    assert right["mean_error"] < 4 * 200**-0.5


def test_a_small_run_has_a_row_for_each_task_model_and_method():
    params = load_params(Path(ROOT / "params.yaml")).inverse.model_copy(
        update={
            "train_steps": 2,
            "width": 8,
            "rank": 2,
            "steps": 2,
            "measurements": 2,
            "draws": 39,
            "tuning": 1,
            "strengths": (0.3, 1.0),
        }
    )
    frame = pd.DataFrame(study.run_study(params))
    assert len(frame) == 4 * (1 + 2 * len(METHODS))
    assert not frame.duplicated(["task", "model", "method"]).any()
    assert set(frame.loc[frame["method"] == "dps", "strength"]) <= {0.3, 1.0}
    assert (frame.loc[frame["method"].isin(METHODS), "evaluations"] == 2).all()
    assert set(study.headline(frame)) == {f"distance_{method}" for method in METHODS}
