"""Data frames in, data frames out; arrays in, arrays out, of the float type that came in."""

import base64
import io
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import hosm
from hosm.estimator import out_of_distribution_scores
from hosm.pictures import DenoisedPicture

NAMES = ["a", "b", "c"]
X = np.random.default_rng(0).normal(size=(60, 3)) * [1.0, 10.0, 0.1]
FRAME = pd.DataFrame(X, columns=NAMES, index=[f"row {i}" for i in range(60)])
NETWORK = {"method": "network", "max_steps": 2, "random_state": 0}


@pytest.fixture(scope="module")
def estimator():
    return hosm.ScoreEstimator(0.3, **NETWORK).fit(FRAME)


def answers(estimator, points):
    """What an estimator says of each cell of a table."""
    law = estimator.posterior(points)
    low, high = law.interval(0.9)
    return {
        "score": estimator.score_function(points),
        "diagonal": estimator.hessian_diag(points),
        "column": estimator.hessian_column(points, "b"),
        "mean": law.mean,
        "variance": law.variance,
        "std": law.std,
        "low": low,
        "high": high,
    }


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_frame_comes_back_with_its_index_columns_and_float_type(estimator, dtype):
    part = FRAME[5:12].astype(dtype)
    arrays = answers(estimator, part.to_numpy())
    for name, found in answers(estimator, part).items():
        wanted = pd.DataFrame(arrays[name], part.index, part.columns)
        assert isinstance(arrays[name], np.ndarray) and arrays[name].dtype == dtype
        pd.testing.assert_frame_equal(found, wanted)


def test_what_is_no_table_of_the_cells_stays_an_array(estimator):
    part, law = FRAME[:5], estimator.posterior(FRAME[:5])
    values, vectors = law.directions(3)
    found = (values, vectors, law.sample(2, 0), law.clipped_share)
    found += (estimator.hessian(part, dense=True), estimator.local_dimension(part))
    assert all(isinstance(each, np.ndarray) for each in found)
    assert values.shape == (5, 3) and vectors.shape == (5, 3, 3)


def test_columns_that_are_too_many_are_named_with_the_way_to_leave_them_out(estimator):
    wide = FRAME.assign(label=1.0)
    with pytest.raises(
        ValueError, match=r"leave out 'label', as X\[estimator.feature_names_in_\]"
    ):
        estimator.hessian_diag(wide)
    found = estimator.hessian_diag(wide[estimator.feature_names_in_])
    pd.testing.assert_frame_equal(found, estimator.hessian_diag(FRAME))
    with pytest.raises(ValueError, match=r"expecting 3 features as input$"):
        estimator.hessian_diag(wide.rename(columns={"a": "z"}))


def test_draws_have_the_columns_of_the_fit(estimator):
    draws = estimator.sample(4, 0, steps=2)
    assert [*draws.columns] == NAMES and len(draws) == 4
    plain = hosm.ScoreEstimator(0.3, **NETWORK).fit(X).sample(4, 0, steps=2)
    np.testing.assert_array_equal(draws.to_numpy(), plain)


def test_standard_errors_are_frames_too():
    rows = FRAME[["a"]][:30]
    fitted = hosm.ScoreEstimator(0.3, random_state=0).fit(rows)
    for found in fitted.hessian_diag(rows, return_std=True):
        assert found.index.equals(rows.index) and [*found.columns] == ["a"]


def test_a_frame_with_numbers_as_names_keeps_them():
    frame = pd.DataFrame(X)
    found = hosm.ScoreEstimator(0.3, **NETWORK).fit(frame).hessian_diag(frame)
    assert [*found.columns] == [0, 1, 2]


def test_the_graph_of_a_frame_has_its_names():
    edges = hosm.causal.graph(FRAME, pruning="additive")
    assert [*edges.columns] == [*edges.index] == NAMES
    np.testing.assert_array_equal(edges.to_numpy(), hosm.causal.graph(X, pruning="additive"))


def test_scores_of_outliers_have_the_float_type_of_the_rows():
    network = hosm.ScoreEstimator(0.3, **NETWORK)
    detector, single = hosm.OutlierDetector(0.4, estimator=network).fit(X), X.astype(np.float32)
    for rows in (X, single):
        decided = detector.decision_function(rows)
        assert detector.score_samples(rows).dtype == decided.dtype == rows.dtype
        np.testing.assert_array_equal(detector.predict(rows), np.where(decided < 0, -1, 1))
        found = out_of_distribution_scores(detector.estimator_, rows)
        assert found.deviation.dtype == found.features["implicit"].dtype == rows.dtype
        assert found.tail.dtype == np.float64
    assert hosm.local_dimension(single).dtype == np.float32


def test_an_estimator_and_its_posterior_show_themselves_in_a_notebook(estimator):
    page = estimator._repr_html_()
    assert "ScoreEstimator" in page and "networks of both scores at sigma = 0.3" in page
    law = estimator.posterior(FRAME[3:30])
    assert repr(law).startswith("<posterior of 27 points of 3 coordinates, standard deviations ")
    table = law._repr_html_()
    assert [f"<th>{name}</th>" in table for name in (*NAMES, *FRAME.index[3:8])] == [True] * 8
    assert "row 8" not in table
    cell = f"{law.mean.iloc[0, 1]:.4g} ± {law.std.iloc[0, 1]:.2g}"
    assert f"<td>{cell}</td>" in table


def changed(row, name, value):
    """The frame with another value in two rows, of which this is the first."""
    frame = FRAME.astype({name: object})
    frame.loc[f"row {row}", name] = frame.loc["row 50", name] = value
    return frame


BAD = {
    "NaN": (
        changed(7, "b", np.nan),
        "got NaN in 2 of 60 rows, first in column 'b' of the row "
        "with the index row 7; X.dropna() leaves such rows out",
    ),
    "infinity": (
        changed(9, "c", np.inf),
        "got infinity in 2 of 60 rows, first in column 'c' of the row with the index row 9",
    ),
    "text": (
        changed(3, "a", "meadow"),
        "could not convert string to float: 'meadow' in column "
        "'a', first in the row with the index row 3; leave the column out",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_wrong_with_a_frame_is_named_by_column_and_row(estimator, kind):
    frame, message = BAD[kind]
    for call in (hosm.ScoreEstimator(0.3, **NETWORK).fit, estimator.hessian_diag):
        with pytest.raises(ValueError) as caught:
            call(frame)
        assert message in str(caught.value)
    with pytest.raises(ValueError) as caught:
        estimator.posterior(frame)
    assert "X.dropna" not in str(caught.value)


@pytest.mark.parametrize("shape", [(700, 100), (30, 40, 3)])
def test_a_denoised_picture_shows_small_pictures(shape):
    mean = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    found = DenoisedPicture(mean, np.ones(shape, np.float32), 25.0, lambda tile: None)
    assert "sigma 25, standard deviations 1 to 1" in repr(found) and len(repr(found)) < 120
    codes = re.findall(r"base64,([^\"]+)", found._repr_html_())
    pictures = [np.asarray(Image.open(io.BytesIO(base64.b64decode(code)))) for code in codes]
    assert len(pictures) == 2 and max(pictures[0].shape[:2]) <= 320
    assert pictures[0].min() == 0 and pictures[0].max() > 250 and (pictures[1] == 0).all()


def test_a_denoiser_shows_its_parameters():
    assert repr(hosm.PictureDenoiser((1, 2), rank=3)) == "PictureDenoiser(sigma=(1, 2), rank=3)"
