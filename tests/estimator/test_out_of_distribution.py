"""Features of scores against exact ones, and tails that are uniform under the law itself."""

import numpy as np
import pytest
import torch

import hosm
from hosm.distributions import GaussianMixture
from hosm.estimator import out_of_distribution_scores, score_features
from hosm.estimator.choice import deal
from hosm.estimator.closed_form import ClosedFormModel
from hosm.estimator.features import Usual, features_of, unseen_deviations
from hosm.estimator.simple_laws import SimpleLaw
from hosm.io import read_archive, write_archive
from tests.tolerances import FLOAT32, FLOAT64

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
    held_out = out_of_distribution_scores(gaussian, NEW)  # 200 of the training points
    error = np.sqrt(0.05 * 0.95 * (1 / 500 + 1 / 200))
    assert abs((held_out.tail <= 0.05).mean() - 0.05) < 4 * error


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
    monkeypatch.setattr("hosm.estimator.features.NUMBERS_PER_CHUNK", 100)
    parts = out_of_distribution_scores(gaussian, NEW[:30], HELD)
    np.testing.assert_allclose(parts.deviation, whole.deviation, **FLOAT32)


def test_bad_input_is_named(gaussian):
    with pytest.raises(ValueError, match="order must be one of 1, 2, got 3"):
        out_of_distribution_scores(gaussian, NEW, order=3)
    with pytest.raises(ValueError, match="reference must hold 4 points or more, got 3"):
        out_of_distribution_scores(gaussian, NEW, HELD[:3])
    few = hosm.ScoreEstimator(0.2, max_steps=1, method="network").fit(X[:30])
    with pytest.raises(ValueError, match="reference must hold 4 points or more, got 3"):
        out_of_distribution_scores(few, NEW)
    with pytest.raises(ValueError, match="X has 2 features"):
        out_of_distribution_scores(gaussian, NEW[:, :2])
    with pytest.raises(ValueError, match="not fitted"):
        out_of_distribution_scores(hosm.ScoreEstimator(), NEW)


def dense(law, y):
    """The features of a law at points, by its exact score and Hessian."""
    s1, s2 = law.score(y).numpy(), law.hessian(y).numpy()
    curvature = np.linalg.norm(s2, axis=(1, 2)) / np.sqrt(3)
    return np.stack([np.sqrt((s1**2).mean(1)), np.trace(s2, axis1=1, axis2=2) / 3, curvature], 1)


def test_features_in_closed_form_are_exact():
    y = torch.from_numpy(RNG.normal(size=(40, 3)))
    wide = torch.eye(3).double()
    law = GaussianMixture(
        torch.tensor([0.3, 0.7]).double(), y[:2].clone(), torch.stack([wide, wide / 4])
    )
    found = features_of(ClosedFormModel(law, None, 0.1), y)
    np.testing.assert_allclose(found.numpy(), dense(law, y), **FLOAT64)
    y = torch.from_numpy(RNG.normal(size=(40, 65)))
    wide = torch.eye(65).double() + 0.5
    law = GaussianMixture(torch.ones(1).double(), y[:1].clone(), wide[None])
    found = features_of(ClosedFormModel(law, None, 0.1), y)[0]
    diagonal = -torch.linalg.inv(wide).diagonal()
    assert float(found[1]) == pytest.approx(float(diagonal.mean()))
    assert float(found[2]) == pytest.approx(float(diagonal.square().mean().sqrt()))


def fitted(x):
    """A law fitted to rows, which is better at these rows than elsewhere."""
    return ClosedFormModel(SimpleLaw(1, "full").fit(x).smoothed(0.1), None, 0.1)


