"""The front door: exact laws, the chain rule, scikit-learn's conventions, files."""

import json
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

import hosm
from hosm.distributions import GaussianMixture
from hosm.estimator import NotFittedError, answers, gaussian_start, implicit_loss
from hosm.networks import MLP
from tests.tolerances import FLOAT32, FLOAT64, monte_carlo

MEAN = np.array([5.0, -3.0, 0.1])
SCALES = np.array([0.01, 10.0, 1.0])
CORRELATION = np.array([[1.0, 0.3, 0.6], [0.3, 1.0, -0.4], [0.6, -0.4, 1.0]])
COVARIANCE = CORRELATION * np.outer(SCALES, SCALES)
X = np.random.default_rng(0).multivariate_normal(MEAN, COVARIANCE, 2000)
NOISE = 0.2 * SCALES
TEST = np.random.default_rng(1).multivariate_normal(MEAN, COVARIANCE + np.diag(NOISE**2), 200)
NETWORK = {"method": "network", "random_state": 0}
QUICK = {"sigma": 0.1, "max_steps": 4, **NETWORK}
SKIPPED = {"check_array_api_input"}  # runs where SCIPY_ARRAY_API is set, for array API estimators


def smoothed_precision():
    return np.linalg.inv(COVARIANCE + np.diag(NOISE**2))


@pytest.fixture(scope="module")
def gaussian():
    """An estimator by networks of a Gaussian whose coordinates differ in scale by a thousand."""
    return hosm.ScoreEstimator(0.2, max_steps=600, **NETWORK).fit(X)


@pytest.fixture(scope="module")
def quick():
    """An estimator that has hardly learned."""
    return hosm.ScoreEstimator(**QUICK).fit(X)


DOUBLE = {"rtol": FLOAT64["rtol"], "atol": 0}  # float64 rounding, whatever the units


def relative(matrix):
    """Entries of Hessians in units of standard deviations, where all are of one size."""
    return matrix * np.outer(SCALES, SCALES)


def test_scores_and_hessians_are_those_of_the_smoothed_gaussian_in_the_datas_units(gaussian):
    # the standard deviations are those of the 2,000 points
    np.testing.assert_allclose(gaussian.noise_std_, NOISE, rtol=monte_carlo(2 * 2000))
    truth = -smoothed_precision()
    error = (gaussian.score_function(TEST) - (TEST - MEAN) @ truth) * SCALES
    # 600 steps leave .095 of 1.1, the score's own size, and .045 of the Hessian's
    assert np.sqrt((error**2).mean()) < 0.15
    dense = gaussian.hessian(TEST, dense=True)
    assert dense.shape == (200, 3, 3)
    size = np.linalg.norm(relative(truth))
    error = np.sqrt((relative(dense - truth) ** 2).sum((1, 2)).mean())
    assert error < 0.1 * size  # training, as said
    np.testing.assert_allclose(gaussian.hessian_diag(TEST), dense.diagonal(0, 1, 2), **DOUBLE)
    for j in range(3):
        np.testing.assert_allclose(gaussian.hessian_column(TEST, j), dense[:, :, j], **DOUBLE)
    operator = gaussian.hessian(TEST)
    np.testing.assert_allclose(operator.to_dense().numpy(), dense, **DOUBLE)


def test_another_unit_of_each_coordinate_is_the_chain_rule_and_nothing_else(quick):
    factors = np.array([1e3, 1e-2, 7.0])
    other = hosm.ScoreEstimator(**QUICK).fit(factors * X - 5)
    moved = factors * X[:50] - 5
    pairs = [
        (other.score_function(moved) * factors, quick.score_function(X[:50])),
        (other.hessian_diag(moved) * factors**2, quick.hessian_diag(X[:50])),
        (other.posterior(moved).mean + 5, quick.posterior(X[:50]).mean * factors),
        (other.posterior(moved).variance, quick.posterior(X[:50]).variance * factors**2),
        (other.noise_std_, quick.noise_std_ * factors),
        (other.sample(20, 0, steps=3) + 5, quick.sample(20, 0, steps=3) * factors),
    ]
    for ours, theirs in pairs:
        # a point may differ in its last digit in float32, and the first steps of Adam pass on the
        # sign of a gradient however small it is
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4 * np.abs(theirs).max())
    # a mean over 2,000 points, whose differences cancel in part
    assert other.score(factors * X - 5) == pytest.approx(quick.score(X), rel=1e-4)


