"""Features of scores against exact ones, and tails that are uniform under the law itself."""

import numpy as np
import pytest

import hosm
from hosm.estimator import out_of_distribution_scores, score_features
from tests.tolerances import FLOAT32

RNG = np.random.default_rng(0)
MIXING = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.5, 20.0]])
X, HELD, NEW = (RNG.normal(size=(n, 3)) @ MIXING.T for n in (2000, 500, 500))


@pytest.fixture(scope="module")
def gaussian():
    return hosm.ScoreEstimator(0.2, max_steps=400, method="network", random_state=0).fit(X)


def test_features_are_those_of_the_standardised_law(gaussian):
    scale = gaussian.scaling_.scale.numpy()
    precision = np.linalg.inv(np.cov((X / scale).T) + 0.04 * np.eye(3))
    score = -(NEW - X.mean(0)) / scale @ precision
    found = score_features(gaussian, NEW)
    # what 400 steps on 2,000 points leave: 2 % of the length, .7 % and .3 % of the means
    exact = np.sqrt((score**2).mean(1))
    assert np.abs(found["length"] - exact).mean() < 0.1 * exact.mean()
    trace = -np.trace(precision) / 3
    np.testing.assert_allclose(found["trace"].mean(), trace, rtol=0.05)  # training, as said
    size = np.linalg.norm(precision) / np.sqrt(3)
    np.testing.assert_allclose(found["curvature"].mean(), size, rtol=0.05)  # training, as said
    np.testing.assert_allclose(found["implicit"], found["length"] ** 2 / 2 + found["trace"])


def test_tails_are_uniform_under_the_law_and_small_far_from_it(gaussian):
    for order in (1, 2):
        tail = out_of_distribution_scores(gaussian, NEW, HELD, order=order).tail
        for level in (0.05, 0.2, 0.5):
            error = np.sqrt(level * (1 - level) * (1 / 500 + 1 / 500))
            assert abs((tail <= level).mean() - level) < 4 * error
    far = out_of_distribution_scores(gaussian, NEW + 8 * X.std(0), HELD)
    assert (far.tail == 1 / 501).mean() > 0.95
    assert far.deviation.min() > 0
    seen = out_of_distribution_scores(gaussian, NEW)  # against the training points
    assert (seen.tail <= 0.05).mean() < 0.1


def test_second_order_tells_points_that_the_length_of_the_score_does_not():
    # between two modes the score is 0, as it is at their centres; the curvature has another sign
    two = np.repeat([[-1.0], [1.0]], 1000, 0) + 0.2 * RNG.normal(size=(2000, 1))
    estimator = hosm.ScoreEstimator(0.15, max_steps=600, method="network", random_state=0).fit(two)
    middle = np.linspace(-0.03, 0.03, 7)[:, None]
    first, second = (
        out_of_distribution_scores(estimator, middle, order=order).tail.max() for order in (1, 2)
    )
    assert second < 0.01 < first  # 20 of 2,000 reference points


def test_chunks_change_nothing(gaussian, monkeypatch):
    whole = out_of_distribution_scores(gaussian, NEW[:30], HELD)
    monkeypatch.setattr("hosm.estimator.out_of_distribution.POINTS_PER_CHUNK", 7)
    parts = out_of_distribution_scores(gaussian, NEW[:30], HELD)
    np.testing.assert_allclose(parts.deviation, whole.deviation, **FLOAT32)


def test_bad_input_is_named(gaussian):
    with pytest.raises(ValueError, match="order must be one of 1, 2, got 3"):
        out_of_distribution_scores(gaussian, NEW, order=3)
    with pytest.raises(ValueError, match="reference must hold 4 points or more, got 3"):
        out_of_distribution_scores(gaussian, NEW, HELD[:3])
    with pytest.raises(ValueError, match="X has 2 features"):
        out_of_distribution_scores(gaussian, NEW[:, :2])
    with pytest.raises(ValueError, match="not fitted"):
        out_of_distribution_scores(hosm.ScoreEstimator(), NEW)
