"""Properties that hold for every shape, batch and dtype, judged against dense twins and autodiff.

What the tests of a module check at chosen sizes is checked here at drawn ones. Bounds are named
for each dtype and relative to the size of what is compared.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck
from torch.func import hessian, jacfwd, jacrev, vmap

from hosm import noise
from hosm.distributions import (
    FiniteData,
    Gaussian,
    GaussianMixture,
    LogisticMixture,
    Ring,
    SmoothedData,
)
from hosm.metrics import (
    coverage,
    ess_bulk,
    ess_nice,
    hessian_error,
    kolmogorov_distance,
    r_hat,
    score_error,
    variance_ratio,
)
from hosm.objectives import stencil
from hosm.operators import DiagonalPlusLowRank
from hosm.samplers import langevin, ozaki
from hosm.tweedie import (
    posterior_central_moment,
    posterior_covariance,
    posterior_cumulants,
    posterior_mean,
    posterior_moment,
    scores_from_moments,
)
from hosm.uncertainty import leading_directions, posterior
from tests.tolerances import FLOAT64, ILL_CONDITIONED, ROUNDING

DOUBLE = torch.float64
PROFILE = settings(max_examples=30, deadline=None, derandomize=True)
FEW = settings(PROFILE, max_examples=12)

batches = st.lists(st.integers(1, 3), max_size=2).map(tuple)
dtypes = st.sampled_from([torch.float32, DOUBLE])
sizes = st.integers(1, 6)
signs = st.lists(st.sampled_from([1.0, -1.0]), max_size=8)
seeds = st.integers(0, 10_000)
sigmas = st.floats(0.3, 2.0)


def draw(*shape, seed=0, dtype=DOUBLE):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=DOUBLE).to(dtype)


def near(actual, expected, times=1.0):
    """Compare at the bound of the dtype, relative to the largest expected entry."""
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    bound = times * ROUNDING[actual.dtype]["rtol"] * max(1.0, float(expected.abs().max()))
    assert float((actual.double() - expected.double()).abs().max()) <= bound


# Operators against dense twins


@st.composite
def operators(draw_from, positive=False):
    """A batch of operators and its dense twin; `positive` shrinks U until A > 0."""
    batch, size, c = draw_from(batches), draw_from(sizes), draw_from(signs)
    dtype, seed = draw_from(dtypes), draw_from(seeds)
    diag = draw(*batch, size, seed=seed, dtype=dtype)
    factor = draw(*batch, size, len(c), seed=seed + 1, dtype=dtype)
    if positive:
        diag = diag.abs() + 0.5
        scaled = factor / diag.sqrt().unsqueeze(-1)
        length = scaled.flatten(-2).norm(dim=-1) if len(c) else diag.new_ones(batch)
        factor = factor * (0.9 / length.clamp_min(0.9))[..., None, None]
    c = torch.tensor(c, dtype=dtype)
    dense = torch.diag_embed(diag) + torch.einsum("...ik,k,...jk->...ij", factor, c, factor)
    return DiagonalPlusLowRank(diag, factor, c), dense


def vector(A, seed=5):
    return draw(*A.diag.shape, seed=seed, dtype=A.diag.dtype)


@PROFILE
@given(pair=operators(), a=st.floats(-3, 3), b=st.floats(-3, 3))
def test_a_product_is_linear(pair, a, b):
    A, dense = pair
    v, w, m = vector(A), vector(A, 6), draw(*A.diag.shape, 4, seed=7, dtype=A.diag.dtype)
    near(A @ v, (dense @ v.unsqueeze(-1)).squeeze(-1))
    near(A @ m, dense @ m)
    near(A @ (a * v + b * w), a * (A @ v) + b * (A @ w), times=3)
    near((a * A) @ v, a * (A @ v), times=3)


@PROFILE
@given(pair=operators(), seed=seeds, rank=st.integers(0, 3))
def test_sums_and_inner_products(pair, seed, rank):
    A, dense = pair
    other = draw(*A.diag.shape, rank, seed=seed, dtype=A.diag.dtype)
    B, v = DiagonalPlusLowRank(vector(A, 8), other), vector(A)
    near((A + B) @ v, A @ v + B @ v, times=3)
    near((A - B).to_dense(), dense - B.to_dense(), times=3)
    near(A.inner(B), B.inner(A), times=3)
    near(A.inner(B), (dense * B.to_dense()).sum((-2, -1)), times=3)
    near((A + B).trace(), A.trace() + B.trace(), times=3)
    near(A.inner(A), A.frobenius_norm_squared(), times=3)
    squared = (A.inner(A) * B.inner(B)).clamp_min(0)
    slack = 1e3 * torch.finfo(v.dtype).eps  # of sums of up to 200 products, squared
    assert bool((A.inner(B).square() <= squared * (1 + slack) + slack).all())
    near(A.trace(), A.inner(DiagonalPlusLowRank.from_diagonal(torch.ones_like(A.diag))), times=3)


@PROFILE
@given(pair=operators(positive=True))
def test_what_a_positive_matrix_allows(pair):
    A, dense = pair
    v, m = vector(A), draw(*A.diag.shape, 3, seed=7, dtype=A.diag.dtype)
    near(A.solve(A @ v), v, times=100)
    near(A @ A.solve(m), m, times=100)
    near(A.log_determinant(), torch.logdet(dense.double()).to(v.dtype), times=100)
    eye = torch.eye(v.shape[-1], dtype=v.dtype).expand(dense.shape)
    S = A.square_root_matvec(eye)
    near(S @ S.mT, dense, times=10)
    clipped, share = A.clip_to_psd()
    near(clipped.to_dense(), dense, times=10)
    assert not share.any() and share.shape == A.diag.shape[:-1]


@PROFILE
@given(pair=operators(), floor=st.sampled_from([1e-6, 1e-3]))
def test_clipping_adds_a_positive_part(pair, floor):
    A, dense = pair
    dense = dense.double()
    clipped, share = A.to(DOUBLE).clip_to_psd(floor)
    scale = max(1.0, float(dense.abs().max())) / floor
    for matrix in (clipped.to_dense(), clipped.to_dense() - dense):
        # rounding of the clipped matrix, whose columns are scaled by up to 1 / floor
        assert float(torch.linalg.eigvalsh(matrix).min()) >= -1e-13 * scale
    assert bool((clipped.diag > 0).all()) and bool(((share >= 0) & (share <= 1)).all())


@PROFILE
@given(pair=operators(), k=st.integers(1, 6))
def test_eigenpairs_are_those_of_the_dense_twin(pair, k):
    A, dense = pair
    k = min(k, A.diag.shape[-1])
    values, vectors = A.eigenpairs(k)
    near(values, torch.linalg.eigvalsh(dense)[..., -k:].flip(-1), times=10)
    near(A @ vectors, vectors * values.unsqueeze(-2), times=20)
    eye = torch.eye(k, dtype=A.diag.dtype)
    near(vectors.mT @ vectors, eye.expand(*values.shape, k), times=10)


@PROFILE
@given(pair=operators(), constant=st.booleans())
def test_functions_of_a_matrix_compose(pair, constant):
    A, dense = pair
    A = 0.3 * A
    if constant:
        A = A.with_diagonal(torch.full_like(A.diag, -0.4))
    v, dense = vector(A), A.to_dense()
    near(A.function_matvec(lambda h: h, v), A @ v, times=20)
    near(A.function_matvec(torch.ones_like, v), v, times=10)
    exact = torch.linalg.matrix_exp(dense.double()) @ v.double().unsqueeze(-1)
    image = A.function_matvec(torch.exp, v)
    near(image, exact.squeeze(-1).to(v.dtype), times=20)
    near(A.function_matvec(lambda h: (-h).exp(), image), v, times=400)


@PROFILE
@given(pair=operators(), scale=st.sampled_from(["positive", "negative", "mixed"]), seed=seeds)
def test_each_member_of_a_batch_has_its_own_multiple(pair, scale, seed):
    A, dense = pair
    s = draw(*A.diag.shape[:-1], seed=seed, dtype=A.diag.dtype)
    s = {"positive": s.abs(), "negative": -s.abs() - 0.1, "mixed": s}[scale]
    near((A * s).to_dense(), s[..., None, None] * dense, times=3)


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("rank", [0, 2, 5])
def test_gradients_of_functions_and_roots(size, rank):
    c = torch.tensor([1.0, -1.0] * 3, dtype=DOUBLE)[:rank]
    diag, factor = draw(2, size, seed=1).abs() + 1, 0.2 * draw(2, size, rank, seed=2)
    v = draw(2, size, seed=3)

    def numbers(diag, factor, v):
        A = DiagonalPlusLowRank(diag, factor, c)
        return (
            A.inner(A.add_diagonal(diag)) + A.log_determinant(),
            A.solve(v),
            (A * diag.sum(-1)).diagonal(),
            A.with_diagonal(diag[..., :1].expand_as(diag)).frobenius_norm_squared(),
            A[1].trace(),
        )

    inputs = tuple(part.detach().requires_grad_() for part in (diag, factor, v))
    assert gradcheck(numbers, inputs)


# Tweedie's formulas


def symmetric(n, dimension, order, seed):
    """A random symmetric tensor: a sum of powers, shape (n, D, .., D)."""
    w, letters = 0.6 * draw(n, 4, dimension, seed=seed), "abcde"[:order]
    terms = ",".join("nr" + letter for letter in letters)
    return torch.einsum(f"{terms}->n{letters}", *[w] * order)


@PROFILE
@given(n=st.integers(1, 3), dimension=st.integers(1, 3), sigma=sigmas, seed=seeds)
def test_scores_survive_the_way_through_moments(n, dimension, sigma, seed):
    x_noisy = draw(n, dimension, seed=seed)
    scores = [symmetric(n, dimension, k, seed + k) for k in range(1, 6)]
    moments = [posterior_moment(k, x_noisy, scores, sigma) for k in range(1, 6)]
    for order, (moment, score) in enumerate(zip(moments, scores, strict=True), 1):
        found = scores_from_moments(x_noisy, moments[:order], sigma)[-1]
        cancelled = float(moment.abs().max()) / sigma ** (2 * order)
        # a thousand roundings of the terms that cancel
        torch.testing.assert_close(found, score, rtol=0, atol=1e-13 * (1 + cancelled))
        torch.testing.assert_close(moment, moment.transpose(1, -1), **FLOAT64)
    found = scores_from_moments(x_noisy, moments, sigma)
    for order in (3, 5):
        again = posterior_moment(order, x_noisy, found, sigma)
        torch.testing.assert_close(again, moments[order - 1], **ILL_CONDITIONED)


@PROFILE
@given(n=st.integers(1, 3), dimension=st.integers(1, 3), sigma=sigmas, seed=seeds)
def test_moments_are_polynomials_of_the_cumulants(n, dimension, sigma, seed):
    """The formulas of orders 1 to 4 in one dimension at a time, written out."""
    x_noisy = draw(n, dimension, seed=seed)
    scores = [symmetric(n, dimension, k, seed + k) for k in range(1, 5)]
    cumulants = posterior_cumulants(x_noisy, scores, sigma)
    at = (slice(None),)
    for i in range(dimension):
        k1, k2, k3, k4 = (kappa[(*at, *[i] * order)] for order, kappa in enumerate(cumulants, 1))
        raw = [
            k1,
            k2 + k1**2,
            k3 + 3 * k1 * k2 + k1**3,
            k4 + 4 * k1 * k3 + 3 * k2**2 + 6 * k1**2 * k2 + k1**4,
        ]
        central = [0 * k1, k2, k3, k4 + 3 * k2**2]
        for order in range(1, 5):
            here = (*at, *[i] * order)
            found = posterior_moment(order, x_noisy, scores, sigma)[here]
            torch.testing.assert_close(found, raw[order - 1], **FLOAT64)
            found = posterior_central_moment(order, x_noisy, scores, sigma)[here]
            torch.testing.assert_close(found, central[order - 1], **FLOAT64)


@PROFILE
@given(n=st.integers(1, 3), dimension=st.integers(1, 4), dtype=dtypes, seed=seeds)
def test_mean_and_covariance_are_the_first_two_cumulants(n, dimension, dtype, seed):
    sigma = (0.5 + draw(n, seed=seed).abs()).to(dtype)
    x_noisy, s1 = draw(n, dimension, seed=seed, dtype=dtype), draw(n, dimension, seed=seed + 1)
    s1, s2 = s1.to(dtype), symmetric(n, dimension, 2, seed + 2).to(dtype)
    first, second = posterior_cumulants(x_noisy, [s1, s2], sigma)
    near(posterior_mean(x_noisy, s1, sigma), first)
    near(posterior_covariance(s2, sigma), second)
    s2 = DiagonalPlusLowRank(s1, s1.unsqueeze(-1))
    near(posterior_covariance(s2, sigma).to_dense(), posterior_covariance(s2.to_dense(), sigma))


def test_gradients_of_moments():
    x_noisy, s1, s2 = draw(2, 2), draw(2, 2, seed=1), symmetric(2, 2, 2, 2)
    sigma = torch.tensor([0.5, 1.2], dtype=DOUBLE)
    inputs = tuple(part.requires_grad_() for part in (x_noisy, s1, s2, sigma))

    def moments(x_noisy, s1, s2, sigma):
        return posterior_moment(2, x_noisy, [s1, s2], sigma), posterior_covariance(s2, sigma)

    assert gradcheck(moments, inputs)


# Laws


def covariances(*shape, seed):
    root = draw(*shape, shape[-1], seed=seed)
    return root @ root.mT / shape[-1] + 0.3 * torch.eye(shape[-1], dtype=DOUBLE)


@st.composite
def laws(draw_from, smooth=False):
    """A law of drawn family, dimension, number of terms and parameters."""
    names = ["gaussian", "mixture", "data"] + (["logistic", "ring"] if not smooth else [])
    kind, seed = draw_from(st.sampled_from(names)), draw_from(seeds)
    dimension, terms = draw_from(st.integers(1, 4)), draw_from(st.integers(1, 4))
    means, weights = 1.5 * draw(terms, dimension, seed=seed), draw(terms, seed=seed + 1).softmax(0)
    if kind == "gaussian":
        return Gaussian(means[0], covariances(dimension, seed=seed + 2))
    if kind == "mixture":
        return GaussianMixture(weights, means, covariances(terms, dimension, seed=seed + 2))
    if kind == "logistic":
        scales = 0.3 + draw(terms, dimension, seed=seed + 2).square()
        return LogisticMixture(weights, means, scales)
    if kind == "ring":
        a, b = 0.5 + draw(2, seed=seed).abs()
        return Ring(a, b)
    return SmoothedData(means, 0.3 + abs(float(means[0, 0])))


@FEW
@given(law=laws(), seed=seeds)
def test_derivatives_of_a_law_are_those_of_its_log_density(law, seed):
    x = 1.5 * draw(3, law.dimension, seed=seed)

    def at(name):
        return lambda point: getattr(law, name)(point.unsqueeze(0)).squeeze(0)

    torch.testing.assert_close(law.score(x), vmap(jacrev(at("log_prob")))(x), **ILL_CONDITIONED)
    torch.testing.assert_close(law.hessian(x), vmap(jacrev(at("score")))(x), **ILL_CONDITIONED)
    torch.testing.assert_close(law.hessian(x), vmap(hessian(at("log_prob")))(x), **ILL_CONDITIONED)
    diagonal = law.hessian(x).diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(law.hessian_diag(x), diagonal, **ILL_CONDITIONED)
    torch.testing.assert_close(
        law.third_derivative(x), vmap(jacfwd(at("hessian")))(x), **ILL_CONDITIONED
    )


@PROFILE
@given(law=laws(smooth=True), a=sigmas, b=sigmas, seed=seeds)
def test_smoothing_is_a_semigroup_and_commutes_with_translation(law, a, b, seed):
    x = 2 * draw(4, law.dimension, seed=seed)
    twice, other, once = (
        law.smoothed(a).smoothed(b),
        law.smoothed(b).smoothed(a),
        law.smoothed(math.hypot(a, b)),
    )
    for name in ("log_prob", "score", "hessian", "third_derivative"):
        values = [getattr(part, name)(x) for part in (twice, other, once)]
        for value in values[:2]:
            torch.testing.assert_close(value, values[2], **ILL_CONDITIONED)
    torch.testing.assert_close(once.mean, law.mean, **FLOAT64)
    torch.testing.assert_close(once.variance, law.variance + a**2 + b**2, **FLOAT64)


@PROFILE
@given(law=laws(smooth=True), sigma=sigmas, seed=seeds)
def test_a_posterior_covariance_is_positive(law, sigma, seed):
    """Its trace is what is left of the noise: s2 + I / sigma^2 >= 0 for every law."""
    smooth = law.smoothed(sigma)
    x = 3 * draw(5, law.dimension, seed=seed)
    covariance = posterior_covariance(smooth.hessian(x), sigma)
    assert float(torch.linalg.eigvalsh(covariance).min()) >= -FLOAT64["atol"]


@FEW
@given(law=laws(), seed=seeds)
def test_draws_have_the_moments_of_the_law(law, seed):
    n = 4_000
    x = law.sample(n, torch.Generator().manual_seed(seed))
    for values, truth in ((x, law.mean), ((x - law.mean).square(), law.variance)):
        error = values.std(0) / n**0.5
        assert bool(((values.mean(0) - truth).abs() <= 5 * error).all())


@PROFILE
@given(seed=seeds, sigma=sigmas, n=st.integers(1, 6), dimension=st.integers(1, 3))
def test_the_posterior_of_data_is_tweedies(seed, sigma, n, dimension):
    points, x = draw(n, dimension, seed=seed), draw(3, dimension, seed=seed + 1)
    data, smooth = FiniteData(points), SmoothedData(points, sigma)
    weights = data.posterior_weights(x, sigma)
    torch.testing.assert_close(weights.sum(1), torch.ones(3, dtype=DOUBLE))
    mean = posterior_mean(x, smooth.score(x), sigma)
    torch.testing.assert_close(mean, weights @ points, **FLOAT64)
    covariance = posterior_covariance(smooth.hessian(x), sigma)
    torch.testing.assert_close(covariance, data.posterior_covariance(x, sigma), **FLOAT64)


# Noise by key

keys = {"seed": st.integers(-(2**40), 2**70), "epoch": st.integers(-1, 2**35)}


@PROFILE
@given(**keys, index=st.lists(st.integers(0, 2**62), min_size=1, max_size=8), d=sizes)
def test_noise_depends_on_its_keys_alone(seed, epoch, index, d):
    whole = torch.tensor(index)
    order = torch.randperm(len(index), generator=torch.Generator().manual_seed(epoch % 1000))
    for keyed in (noise.keyed_normal, noise.keyed_rademacher, noise.keyed_uniform):
        z = keyed(whole, d, seed=seed, epoch=epoch)
        torch.manual_seed(epoch % 7)  # torch's own state plays no part
        assert torch.equal(keyed(whole[order], d, seed=seed, epoch=epoch), z[order])
        alone = torch.cat([keyed(part, d, seed=seed, epoch=epoch) for part in whole.split(1)])
        assert torch.equal(alone, z) and bool(z.isfinite().all())
        assert torch.equal(keyed(whole, d + 2, seed=seed, epoch=epoch)[:, :d], z)
        assert torch.equal(keyed(whole.int() % 100, d, seed=seed, epoch=epoch), keyed(
            (whole.int() % 100).long(), d, seed=seed, epoch=epoch))  # fmt: skip
        double = keyed(whole, d, seed=seed, epoch=epoch, dtype=DOUBLE)
        assert torch.equal(double.float(), z)


@PROFILE
@given(**keys, size=st.integers(1, 200))
def test_an_epoch_visits_each_sample_once(seed, epoch, size):
    order = noise.keyed_permutation(size, seed=seed, epoch=epoch)
    assert torch.equal(order.sort().values, torch.arange(size))
    assert torch.equal(order, noise.keyed_permutation(size, seed=seed, epoch=epoch))


@PROFILE
@given(n=st.integers(1, 4), d=sizes, sigma=sigmas, seed=seeds, dtype=dtypes)
def test_a_pair_is_symmetric_about_the_clean_point(n, d, sigma, seed, dtype):
    x, z = draw(n, d, seed=seed, dtype=dtype), draw(n, d, seed=seed + 1, dtype=dtype)
    plus, minus, clean = stencil(x, sigma, z, "antithetic")
    near((plus + minus) / 2, x)
    near((plus - minus) / 2, sigma * z)
    assert torch.equal(plus, noise.perturb(x, sigma, z)) and torch.equal(clean, x)


@PROFILE
@given(n=st.integers(1, 9), d=st.integers(1, 4), seed=seeds, dtype=dtypes)
def test_orthogonal_noise_keeps_lengths_and_is_orthogonal_in_blocks(n, d, seed, dtype):
    z = draw(n, d, seed=seed, dtype=dtype)
    q = noise.orthogonalised(z)
    near(q.norm(dim=1), z.norm(dim=1))
    near(q[0], z[0])
    for block in q.split(d):
        gram = block @ block.T
        near(gram, gram.diagonal().diag())


# Metrics

chains = {"m": st.integers(2, 4), "t": st.integers(4, 60), "d": st.integers(1, 3), "seed": seeds}
affine = {"scale": st.sampled_from([-4.0, -0.25, 0.5, 8.0]), "shift": st.integers(-4, 4)}


@PROFILE
@given(**chains, **affine)
def test_effective_sizes_and_r_hat_see_no_units(m, t, d, seed, scale, shift):
    x = draw(m, t, d, seed=seed).cumsum(1)
    mean, variance = x.mean((0, 1)), x.var((0, 1))
    moved = x * scale + shift
    nice = ess_nice(moved, mean * scale + shift, variance * scale**2)
    torch.testing.assert_close(nice, ess_nice(x, mean, variance), **FLOAT64)
    close = {**FLOAT64, "equal_nan": True}
    torch.testing.assert_close(ess_bulk(moved), ess_bulk(x), **close)
    # R-hat ranks distances from the median, where a shift's rounding would break a tie
    torch.testing.assert_close(r_hat(x * scale), r_hat(x), **close)
    chosen = torch.randperm(m, generator=torch.Generator().manual_seed(seed))
    again = ess_nice(x[chosen], mean, variance)
    torch.testing.assert_close(again, ess_nice(x, mean, variance), **FLOAT64)
    bound = (1 + FLOAT64["rtol"]) * t
    assert bool(((nice > 0) & (nice <= bound)).all())


@PROFILE
@given(n=st.integers(2, 6), d=st.integers(1, 3), rank=st.integers(0, 3), seed=seeds, dtype=dtypes)
def test_errors_and_distances_are_zero_at_the_truth(n, d, rank, seed, dtype):
    x, U = draw(n, d, seed=seed, dtype=dtype), draw(n, d, rank, seed=seed + 1, dtype=dtype)
    A = DiagonalPlusLowRank(x, U)
    assert score_error(x, x) == hessian_error(A, A) == hessian_error(A, A.to_dense()) == 0
    assert not kolmogorov_distance(x, x).any()
    torch.testing.assert_close(variance_ratio(x, x), torch.ones(d, dtype=dtype))
    other = draw(n, d, seed=seed + 2, dtype=dtype)
    assert float(score_error(x, other)) == float(score_error(other, x)) > 0
    near(score_error(2 * x, 2 * other), 4 * score_error(x, other))
    near(score_error(x, other, per_point=True).mean(), score_error(x, other))
    far = kolmogorov_distance(x, other + 100)
    torch.testing.assert_close(far, torch.ones(d, dtype=dtype))
    C = A.clip_to_psd()[0] + DiagonalPlusLowRank.from_diagonal(torch.ones_like(x))
    assert coverage(x, x, C, 0.0) == coverage(x, x, C.to_dense(), 1.0) == 1


# Samplers and the posterior on Gaussians


@FEW
@given(
    dimension=st.integers(1, 4),
    step_size=st.sampled_from([1e-4, 0.3, 2.0, 50.0]),
    full=st.booleans(),
    guard=st.sampled_from(["none", "abs", "langevin"]),
    seed=seeds,
)
def test_one_ozaki_step_is_exact_on_a_gaussian(dimension, step_size, full, guard, seed):
    covariance = covariances(dimension, seed=seed)
    if not full:
        covariance = covariance.diagonal().diag()
    law = Gaussian(draw(dimension, seed=seed), covariance)
    x = 3 * draw(3, dimension, seed=seed + 1)
    options = {"form": "full" if full else "diagonal", "log_prob": law.log_prob}
    kernel = ozaki(lambda y: (law.score(y), law.hessian(y)), step_size, guard, **options)
    state = kernel.init(x)
    decay = torch.linalg.matrix_exp(-step_size * torch.linalg.inv(covariance))
    torch.testing.assert_close(state.mean, law.mean + (x - law.mean) @ decay, **ILL_CONDITIONED)
    root = state.spread if full else torch.diag_embed(state.spread)
    truth = (covariance - decay @ covariance @ decay).expand(3, -1, -1)
    torch.testing.assert_close(root @ root.mT, truth, **ILL_CONDITIONED)
    new, info = kernel.step(state, torch.Generator().manual_seed(seed))
    # the exact transition is reversible; rounding is divided by variances down to 2e-4
    assert float(info.log_ratio.abs().max()) < ILL_CONDITIONED["atol"]
    assert bool((new.x != x).any())


@FEW
@given(dimension=st.integers(1, 4), step_size=st.floats(1e-3, 1.0), seed=seeds, dtype=dtypes)
def test_a_langevin_proposal_is_its_formula(dimension, step_size, seed, dtype):
    law = Gaussian(draw(dimension, seed=seed), covariances(dimension, seed=seed)).to(dtype)
    x = draw(3, dimension, seed=seed + 1, dtype=dtype)
    state = langevin(law.score, step_size).init(x)
    near(state.mean, x + 0.5 * step_size * law.score(x))
    assert state.spread == pytest.approx(math.sqrt(step_size))


@PROFILE
@given(dimension=st.integers(1, 5), sigma=sigmas, seed=seeds, form=st.sampled_from(["dense", "U"]))
def test_the_posterior_of_a_gaussian_is_exact(dimension, sigma, seed, form):
    covariance = covariances(dimension, seed=seed)
    law, eye = Gaussian(draw(dimension, seed=seed), covariance), torch.eye(dimension, dtype=DOUBLE)
    smooth, x = law.smoothed(sigma), 2 * draw(3, dimension, seed=seed + 1)

    def model(y):
        s2 = smooth.hessian(y)
        if form == "U":  # -1/sigma^2 on the diagonal, and the rest as U U^T
            values, vectors = torch.linalg.eigh(s2 + eye / sigma**2)
            d = torch.full_like(y, -1 / sigma**2) * 0.999
            rest = (values - 0.001 / sigma**2).clamp_min(0).sqrt().unsqueeze(-2)
            s2 = DiagonalPlusLowRank(d, vectors * rest)
        return smooth.score(y), s2

    gain = covariance @ torch.linalg.inv(covariance + sigma**2 * eye)
    mean, exact = law.mean + (x - law.mean) @ gain.T, covariance - gain @ covariance
    result = posterior(model, x, sigma)
    torch.testing.assert_close(result.mean, mean, **ILL_CONDITIONED)
    dense = result.covariance.to_dense()
    torch.testing.assert_close(dense, exact.expand(3, -1, -1), **ILL_CONDITIONED)
    if form == "dense":
        torch.testing.assert_close(result.variance[0], exact.diagonal(), **ILL_CONDITIONED)
        truth = torch.distributions.MultivariateNormal(mean, (exact + exact.mT) / 2).log_prob(mean)
        torch.testing.assert_close(result.log_prob(mean), truth, **ILL_CONDITIONED)
    values, directions = leading_directions(result.covariance, dimension)
    torch.testing.assert_close(values.sum(-1), result.variance.sum(-1), **ILL_CONDITIONED)
    near(directions.mT @ directions, eye.expand(3, -1, -1), times=10)
    assert not result.clipped_share.any()