def test_without_standardisation_the_noise_is_one_number_in_the_datas_units():
    rng = np.random.default_rng(0)
    points = rng.multivariate_normal([40.0, 0.0], [[900.0, 0.0], [0.0, 100.0]], 2000)
    options = {"max_steps": 300, **NETWORK}
    estimator = hosm.ScoreEstimator(5.0, standardise=False, **options).fit(points)
    assert estimator.sigma_ == 5.0
    np.testing.assert_allclose(estimator.noise_std_, 5.0)
    truth = -1 / (np.array([900.0, 100.0]) + 25)
    # four standard errors of a variance over 2,000 points, .13, and what training leaves
    np.testing.assert_allclose(estimator.hessian_diag(points[:200]).mean(0), truth, rtol=0.15)


def test_posterior_is_that_of_the_gaussian(gaussian):
    law = gaussian.posterior(TEST)
    gain = COVARIANCE @ smoothed_precision()
    truth = COVARIANCE - gain @ COVARIANCE
    error = law.mean - (MEAN + (TEST - MEAN) @ gain.T)
    assert np.all(np.sqrt((error**2).mean(0)) < 0.15 * NOISE)  # training: .03 was seen
    sampling = monte_carlo(2000, 2**0.5)  # of the variances of the points; training leaves less
    np.testing.assert_allclose(law.variance.mean(0), np.diag(truth), rtol=sampling)
    draws = law.sample(4000, random_state=0)
    assert draws.shape == (4000, 200, 3)
    spread = np.sqrt(law.variance / 4000)
    assert np.abs((draws.mean(0) - law.mean) / spread).max() < 4.5  # of 600 normal numbers
    values, directions = law.directions(2)
    assert values.shape == (200, 2) and directions.shape == (200, 3, 2)
    leading = np.linalg.eigvalsh(truth)[::-1][0]
    np.testing.assert_allclose(values[:, 0].mean(), leading, rtol=sampling)  # as above
    low, high = law.interval(0.9)
    assert np.all(low < law.mean) and np.all(law.mean < high)
    assert np.all(law.clipped_share == 0)


@pytest.mark.parametrize("law", ["noisy", "clean"])
def test_draws_have_the_stated_law_wherever_chains_start(gaussian, monkeypatch, law):
    one_start = replace(gaussian.fitted_, starts=gaussian.starts_[:1])
    monkeypatch.setattr(gaussian, "fitted_", one_start)
    options = {"random_state": 0, "law": law, "steps": 400}  # of 2 / eps = 50 a relaxation time
    draws = gaussian.sample(1000, **options)
    noise = NOISE**2 if law == "noisy" else 0
    expected = np.cov(X.T) + np.diag(noise * np.ones(3))
    bias = 0.03  # that is stated
    allowed = monte_carlo(1000, 2**0.5) + bias
    np.testing.assert_allclose(draws.var(0), np.diag(expected), rtol=allowed)  # as said
    allowed = monte_carlo(1000) + bias
    np.testing.assert_allclose(np.corrcoef(draws.T), CORRELATION, atol=allowed)  # as said
    error = np.abs(draws.mean(0) - X.mean(0)) / np.sqrt(np.diag(expected) / 1000)
    assert error.max() < 4.5
    np.testing.assert_array_equal(draws[:9], gaussian.sample(1000, **options)[:9])


def test_draws_start_as_noisy_training_points(gaussian):
    draws = gaussian.sample(2000, random_state=0, steps=0)
    expected = np.diag(np.cov(X.T)) + NOISE**2
    np.testing.assert_allclose(draws.var(0), expected, rtol=monte_carlo(1000, 2**0.5))


def test_implicit_loss_is_half_the_squared_error_up_to_a_constant():
    means = torch.tensor([[-1.5, 0.0], [1.5, 1.0]])
    covariances = torch.stack([0.3 * torch.eye(2), torch.diag(torch.tensor([0.2, 0.6]))])
    law = GaussianMixture(torch.tensor([0.4, 0.6]), means, covariances)
    x = law.sample(20_000, torch.Generator().manual_seed(0))
    exact = implicit_loss(law.score, x)
    for sigma in (0.2, 0.5, 1.0):
        smooth = law.smoothed(sigma).score
        error = (smooth(x) - law.score(x)).square().sum(1) / 2
        gap = implicit_loss(smooth, x) - exact - error
        assert abs(float(gap.mean())) < 4 * float(gap.std()) / len(gap) ** 0.5


