"""Laws against quadrature, autodiff, SciPy's distribution functions and brute force."""

import math
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch.func import hessian, jacfwd, jacrev, vmap

import hosm.distributions.base
from hosm.distributions import (
    FiniteData,
    Gaussian,
    GaussianMixture,
    LogisticMixture,
    Ring,
    SmoothedData,
)
from tests.tolerances import FLOAT32, FLOAT64, ILL_CONDITIONED, LEAST_P_VALUE, ROUNDING

DOUBLE = torch.float64


def draw(*shape, seed=0, dtype=DOUBLE):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def random_covariances(*shape, seed=0):
    root = draw(*shape, shape[-1], seed=seed)
    return root @ root.mT / shape[-1] + 0.3 * torch.eye(shape[-1], dtype=DOUBLE)


def random_weights(terms, seed=0):
    return (0.7 * draw(terms, seed=seed)).softmax(0)


def gaussian(dimension=3):
    return Gaussian(draw(dimension, seed=1), random_covariances(dimension, seed=2))


def gaussian_mixture(dimension=3, terms=4):
    means = 1.5 * draw(terms, dimension, seed=3)
    return GaussianMixture(random_weights(terms), means, random_covariances(terms, dimension))


def logistic_mixture(dimension=3, terms=4):
    scales = 0.3 + 0.1 * draw(terms, dimension, seed=4).square()
    return LogisticMixture(random_weights(terms), 2 * draw(terms, dimension, seed=5), scales)


def smoothed_data(dimension=3):
    return SmoothedData(draw(7, dimension, seed=6), 0.6)


def ring():
    return Ring(torch.tensor(1.5, dtype=DOUBLE), torch.tensor(0.6, dtype=DOUBLE))


FAMILIES = [gaussian, gaussian_mixture, logistic_mixture, smoothed_data]
LAWS = [*FAMILIES, ring]
every_law = pytest.mark.parametrize("make", LAWS)
every_family = pytest.mark.parametrize("make", FAMILIES)


def log_density(law):
    return lambda point: law.log_prob(point.unsqueeze(0)).squeeze(0)


def points(law, n=6):
    return 1.5 * draw(n, law.dimension, seed=9)


def within_standard_errors(values, truth, errors=4.0):
    standard_error = values.std(0) / values.shape[0] ** 0.5
    assert ((values.mean(0) - truth).abs() <= errors * standard_error).all()


def grid(low, high, size, dimension):
    axis = torch.linspace(low, high, size, dtype=DOUBLE)
    step = (high - low) / (size - 1)
    return torch.cartesian_prod(*[axis] * dimension).reshape(-1, dimension), step**dimension


# Ground truth of log_prob: quadrature and independent implementations


@every_family
def test_density_integrates_to_one_on_the_line(make):
    y, cell = grid(-60, 60, 60_001, 1)
    assert make(1).log_prob(y).exp().sum() * cell == pytest.approx(1, abs=FLOAT64["atol"])


@pytest.mark.parametrize("make", [lambda make=make: make(2) for make in FAMILIES] + [ring])
def test_density_integrates_to_one_in_the_plane(make):
    y, cell = grid(-25, 25, 501, 2)
    total = make().log_prob(y).exp().sum() * cell
    # the trapezoids of side .1 miss 4e-7 at the kink that the ring's density has at the origin
    assert total == pytest.approx(1, abs=1e-5)


def test_log_prob_of_gaussian_families_is_that_of_torch():
    law, x = gaussian(), points(gaussian())
    truth = torch.distributions.MultivariateNormal(law.mean, law.covariance).log_prob(x)
    torch.testing.assert_close(law.log_prob(x), truth, **FLOAT64)
    mixture = gaussian_mixture()
    parts = torch.distributions.MultivariateNormal(mixture.means, mixture.covariances)
    choice = torch.distributions.Categorical(mixture.weights)
    truth = torch.distributions.MixtureSameFamily(choice, parts).log_prob(x)
    torch.testing.assert_close(mixture.log_prob(x), truth, **FLOAT64)


def test_log_prob_of_logistic_mixture_is_that_of_scipy():
    law, x = logistic_mixture(), points(logistic_mixture())
    logs = stats.logistic.logpdf(x[:, None].numpy(), law.locations.numpy(), law.scales.numpy())
    truth = (law.weights.log() + torch.from_numpy(logs).sum(-1)).logsumexp(-1)
    torch.testing.assert_close(law.log_prob(x), truth, **FLOAT64)


