"""Posteriors against the exact ones of Gaussian mixtures, in closed form and in float64."""

import time
from dataclasses import replace

import pytest
import torch
from torch.distributions import MultivariateNormal

from hosm.operators import DiagonalPlusLowRank
from hosm.operators.diagonal_plus_low_rank import DENSE_SIZE
from hosm.uncertainty import (
    Posterior,
    coverage,
    direction_z_scores,
    leading_directions,
    posterior,
    reliability,
)
from tests.tolerances import FLOAT32, FLOAT64, ILL_CONDITIONED, monte_carlo

D, N = 4, 6
F64 = torch.float64


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed), dtype=F64)


class Mixture:
    """sum_j w_j N(mu_j, S_j) in D dimensions: draws, exact scores and exact posterior."""

    def __init__(self, components=3, seed=1):
        self.weights = torch.softmax(randn(components, seed=seed), 0)
        self.means = 1.5 * randn(components, D, seed=seed + 1)
        roots = randn(components, D, D, seed=seed + 2)
        self.covariances = 0.3 * roots @ roots.mT + 0.05 * torch.eye(D, dtype=F64)

    def sample(self, n, seed=0):
        j = torch.multinomial(self.weights, n, replacement=True, generator=generator(seed))
        noise = randn(n, D, 1, seed=seed + 1)
        return self.means[j] + (torch.linalg.cholesky(self.covariances[j]) @ noise).squeeze(-1)

    def responsibilities(self, x_noisy, noisy):
        densities = MultivariateNormal(self.means, noisy).log_prob(x_noisy.unsqueeze(-2))
        return torch.softmax(self.weights.log() + densities, -1)

    def scores(self, x_noisy, sigma):
        """First and dense second score of the noisy law, from its log-density."""
        noisy = self.covariances + sigma**2 * torch.eye(D, dtype=F64)
        r = self.responsibilities(x_noisy, noisy)
        precision = torch.linalg.inv(noisy)
        g = -torch.einsum("jde,nje->njd", precision, x_noisy.unsqueeze(-2) - self.means)
        s1 = torch.einsum("nj,njd->nd", r, g)
        outer = torch.einsum("nj,njd,nje->nde", r, g, g) - torch.einsum(
            "nj,jde->nde", r, precision
        )
        return s1, outer - s1.unsqueeze(-1) * s1.unsqueeze(-2)

    def posterior(self, x_noisy, sigma):
        """Mean and covariance of the exact posterior, by Bayes' rule: no score is used."""
        eye = torch.eye(D, dtype=F64)
        r = self.responsibilities(x_noisy, self.covariances + sigma**2 * eye)
        inverse = torch.linalg.inv(self.covariances)
        V = torch.linalg.inv(inverse + eye / sigma**2)
        natural = torch.einsum("jde,je->jd", inverse, self.means)
        means = torch.einsum("jde,nje->njd", V, natural + x_noisy.unsqueeze(-2) / sigma**2)
        mean = torch.einsum("nj,njd->nd", r, means)
        second = torch.einsum("nj,njd,nje->nde", r, means, means)
        second = second + torch.einsum("nj,jde->nde", r, V)
        return mean, second - mean.unsqueeze(-1) * mean.unsqueeze(-2)


def lowest(dense, sigma):
    """The least eigenvalue on the diagonal: all signs +1 and d > 0."""
    values, vectors = torch.linalg.eigh(dense)
    factor = vectors * (values - values[:, :1]).clamp_min(0).sqrt().unsqueeze(-2)
    return DiagonalPlusLowRank(values[:, :1].expand(values.shape), factor)


def highest(dense, sigma):
    """The largest eigenvalue on the diagonal: all signs -1."""
    return -lowest(-dense, sigma)


def both_signs(dense, sigma):
    """Nothing on the diagonal: D columns of each sign."""
    values, vectors = torch.linalg.eigh(dense)
    parts = (values.clamp_min(0), (-values).clamp_min(0))
    factor = torch.cat([vectors * part.sqrt().unsqueeze(-2) for part in parts], -1)
    signs = torch.tensor([1.0, -1.0]).repeat_interleave(D)
    return DiagonalPlusLowRank(torch.zeros_like(values), factor, signs)


def far_below(dense, sigma):
    """So much below on the diagonal that d < 0, although C > 0."""
    values, vectors = torch.linalg.eigh(dense)
    shift = 3 / sigma**2
    factor = vectors * (values + shift).sqrt().unsqueeze(-2)
    return DiagonalPlusLowRank(torch.full_like(values, -shift), factor)


def tensor(dense, sigma):
    return dense