def test_implicit_loss_of_many_coordinates_is_estimated_without_bias():
    matrix = torch.randn(100, 100, generator=torch.Generator().manual_seed(0))
    loss = implicit_loss(lambda x: x @ matrix.mT, torch.zeros(1, 100))
    spread = (matrix + matrix.mT).fill_diagonal_(0).square().sum().div(2).sqrt() / 8  # 64 probes
    assert abs(float(loss - matrix.trace())) < 4 * float(spread)
    few = implicit_loss(lambda x: x @ matrix[:50, :50].mT, torch.zeros(1, 50))
    torch.testing.assert_close(few, matrix[:50, :50].trace().unsqueeze(0))


def test_sigma_is_the_one_whose_score_is_best_on_held_out_points():
    two = np.random.default_rng(0).normal(size=(600, 1)) * 0.1 + np.repeat([[-1.0], [1.0]], 300, 0)
    found = []
    options = {"max_steps": 150, **NETWORK, "callback": found.append}
    estimator = hosm.ScoreEstimator([1.0, 0.05, 0.3], **options).fit(two)
    assert [*estimator.search_] == [1.0, 0.05, 0.3]
    assert estimator.sigma_ == max(estimator.search_, key=estimator.search_.get) == 0.05
    assert estimator.search_[0.05] > estimator.search_[1.0] + 1
    assert {(each["network"], each["sigma"]) for each in found} == {
        ("s1", 1.0), ("s1", 0.05), ("s1", 0.3), ("s2", 0.05)
    }  # fmt: skip
    assert {"step", "train_dsm", "validation_dsm"} <= set(found[0])


def test_score_is_minus_the_implicit_loss_and_serves_a_grid_search(gaussian):
    y = gaussian.scaling_.into(torch.from_numpy(TEST))
    expected = -float(implicit_loss(gaussian.model_.score, y).double().mean())
    assert gaussian.score(TEST) == pytest.approx(expected)
    search = GridSearchCV(hosm.ScoreEstimator(**QUICK), {"sigma": [0.1, 3.0]}, cv=2).fit(X[:300])
    assert search.best_params_ == {"sigma": 0.1}


def test_scikit_learns_own_checks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            hosm.ScoreEstimator(0.1, method="network", max_steps=1), on_fail=None, on_skip=None
        )
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] != "passed"}
    assert set(failed) <= SKIPPED, failed
    assert len(results) > 30


def test_parameters_are_stored_unchanged_and_cloned():
    given = {"sigma": [0.1, 0.2], "rank": np.int64(2), "backbone": nn.Linear(3, 3)}
    estimator = hosm.ScoreEstimator(**given, callback=print)
    assert all(estimator.get_params()[name] is value for name, value in given.items())
    other = clone(estimator)
    assert other.get_params()["sigma"] == [0.1, 0.2] and other is not estimator
    assert repr(hosm.ScoreEstimator(0.3, rank=1)) == "ScoreEstimator(sigma=0.3, rank=1)"
    with pytest.raises(ValueError, match="must be among sigma, method, .*, got 'sigmas'"):
        estimator.set_params(sigmas=1)