# Derivatives against autodiff of log_prob


@every_law
def test_score_is_the_gradient_of_log_prob(make):
    law = make()
    x = points(law)
    truth = vmap(jacrev(log_density(law)))(x)
    torch.testing.assert_close(law.score(x), truth, **FLOAT64)


@every_law
def test_hessian_is_the_second_derivative_of_log_prob(make):
    law = make()
    x = points(law)
    truth = vmap(hessian(log_density(law)))(x)
    torch.testing.assert_close(law.hessian(x), truth, **ILL_CONDITIONED)
    diagonal = truth.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(law.hessian_diag(x), diagonal, **ILL_CONDITIONED)


@every_law
def test_third_derivative_is_that_of_log_prob(make):
    law = make()
    x = points(law)
    truth = vmap(jacfwd(hessian(log_density(law))))(x)
    torch.testing.assert_close(law.third_derivative(x), truth, **ILL_CONDITIONED)


@every_law
def test_derivatives_are_symmetric(make):
    law = make()
    third = law.third_derivative(points(law))
    for order in permutations((1, 2, 3)):
        torch.testing.assert_close(third.permute(0, *order), third, **FLOAT64)


@every_law
def test_scores_can_be_differentiated_under_vmap(make):
    law = make()
    x = points(law)
    jacobian = vmap(jacrev(lambda point: law.score(point.unsqueeze(0)).squeeze(0)))(x)
    torch.testing.assert_close(jacobian, law.hessian(x), **ILL_CONDITIONED)


@pytest.mark.parametrize("make", [gaussian, gaussian_mixture, smoothed_data])
def test_far_from_the_modes_float32_agrees_with_float64(make):
    law = make()
    x = 1e3 * draw(4, 3, seed=8).float()
    for name in ("log_prob", "score", "hessian", "third_derivative"):
        near = getattr(law.to(torch.float32), name)(x).double()
        torch.testing.assert_close(near, getattr(law, name)(x.double()), **FLOAT32)


TAIL = {"rtol": FLOAT64["rtol"], "atol": 0}  # of numbers as small as e^-80


def test_logistic_tails_keep_their_digits():
    law = LogisticMixture(torch.ones(1, dtype=DOUBLE), torch.zeros(1, 1, dtype=DOUBLE), 0.5)
    x = torch.tensor([[-40.0], [40.0]], dtype=DOUBLE)
    slope = torch.tensor([[2.0], [-2.0]], dtype=DOUBLE)
    torch.testing.assert_close(law.score(x), slope, **TAIL)
    curvature = torch.full_like(x, -8 * math.exp(-80))  # -2 e^-|u| / s^2 at u = 80
    torch.testing.assert_close(law.hessian_diag(x), curvature, **TAIL)
    third = torch.tensor([-16.0, 16.0], dtype=DOUBLE) * math.exp(-80)
    torch.testing.assert_close(law.third_derivative(x).flatten(), third, **TAIL)
    log_prob = torch.full((2,), math.log(2) - 80.0, dtype=DOUBLE)
    torch.testing.assert_close(law.log_prob(x), log_prob, **TAIL)


# Laws of the draws


@every_law
def test_draws_have_the_mean_and_the_variance(make):
    law = make()
    x = law.sample(20_000, torch.Generator().manual_seed(0))
    within_standard_errors(x, law.mean)
    within_standard_errors((x - law.mean).square(), law.variance)


@every_law
def test_draws_and_scores_satisfy_the_information_identities(make):
    law = make()
    x = law.sample(20_000, torch.Generator().manual_seed(1))
    s1, s2 = law.score(x), law.hessian(x)
    within_standard_errors(s1, 0.0)
    within_standard_errors((s2 + s1.unsqueeze(-1) * s1.unsqueeze(-2)).flatten(1), 0.0)


def marginal(law, j):
    """Distribution function of coordinate j by SciPy."""
    if isinstance(law, LogisticMixture):
        parts = stats.logistic(law.locations[:, j].numpy(), law.scales[:, j].numpy())
        weights = law.weights.numpy()
    elif isinstance(law, SmoothedData):
        parts, weights = stats.norm(law.points[:, j].numpy(), law.sigma), 1 / len(law.points)
    else:
        variances = getattr(law, "covariances", law.variance.diag())[..., j, j]
        means = getattr(law, "means", law.mean)[..., j].reshape(-1)
        parts = stats.norm(means.numpy(), variances.sqrt().numpy())
        weights = getattr(law, "weights", torch.ones(1)).numpy()
    return lambda x: (weights * parts.cdf(x[:, None])).sum(-1)


