"""Gains by column: sums of what was chosen by, named where a Gaussian is as good."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import hosm
from hosm.estimator.choice import choose
from hosm.estimator.closed_form import ClosedFormModel
from hosm.estimator.column_gain import ColumnGain, column_gain
from hosm.estimator.simple_laws import SimpleLaw
from tests.tolerances import FLOAT64, monte_carlo

DOUBLE = torch.float64
NAMES = ["skewed", "one", "two"]


def gain(mean, error):
    return ColumnGain(torch.tensor(mean, dtype=DOUBLE), torch.tensor(error, dtype=DOUBLE))


def rows(size=400):
    """A lognormal column and two independent Gaussian ones."""
    x = np.random.default_rng(0).normal(size=(size, 3))
    x[:, 0] = np.exp(0.6 * x[:, 0])
    return x


@pytest.fixture(scope="module")
def skewed():
    """An estimator of one skewed column and two independent Gaussian ones."""
    return hosm.ScoreEstimator(0.1, random_state=0).fit(pd.DataFrame(rows(), columns=NAMES))


def test_the_report_names_the_gaussian_columns_beside_a_skewed_one(skewed):
    (told,) = [line for line in skewed.report_.split("\n") if line.startswith("In column")]
    assert told == (
        "In columns 'one', 'two' no gain over a plain Gaussian could be shown: do not read "
        "differences of the Hessian between rows there."
    )
    assert skewed.column_gain_[0] > 3 * skewed.column_gain_error_[0]
    assert np.all(skewed.column_gain_[1:] < skewed.column_gain_error_[1:])
    assert "with other rows" in skewed.report_ and "bias" in skewed.report_


def test_gains_by_column_are_kept_in_the_file(skewed, tmp_path):
    skewed.save(tmp_path / "a.hosm")
    other = hosm.ScoreEstimator.load(tmp_path / "a.hosm")
    np.testing.assert_array_equal(other.column_gain_, skewed.column_gain_)
    np.testing.assert_array_equal(other.column_gain_error_, skewed.column_gain_error_)


@pytest.mark.parametrize("sigmas", [[0.1], [0.05, 0.1]])
def test_gains_by_column_add_up_to_the_one_that_was_chosen_by(sigmas):
    x = torch.from_numpy(rows(150))
    x = (x - x.mean(0)) / x.std(0)
    found = choose(x, sigmas)
    assert not found.constant
    mean, _ = found.chosen.against(found.gaussian)
    assert float(found.gain.mean.sum()) == pytest.approx(-mean, rel=FLOAT64["rtol"])


def test_the_gain_is_half_of_the_difference_of_squared_errors_of_known_laws():
    x = torch.randn(40_000, 2, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    law = SimpleLaw(1, "shrunk").fit(x)
    true = ClosedFormModel(law, None, 0.1)
    wide = ClosedFormModel(
        type(law)(law.weights, law.means, torch.diag(torch.tensor([1.0, 2.0]).double())[None]),
        None,
        0.1,
    )
    found = column_gain([true, true], [wide, wide], [*x.split(20_000)], 1)
    # scores -x and -x / 2 of the second column: half of the mean square of x / 2
    expected = np.array([0.0, 0.125])
    np.testing.assert_allclose(found.mean, expected, atol=0.5 * monte_carlo(40_000, 2**0.5))
    # of x^2 (1 - 1/4) / 2, whose standard deviation is .375 times that of x^2
    assert float(found.error[1]) == pytest.approx(0.375 * (2 / 40_000) ** 0.5, rel=0.1)


def test_rows_of_several_draws_count_once():
    x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    law = SimpleLaw(1, "shrunk").fit(x)
    narrow, wide = (ClosedFormModel(law.smoothed(sigma), None, sigma) for sigma in (0.1, 1.0))
    once = column_gain([narrow], [wide], [x], 1)
    thrice = column_gain([narrow], [wide], [x.repeat(3, 1)], 3)
    torch.testing.assert_close(thrice.mean, once.mean)
    torch.testing.assert_close(thrice.error, once.error)


def test_columns_are_told_by_one_standard_error_and_warned_of_by_two():
    words = gain([-1.5, 0.9, 1.1, -2.5], [1.0, 1.0, 1.0, 1.0]).words()
    assert words.startswith("In columns 0, 1, 3 no gain over a plain Gaussian could be shown: do ")
    level = gain([0.5, 2.0], [1.0, 1.0])
    assert level.words("ab").startswith("In column 'a' no gain over a plain Gaussian ")
    assert level.doubt("ab") == level.words("ab")
    clear = gain([1.5], [1.0])
    assert clear.words() == "It is smaller in each column, beyond one standard error."
    assert clear.doubt() == ""
    with pytest.warns(UserWarning, match="better score than what was chosen in column 'b'"):
        gain([-1.5, -2.5], [1.0, 1.0]).warn("ab")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        level.warn()


def test_all_columns_without_gain_are_named():
    words = gain([0.0] * 40, [1.0] * 40).words()
    assert all(f" {j}," in words for j in range(39)) and " 39 no gain" in words
    assert "more" not in words


def test_a_label_that_takes_most_of_the_gain_is_warned_of_after_the_fit():
    x = torch.from_numpy(np.c_[rows()[:, 1:], np.arange(400) % 3])
    with pytest.warns(UserWarning, match=r"that of column 'kind', which .* with --drop kind$"):
        gain([1.0, -3.0, 2.0], [0.1] * 3).warn_of_a_label(x, ["a", "b", "kind"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gain([1.0, -3.0, 0.9], [0.1] * 3).warn_of_a_label(x)  # less than half
        gain([2.0, -3.0, 0.9], [0.1] * 3).warn_of_a_label(x)  # of many values
        gain([0.0, 0.0, 0.0], [0.1] * 3).warn_of_a_label(x)
    frame = pd.DataFrame(x.numpy(), columns=["a", "b", "kind"])
    with pytest.warns(UserWarning) as told:
        hosm.ScoreEstimator(0.05, random_state=0).fit(frame)
    texts = [str(each.message) for each in told]
    assert "few different values in column 'kind'" in texts[0]
    assert texts[-1].endswith("in the command line with --drop kind")


def test_a_gaussian_gains_nothing_over_itself_and_the_report_names_no_column():
    x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    found = choose(x, [0.1])
    assert found.constant and "no gain over a plain" not in found.words()
    assert "bias" in found.words()


def test_networks_have_no_gain_over_a_gaussian():
    estimator = hosm.ScoreEstimator(0.1, method="network", max_steps=2, random_state=0)
    with pytest.raises(AttributeError, match="law in closed form, got networks"):
        estimator.fit(rows(50)).column_gain_  # noqa: B018