def test_arrays_frames_and_tensors_give_the_same_and_keep_their_float_type(quick):
    names = ["a", "b", "c"]
    frame = pd.DataFrame(X, columns=names)
    by_frame = hosm.ScoreEstimator(**QUICK).fit(frame)
    assert [*by_frame.feature_names_in_] == names and not hasattr(quick, "feature_names_in_")
    for j, name in enumerate(names):
        column = by_frame.hessian_column(frame, name)
        np.testing.assert_array_equal(column, by_frame.hessian_column(frame, j))
    with pytest.raises(ValueError, match="j must be a column of the fit, .*, got 'z'"):
        by_frame.hessian_column(frame, "z")
    with pytest.raises(ValueError, match="no names: the fit was to an array, got 'a'"):
        quick.hessian_column(X, "a")
    expected = quick.hessian_diag(X[:9])
    for points in (X[:9], X[:9].tolist(), torch.from_numpy(X[:9]), frame[:9]):
        result = by_frame.hessian_diag(points)
        kind = pd.DataFrame if isinstance(points, pd.DataFrame) else np.ndarray
        assert isinstance(result, kind) and np.asarray(result).dtype == np.float64
        np.testing.assert_array_equal(result, expected)
    single = X[:9].astype(np.float32)
    for points in (single, torch.from_numpy(single), torch.from_numpy(single).bfloat16()):
        assert quick.score_function(points).dtype == np.float32
        assert quick.hessian(points).diag.dtype == torch.float32
        assert quick.posterior(points).variance.dtype == np.float32
    integers = np.arange(9).reshape(3, 3)
    assert quick.score_function(integers).dtype == np.float64
    with pytest.raises(ValueError, match=r"columns \['a', 'b', 'c'\], got \['c', 'b', 'a'\]"):
        by_frame.score_function(frame[names[::-1]])


def test_chunks_change_nothing(quick, monkeypatch):
    whole = quick.hessian_diag(X[:20]), quick.hessian(X[:20]).to_dense().numpy()
    monkeypatch.setattr(answers, "NUMBERS_PER_CHUNK", 100)
    parts = quick.hessian_diag(X[:20]), quick.hessian(X[:20]).to_dense().numpy()
    np.testing.assert_allclose(parts[0] * SCALES**2, whole[0] * SCALES**2, **FLOAT32)
    np.testing.assert_allclose(relative(parts[1]), relative(whole[1]), **FLOAT32)


def test_a_seed_makes_fits_repeatable_and_leaves_torchs_own_state_alone(quick):
    state = torch.get_rng_state()
    again = hosm.ScoreEstimator(**QUICK).fit(X)
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(again.score_function(X), quick.score_function(X))
    other = hosm.ScoreEstimator(**{**QUICK, "random_state": 1}).fit(X)
    assert not np.array_equal(other.score_function(X), quick.score_function(X))
    drawn = [np.random.RandomState(3), np.random.default_rng(3), None]
    for source in drawn:
        assert quick.sample(2, source, steps=0).shape == (2, 3)


def test_modules_that_are_given_are_copied_and_trained():
    torch.manual_seed(0)
    backbone, head = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3)), nn.Linear(3, 6)
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    estimator = hosm.ScoreEstimator(rank=1, backbone=backbone, head=head, **QUICK).fit(X)
    assert all(torch.equal(before[k], v) for k, v in backbone.state_dict().items())
    trained = estimator.model_.trunk.module.state_dict()
    assert not torch.equal(trained["0.weight"], before["0.weight"])
    assert estimator.hessian(X[:4]).rank == 1
    with pytest.raises(
        ValueError, match=r"must return the shape \(512, 1, 3\) .*, got \(512, 6\)"
    ):
        hosm.ScoreEstimator(backbone=head, **QUICK).fit(X)  # 256 points and their mirror images


def test_training_starts_at_the_gaussian_that_fits_the_data():
    x = torch.randn(4000, 3, generator=torch.Generator().manual_seed(0)) @ torch.tensor(
        [[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.3, 0.8]]
    )
    network = MLP(3, 1, skip=True)
    gaussian_start(network, x, 0.3)
    covariance = torch.cov(x.mT) + 0.09 * torch.eye(3)
    expected = (x.mean(0) - x[:50]) @ torch.linalg.inv(covariance)
    # the covariance is shrunk, by a share of order 1 / n
    torch.testing.assert_close(network(x[:50])[:, 0], expected, rtol=0.02, atol=0.02)


def test_a_column_that_does_not_vary_is_divided_by_one():
    points = X[:200].copy()
    points[:, 1] = 1e6
    estimator = hosm.ScoreEstimator(**QUICK).fit(points)
    assert estimator.noise_std_[1] == estimator.sigma_
    assert np.isfinite(estimator.hessian_diag(points)).all()