@every_family
def test_draws_follow_the_marginal_laws(make):
    law = make()
    x = law.sample(5_000, torch.Generator().manual_seed(2)).numpy()
    for j in range(law.dimension):
        assert stats.kstest(x[:, j], marginal(law, j)).pvalue > LEAST_P_VALUE


def test_draws_of_gaussian_families_have_the_covariance():
    law = gaussian()
    x = law.sample(20_000, torch.Generator().manual_seed(3)) - law.mean
    products = (x.unsqueeze(-1) * x.unsqueeze(-2)).flatten(1)
    within_standard_errors(products, law.covariance.flatten())
    mixture = gaussian_mixture()
    spread = mixture.means - mixture.mean
    outer = spread.unsqueeze(-1) * spread.unsqueeze(-2) + mixture.covariances
    x = mixture.sample(20_000, torch.Generator().manual_seed(4)) - mixture.mean
    products = (x.unsqueeze(-1) * x.unsqueeze(-2)).flatten(1)
    within_standard_errors(products, (mixture.weights[:, None, None] * outer).sum(0).flatten())


@every_law
def test_draws_depend_on_the_generator_alone(make):
    law = make()
    first, second, third = (law.sample(9, torch.Generator().manual_seed(s)) for s in (5, 5, 6))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


# Smoothing


@pytest.mark.parametrize("make", [gaussian, gaussian_mixture, smoothed_data])
@pytest.mark.parametrize("dimension", [1, 2])
def test_smoothed_density_is_the_convolution(make, dimension):
    law, sigma = make(dimension), 0.7
    y, cell = grid(-10, 10, 401 if dimension == 2 else 4_001, dimension)
    x = points(law, 5)
    noise = torch.exp(-(x[:, None] - y).square().sum(-1) / (2 * sigma**2))
    noise = noise / (2 * math.pi * sigma**2) ** (dimension / 2)
    truth = cell * (noise @ law.log_prob(y).exp())
    torch.testing.assert_close(law.smoothed(sigma).log_prob(x).exp(), truth, **FLOAT64)


@pytest.mark.parametrize("make", [gaussian, gaussian_mixture, smoothed_data])
def test_smoothing_twice_adds_the_variances(make):
    law = make()
    twice, once = law.smoothed(0.3).smoothed(0.4), law.smoothed(0.5)
    x = points(law)
    torch.testing.assert_close(twice.score(x), once.score(x), **FLOAT64)
    torch.testing.assert_close(twice.variance, once.variance, **FLOAT64)


@pytest.mark.parametrize("make", [logistic_mixture, ring])
def test_laws_without_a_smoothed_form_say_so(make):
    with pytest.raises(NotImplementedError, match="no closed form"):
        make().smoothed(0.1)


# Finite data against brute force


def brute_force_posterior(data, x, sigma):
    """Weights, mean and covariance at one point, in plain loops."""
    logs = [-sum((a - b) ** 2 for a, b in zip(x, p, strict=True)) / (2 * sigma**2) for p in data]
    raw = [math.exp(value - max(logs)) for value in logs]
    w = [value / math.fsum(raw) for value in raw]
    size = range(len(x))
    m = [math.fsum(w[i] * p[j] for i, p in enumerate(data)) for j in size]
    c = [
        [math.fsum(w[i] * (p[j] - m[j]) * (p[k] - m[k]) for i, p in enumerate(data)) for k in size]
        for j in size
    ]
    return w, m, c


@pytest.mark.parametrize("sigma", [0.05, 0.6, 3.0])
@pytest.mark.parametrize("chunk", [2**24, 40])
def test_finite_data_posterior_is_that_of_brute_force(sigma, chunk, monkeypatch):
    monkeypatch.setattr(hosm.distributions.base, "LARGEST_TEMPORARY", chunk)
    data, x = draw(13, 3, seed=1), draw(5, 3, seed=2)
    truth = [brute_force_posterior(data.tolist(), row, sigma) for row in x.tolist()]
    weights, mean, covariance = (
        torch.tensor(part, dtype=DOUBLE) for part in zip(*truth, strict=True)
    )
    law = FiniteData(data)
    torch.testing.assert_close(law.posterior_weights(x, sigma), weights, **FLOAT64)
    torch.testing.assert_close(law.posterior_mean(x, sigma), mean, **FLOAT64)
    torch.testing.assert_close(law.posterior_covariance(x, sigma), covariance, **FLOAT64)
    q = law.smoothed(sigma)
    torch.testing.assert_close(q.score(x), (mean - x) / sigma**2, **FLOAT64)
    s2 = (covariance / sigma**2 - torch.eye(3, dtype=DOUBLE)) / sigma**2
    torch.testing.assert_close(q.hessian(x), s2, **FLOAT64)


