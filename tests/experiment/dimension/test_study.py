"""The comparison of local dimensions: surfaces have the dimension they say, methods find it."""

import importlib.util

import numpy as np
import pandas as pd
import pytest

from hosm.experiment.dimension.study import study
from hosm.experiment.dimension.study.estimators import ESTIMATORS
from hosm.experiment.dimension.study.surfaces import OURS, surface

PACKAGE = importlib.util.find_spec("skdim") is not None
OF_PACKAGE = {"line, disk, ball", "torus", "circle in a torus"}


@pytest.mark.parametrize("name", sorted({*OURS} - OF_PACKAGE))
def test_surfaces_are_finite(name):
    x, truth = surface(name, 60, 0)
    assert x.shape[0] == len(truth) == 60 and np.isfinite(x).all()
    np.testing.assert_array_equal(surface(name, 60, 0)[0], x)


@pytest.mark.parametrize("name", ["Gaussian 10 in 100", "planes 2, 5, 10 in 30"])
def test_planes_have_their_dimension(name):
    x, truth = surface(name, 200, 0)
    for d in np.unique(truth):
        own = x[truth == d]
        assert np.linalg.matrix_rank(own - own.mean(0)) == d


def test_a_lollipop_has_a_stick():
    x, truth = surface("lollipop", 500, 0)
    stick, candy = x[truth == 1], x[truth == 2]
    np.testing.assert_array_equal(stick[:, 0], stick[:, 1])
    assert (np.linalg.norm(candy - 2, axis=1) <= 1).all()
    assert (np.linalg.norm(stick - 2, axis=1) >= 1).all()


@pytest.mark.parametrize(
    ("method", "margin"), [("hosm", 0.1), ("FLIPD of a kernel density", 0.25)]
)
def test_methods_of_ours_find_a_plane(method, margin):
    rng = np.random.default_rng(0)
    x = np.pad(rng.standard_normal((500, 2)), ((0, 0), (0, 1)))
    found = ESTIMATORS[method](x, np.arange(100))
    # a tenth: four standard errors of the mean over points; a kernel of ten rows is biased by 20 %
    assert found.shape == (100,) and found.mean() == pytest.approx(2, rel=margin)


@pytest.mark.skipif(not PACKAGE, reason="scikit-dimension is not installed")
def test_a_row_for_each_method(monkeypatch):
    monkeypatch.setattr(study, "POINTS", 3)
    rows = pd.DataFrame(study.measure("M2_Affine_3to5", 200, 0))
    assert [*rows["method"]] == [*ESTIMATORS] and (rows["d"] == 3).all()
    assert (rows["error"] < 2).all() and (rows["seconds"] >= 0).all()


def test_the_summary_is_a_mean_over_surfaces():
    rows = [
        {"n": 10, "method": m, "d": d, "error": e, "seconds": 1.0}
        for m, d, e in (("a", 2, 0.2), ("a", 10, 3.0), ("b", 2, 1.0))
    ]
    found = study.summary(pd.DataFrame(rows)).set_index("method")
    assert found.loc["a", "error"] == pytest.approx(1.6)
    assert found.loc["a", "relative"] == pytest.approx(0.2)
    assert found.loc["a", "seconds"] == 2 and found.loc["b", "median_relative"] == 0.5