BAD = {
    "one point": ({}, X[:1], "1 sample(s) (shape=(1, 3)) while a minimum of 4"),
    "a row": ({}, X[0], "X must have shape (n, D), got (3,)"),
    "NaN": ({}, np.where(X == X[7, 1], np.nan, X), "X must hold finite numbers, got NaN"),
    "texts": ({}, X.astype(str), "X must hold real numbers, got <U"),
    "a text": (
        {},
        np.array([["x", 1.0]] * 9, dtype=object),
        "X must hold real numbers: could not",
    ),
    "equal rows": ({}, np.ones((50, 3)), "X must hold 4 or more different rows"),
    "sigma of 0": ({"sigma": 0.0}, X, "got 0.0"),
    "sigma of a word": ({"sigma": "best"}, X, "sigma must be above 0, or 'auto', got 'best'"),
    "no sigma": ({"sigma": []}, X, "sigma must hold at least one number, got none"),
    "rank above D": ({"rank": 4}, X, "rank must be a whole number from 0 to 3, got 4"),
    "target": (
        {"target": "likelihood"},
        X,
        "target must be one of jacobian, residual, moment, got 'likelihood'",
    ),
    "fraction": (
        {"validation_fraction": 1.0},
        X,
        "validation_fraction must be between 0 and 1, got 1.0",
    ),
    "steps": ({"max_steps": 0}, X, "max_steps must be a whole number of 1 or more, got 0"),
    "rate": ({"learning_rate": -1.0}, X, "learning_rate must be above 0"),
    "seed": ({"random_state": -1}, X, "random_state must be a whole number from 0"),
    "denoiser": ({"denoiser": abs}, X, "standardise must be False with a denoiser, got True"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_before_any_training(name):
    parameters, points, message = BAD[name]
    estimator = hosm.ScoreEstimator(**{"callback": pytest.fail, **parameters})
    with pytest.raises(ValueError) as caught:
        estimator.fit(points)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_questions_that_make_no_sense_are_refused(quick):
    with pytest.raises(NotFittedError, match="not fitted"):
        hosm.ScoreEstimator().hessian_diag(X)
    with pytest.raises(ValueError, match="j must be a whole number from 0 to 2, got 3"):
        quick.hessian_column(X, 3)
    with pytest.raises(ValueError, match="X has 2 features, but ScoreEstimator is expecting 3"):
        quick.score(X[:, :2])
    with pytest.raises(ValueError, match="law must be one of noisy, clean, got 'exact'"):
        quick.sample(3, law="exact")
    with pytest.raises(ValueError, match="n_samples must be a whole number of 1 or more, got 0"):
        quick.sample(0)


def same(first, second):
    np.testing.assert_array_equal(first.score_function(X[:50]), second.score_function(X[:50]))
    np.testing.assert_array_equal(first.hessian_diag(X[:50]), second.hessian_diag(X[:50]))
    np.testing.assert_array_equal(first.sample(5, 0, steps=2), second.sample(5, 0, steps=2))
    for name in ("sigma_", "search_", "history_", "n_features_in_"):
        assert getattr(first, name) == getattr(second, name)


def test_a_saved_estimator_comes_back_as_it_was(quick, tmp_path):
    quick.save(tmp_path / "a")
    back = hosm.ScoreEstimator.load(tmp_path / "a")
    same(quick, back)
    assert back.get_params() == quick.get_params()
    frame = pd.DataFrame(X[:50], columns=["a", "b", "c"])
    options = {"sigma": np.array([0.1, 0.2]), "max_steps": np.int64(2), "rank": 0}
    rng = np.random.default_rng(0)
    other = hosm.ScoreEstimator(**options, random_state=rng)
    other.fit(frame).save(str(tmp_path / "a"))  # replaces what stands there
    back = hosm.ScoreEstimator.load(str(tmp_path / "a"))
    same(other, back)
    assert [*back.feature_names_in_] == ["a", "b", "c"] and back.sigma == [0.1, 0.2]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_modules_are_asked_for_on_loading(tmp_path):
    backbone, head = nn.Linear(3, 3), nn.Linear(3, 6)
    estimator = hosm.ScoreEstimator(rank=1, backbone=backbone, head=head, **QUICK).fit(X[:100])
    estimator.save(tmp_path / "a")
    same(estimator, hosm.ScoreEstimator.load(tmp_path / "a", backbone=backbone, head=head))
    for parts in ({}, {"backbone": backbone}, {"backbone": backbone, "heads": head}):
        with pytest.raises(ValueError, match="must be loaded with backbone, head, got"):
            hosm.ScoreEstimator.load(tmp_path / "a", **parts)
    with pytest.raises(ValueError, match="does not fit the modules"):
        hosm.ScoreEstimator.load(tmp_path / "a", backbone=nn.Linear(3, 4), head=head)


def test_a_file_is_whole_or_not_there(quick, tmp_path, monkeypatch):
    quick.save(tmp_path / "a")
    whole = (tmp_path / "a").read_bytes()
    monkeypatch.setattr("os.fsync", lambda number: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        quick.save(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    for damaged in (whole[:-1], whole[:40], b""):
        (tmp_path / "b").write_bytes(damaged)
        with pytest.raises(ValueError, match="b is damaged or no safetensors file"):
            hosm.ScoreEstimator.load(tmp_path / "b")
    with pytest.raises(FileNotFoundError):
        hosm.ScoreEstimator.load(tmp_path / "c")


def test_a_file_holds_json_and_tensors_alone(quick, tmp_path):
    quick.save(tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    card = json.loads(header["__metadata__"]["hosm"])
    assert card["parameters"]["max_steps"] == 4 and card["given"] == []
    assert b"pickle" not in data


def test_neither_scikit_learn_nor_pandas_is_needed_and_torch_only_when_asked_for(monkeypatch):
    code = """
import sys
sys.modules["sklearn"] = sys.modules["pandas"] = sys.modules["scipy"] = None
import hosm
assert "torch" not in sys.modules
hosm.ScoreEstimator().set_params(rank=1)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    for name in ("sklearn", "sklearn.utils", "pandas", "scipy"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it raises
    estimator = hosm.ScoreEstimator(**QUICK).fit(X[:40])
    assert estimator.hessian_diag(X[:40]).shape == (40, 3)
    assert estimator.posterior(X[:2]).sample(3).shape == (3, 2, 3)


@pytest.fixture(scope="module")
def closed():
    """An estimator in closed form of two clusters of different widths."""
    return hosm.ScoreEstimator(random_state=0).fit(CLUSTERS)


CLUSTERS = np.r_[
    np.random.default_rng(2).normal(size=(150, 2)),
    np.random.default_rng(3).normal(size=(150, 2)) * 0.5 + 5,
]


def test_two_clusters_have_the_hessians_of_two_gaussians(closed):
    hessians, errors = closed.hessian_diag(CLUSTERS, return_std=True)
    assert "a mixture of 2 Gaussians" in closed.report_
    truth = np.repeat([[-1.0, -1.0], [-4.0, -4.0]], 150, 0)
    # a variance of 150 draws has a standard error of 2^(1/2) / 150^(1/2)
    np.testing.assert_allclose(hessians, truth, rtol=monte_carlo(150, 2**0.5))
    share = errors / -truth / (2 / 150) ** 0.5  # as a chi of four degrees of freedom over 2
    assert share.min() > 0.2 and share.max() < 2.2  # beyond each: one in a thousand


def test_answers_in_closed_form_agree_with_each_other(closed):
    points = CLUSTERS[:20]
    dense = closed.hessian(points, dense=True)
    size = np.abs(dense).max()
    close = {"rtol": FLOAT32["rtol"], "atol": FLOAT32["rtol"] * size}  # points are seen in float32
    np.testing.assert_allclose(closed.hessian(points).to_dense().numpy(), dense, **close)
    np.testing.assert_allclose(closed.hessian_column(points, 1), dense[:, :, 1], **close)
    np.testing.assert_allclose(closed.hessian_diag(points), dense.diagonal(0, 1, 2), **close)
    noise = closed.noise_std_**2
    expected = noise + noise**2 * closed.hessian_diag(points)
    np.testing.assert_allclose(closed.posterior(points).variance, expected, **FLOAT32)


@pytest.mark.filterwarnings("ignore::UserWarning")  # few rows, by which the fit is quick
def test_a_posterior_of_many_columns_has_the_variances_of_the_law():
    apart = np.arange(30.0)[:, None] - np.arange(30.0)
    field = np.linalg.cholesky(np.exp(-(apart**2) / 32) + 1e-3 * np.eye(30))
    X = np.random.default_rng(0).normal(size=(30, 30)) @ field.T
    estimator = hosm.ScoreEstimator(0.7, rank=5, standardise=False).fit(X)
    noise = estimator.noise_std_**2
    expected = noise + noise**2 * estimator.hessian_diag(X)
    np.testing.assert_allclose(estimator.posterior(X).variance, expected, **FLOAT32)


def test_a_saved_law_in_closed_form_comes_back_as_it_was(closed, tmp_path):
    closed.save(tmp_path / "a.hosm")
    other = hosm.ScoreEstimator.load(tmp_path / "a.hosm")
    for ours, theirs in zip(
        other.hessian_diag(CLUSTERS, return_std=True),
        closed.hessian_diag(CLUSTERS, return_std=True),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert other.report_ == closed.report_
    for law in ("noisy", "clean"):
        np.testing.assert_array_equal(other.sample(3, 0, law=law), closed.sample(3, 0, law=law))


def test_clean_draws_of_two_clusters_have_their_range_and_their_moments(closed):
    draws = closed.sample(1000, 0, law="clean")
    assert np.all(draws >= CLUSTERS.min(0)) and np.all(draws <= CLUSTERS.max(0))
    np.testing.assert_allclose(draws.std(0), CLUSTERS.std(0), rtol=0.01)  # of 300 quantiles
    ours, theirs = np.corrcoef(draws.T)[0, 1], np.corrcoef(CLUSTERS.T)[0, 1]
    assert abs(ours - theirs) < 0.01  # made equal, up to the rounds of a map
    near = np.linalg.norm(draws - 5, axis=1) < 2.5
    assert abs(near.mean() - 0.5) < 0.02  # as many of either cluster as there are rows


def test_noisy_draws_in_closed_form_have_the_law_wherever_chains_start(closed, monkeypatch):
    one_start = replace(closed.fitted_, starts=closed.starts_[:1])
    monkeypatch.setattr(closed, "fitted_", one_start)
    draws = closed.sample(2000, 0)
    share = (np.linalg.norm(draws - 5, axis=1) < 2.5).mean()
    assert abs(share - 0.5) < monte_carlo(2000, 0.5)


def test_draws_warn_of_the_columns_that_are_unlike_the_rows_and_of_no_others(closed, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for law in ("noisy", "clean"):
            closed.sample(1000, 0, law=law)
    fitted, mixture = closed.fitted_, closed.model_.law
    shift = torch.tensor([0.0, 1.0], dtype=torch.float64)
    moved = GaussianMixture(mixture.weights, mixture.means + shift, mixture.covariances)
    model = replace(closed.model_, law=moved, bumps=None)
    wrong = replace(fitted, model=model, names=["first", "second"])
    monkeypatch.setattr(closed, "fitted_", wrong)
    told = "they differ in the means of column 'second'; they have the law .* law='clean'"
    with pytest.warns(UserWarning, match=told) as caught:
        closed.sample(1000, 0)
    assert [each.filename for each in caught] == [__file__]


def test_draws_of_networks_that_follow_the_rows_do_not_warn(gaussian, recwarn):
    for law in ("noisy", "clean"):
        gaussian.sample(500, 0, law=law, steps=50)
    assert not recwarn.list


def test_one_gaussian_is_told_to_be_one():
    points = np.random.default_rng(0).normal(size=(300, 3))
    with pytest.warns(UserWarning, match="no law whose Hessian differs between points"):
        estimator = hosm.ScoreEstimator(0.1, random_state=0).fit(points)
    assert np.ptp(estimator.hessian_diag(points), axis=0).max() == 0


def test_standard_errors_of_networks_and_methods_that_exclude_each_other_are_refused(quick):
    with pytest.raises(ValueError, match="standard errors need a law in closed form"):
        quick.hessian_diag(X, return_std=True)
    with pytest.raises(ValueError, match="method must be one of auto, closed-form, network"):
        hosm.ScoreEstimator(method="kernel").fit(X)
    with pytest.raises(ValueError, match="method must be network with a backbone"):
        hosm.ScoreEstimator(method="closed-form", backbone=nn.Linear(3, 3)).fit(X)


def test_masked_values_are_refused():
    with pytest.raises(ValueError, match="X must hold finite numbers, got masked values"):
        hosm.ScoreEstimator().fit(np.ma.masked_equal(np.eye(5), 0))
