"""Calibration on posteriors that are known: right ones pass, wrong ones are seen."""

import math

import pytest
import torch

from hosm import metrics
from hosm.operators import DiagonalPlusLowRank
from hosm.uncertainty import Posterior, calibration
from tests.tolerances import FLOAT32, FLOAT64, monte_carlo

F64 = torch.float64
LEVELS = (0.5, 0.8, 0.95)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def random_law(n=4000, D=3, rank=1, dtype=F64):
    """N(m, C), another one for each of n points, and a draw of each."""
    m = torch.randn(n, D, generator=seeded(), dtype=F64)
    d = 0.1 + torch.rand(n, D, generator=seeded(1), dtype=F64)
    U = torch.randn(n, D, rank, generator=seeded(2), dtype=F64)
    law = Posterior(m, DiagonalPlusLowRank(d, U), torch.zeros(n, dtype=F64))
    return law, law.sample(1, seeded(3))[0]


def dense_distance(law, x):
    offset = (x - law.mean).unsqueeze(2)
    return (offset.mT @ torch.linalg.solve(law.covariance.to_dense(), offset)).flatten()


def test_squared_distances_are_those_of_the_dense_covariance():
    law, x = random_law(20)
    torch.testing.assert_close(law.squared_distance(x), dense_distance(law, x))
    several = torch.stack([x, x + 1, law.mean])
    expected = torch.stack([dense_distance(law, each) for each in several])
    torch.testing.assert_close(law.squared_distance(several), expected)
    assert abs(float(random_law()[0].squared_distance(random_law()[1]).mean()) - 3) < 0.15


def test_coverage_of_a_right_law_is_nominal_and_of_a_narrow_one_is_not():
    law, x = random_law()
    for found in (calibration.coverage, calibration.interval_coverage):
        share = found(law, x, LEVELS)
        assert share.shape == (3,) and share.dtype == F64
        error = (share - torch.tensor(LEVELS, dtype=F64)).abs().max()
        assert error < monte_carlo(len(x), 0.5), found
        assert (found(law.scaled(0.25), x, LEVELS) < share - 0.05).all()


def test_coverage_by_hand():
    """In the plane the chi^2 law is exponential: |x - m|^2 / variance <= -2 log(1 - level)."""
    C = DiagonalPlusLowRank.from_diagonal(torch.full((4, 2), 0.25, dtype=F64))
    law = Posterior(torch.zeros(4, 2, dtype=F64), C, torch.zeros(4, dtype=F64))
    edge = math.sqrt(-2 * math.log(0.2) * 0.25)  # of the region of 80 %
    x = torch.zeros(4, 2, dtype=F64)
    x[:, 0] = edge * torch.tensor([0.0, 0.99, 1.01, 5.0])
    torch.testing.assert_close(calibration.coverage(law, x, [0.8]), torch.tensor([0.5], dtype=F64))
    within = calibration.interval_coverage(law, x, [0.6826894921])  # one standard deviation, .5
    assert float(within) == pytest.approx((4 + sum(abs(x[:, 0]) <= 0.5)) / 8)


def test_intervals_hold_what_their_level_says():
    law, x = random_law()
    low, high = law.interval(0.9)
    assert low.shape == high.shape == x.shape
    share = ((x >= low) & (x <= high)).double().mean()
    assert abs(float(share) - 0.9) < 0.015
    torch.testing.assert_close((high + low) / 2, law.mean)
    one = law.interval(0.6826894921370859)[1] - law.mean
    torch.testing.assert_close(one, law.variance.sqrt())


@pytest.mark.parametrize("wrong", [0.2, 1.0, 5.0])
def test_the_fitted_scale_mends_variances_that_are_wrong_by_a_factor(wrong):
    law, x = random_law()
    found = calibration.fitted_scale(law.scaled(1 / wrong), x)
    # the three entries of a point go along with each other, at worst as one
    assert found == pytest.approx(wrong, rel=monte_carlo(4000, 2**0.5))
    mended = law.scaled(1 / wrong).scaled(found)
    before, after = (each.log_prob(x).mean() for each in (law.scaled(1 / wrong), mended))
    assert after >= before - 0.01
    table = calibration.reliability(mended.variance, (x - law.mean).square(), 4)
    assert ((table.observed / table.predicted) - 1).abs().max() < 0.15