FORMS = (lowest, highest, both_signs, far_below, tensor)


def exact_model(law, sigma, form, dtype=F64):
    """A model that returns the exact scores, s2 in one of its forms."""

    def model(x_noisy):
        s1, s2 = law.scores(x_noisy.double(), sigma)
        return s1.to(dtype), form(s2, sigma).to(dtype)

    return model


@pytest.fixture
def law():
    return Mixture()


@pytest.fixture
def x_noisy(law):
    return law.sample(N) + 0.5 * randn(N, D, seed=9)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("form", FORMS)
def test_moments_are_those_of_the_exact_posterior(law, x_noisy, form, sigma):
    result = posterior(exact_model(law, sigma, form), x_noisy, sigma)
    mean, covariance = law.posterior(x_noisy, sigma)
    torch.testing.assert_close(result.mean, mean, **FLOAT64)
    torch.testing.assert_close(result.covariance.to_dense(), covariance, **FLOAT64)
    diagonal = covariance.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(result.variance, diagonal, **FLOAT64)
    assert float(result.clipped_share.max()) == 0


@pytest.mark.parametrize("sigma", [0.1, 1.0])
@pytest.mark.parametrize("form", FORMS)
def test_single_precision(law, x_noisy, form, sigma):
    """The covariance loses digits on the scale of sigma^2, and no sign."""
    model = exact_model(law, sigma, form, torch.float32)
    result = posterior(model, x_noisy.float(), sigma)
    mean, covariance = law.posterior(x_noisy.float().double(), sigma)
    assert result.mean.dtype == result.variance.dtype == torch.float32
    torch.testing.assert_close(result.mean.double(), mean, **FLOAT32)
    error = (result.covariance.to_dense().double() - covariance).abs().max()
    assert float(error) < FLOAT32["atol"] * sigma**2
    assert bool((result.variance > 0).all()) and float(result.clipped_share.max()) == 0
    x = result.sample(3, generator())
    exact = MultivariateNormal(result.mean.double(), covariance).log_prob(x.double())
    torch.testing.assert_close(result.log_prob(x).double(), exact, **FLOAT32)


def assert_moments(draws, mean, covariance):
    """Sample mean and covariance of draws (S, n, D) within 4 s.e. of a Gaussian's."""
    size = len(draws)
    scale = covariance.diagonal(dim1=-2, dim2=-1)
    assert float(((draws.mean(0) - mean) / (scale / size).sqrt()).abs().max()) < 4
    offset = draws - draws.mean(0)
    sample = torch.einsum("snd,sne->nde", offset, offset) / (size - 1)
    products = scale.unsqueeze(-1) * scale.unsqueeze(-2)
    errors = ((products + covariance.square()) / size).sqrt()
    assert float(((sample - covariance) / errors).abs().max()) < 4


@pytest.mark.parametrize("form", FORMS)
def test_samples_have_the_exact_moments(law, x_noisy, form):
    result = posterior(exact_model(law, 0.5, form), x_noisy, 0.5)
    draws = result.sample(20_000, generator(3))
    assert draws.shape == (20_000, N, D)
    assert_moments(draws, *law.posterior(x_noisy, 0.5))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_log_prob_is_that_of_the_dense_gaussian(law, x_noisy, form, shape):
    result = posterior(exact_model(law, 0.5, form), x_noisy, 0.5)
    x = x_noisy + 0.3 * randn(*shape, N, D, seed=4)
    exact = MultivariateNormal(*law.posterior(x_noisy, 0.5)).log_prob(x)
    torch.testing.assert_close(result.log_prob(x), exact, **FLOAT64)


def test_noise_may_differ_from_point_to_point(law, x_noisy):
    sigma = torch.linspace(0.2, 2.0, N, dtype=F64)
    parts = [law.scores(x_noisy[i : i + 1], float(s)) for i, s in enumerate(sigma)]
    s1, s2 = (torch.cat(part) for part in zip(*parts, strict=True))
    result = posterior(lambda _: (s1, lowest(s2, sigma)), x_noisy, sigma)
    for i, s in enumerate(sigma):
        mean, covariance = law.posterior(x_noisy[i : i + 1], float(s))
        torch.testing.assert_close(result.mean[i], mean[0])
        torch.testing.assert_close(result.covariance[i].to_dense(), covariance[0])


def large_covariance(negative, seed=0):
    """sigma = 1: s2 of D > DENSE_SIZE, with -1 among the signs; C > 0 unless `negative`."""
    size = DENSE_SIZE + 30
    d = randn(3, size, seed=seed).abs() + 0.5
    factor = randn(3, size, 4, seed=seed + 1)
    factor = factor / factor.norm(dim=-2, keepdim=True) * 0.6
    if negative:
        factor = 3 * factor
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0])
    return DiagonalPlusLowRank(d - 1, factor, signs)