def test_finite_data_in_float32_survives_small_noise():
    data, x = FiniteData(10 + draw(50, 4, seed=1)), 10 + draw(20, 4, seed=2)
    single = data.to(torch.float32)
    for name in ("posterior_weights", "posterior_mean", "posterior_covariance"):
        rough = getattr(single, name)(x.float(), 0.05)
        truth = getattr(data, name)(x.float().double(), 0.05)
        # squared distances near 1, rounded to 6e-8, over 2 sigma^2 = .005: weights to 1e-5 or so,
        # and those of far points, the exponentials of a hundred times that, to 1e-3
        torch.testing.assert_close(rough.double(), truth, rtol=1e-2, atol=1e-4)


def test_finite_data_draws_are_uniform_on_the_points():
    data = FiniteData(torch.arange(5.0).unsqueeze(-1))
    counts = torch.bincount(data.sample(5_000).flatten().long(), minlength=5).numpy()
    assert counts.sum() == 5_000
    assert stats.chisquare(counts).pvalue > LEAST_P_VALUE
    assert data.dimension == 1


# Properties over shapes and dtypes


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 5),
    dimension=st.integers(1, 4),
    terms=st.integers(1, 4),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    make=st.sampled_from(FAMILIES),
)
def test_shapes_and_dtypes(n, dimension, terms, dtype, make):
    takes_terms = make in (gaussian_mixture, logistic_mixture)
    law = (make(dimension, terms) if takes_terms else make(dimension)).to(dtype)
    x = draw(n, dimension, dtype=dtype)
    results = {
        "log_prob": (n,),
        "score": (n, dimension),
        "hessian_diag": (n, dimension),
        "hessian": (n, dimension, dimension),
        "third_derivative": (n, dimension, dimension, dimension),
    }
    for name, shape in results.items():
        out = getattr(law, name)(x)
        assert (tuple(out.shape), out.dtype) == (shape, dtype)
        alone = torch.cat([getattr(law, name)(row.unsqueeze(0)) for row in x])
        torch.testing.assert_close(out, alone, **ROUNDING[dtype])
    assert law.sample(n).shape == (n, dimension)
    assert law.sample(n).dtype == law.mean.dtype == law.variance.dtype == dtype


@settings(max_examples=20, deadline=None)
@given(
    share=st.floats(0.01, 0.99),
    terms=st.integers(1, 4),
    make=st.sampled_from([gaussian_mixture, logistic_mixture]),
)
def test_a_component_split_in_two_leaves_the_law_as_it_is(share, terms, make):
    law = make(2, terms)
    weights, *others = law.parameters
    split = torch.cat((weights, share * weights[:1]))
    split[0] *= 1 - share
    twin = type(law)(split, *(torch.cat((p, p[:1])) for p in others))
    x = points(law)
    torch.testing.assert_close(twin.score(x), law.score(x), **FLOAT64)
    torch.testing.assert_close(twin.hessian(x), law.hessian(x), **FLOAT64)


@every_law
def test_chunks_do_not_change_the_result(make, monkeypatch):
    law = make()
    x = points(law, 9)
    names = ("log_prob", "score", "hessian", "hessian_diag", "third_derivative")
    whole = {name: getattr(law, name)(x) for name in names}
    monkeypatch.setattr(hosm.distributions.base, "LARGEST_TEMPORARY", 64)
    for name in names:
        torch.testing.assert_close(getattr(law, name)(x), whole[name], **FLOAT64)


@every_law
def test_moving_to_another_dtype_and_device(make):
    law = make().to("cpu", torch.float32)
    assert law.dtype == law.mean.dtype == torch.float32
    assert law.device == torch.device("cpu")
    x = points(law)
    torch.testing.assert_close(law.score(x.float()).double(), make().score(x), **FLOAT32)


# Errors name what is wrong and what is legal