def test_standard_errors_take_points_as_independent_and_not_their_entries():
    """Entries that repeat within a point add nothing; the law of the mean shows the error."""
    errors = torch.empty(50, 400, dtype=F64).exponential_(generator=seeded(4))
    variance = torch.ones(400, 6).double()
    tables = [
        calibration.reliability(variance, each.unsqueeze(1).expand(400, 6), 1) for each in errors
    ]
    spread = torch.stack([table.observed for table in tables]).std()
    claimed = torch.stack([table.standard_error for table in tables]).mean()
    assert float(claimed / spread) == pytest.approx(1, rel=monte_carlo(2 * 50))
    alone = calibration.reliability(variance[:, 0], errors[0], 1)
    by_hand = pytest.approx(float(errors[0].std()) / 20, rel=FLOAT64["rtol"])
    assert float(alone.standard_error) == by_hand
    assert float(tables[0].standard_error) == by_hand


def test_scaling_scales_the_covariance_alone():
    law, _ = random_law(5)
    scaled = law.scaled(3.0)
    torch.testing.assert_close(scaled.covariance.to_dense(), 3 * law.covariance.to_dense())
    assert torch.equal(scaled.mean, law.mean)


@pytest.mark.parametrize("sigma", [0.1, 1.0])
def test_float32_maps_in_many_dimensions_take_no_square_matrix(sigma):
    D, n = 3000, 2
    d = sigma**2 * torch.logspace(-5, 0, D).expand(n, D)
    U = sigma * torch.randn(n, D, 4, generator=seeded()) / math.sqrt(D)
    law = Posterior(torch.zeros(n, D), DiagonalPlusLowRank(d, U), torch.zeros(n))
    x = law.sample(50, seeded(1))
    assert x.dtype == torch.float32 and bool(x.isfinite().all())
    ratio = x.square().mean(0) / law.variance
    assert abs(float(ratio.mean()) - 1) < 0.02
    distance = law.squared_distance(x)
    assert (distance / D - 1).abs().max() < 6 * math.sqrt(2 / D)
    double = Posterior(law.mean.double(), law.covariance.to(F64), torch.zeros(n, dtype=F64))
    torch.testing.assert_close(law.log_prob(x).double(), double.log_prob(x.double()), **FLOAT32)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, math.nan])
def test_levels_that_are_no_probabilities_are_named(level):
    law, x = random_law(5)
    for call in (
        lambda: law.interval(level),
        lambda: calibration.interval_coverage(law, x, [level]),
    ):
        with pytest.raises(ValueError, match="level must be between 0 and 1, got"):
            call()


@pytest.mark.parametrize("level", [1.5, -0.5, math.nan])
def test_levels_of_regions_are_from_0_to_1(level):
    """The bounds themselves are probabilities: of no point, and of all."""
    law, x = random_law(5)
    assert calibration.coverage(law, x, [0, 1]).tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"probability must be from 0 to 1, got .*" + f"{level}"):
        calibration.coverage(law, x, [0.5, level])


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_both_names_of_coverage_are_one_function(dtype):
    law, x = random_law(200)
    law = Posterior(law.mean.to(dtype), law.covariance.to(dtype), law.clipped_share)
    levels = torch.tensor(LEVELS, dtype=F64)
    found = calibration.coverage(law, x.to(dtype), LEVELS)
    twins = law.covariance, law.covariance.to_dense()
    for covariance in twins:
        assert torch.equal(found, metrics.coverage(x.to(dtype), law.mean, covariance, levels))


def test_other_bad_input_is_named():
    law, x = random_law(5)
    for function in (calibration.fitted_scale, law.squared_distance.__func__):
        with pytest.raises(ValueError, match=r"\(5, 2\)"):
            function(law, x[:, :2])
    for scale in (0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match="scale must be"):
            law.scaled(scale)
    with pytest.raises(ValueError, match="nan"):
        calibration.coverage(law, x * math.nan, [0.5])
