"""Tweedie's formulas of every order against exact posteriors of Gaussian mixtures."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import jacfwd, vmap

from hosm.distributions import FiniteData, Gaussian, GaussianMixture
from hosm.operators import DiagonalPlusLowRank
from hosm.tweedie import (
    posterior_central_moment,
    posterior_covariance,
    posterior_cumulants,
    posterior_mean,
    posterior_moment,
    scores_from_moments,
)
from tests.tolerances import FLOAT64, ILL_CONDITIONED

DOUBLE = torch.float64
SIGMA = 0.8
ORDERS = [1, 2, 3, 4, 5]


def draw(*shape, seed=0, dtype=DOUBLE):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def eye(size):
    return torch.eye(size, dtype=DOUBLE)


def mixture(seed, dimension=2, terms=3):
    root = draw(terms, dimension, dimension, seed=seed + 100)
    covariances = 0.5 * root @ root.mT / dimension + 0.2 * eye(dimension)
    weights = draw(terms, seed=seed + 200).softmax(0)
    return GaussianMixture(weights, draw(terms, dimension, seed=seed), covariances)


def exact_scores(law, x_noisy, sigma=SIGMA, order=5):
    """Derivatives of log q_sigma: closed forms up to 3, then autodiff of the third."""
    smooth = law.smoothed(sigma)
    scores = [smooth.score(x_noisy), smooth.hessian(x_noisy), smooth.third_derivative(x_noisy)]

    def third(point):
        return smooth.third_derivative(point.unsqueeze(0)).squeeze(0)

    scores.append(vmap(jacfwd(third))(x_noisy))
    scores.append(vmap(jacfwd(jacfwd(third)))(x_noisy))
    return scores[:order]


def exact_posterior(law, x_noisy, sigma=SIGMA, nodes=4):
    """Nodes and weights that integrate polynomials of degree 7 under the law of x given x~.

    Each component of the posterior is N(m_k, C_k) by the conjugate formulas; Gauss-Hermite
    quadrature does the rest, so no cumulant enters.
    """
    gain = torch.linalg.inv(law.covariances + sigma**2 * eye(law.dimension))
    gap = x_noisy.unsqueeze(1) - law.means
    means = law.means + torch.einsum("kab,kbc,nkc->nka", law.covariances, gain, gap)
    covariances = law.covariances - law.covariances @ gain @ law.covariances
    marginal = torch.distributions.MultivariateNormal(law.means, precision_matrix=gain)
    shares = (law.weights.log() + marginal.log_prob(x_noisy.unsqueeze(1))).softmax(-1)
    t, w = (torch.from_numpy(part) for part in np.polynomial.hermite_e.hermegauss(nodes))
    z = torch.cartesian_prod(*[t] * law.dimension).reshape(-1, law.dimension)
    zw = torch.cartesian_prod(*[w / w.sum()] * law.dimension).reshape(-1, law.dimension).prod(-1)
    x = means.unsqueeze(2) + torch.einsum("kab,qb->kqa", torch.linalg.cholesky(covariances), z)
    return x.flatten(1, 2), (shares.unsqueeze(-1) * zw).flatten(1, 2)


def quadrature_moment(x, weights, order):
    letters = "abcde"[:order]
    equation = "nq," + ",".join("nq" + letter for letter in letters) + "->n" + letters
    return torch.einsum(equation, weights, *[x] * order)


CASES = [(seed, dimension) for seed in range(3) for dimension in (1, 2, 3)]


@pytest.fixture(params=CASES, ids=str)
def case(request):
    seed, dimension = request.param
    law = mixture(seed, dimension)
    x_noisy = 1.5 * draw(4, dimension, seed=seed + 300)
    return law, x_noisy, exact_scores(law, x_noisy)


@pytest.mark.parametrize("order", ORDERS)
def test_raw_moments_are_those_of_the_exact_posterior(case, order):
    law, x_noisy, scores = case
    truth = quadrature_moment(*exact_posterior(law, x_noisy), order)
    moment = posterior_moment(order, x_noisy, scores, SIGMA)
    torch.testing.assert_close(moment, truth, **FLOAT64)


@pytest.mark.parametrize("order", ORDERS)
def test_central_moments_are_those_of_the_exact_posterior(case, order):
    law, x_noisy, scores = case
    x, weights = exact_posterior(law, x_noisy)
    residual = x - quadrature_moment(x, weights, 1).unsqueeze(1)
    truth = quadrature_moment(residual, weights, order)
    moment = posterior_central_moment(order, x_noisy, scores, SIGMA)
    torch.testing.assert_close(moment, truth, **FLOAT64)


def test_scores_come_back_from_the_exact_moments(case):
    law, x_noisy, scores = case
    posterior = exact_posterior(law, x_noisy)
    moments = [quadrature_moment(*posterior, order) for order in ORDERS]
    for found, score in zip(scores_from_moments(x_noisy, moments, SIGMA), scores, strict=True):
        torch.testing.assert_close(found, score, **ILL_CONDITIONED)


def test_mean_and_covariance_are_the_first_cumulants(case):
    law, x_noisy, scores = case
    x, weights = exact_posterior(law, x_noisy)
    mean = quadrature_moment(x, weights, 1)
    residual = x - mean.unsqueeze(1)
    covariance = quadrature_moment(residual, weights, 2)
    torch.testing.assert_close(posterior_mean(x_noisy, scores[0], SIGMA), mean, **FLOAT64)
    torch.testing.assert_close(posterior_covariance(scores[1], SIGMA), covariance, **FLOAT64)
    cumulants = posterior_cumulants(x_noisy, scores, SIGMA)
    torch.testing.assert_close(cumulants[0], mean, **FLOAT64)
    torch.testing.assert_close(cumulants[1], covariance, **FLOAT64)
    third = quadrature_moment(residual, weights, 3)
    torch.testing.assert_close(cumulants[2], third, **FLOAT64)
    assert (torch.linalg.eigvalsh(covariance) > 0).all()


def test_second_moment_is_the_polynomial_of_theorem_1(case):
    _, x_noisy, (s1, s2, *_) = case
    xx = x_noisy.unsqueeze(-1) * x_noisy.unsqueeze(-2)
    xs = x_noisy.unsqueeze(-1) * s1.unsqueeze(-2)
    ss = s1.unsqueeze(-1) * s1.unsqueeze(-2)
    identity = eye(x_noisy.shape[1])
    f = xx + SIGMA**2 * (xs + xs.mT) + SIGMA**4 * (s2 + ss) + SIGMA**2 * identity
    torch.testing.assert_close(posterior_moment(2, x_noisy, [s1, s2], SIGMA), f, **FLOAT64)


def test_moments_obey_the_recursion_of_lemma_1():
    law, x_noisy = mixture(5), draw(3, 2, seed=6)

    def moment(order):
        def at(point):
            noisy = point.unsqueeze(0)
            scores = exact_scores(law, noisy)
            return posterior_moment(order, noisy, scores, SIGMA).squeeze(0)

        return at

    for order in (1, 2, 3):
        lower = vmap(moment(order))(x_noisy)
        slope = vmap(jacfwd(moment(order)))(x_noisy)
        shift = exact_scores(law, x_noisy)[0] + x_noisy / SIGMA**2
        product = torch.einsum("n...,na->n...a", lower, shift)
        higher = vmap(moment(order + 1))(x_noisy)
        torch.testing.assert_close(higher, SIGMA**2 * (slope + product), **FLOAT64)


def test_posterior_of_a_gaussian_has_no_higher_cumulants():
    law, x_noisy = Gaussian(draw(3), 2 * eye(3)), draw(5, 3, seed=1)
    smooth = law.smoothed(SIGMA)
    scores = [smooth.score(x_noisy), smooth.hessian(x_noisy), smooth.third_derivative(x_noisy)]
    cumulants = posterior_cumulants(x_noisy, scores, SIGMA)
    torch.testing.assert_close(cumulants[1][0], eye(3) / (1 / 2 + 1 / SIGMA**2), **FLOAT64)
    assert not cumulants[2].any()


def test_finite_data_agrees():
    data, x_noisy = FiniteData(draw(9, 3)), draw(5, 3, seed=1)
    smooth = data.smoothed(0.4)
    mean = posterior_mean(x_noisy, smooth.score(x_noisy), 0.4)
    covariance = posterior_covariance(smooth.hessian(x_noisy), 0.4)
    torch.testing.assert_close(mean, data.posterior_mean(x_noisy, 0.4), **FLOAT64)
    torch.testing.assert_close(covariance, data.posterior_covariance(x_noisy, 0.4), **FLOAT64)


# Operators and several noise levels


@pytest.mark.parametrize("sigma", [0.3, torch.tensor(0.3), torch.tensor([0.3, 1.0, 2.0])])
@pytest.mark.parametrize("rank", [0, 2])
def test_covariance_of_an_operator_is_that_of_its_dense_twin(sigma, rank):
    sigma = sigma.double() if isinstance(sigma, torch.Tensor) else sigma
    signs = torch.tensor([1.0, -1.0], dtype=DOUBLE)[:rank]
    s2 = DiagonalPlusLowRank(draw(3, 5), draw(3, 5, rank, seed=1), signs)
    covariance = posterior_covariance(s2, sigma)
    assert isinstance(covariance, DiagonalPlusLowRank)
    assert covariance.rank == rank
    dense = posterior_covariance(s2.to_dense(), sigma)
    torch.testing.assert_close(covariance.to_dense(), dense, **FLOAT64)


def test_one_sigma_for_each_point_is_each_point_alone():
    law, x_noisy, sigmas = mixture(7), draw(3, 2, seed=8), [0.4, 0.8, 1.5]
    rows = list(zip(x_noisy.split(1), sigmas, strict=True))
    alone = [exact_scores(law, x, sigma) for x, sigma in rows]
    scores = [torch.cat(parts) for parts in zip(*alone, strict=True)]
    many = torch.tensor(sigmas, dtype=DOUBLE)
    for order in ORDERS:
        together = posterior_moment(order, x_noisy, scores, many)
        parts = [
            posterior_moment(order, x, own, sigma)
            for (x, sigma), own in zip(rows, alone, strict=True)
        ]
        torch.testing.assert_close(together, torch.cat(parts), **FLOAT64)
    moments = [posterior_moment(order, x_noisy, scores, many) for order in ORDERS]
    for found, score in zip(scores_from_moments(x_noisy, moments, many), scores, strict=True):
        torch.testing.assert_close(found, score, **ILL_CONDITIONED)


# Properties


def arbitrary_scores(n, dimension, orders):
    """Tensors without symmetry: the algebra does not need it."""
    return [draw(n, *(dimension,) * k, seed=k) for k in range(1, orders + 1)]


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 3),
    dimension=st.integers(1, 3),
    order=st.integers(1, 5),
    sigma=st.floats(0.5, 2.0),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_round_trip_and_shapes(n, dimension, order, sigma, dtype):
    x_noisy = draw(n, dimension, seed=9)
    scores = arbitrary_scores(n, dimension, order)
    moments = [posterior_moment(k, x_noisy, scores, sigma) for k in range(1, order + 1)]
    back = scores_from_moments(x_noisy, moments, sigma)
    for found, score in zip(back, scores, strict=True):
        torch.testing.assert_close(found, score, **ILL_CONDITIONED)
    single = posterior_moment(order, x_noisy.to(dtype), [s.to(dtype) for s in scores], sigma)
    assert (single.dtype, single.shape) == (dtype, moments[-1].shape)


@settings(max_examples=20, deadline=None)
@given(order=st.integers(1, 5), shift=st.floats(-3, 3))
def test_central_moments_do_not_move_with_the_data(order, shift):
    x_noisy = draw(2, 2, seed=9)
    scores = arbitrary_scores(2, 2, order)
    here = posterior_central_moment(order, x_noisy, scores, SIGMA)
    there = posterior_central_moment(order, x_noisy + shift, scores, SIGMA)
    assert torch.equal(here, there)
    assert order > 1 or not here.any()


# Errors


X, S1, S2 = torch.zeros(4, 3), torch.zeros(4, 3), torch.zeros(4, 3, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: posterior_mean(X, S1[:3], 1.0), r"s1 must have shape \(4, 3\).*got \(3, 3\)"),
        (lambda: posterior_mean(X[0], S1[0], 1.0), r"x_noisy must have shape .*got \(3,\)"),
        (
            lambda: posterior_mean(X.long(), S1, 1.0),
            "x_noisy must have a floating-point dtype, got torch.int64",
        ),
        (lambda: posterior_mean(X, S1, 0.0), "sigma must be .*got 0.0"),
        (lambda: posterior_mean(X, S1, float("inf")), "sigma must be .*got inf"),
        (lambda: posterior_mean(X, S1, float("nan")), "sigma must be .*got nan"),
        (lambda: posterior_mean(X, S1, torch.ones(4, 1)), r"sigma must have shape .*got \(4, 1\)"),
        (
            lambda: posterior_mean(X, S1, torch.ones(1)),
            r"sigma must have shape \(4,\).*got \(1,\)",
        ),
        (
            lambda: posterior_mean(X, S1, torch.ones(4).long()),
            "sigma must have a floating-point dtype, got torch.int64",
        ),
        (lambda: posterior_mean(X, S1, torch.arange(4.0)), "sigma must be .*got 0.0"),
        (lambda: posterior_mean(X, S1, torch.tensor(-1.0)), "sigma must be .*got -1.0"),
        (lambda: posterior_covariance(S2[:, :2], 1.0), r"\(n, D, 2\).*got \(4, 2, 3\)"),
        (lambda: posterior_covariance(S2[0], 1.0), r"s2 must have shape .*got \(3, 3\)"),
        (
            lambda: posterior_covariance(DiagonalPlusLowRank.outer(S1[0]), 1.0),
            r"diag of s2 must have .*got \(3,\)",
        ),
        (lambda: posterior_covariance(DiagonalPlusLowRank.outer(S1), -S1[0, :1]), r"\(1,\)"),
        (lambda: posterior_cumulants(X, [], 1.0), "scores must hold 1 tensor or more"),
        (lambda: posterior_cumulants(X[:0], [S1[:0]], 1.0), r"got \(0, 3\)"),
        (lambda: posterior_cumulants(X[0], [S1], 1.0), r"x_noisy must have shape .*got \(3,\)"),
        (lambda: posterior_cumulants(X, [S1, S1], 1.0), r"\(4, 3, 3\).*got \(4, 3\)"),
        (
            lambda: scores_from_moments(X, [S2], 1.0),
            r"moments\[0\] must have shape .*got \(4, 3, 3\)",
        ),
        (lambda: scores_from_moments(X, [S1], -2.0), "sigma must be .*got -2.0"),
        (
            lambda: posterior_moment(3, X, [S1, S2], 1.0),
            "order must be a whole number from 1 to 2, got 3",
        ),
        (
            lambda: posterior_moment(1.5, X, [S1, S2], 1.0),
            "order must be a whole number from 1 to 2, got 1.5",
        ),
        (lambda: posterior_central_moment(0, X, [S1], 1.0), "order must be .*got 0"),
    ],
)
def test_illegal_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