@every_law
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.long(), r"floating-point dtype, got torch.int64"),
        (lambda x: x[:, :-1], r"shape \(n, \d\).*got \(6, \d\)"),
        (lambda x: x[0], r"shape \(n, \d\).*got \(\d,\)"),
        (lambda x: x[:0], r"shape \(n, \d\).*got \(0, \d\)"),
        (lambda x: x / 0 * 0, r"finite, got nan"),
        (lambda x: x.clone().fill_(-math.inf), r"finite, got -inf"),
        (lambda x: x.float(), r"dtype torch.float64, got torch.float32"),
    ],
)
def test_illegal_points_are_refused(make, change, message):
    law = make()
    for name in ("log_prob", "score", "hessian", "hessian_diag", "third_derivative"):
        with pytest.raises(ValueError, match=message):
            getattr(law, name)(change(points(law)))
    with pytest.raises(ValueError, match="n must be a whole number of 1 or more, got 0"):
        law.sample(0)


@every_law
@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e300])
def test_a_tolerant_law_goes_on_where_a_chain_has_diverged(make, bad):
    law = make()
    x = points(law)
    x[2] = bad
    fine = [0, 1, 3, 4, 5]
    tolerant = law.tolerant()
    for name in ("score", "hessian"):
        near = getattr(tolerant, name)(x)[fine]
        torch.testing.assert_close(near, getattr(law, name)(x[fine]), **FLOAT64)
    if bad != 1e300:
        assert not tolerant.score(x)[2].isfinite().any()
        with pytest.raises(ValueError, match="must be finite"):
            law.score(x)
        with pytest.raises(ValueError, match="must be finite"):
            tolerant.to(DOUBLE).score(x)


def test_weights_are_scaled_to_sum_one():
    weights = torch.tensor([0.3, 0.70005], dtype=DOUBLE)
    law = LogisticMixture(weights, draw(2, 1), 1.0)
    assert law.weights.sum().item() == pytest.approx(1, abs=FLOAT64["atol"])


ONE, EYE = torch.ones(1), torch.eye(2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Gaussian(torch.zeros(2), torch.eye(3)), r"\(2, 2\).*got \(3, 3\)"),
        (lambda: Gaussian(torch.zeros(2), -EYE), "positive definite, got the eigenvalue -1"),
        (lambda: Gaussian(torch.zeros(2), EYE + EYE[[1, 1]]), "must be symmetric"),
        (lambda: Gaussian(torch.zeros(2), EYE.double()), "must share a dtype"),
        (lambda: Gaussian(torch.zeros(2), EYE).smoothed(0.0), "sigma must be .*got 0.0"),
        (lambda: GaussianMixture(2 * ONE, EYE[:1], EYE[None]), "sum to 1, got .* sum 2.0"),
        (lambda: Gaussian(torch.zeros(2), EYE).smoothed(math.inf), "sigma must be .*got inf"),
        (
            lambda: GaussianMixture(EYE[0] * 3 - 1, EYE, EYE),
            r"covariances must have shape .*got \(2, 2\)",
        ),
        (
            lambda: GaussianMixture(EYE[0] * 3 - 1, EYE, EYE.expand(2, 2, 2)),
            "weights must be at least 0 .*, got -1",
        ),
        (
            lambda: GaussianMixture(ONE, EYE[:1].long(), EYE[None]),
            "means must have a floating-point dtype, got torch.int64",
        ),
        (lambda: GaussianMixture(ONE, EYE, EYE[None]), r"\(2, 2, 2\).*got \(1, 2, 2\)"),
        (lambda: LogisticMixture(ONE, EYE[:1], 0.0), "scales must be .*got 0.0"),
        (lambda: LogisticMixture(ONE, EYE[:1], EYE + 1), r"\(1, 2\).*got \(2, 2\)"),
        (lambda: LogisticMixture(ONE, EYE[:1], math.inf), "scales must be .*got inf"),
        (lambda: FiniteData(torch.zeros(0, 2)), r"\(N, D\).*got \(0, 2\)"),
        (lambda: FiniteData(EYE / 0), "points must be .*got inf"),
        (lambda: FiniteData(EYE).posterior_mean(EYE, -1.0), "sigma must be .*got -1.0"),
        (lambda: FiniteData(EYE).posterior_mean(EYE[:, :1], 1.0), r"\(n, 2\).*got \(2, 1\)"),
    ],
)
def test_illegal_parameters_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