@pytest.mark.parametrize("negative", [False, True])
def test_signed_covariance_above_the_dense_size(negative):
    s2 = large_covariance(negative)
    size = s2.diag.shape[-1]
    result = posterior(lambda x: (-x, s2), torch.zeros(3, size, dtype=F64), 1.0)
    estimated = s2.to_dense() + torch.eye(size, dtype=F64)
    dense = result.covariance.to_dense()
    assert bool((result.clipped_share > 0).all()) is negative
    assert float(torch.linalg.eigvalsh(dense).min()) > 0
    if not negative:
        torch.testing.assert_close(dense, estimated, **FLOAT64)
    draws = result.sample(4000, generator(1))
    ratio = draws.var(0) / result.variance
    assert abs(float(ratio.mean()) - 1) < monte_carlo(4000 * ratio.numel(), 2**0.5)
    directions = leading_directions(result.covariance, 2)[1]
    along = torch.einsum("snd,ndk->snk", draws, directions)
    values = leading_directions(result.covariance, 2)[0]
    assert float((along.var(0) / values - 1).abs().max()) < monte_carlo(4000, 2**0.5)
    exact = MultivariateNormal(result.mean, dense).log_prob(draws[:5])
    # the clipped eigenvalues are 1e-6 of the mean, which leaves ten digits of sixteen
    torch.testing.assert_close(result.log_prob(draws[:5]), exact, **ILL_CONDITIONED)


def test_negative_variances_are_clipped_and_reported():
    sigma = 0.5
    alpha = torch.tensor([[-1.0, -2.0, -3.0], [-1.0, -8.0, -4.0]], dtype=F64)
    s2 = DiagonalPlusLowRank.from_diagonal(alpha)  # C = (1 + alpha / 4) / 4
    result = posterior(lambda x: (-x, s2), torch.zeros(2, 3, dtype=F64), sigma)
    torch.testing.assert_close(result.clipped_share, torch.tensor([0, 4 / 7], dtype=F64))
    expected = (1 + alpha / 4).clamp_min(0) / 4
    # what was negative is 1e-6 of the mean of |C_ii|, .15
    torch.testing.assert_close(result.variance, expected, rtol=0, atol=1e-6)
    assert bool((result.variance > 0).all())
    x = result.sample(5, generator())
    assert bool(x.isfinite().all()) and bool(result.log_prob(x).isfinite().all())


@pytest.mark.parametrize("form", [lowest, highest, both_signs, tensor])
def test_an_indefinite_covariance_is_projected(form):
    """Up to the dense size, the negative eigenvalues go to 0 and the others stay."""
    dense = randn(N, D, D)
    dense = (dense + dense.mT) / torch.arange(1, N + 1).reshape(N, 1, 1)
    result = posterior(lambda x: (-x, form(dense, 1.0)), torch.zeros(N, D, dtype=F64), 1.0)
    values, vectors = torch.linalg.eigh(dense + torch.eye(D, dtype=F64))
    projected = (vectors * values.clamp_min(0).unsqueeze(-2)) @ vectors.mT
    # what was negative is 1e-6 of the mean of the absolute eigenvalues, up to 3
    torch.testing.assert_close(result.covariance.to_dense(), projected, rtol=0, atol=1e-5)
    share = (-values).clamp_min(0).sum(-1) / values.abs().sum(-1)
    torch.testing.assert_close(result.clipped_share, share)
    assert 0 < int((share > 0).sum()) < N
    assert_moments(result.sample(20_000, generator(2)), result.mean, projected + 1e-12)


def test_a_singular_covariance_is_not_reported_as_clipped():
    """Rounding of a zero eigenvalue is no negative variance."""
    v = randn(N, D)
    dense = v.unsqueeze(-1) * v.unsqueeze(-2) - torch.eye(D, dtype=F64)
    result = posterior(lambda x: (-x, dense), torch.zeros(N, D, dtype=F64), 1.0)
    assert float(result.clipped_share.max()) == 0
    # what is zero is raised to 1e-6 of the mean eigenvalue, |v|^2 / 4, up to 2
    torch.testing.assert_close(result.variance, v.square(), rtol=0, atol=1e-5)