def test_each_row_is_judged_by_a_model_that_has_not_seen_it():
    y = torch.from_numpy(RNG.normal(size=(60, 3)))
    fold = torch.arange(60) % 5
    models = [fitted(y[fold != k]) for k in range(5)]
    found = unseen_deviations(models, fold, y).numpy()
    for i in range(0, 60, 7):
        model, others = models[fold[i]], y[fold != fold[i]]
        values, own = (dense(model.law, each) for each in (others, y[i : i + 1]))
        for each in (values, own):
            each[:, [0, 2]] = np.log(each[:, [0, 2]])
        mean, spread = values.mean(0), values.std(0, ddof=1)
        assert found[i, 0] == pytest.approx(abs(own[0, 0] - mean[0]) / spread[0])
    # of one Gaussian the trace and the curvature do not vary, and the floor decides


def test_deviations_are_mahalanobis_distances():
    values = torch.from_numpy(np.exp(RNG.normal(size=(50, 3)) @ MIXING.T / 20))
    values[:, 1] = values[:, 1].log()
    logs = torch.stack([values[:, 0].log(), values[:, 1], values[:, 2].log()], 1).numpy()
    usual = Usual(torch.from_numpy(logs.mean(0)), torch.from_numpy(np.cov(logs.T)))
    centred = logs - logs.mean(0)
    expected = np.sqrt(np.sum(centred @ np.linalg.inv(np.cov(logs.T)) * centred, 1))
    found = usual.deviations(values).numpy()
    np.testing.assert_allclose(found[:, 1], expected, rtol=1e-6)  # the floor is 1e-9 of the trace
    first = np.abs(centred[:, 0]) / logs[:, 0].std(ddof=1)
    np.testing.assert_allclose(found[:, 0], first, rtol=1e-6)  # as above


def beyond(y, new, own):
    """The share of new rows with tail <= .05 beside the deviations of rows by order 1."""
    model = fitted(y)
    usual = Usual.at(model, y)
    found = usual.deviation(features_of(model, new), 1)
    own = usual.deviation(features_of(model, y), 1) if own is None else own
    tail = (1 + (own >= found[:, None]).sum(1)) / (1 + len(own))
    return float((tail <= 0.05).double().mean())


def test_unseen_rows_keep_the_promise_that_seen_ones_break():
    kept, broken = [], []
    for seed in range(20):
        draws = torch.from_numpy(np.random.default_rng(seed).normal(size=(600, 8)))
        y, new = draws[:100], draws[100:]
        fold = deal(y)
        own = unseen_deviations([fitted(y[fold != k]) for k in range(5)], fold, y)[:, 0]
        kept.append(beyond(y, new, own))
        broken.append(beyond(y, new, None))
    error = np.std(kept, ddof=1) / np.sqrt(20)
    assert np.mean(kept) < 0.05 + 4 * error < 0.07
    assert np.mean(kept) > 0.02  # models of 80 rows err more than that of 100
    assert np.mean(broken) > 0.08


def test_the_reference_of_a_closed_form_is_all_rows_and_is_saved(tmp_path):
    estimator = hosm.ScoreEstimator(0.1, random_state=0).fit(X[:100])
    assert estimator.fitted_.unseen.shape == (100, 2)
    found = out_of_distribution_scores(estimator, NEW)
    assert found.tail.min() >= 1 / 101 and 0 < (found.tail <= 0.05).mean() < 0.15
    estimator.save(tmp_path / "a")
    back = out_of_distribution_scores(hosm.ScoreEstimator.load(tmp_path / "a"), NEW)
    np.testing.assert_array_equal(back.tail, found.tail)
    tensors, card = read_archive(tmp_path / "a")
    tensors.pop("unseen")  # as in files of before
    write_archive(tmp_path / "a", tensors, card)
    old = hosm.ScoreEstimator.load(tmp_path / "a")
    with pytest.raises(ValueError, match="reference must hold 4 points or more, got 0"):
        out_of_distribution_scores(old, NEW)
    named = out_of_distribution_scores(old, NEW, HELD)
    np.testing.assert_array_equal(named.deviation, found.deviation)
