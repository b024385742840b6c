"""Metrics against theory, naive twins and SciPy, and in degenerate cases."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal, stats

import hosm.metrics
from hosm.distributions import gaussian100, mog2
from hosm.metrics import (
    coverage,
    ess_bulk,
    ess_nice,
    frechet_distance,
    hessian_error,
    kolmogorov_distance,
    r_hat,
    score_error,
    sliced_wasserstein,
    standard_error,
    variance_ratio,
)
from hosm.operators import DiagonalPlusLowRank
from tests.tolerances import FLOAT64, ILL_CONDITIONED, monte_carlo

DOUBLE = torch.float64
ZERO, ONE = torch.zeros(1, dtype=DOUBLE), torch.ones(1, dtype=DOUBLE)


def draw(*shape, seed=0, dtype=DOUBLE):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def autoregression(phi, chains=32, length=10_000, seed=0):
    """Stationary chains x_t = phi x_(t-1) + noise of variance 1, shape (chains, T, 1)."""
    noise = draw(chains, length + 500, 1, seed=seed).numpy() * (1 - phi**2) ** 0.5
    chain = signal.lfilter([1], [1, -phi], noise, axis=1)
    return torch.from_numpy(chain[:, 500:].copy())


# Effective sample size


def ess_nice_by_loops(draws, mean, variance):
    """The definition, lag by lag."""
    _, length, dimension = draws.shape
    centred, tau = draws - mean, torch.ones(dimension, dtype=draws.dtype)
    for s in range(1, length):
        rho = (centred[:, :-s] * centred[:, s:]).mean((0, 1)) / variance
        if not (rho > 0.05).any():
            break
        tau += torch.where(rho > 0.05, 2 * (1 - s / length) * rho, 0.0)
    return length / tau


@pytest.mark.parametrize("phi", [0.9, 0.5, -0.5, 0.99])
def test_ess_nice_is_its_definition(phi):
    draws = torch.cat([autoregression(phi, 3, 400, seed) for seed in (1, 2)], -1)
    mean, variance = (
        torch.tensor([0.1, -0.1], dtype=DOUBLE),
        torch.tensor([1.2, 0.9], dtype=DOUBLE),
    )
    truth = ess_nice_by_loops(draws, mean, variance)
    torch.testing.assert_close(ess_nice(draws, mean, variance), truth, **FLOAT64)


def test_ess_nice_stops_where_no_dimension_exceeds_the_threshold():
    slow, alternating = autoregression(0.95, 4, 2_000), autoregression(-0.8, 4, 2_000, seed=1)
    assert ess_nice(alternating, ZERO, ONE)[0] == 2_000  # stops at lag 1, where rho is -.8
    both = torch.cat((slow, alternating), -1)
    together = ess_nice(both, ZERO.expand(2), ONE.expand(2))
    torch.testing.assert_close(together, ess_nice_by_loops(both, ZERO, ONE), **FLOAT64)
    assert together[1] < 1_000  # the other dimension keeps the sum going to lag 2, 4, ..


# Two standard errors or more: sums of M lags have (2 (2 M + 1) / (m T))^(1/2) (Sokal), which is
# .025, .012 and .08 at the M = 50, 10 and 500 lags that matter here.
@pytest.mark.parametrize(("phi", "tolerance"), [(0.9, 0.06), (0.5, 0.04), (0.99, 0.15)])
def test_ess_of_autoregressions_by_both_estimators(phi, tolerance):
    draws = autoregression(phi)
    theory = 10_000 * (1 - phi) / (1 + phi)
    bulk, nice = ess_bulk(draws).item() / 32, ess_nice(draws, ZERO, ONE).item()
    assert bulk == pytest.approx(theory, rel=tolerance)  # sampling error, above
    lags = np.arange(1, 10_000)
    rho = phi**lags
    tau = 1 + 2 * ((1 - lags / 10_000) * rho)[rho > 0.05].sum()  # what the threshold leaves
    assert nice == pytest.approx(10_000 / tau, rel=tolerance)  # sampling error, above
    assert 1 < 10_000 / tau / theory < 1.12


def test_ess_of_an_antithetic_autoregression():
    draws = autoregression(-0.5)
    assert ess_nice(draws, ZERO, ONE).item() == 10_000  # at most T, by definition
    # four standard errors of a sum of 10 lags of 32 chains, .012
    assert ess_bulk(draws).item() / 32 == pytest.approx(30_000, rel=0.05)


def test_ess_of_independent_draws():
    draws = draw(32, 10_000, 2)
    assert ess_nice(draws, ZERO.expand(2), ONE.expand(2)).tolist() == [10_000, 10_000]
    # four standard errors of a sum of 4 lags of 320,000 draws, .0075
    assert (ess_bulk(draws) / 320_000).tolist() == pytest.approx([1, 1], abs=0.03)
    # R-hat - 1 is (B / W - 1) / (2 T), of 64 means of T = 5,000: four standard errors are 7e-5
    assert r_hat(draws).tolist() == pytest.approx([1, 1], abs=2e-4)


def test_a_bias_of_the_mean_lowers_ess_nice():
    draws = autoregression(0.5, 8, 2_000)
    assert ess_nice(draws + 1, ZERO, ONE)[0] < 3 < 300 < ess_nice(draws, ZERO, ONE)[0]


def test_chains_stuck_in_two_modes_raise_every_alarm():
    law = mog2(DOUBLE)
    draws = law.means.unsqueeze(1) + 0.5 * draw(2, 2_000, 2)
    nice = ess_nice(draws, law.mean, law.variance)
    # the mean of a chain is 5 to .011, so the share of its square in the variance is 1 to .003
    assert nice[0] == pytest.approx(1.01, abs=0.01)
    assert nice[1] > 500
    assert ess_bulk(draws)[0] < 4
    assert r_hat(draws)[0] > 1.6
    assert r_hat(draws)[1] < 1.01


def test_r_hat_sees_chains_that_differ_in_spread_alone():
    draws = torch.cat((draw(4, 500, 1), 4 * draw(4, 500, 1, seed=1)))
    assert r_hat(draws)[0] > 1.2


def test_constant_chains_have_no_effective_sample():
    draws = torch.zeros(4, 100, 3, dtype=DOUBLE)
    draws[:, :, 1] = torch.arange(4.0)[:, None]
    draws[:, :, 2] = draw(4, 100)
    zero, one = ZERO.expand(3), ONE.expand(3)
    assert ess_nice(draws, zero, one)[:2].tolist() == [0, 0]
    assert ess_bulk(draws)[:2].tolist() == [0, 0]
    assert r_hat(draws)[0].isnan()
    assert r_hat(draws)[1] == math.inf
    assert ess_nice(draws[..., 2:], ZERO, ONE)[0] > 50 < ess_bulk(draws)[2]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_draws_that_are_not_finite_give_nan_in_their_dimension_alone(bad):
    draws = draw(4, 100, 2)
    clean = [ess_nice(draws, ZERO.expand(2), ONE.expand(2)), ess_bulk(draws), r_hat(draws)]
    draws[1, 50, 0] = bad
    dirty = [ess_nice(draws, ZERO.expand(2), ONE.expand(2)), ess_bulk(draws), r_hat(draws)]
    for before, after in zip(clean, dirty, strict=True):
        assert after[0].isnan()
        assert after[1] == before[1]


def test_one_chain():
    draws = autoregression(0.9, chains=1)
    # three standard errors of a sum of 30 lags, .11, and two and a half of one of 50, .14
    assert ess_nice(draws, ZERO, ONE)[0] == pytest.approx(554, rel=0.35)
    assert ess_bulk(draws)[0] == pytest.approx(526, rel=0.35)  # as above
    assert r_hat(draws)[0].isnan()


@pytest.mark.parametrize("length", [1, 2, 3])
def test_very_short_chains(length):
    draws = draw(5, length, 2)
    nice = ess_nice(draws, ZERO.expand(2), ONE.expand(2))
    assert ((nice > 0) & (nice <= length)).all()
    assert length > 1 or nice.tolist() == [1, 1]
    assert ess_bulk(draws).isnan().all()
    assert r_hat(draws).isnan().all()


@settings(max_examples=25, deadline=None)
@given(
    chains=st.integers(1, 4),
    length=st.integers(1, 60),
    dimension=st.integers(1, 3),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    scale=st.sampled_from([0.125, 0.5, 4.0, -8.0]),
    shift=st.integers(-5, 5),
)
def test_ess_nice_does_not_see_units_and_lies_between_0_and_t(
    chains, length, dimension, dtype, scale, shift
):
    # on a grid that binary fractions hold exactly: rounding could move a lag over the threshold
    draws = (draw(chains, length, dimension).cumsum(1) * 64).round().to(dtype) / 64
    mean, variance = (
        torch.zeros(dimension, dtype=dtype),
        torch.full((dimension,), 9.0, dtype=dtype),
    )
    ess = ess_nice(draws, mean, variance)
    assert (ess.dtype, ess.shape) == (dtype, (dimension,))
    assert ((ess > 0) & (ess <= length)).all()
    moved = ess_nice(draws * scale + shift, mean + shift, variance * scale**2)
    assert torch.equal(moved, ess)
    assert ess_bulk(draws).shape == r_hat(draws).shape == (dimension,)


# Errors of scores and Hessians


def low_rank(n, dimension, rank, seed=0):
    signs = torch.tensor([1.0, -1.0], dtype=DOUBLE).repeat(rank)[:rank]
    diag, factor = draw(n, dimension, seed=seed), draw(n, dimension, rank, seed=seed + 1)
    return DiagonalPlusLowRank(diag, factor, signs)


@pytest.mark.parametrize("chunk", [2**24, 20, 1])
def test_hessian_error_is_summed_over_entries_and_averaged_over_points(chunk, monkeypatch):
    monkeypatch.setattr(hosm.metrics, "LARGEST_TEMPORARY", chunk)
    operator, truth = low_rank(5, 3, 2), draw(5, 3, 3, seed=7)
    dense = operator.to_dense()
    naive = torch.tensor(
        [
            sum((dense[n, i, j] - truth[n, i, j]).item() ** 2 for i in range(3) for j in range(3))
            for n in range(5)
        ],
        dtype=DOUBLE,
    )
    for pair in [(dense, truth), (operator, truth), (truth, operator), (truth, dense)]:
        torch.testing.assert_close(hessian_error(*pair), naive.mean(), **FLOAT64)
        torch.testing.assert_close(hessian_error(*pair, per_point=True), naive, **FLOAT64)
    other = low_rank(5, 3, 4, seed=3)
    between = (other.to_dense() - dense).square().sum() / 5
    torch.testing.assert_close(hessian_error(operator, other), between, **FLOAT64)
    assert hessian_error(operator, operator) == 0


def test_hessian_error_of_diagonals_and_scores_of_any_order():
    first, second = draw(6, 4), draw(6, 4, seed=1)
    truth = (first - second).square().sum(1)
    torch.testing.assert_close(hessian_error(first, second), truth.mean())
    torch.testing.assert_close(score_error(first, second, per_point=True), truth)
    third = draw(6, 2, 2, 2)
    torch.testing.assert_close(score_error(third, 2 * third), third.square().sum() / 6)


def test_gaussian100_error_of_the_diagonal_alone():
    law = gaussian100(DOUBLE)
    truth = law.hessian(draw(4, 100))
    diagonal = DiagonalPlusLowRank.from_diagonal(truth.diagonal(dim1=1, dim2=2))
    # 2 p^2 = .352000 to six digits
    assert hessian_error(diagonal, truth) == pytest.approx(0.352 * 35, rel=1e-5)


def test_hessian_error_never_holds_more_than_a_few_points(monkeypatch):
    monkeypatch.setattr(hosm.metrics, "LARGEST_TEMPORARY", 2 * 9)
    largest = []

    class Watched:
        def __init__(self, matrices):
            self.matrices = matrices

        def diagonal(self):
            return self.matrices.diagonal(dim1=1, dim2=2)

        def __getitem__(self, rows):
            return Watched(self.matrices[rows])

        def to_dense(self):
            largest.append(len(self.matrices))
            return self.matrices

    hessian_error(Watched(draw(7, 3, 3)), draw(7, 3, 3))
    assert largest == [2, 2, 2, 1]


def test_standard_error_is_that_of_scipy():
    values = draw(50, 3)
    truth = torch.from_numpy(stats.sem(values.numpy()))
    torch.testing.assert_close(standard_error(values), truth)
    assert standard_error(values[:, 0]).shape == ()
    assert standard_error(values[:1]).isnan().all()
    assert standard_error(torch.ones(4)) == 0


def test_variance_ratio_of_each_entry():
    first = torch.tensor([2.0, 1.0, 0.5], dtype=DOUBLE) * draw(20_000, 3)
    ratio = variance_ratio(first, draw(30_000, 3, seed=1) + 5)
    n = 1 / (1 / 20_000 + 1 / 30_000)
    assert ratio.tolist() == pytest.approx([4, 1, 0.25], rel=monte_carlo(n, 2**0.5))
    assert variance_ratio(first[:, 0], first[:, 0]) == 1


# Distances between samples


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 40),
    m=st.integers(1, 40),
    ties=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_kolmogorov_distance_is_its_definition(n, m, ties, dtype):
    first, second = draw(n, 2, dtype=dtype), 1.5 * draw(m, 2, seed=1, dtype=dtype)
    if ties:
        first, second = first.round(), second.round()
    found = kolmogorov_distance(first, second)
    jumps = torch.cat((first, second))
    shares = [(x[:, None] <= jumps).double().mean(0) for x in (first, second)]
    truth = (shares[0] - shares[1]).abs().amax(0)
    # two shares of up to 40 points, each rounded to the dtype
    torch.testing.assert_close(found.double(), truth, rtol=0, atol=1e-6)
    assert found.dtype == dtype
    assert torch.equal(found, kolmogorov_distance(second, first))


def test_kolmogorov_distance_is_that_of_scipy():
    first, second = draw(300, 1), 1.5 * draw(400, 1, seed=1)
    truth = stats.ks_2samp(first[:, 0].numpy(), second[:, 0].numpy()).statistic
    assert kolmogorov_distance(first, second).item() == pytest.approx(truth, abs=FLOAT64["atol"])


def test_kolmogorov_distance_of_chains_in_one_mode_of_two():
    law = mog2(DOUBLE)
    exact = law.sample(20_000, torch.Generator().manual_seed(0))
    stuck = law.means[:1].unsqueeze(1) + 0.5 * draw(4, 5_000, 2)
    distance = kolmogorov_distance(stuck, exact)
    # the share of exact draws in that mode has a standard error of .0035
    assert distance[0] == pytest.approx(0.5, abs=0.02)
    assert distance[1] < 1.95 * (1 / 20_000 + 1 / 20_000) ** 0.5  # Kolmogorov, .1 %
    assert kolmogorov_distance(exact, exact).tolist() == [0, 0]


def test_kolmogorov_distance_of_points_that_are_not_finite():
    draws = torch.tensor([[0.0, math.nan, 0.0, 0.0], [math.inf, 0.0, -math.inf, 0.0]])
    distance = kolmogorov_distance(draws, torch.zeros(3, 4))
    assert distance.isnan().tolist() == [True, True, True, False]
    assert kolmogorov_distance(torch.zeros(3, 4), draws).isnan().tolist() == [True] * 3 + [False]


# Coverage


@pytest.mark.parametrize("dimension", [1, 2, 7])
def test_coverage_of_a_calibrated_posterior(dimension):
    n, levels = 20_000, torch.tensor([0.5, 0.8, 0.95], dtype=DOUBLE)
    root = draw(n, dimension, dimension, seed=1) + 2 * torch.eye(dimension, dtype=DOUBLE)
    mean = draw(n, dimension, seed=2)
    points = mean + (root @ draw(n, dimension, 1, seed=3)).squeeze(-1)
    error = 4 * (levels * (1 - levels) / n).sqrt()
    share = coverage(points, mean, root @ root.mT, levels)
    assert ((share - levels).abs() <= error).all()
    half = coverage(points, mean, 0.25 * root @ root.mT, levels)
    assert (half < levels - error).all()


def test_coverage_is_that_of_chi_squared_regions():
    points, mean = 2 * draw(500, 3), draw(500, 3, seed=1)
    operator = low_rank(500, 3, 1)
    operator = DiagonalPlusLowRank(operator.diag.square() + 0.1, operator.factor, operator.signs)
    dense, gap = operator.to_dense(), (points - mean).unsqueeze(-1)
    squares = (gap.mT @ torch.linalg.inv(dense) @ gap).flatten().numpy()
    for p in (0.0, 0.3, 0.9, 1.0):
        truth = (squares <= stats.chi2(3).ppf(p)).mean()
        assert coverage(points, mean, dense, p).item() == pytest.approx(truth)
        assert coverage(points, mean, operator, p).item() == pytest.approx(truth)


# Errors


D3, EYE = torch.zeros(2, 5, 3), torch.eye(3).expand(5, 3, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ess_nice(D3[0], D3[0, 0], D3[0, 0] + 1), r"draws must have shape .*got \(5, 3\)"),
        (
            lambda: ess_nice(D3[:, :0], D3[0, 0], D3[0, 0] + 1),
            r"draws must have shape .*got \(2, 0, 3\)",
        ),
        (
            lambda: ess_nice(D3, torch.zeros(2), torch.ones(3)),
            r"mean must have shape .*got \(2,\)",
        ),
        (lambda: ess_nice(D3, torch.zeros(3), torch.zeros(3)), "variance must be .*got 0.0"),
        (lambda: ess_bulk(D3.long()), "draws must have a floating-point dtype, got torch.int64"),
        (lambda: r_hat(D3[0]), r"draws must have shape .*got \(5, 3\)"),
        (
            lambda: hessian_error(EYE, EYE[:4]),
            r"got estimate \(5, 3, 3\), truth \(4, 3, 3\)",
        ),
        (lambda: hessian_error(EYE, EYE[..., 0]), r"truth \(5, 3\)"),
        (lambda: score_error(torch.zeros(0, 2), torch.zeros(0, 2)), r"truth \(0, 2\)"),
        (lambda: standard_error(torch.zeros(0)), r"values must have shape .*got \(0,\)"),
        (lambda: variance_ratio(torch.zeros(1), torch.zeros(3)), "with n, m >= 2"),
        (
            lambda: kolmogorov_distance(D3, torch.zeros(5, 2)),
            r"reference \(5, 2\)",
        ),
        (
            lambda: coverage(D3[0], D3[0], EYE[0], 0.5),
            r"covariance \(3, 3\)",
        ),
        (lambda: coverage(D3[0], D3[0, 0], EYE, 0.5), r"mean \(3,\)"),
        (lambda: coverage(D3[0], D3[0], EYE, 1.5), r"probability must be from 0 to 1, got 1.5"),
        (lambda: coverage(D3[0] + 1, D3[0], -EYE, 0.5), "covariance must be positive definite"),
    ],
)
def test_illegal_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_sliced_wasserstein_of_a_shift_and_of_a_scale():
    """Along theta a shift moves by theta . b, and of normal points a scale s by |s - 1| |x|."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100, 3, generator=generator, dtype=torch.float64)
    b = torch.tensor([3.0, 0.0, 4.0], dtype=torch.float64)
    found = sliced_wasserstein(x + b, x.flip(0), generator, directions=20_000)
    # the mean of (theta . b)^2 is |b|^2 / D, known to 1 % at this many directions
    assert found == pytest.approx(5 / 3**0.5, rel=0.01)
    found = sliced_wasserstein(3 * x, x, generator, directions=20_000)
    spread = 2 * float(x.square().mean().sqrt())
    # the same share of directions
    assert found == pytest.approx(spread, rel=0.01)
    with pytest.raises(ValueError, match="reference must have shape"):
        sliced_wasserstein(x, x[:5])


def test_frechet_distance_of_gaussians_is_its_closed_form():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(500, 3, generator=generator, dtype=torch.float64)
    b = torch.tensor([3.0, 0.0, 4.0], dtype=torch.float64)
    found = frechet_distance(x, 2 * x + b)
    expected = float((x.mean(0) + b).square().sum() + x.mT.cov().trace())
    assert found == pytest.approx(expected, rel=FLOAT64["rtol"])
    # roots of rounding of the traces, some 1e-15
    assert frechet_distance(x, x.flip(0)) == pytest.approx(0, abs=1e-7)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64))[0]
    y = x @ turn @ torch.diag(torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64))
    product = x.mT.cov() @ y.mT.cov()
    mixed = torch.linalg.eigvals(product).real.sqrt().sum()
    expected = (x.mean(0) - y.mean(0)).square().sum() + (x.mT.cov() + y.mT.cov()).trace()
    closed = float(expected - 2 * mixed)
    assert frechet_distance(x, y) == pytest.approx(closed, rel=ILL_CONDITIONED["rtol"])