def test_draws_come_from_the_generator_alone(law, x_noisy):
    result = posterior(exact_model(law, 0.5, lowest), x_noisy, 0.5)
    state = torch.random.get_rng_state()
    first, second = (result.sample(3, generator(8)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, result.sample(3, generator(9)))
    assert torch.equal(state, torch.random.get_rng_state())
    with pytest.raises(AttributeError):
        result.mean = first


def test_no_graph_is_kept():
    weight = torch.ones(2, 3, requires_grad=True)
    model = lambda x: (-weight * x, DiagonalPlusLowRank.from_diagonal(-0.5 * weight))  # noqa: E731
    result = posterior(model, torch.ones(2, 3), 1.0)
    assert not result.mean.requires_grad and not result.variance.requires_grad


def image_covariance(seed=0):
    """16 covariances of D = 784 and rank 20, as a model of images gives them."""
    g = generator(seed)
    d = torch.nn.functional.softplus(torch.randn(16, 784, generator=g)) / 4
    factor = torch.randn(16, 784, 20, generator=g) * torch.linspace(0.02, 0.2, 20)
    return DiagonalPlusLowRank(d, factor)


def test_leading_directions_of_images_need_no_large_matrix(monkeypatch):
    covariance = image_covariance()
    start = time.process_time()
    exact_values, exact = torch.linalg.eigh(covariance.to_dense())
    dense_time = time.process_time() - start
    monkeypatch.setattr(DiagonalPlusLowRank, "to_dense", None)
    start = time.process_time()
    values, directions = leading_directions(covariance, 20)
    assert time.process_time() - start < dense_time
    assert values.shape == (16, 20) and directions.shape == (16, 784, 20)
    torch.testing.assert_close(values, exact_values[:, -20:].flip(-1), **FLOAT32)
    residual = covariance @ directions - directions * values.unsqueeze(-2)
    assert float(residual.abs().max()) < FLOAT32["rtol"] * float(values.max())
    cosines = (directions[..., :10] * exact[..., -10:].flip(-1)).sum(-2).abs()
    assert float(cosines.min()) > 0.999


@pytest.mark.parametrize("size", [5, 400])
def test_leading_directions_over_a_constant_diagonal(size):
    """C = d I + U U^T: the pairs of the Gram matrix U^T U, then d itself."""
    factor = randn(2, size, 3)
    covariance = DiagonalPlusLowRank(torch.full((2, size), 0.7, dtype=F64), factor)
    values, directions = leading_directions(covariance, 5)
    gram_values = torch.linalg.eigvalsh(factor.mT @ factor).flip(-1)
    torch.testing.assert_close(values[:, :3], 0.7 + gram_values)
    torch.testing.assert_close(values[:, 3:], torch.full((2, 2), 0.7, dtype=F64))
    eye = torch.eye(5, dtype=F64).expand(2, 5, 5)
    torch.testing.assert_close(directions.mT @ directions, eye)
    largest = directions.gather(-2, directions.abs().argmax(-2, keepdim=True))
    assert bool((largest > 0).all())


def test_z_scores_of_right_and_wrong_posteriors():
    law, sigma, n = Mixture(components=1), 0.7, 5000
    x = law.sample(n)
    x_noisy = x + sigma * randn(n, D, seed=5)
    result = posterior(exact_model(law, sigma, lowest), x_noisy, sigma)
    z = direction_z_scores(result, x, 3)
    assert z.shape == (n, 3)
    assert float(z.mean(0).abs().max()) < monte_carlo(n)
    assert float((z.square().mean(0) - 1).abs().max()) < monte_carlo(n, 2**0.5)
    wrong = direction_z_scores(replace(result, covariance=2 * result.covariance), x, 3)
    torch.testing.assert_close(wrong, z / 2**0.5)


def test_reliability_of_right_and_overconfident_variances():
    variances = randn(500, 40).exp()
    errors = variances * randn(500, 40, seed=3).square()
    table = reliability(variances, errors, bins=8)
    assert table.entries.tolist() == [2500] * 8
    assert bool((table.predicted.diff() > 0).all())
    assert float(((table.observed - table.predicted) / table.standard_error).abs().max()) < 4
    wrong = reliability(variances / 2, errors, bins=8)
    assert float(((wrong.observed - wrong.predicted) / wrong.standard_error).min()) > 4


def test_reliability_by_hand():
    table = reliability(
        torch.tensor([4.0, 1.0, 3.0, 2.0, 9.0]), torch.tensor([5.0, 0, 1, 2, 7]), bins=2
    )
    assert table.predicted.tolist() == [2.0, 6.5]
    assert table.observed.tolist() == [1.0, 6.0]
    assert table.entries.tolist() == [3, 2]
    torch.testing.assert_close(table.standard_error, torch.tensor([3**-0.5, 1.0], dtype=F64))


def test_bad_input_is_named(law, x_noisy):
    result = posterior(exact_model(law, 0.5, lowest), x_noisy, 0.5)
    with pytest.raises(ValueError, match="n must be a whole number of 1 or more, got 0"):
        result.sample(0)
    with pytest.raises(ValueError, match=f"k must be a whole number from 1 to {D}, got 9"):
        leading_directions(result.covariance, 9)
    with pytest.raises(ValueError, match=r"\(5, 4\).*\(6, 4\)"):
        direction_z_scores(result, x_noisy[:5], 2)
    with pytest.raises(ValueError, match=r"\(5, 4\).*\(6, 4\)"):
        reliability(x_noisy[:5], x_noisy)
    for bins in (0, 13):
        with pytest.raises(
            ValueError, match=f"bins must be a whole number from 1 to 12, got {bins}"
        ):
            reliability(x_noisy.square(), x_noisy.square(), bins)
    with pytest.raises(ValueError, match="sigma"):
        posterior(exact_model(law, 0.5, lowest), x_noisy, -0.5)


def with_diagonal(diag, rank=2, negative=0):
    """N(0, diag(d) + U diag(c) U^T) at three points, with so many signs -1."""
    d = torch.tensor(diag, dtype=F64).expand(3, -1)
    signs = torch.tensor([1.0] * (rank - negative) + [-1.0] * negative)
    C = DiagonalPlusLowRank(d, 0.1 * randn(*d.shape, rank), signs)
    return Posterior(torch.zeros_like(d), C, d.new_zeros(3))


@pytest.mark.parametrize("rank", [0, 2, 4])
def test_what_has_a_zero_on_its_diagonal_has_draws_and_no_density(rank):
    """Alike whether C is singular or, by the rank of U, is not."""
    law = with_diagonal([1.0, 0.0, 2.0, 0.5], rank)
    if rank:
        assert_moments(law.sample(20_000, generator(5)), law.mean, law.covariance.to_dense())
    assert bool((law.sample(5)[..., 1] == 0).all()) == (rank == 0)
    x = torch.ones(3, 4, dtype=F64)
    for call in (
        lambda: law.log_prob(x),
        lambda: law.squared_distance(x),
        lambda: law.covariance.solve(x),
        lambda: coverage(law, x, [0.5]),
        law.covariance.log_determinant,
    ):
        with pytest.raises(ValueError, match=r"no zero entry .*, got one at \(0, 1\)"):
            call()


def test_what_is_no_covariance_has_neither():
    x = torch.ones(3, 3, dtype=F64)
    below, zero = with_diagonal([1.0, -0.5, 2.0]), with_diagonal([1.0, 0.0, 2.0], negative=1)
    with pytest.raises(ValueError, match="diag of C must be at least 0 for draws, got -0.5"):
        below.sample(2)
    with pytest.raises(ValueError, match="diag must be above 0 for a square root, got 0"):
        zero.sample(2)
    for call in (below.log_prob, below.squared_distance):
        with pytest.raises(ValueError, match="A must be positive definite, got 1 negative"):
            call(x)


@pytest.mark.parametrize("ratio", [1.0, 1e-2, 1e-4, 1e-6, 1e-8])
def test_thin_covariances_in_single_precision(ratio):
    """D = 50, ten columns, d down to 1e-8 of them: coverage as in float64, no distance below 0."""
    n, g = 200, generator()
    factor = torch.randn(n, 50, 10, generator=g)
    d = ratio * (0.5 + torch.rand(n, 50, generator=g))
    law = Posterior(torch.zeros(n, 50), DiagonalPlusLowRank(d, factor), torch.zeros(n))
    twin = Posterior(law.mean.double(), law.covariance.to(F64), law.clipped_share)
    x = law.sample(3, g)
    dense = MultivariateNormal(twin.mean, law.covariance.to(F64).to_dense())
    # eps |U| d^(-1/2), of which a distance of 50 and a determinant have 50 each
    bound = torch.finfo(torch.float32).eps * (50 / ratio) ** 0.5
    assert float((law.log_prob(x) - dense.log_prob(x.double())).abs().max()) < 50 * bound
    distance, truth = law.squared_distance(x), twin.squared_distance(x.double())
    assert float((distance / truth - 1).abs().max()) < bound and float(distance.min()) > 0
    levels = (0.5, 0.8, 0.95)
    found, expected = (coverage(each, x[0].to(each.mean), levels) for each in (law, twin))
    # a distance is off by .04 on average at worst: .3 points in 200 change sides, seldom three
    torch.testing.assert_close(found, expected, rtol=0, atol=3.01 / n)
