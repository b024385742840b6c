"""scikit-learn's front for outliers: the promised share, its conventions, its own checks."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import hosm
from hosm.estimator import out_of_distribution_scores

RNG = np.random.default_rng(0)
MIXING = np.array([[1.0, 0.0], [0.8, 0.6]])
X, NEW = (RNG.standard_t(5, size=(n, 2)) @ MIXING for n in (99, 400))
NETWORK = hosm.ScoreEstimator(0.2, method="network", max_steps=1, validation_fraction=0.5, rank=0)
EXCUSED = {
    "check_array_api_input",  # runs where SCIPY_ARRAY_API is set, for array API estimators
    "check_outliers_train",  # contamination is the share of new rows, not of those of the fit,
    "check_outliers_fit_predict",  # which are judged by models that have not seen them
    "check_methods_subset_invariance",  # networks are evaluated in float32
}


@pytest.fixture(scope="module")
def detector():
    """A detector of what is unlike 99 rows."""
    return hosm.OutlierDetector(0.1, random_state=0).fit(X)


def test_outliers_are_the_rows_whose_tail_is_at_most_the_contamination(detector):
    found = out_of_distribution_scores(detector.estimator_, NEW)
    outlier = detector.predict(NEW) == -1
    np.testing.assert_array_equal(outlier, found.tail <= 0.1)  # 10 of 100
    assert 0.02 < outlier.mean() < 0.25  # four standard errors of a share of 99 rows and 400
    np.testing.assert_array_equal(detector.score_samples(NEW), -found.deviation)
    decision = detector.decision_function(NEW)
    np.testing.assert_array_equal(decision, -found.deviation - detector.offset_)
    np.testing.assert_array_equal(outlier, decision < 0)


def test_rows_beyond_all_of_the_reference_are_ranked_too(detector):
    far = np.array([[1.0, -1.0]]) * np.array([[8.0], [20.0], [1e3], [1e30]])
    score = detector.score_samples(far)
    assert np.all(np.diff(score) < 0) and np.all(np.isfinite(score))
    assert np.all(detector.predict(far) == -1)


def test_training_rows_are_judged_by_models_that_have_not_seen_them():
    detector = hosm.OutlierDetector(0.1, random_state=0)
    found = detector.fit_predict(X)
    own = detector.estimator_.fitted_.unseen[:, 1].numpy()
    np.testing.assert_array_equal(found == -1, own >= np.sort(own)[-9])  # a tenth of 99
    with pytest.warns(UserWarning, match="1 / 51"):
        networks = hosm.OutlierDetector(0.01, estimator=NETWORK, random_state=0)
        found = networks.fit_predict(X)
    np.testing.assert_array_equal(found, networks.predict(X))


def test_first_order_alone_counts_the_length_of_the_score():
    detector = hosm.OutlierDetector(0.1, order=1, estimator=NETWORK, random_state=0).fit(X)
    found = out_of_distribution_scores(detector.estimator_, NEW, order=1)
    np.testing.assert_array_equal(detector.predict(NEW) == -1, found.tail <= 0.1)
    np.testing.assert_array_equal(detector.score_samples(NEW), -found.deviation)


def test_it_works_in_pipelines_with_frames_and_copies():
    frame = pd.DataFrame(X, columns=["a", "b"])
    detector = hosm.OutlierDetector(0.2, estimator=NETWORK, random_state=0)
    chain = make_pipeline(StandardScaler().set_output(transform="pandas"), detector)
    assert set(chain.fit(frame).predict(frame)) <= {-1, 1}
    assert [*detector.feature_names_in_] == ["a", "b"] and detector.n_features_in_ == 2
    chain.set_params(outlierdetector__estimator__sigma=0.3)
    other = clone(chain)[-1]
    assert other.estimator.sigma == 0.3 and other.contamination == 0.2
    assert other.estimator is not NETWORK and not hasattr(other, "estimator_")
    assert not hasattr(NETWORK, "fitted_")  # a copy was fitted
    assert other.get_params()["estimator__method"] == "network"


def test_a_seed_makes_fits_repeatable():
    pair = [hosm.OutlierDetector(estimator=NETWORK, random_state=3).fit(X) for _ in range(2)]
    np.testing.assert_array_equal(*(each.score_samples(NEW) for each in pair))


def test_scikit_learns_own_checks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            hosm.OutlierDetector(estimator=NETWORK), on_fail=None, on_skip=None
        )
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] != "passed"}
    assert set(failed) <= EXCUSED, failed
    assert len(results) > 40


def test_bad_input_is_named():
    for share in (0, 0.6, -1):
        with pytest.raises(
            ValueError, match=f"contamination must be above 0 and at most 0.5, got {share}"
        ):
            hosm.OutlierDetector(share).fit(X)
    with pytest.raises(ValueError, match="order must be one of 1, 2, got 3"):
        hosm.OutlierDetector(order=3, estimator=NETWORK).fit(X)
    with pytest.raises(ValueError, match="reference must hold 4 points or more, got 3"):
        hosm.OutlierDetector(estimator=NETWORK).fit(X[:6])
    with pytest.raises(NotFittedError, match="not fitted"):
        hosm.OutlierDetector().predict(X)
    with pytest.raises(ValueError, match="X has 1 features"):
        hosm.OutlierDetector(0.2, estimator=NETWORK).fit(X).predict(X[:, :1])
