"""Products with the Jacobian of s1, and what is made of them, against exact laws and twins."""

import re
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.profiler import ProfilerActivity, profile

from hosm import autodiff, scores
from hosm.autodiff import (
    Eigenpairs,
    autodiff_hessian,
    hutchinson_diagonal,
    leading_eigenpairs,
    pulled_back,
    vector_jacobian_product,
)
from hosm.distributions import GaussianMixture
from hosm.networks import MLP
from tests.tolerances import ROUNDING, monte_carlo

SINGLE, DOUBLE = torch.float32, torch.float64
EXACT = {dtype: ROUNDING[dtype]["rtol"] for dtype in ROUNDING}  # relative to the largest entry
CONVERGED = {DOUBLE: 1e-10, SINGLE: 5e-5}  # twice the default tolerance, relative to |A|


def assert_near(actual, expected, bounds=EXACT, scale=None):
    """Compare at the bound of the dtype, relative to `scale` or the largest expected entry."""
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    scale = expected.abs().max() if scale is None else scale
    error = (actual.double() - expected.double()).abs()
    assert (error <= bounds[actual.dtype] * scale).all(), float(error.max())


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=1, dtype=DOUBLE):
    return torch.randn(shape, generator=seeded(seed), dtype=DOUBLE).to(dtype)


def mixture_of(dimension, dtype=DOUBLE):
    """Return a mixture of three Gaussians with full covariances."""
    factors = randn(3, dimension, dimension, seed=2) / dimension**0.5
    covariances = factors @ factors.mT + 0.3 * torch.eye(dimension, dtype=DOUBLE)
    weights = torch.tensor([0.3, 0.5, 0.2], dtype=dtype)
    return GaussianMixture(
        weights, randn(3, dimension, seed=3, dtype=dtype), covariances.to(dtype)
    )


@pytest.fixture(params=[SINGLE, DOUBLE], ids=str)
def dtype(request):
    return request.param


@pytest.fixture
def mixture(dtype):
    return mixture_of(5, dtype)


@pytest.fixture
def x(dtype):
    return randn(4, 5, dtype=dtype)


def network(dimension=5, width=16, dtype=DOUBLE):
    """Return a score whose Jacobian is not symmetric."""
    torch.manual_seed(0)
    return nn.Sequential(MLP(dimension, 1, width=width), nn.Flatten()).to(dtype)


def convolutions(side, dtype):
    """Return a score over square images; its kernels take buffers in double precision."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, 1, 3, padding=1)]
    return nn.Sequential(nn.Unflatten(1, (1, side, side)), *layers, nn.Flatten()).to(dtype)


def linear(matrices):
    """Return the score x -> J x, with a matrix (D, D), or one for each point, (n, D, D)."""
    return lambda x: (matrices @ x.unsqueeze(-1)).squeeze(-1)


def naive_jacobian(score_function, x):
    """Return J, shape (n, D, D), one row of one point after another."""
    one = torch.autograd.functional.jacobian
    return torch.stack([one(lambda p: score_function(p[None])[0], point) for point in x])


def symmetric(matrices):
    return (matrices + matrices.mT) / 2


def allocated_peak(work):
    """Return the largest sum of bytes that the allocator had handed out during `work`."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        work()
    events = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    total = torch.tensor([e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())])
    return int(total.cumsum(0).max())


# ---------------------------------------------------------------- the Hessian


@pytest.mark.parametrize("mode", ["reverse", "forward", "both"])
@pytest.mark.parametrize("chunk_size", [None, 1, 2, 5, 7])
def test_hessian_of_an_exact_score_is_exact(mixture, x, chunk_size, mode):
    estimate = autodiff_hessian(mixture.score, x, chunk_size, mode=mode)
    assert estimate.dtype == x.dtype
    assert_near(estimate, mixture.hessian(x))


@pytest.mark.parametrize("mode", ["reverse", "forward", "both"])
@pytest.mark.parametrize("chunk_size", [None, 2, 3])
def test_hessian_of_a_network_is_its_symmetrised_jacobian(dtype, x, mode, chunk_size):
    net = network(dtype=dtype)
    jacobian = naive_jacobian(net, x)
    assert (jacobian - jacobian.mT).abs().max() > 0.01
    estimate = autodiff_hessian(net, x, chunk_size, mode=mode)
    assert_near(estimate, symmetric(jacobian))
    assert torch.equal(estimate, estimate.mT)


def test_hessian_of_a_linear_score_by_hand():
    skew = torch.tensor([[0.0, 1.0], [-3.0, 2.0]], dtype=DOUBLE)
    expected = torch.tensor([[0.0, -1.0], [-1.0, 2.0]], dtype=DOUBLE)
    assert_near(autodiff_hessian(linear(skew), randn(3, 2)), expected.expand(3, 2, 2))


def test_scores_offers_the_same_functions():
    assert scores.autodiff_hessian is autodiff_hessian
    assert scores.hutchinson_diagonal is hutchinson_diagonal


def test_nothing_carries_a_gradient():
    net, x = network(), randn(4, 5).requires_grad_()
    pairs = leading_eigenpairs(net, x, 2, generator=seeded())
    results = [
        autodiff_hessian(net, x),
        autodiff_hessian(net, x, mode="forward"),
        hutchinson_diagonal(net, x, 2, seeded()),
        vector_jacobian_product(net, x, x),
        *pairs,
    ]
    assert not any(result.requires_grad for result in results)
    assert all(parameter.grad is None for parameter in net.parameters())


# ---------------------------------------------------------------- its memory


def least_limit(score_function, x, mode):
    with pytest.raises(ValueError, match="memory_limit must be .*, got 1") as error:
        autodiff_hessian(score_function, x, mode=mode, memory_limit=1)
    return int(re.search(r"must be (\d+)", str(error.value))[1])


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize("kind", ["mlp", "convolutions"])
def test_memory_limit_holds_for_what_the_allocator_hands_out(kind, mode, dtype):
    net = network(80, 256, dtype) if kind == "mlp" else convolutions(9, dtype)
    x = randn(6, 80 if kind == "mlp" else 81, dtype=dtype)
    least, expected = least_limit(net, x, mode), autodiff_hessian(net, x)
    assert allocated_peak(lambda: autodiff_hessian(net, x, mode=mode)) > 2.5 * least
    for limit in (least, int(1.3 * least), 2 * least):
        results = []
        peak = allocated_peak(
            lambda limit=limit, results=results: results.append(
                autodiff_hessian(net, x, mode=mode, memory_limit=limit)
            )
        )
        assert peak <= limit
        assert_near(results[0], expected)
    with pytest.raises(ValueError, match=f"memory_limit must be {least} .*, got {least - 1}"):
        autodiff_hessian(net, x, mode=mode, memory_limit=least - 1)


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_memory_limit_is_used(monkeypatch, mode):
    """The rows beyond the trial come in chunks that grow with the limit."""
    chunks, rows = [], autodiff._jacobian_rows
    net, x = network(80, 256), randn(6, 80)
    least = least_limit(net, x, mode)

    def spy(product, x, start, stop):
        chunks.append(stop - start)
        return rows(product, x, start, stop)

    monkeypatch.setattr(autodiff, "_jacobian_rows", spy)
    for limit, fewest in ((least, 1), (2 * least, 2), (10**9, 80)):
        chunks.clear()
        autodiff_hessian(net, x, mode=mode, memory_limit=limit)
        assert chunks[0] == 1 and sum(chunks[1:]) == 80  # the trial, and the rows
        assert max(chunks[1:]) >= fewest
        if limit == least:
            assert max(chunks[1:]) == 1


# ---------------------------------------------------------------- single products


def test_product_is_that_of_the_exact_hessian(mixture, x):
    v = randn(4, 5, seed=4, dtype=x.dtype)
    expected = (mixture.hessian(x) @ v.unsqueeze(-1)).squeeze(-1)
    assert_near(vector_jacobian_product(mixture.score, x, v), expected)


def test_product_is_with_the_transpose_of_the_jacobian():
    skew, v = torch.tensor([[0.0, 1.0], [-3.0, 2.0]], dtype=DOUBLE), randn(3, 2)
    assert_near(vector_jacobian_product(linear(skew), randn(3, 2), v), v @ skew)


def test_product_of_an_evaluation_at_hand_leaves_its_graph_for_the_weights():
    net, v = network(), randn(4, 5, seed=4)
    x = randn(4, 5).requires_grad_()
    s1 = net(x)
    assert_near(pulled_back(s1, x, v), vector_jacobian_product(net, x.detach(), v))
    s1.sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())


def test_a_score_that_ignores_its_point_has_no_jacobian():
    x, bias = randn(4, 5), randn(4, 5).requires_grad_()
    for constant in (lambda points: bias.detach(), lambda points: 2 * bias):
        assert_near(vector_jacobian_product(constant, x, x), torch.zeros(4, 5))


def test_hutchinson_diagonal_is_unbiased_within_four_standard_errors():
    mixture, x = mixture_of(3), randn(1, 3)
    draws = hutchinson_diagonal(mixture.score, x.expand(4000, 3), 1, seeded())
    error = draws.mean(0) - mixture.hessian_diag(x)[0]
    assert (error.abs() <= monte_carlo(4000) * draws.std(0)).all()
    assert (draws.std(0) > 0.1).all()


def test_hutchinson_variance_falls_as_one_over_the_probes():
    """Over fair signs, the variance of v_i (J^T v)_i is the sum of J_ji^2 over j != i."""
    matrix, x = randn(3, 3), randn(1, 3).expand(4000, 3)
    off = matrix - matrix.diagonal().diag()
    for probes in (1, 8):
        draws = hutchinson_diagonal(linear(matrix), x, probes, seeded())
        ratio = draws.var(0) * probes / off.square().sum(0)
        assert ((ratio > 0.9) & (ratio < 1.1)).all()  # 4 standard errors of a variance


def test_hutchinson_is_exact_for_a_diagonal_and_repeats_its_seed(dtype):
    diagonal, x = randn(6, dtype=dtype), randn(3, 6, dtype=dtype)
    estimate = hutchinson_diagonal(lambda x: x * diagonal, x, 1, seeded())
    assert_near(estimate, diagonal.expand(3, 6))
    net = network(6, dtype=dtype)
    first, again, other = (hutchinson_diagonal(net, x, 2, seeded(seed)) for seed in (5, 5, 6))
    assert torch.equal(first, again) and not torch.equal(first, other)


# ---------------------------------------------------------------- leading eigenpairs


def with_spectra(values, dtype=DOUBLE, seed=0, skew=0.0):
    """Return matrices (n, D, D) with eigenvalues `values` (n, D), plus skew parts alike."""
    n, size = values.shape
    basis = torch.linalg.qr(randn(n, size, size, seed=seed))[0]
    twist = randn(n, size, size, seed=seed + 1)
    matrices = (basis * values.double().unsqueeze(-2)) @ basis.mT
    skew = skew * values.abs().amax(-1)[:, None, None]
    return (symmetric(matrices) + skew * (twist - twist.mT)).to(dtype)


def assert_leading(pairs, matrices, k, bounds=CONVERGED):
    """Check all that `Eigenpairs` promises, against a dense solver of the symmetric part."""
    A, vectors = symmetric(matrices.double()), pairs.vectors.double()
    exact, theta = torch.linalg.eigvalsh(A).flip(-1), pairs.values.double()
    scale = torch.linalg.matrix_norm(matrices.double(), 2).unsqueeze(-1)  # |A| if J is symmetric
    assert pairs.vectors.shape == (*A.shape[:2], k)
    assert_near(pairs.values, exact[:, :k], bounds, scale)
    assert (pairs.values.diff(dim=-1) <= 0).all()
    gram = pairs.vectors.mT @ pairs.vectors
    assert_near(gram, torch.eye(k, dtype=DOUBLE).expand(gram.shape))
    residual = (A @ vectors - vectors * theta.unsqueeze(-2)).norm(dim=-2)
    assert (residual <= bounds[pairs.values.dtype] * scale).all()
    assert_near(pairs.residual, residual, scale=scale)
    largest = vectors.gather(-2, vectors.abs().argmax(-2, keepdim=True))
    assert (largest > 0).all()


def spectrum(case, size):
    """Return eigenvalues (3, D) that differ between the points."""
    spread = torch.linspace(-1, 1, size, dtype=DOUBLE)
    values = {
        "spread": spread,
        "negative": spread - 3,
        "posterior": torch.arange(1, size + 1, dtype=DOUBLE).rsqrt() - 1,
        "repeated": torch.cat([torch.full((min(3, size),), 2.0), spread[3:].clamp_max(0.9)]),
        "cluster": torch.cat([2 + 1e-7 * spread[:6], spread[6:]]),
        "constant": torch.full_like(spread, -4.0),
        "low rank": torch.cat([torch.tensor([-1.0, -1.0, -2.0])[:size], 0 * spread[3:] - 4]),
        "zero": torch.zeros_like(spread),
        "wide": -torch.logspace(-1, 2, size, dtype=DOUBLE),
    }[case].double()
    return torch.stack([values, 0.01 * values, 7 * values.roll(1)])


CASES = "spread negative posterior repeated cluster constant zero wide".split()


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("case", [*CASES, "low rank"])
def test_leading_eigenpairs_of_prescribed_spectra(case, k, dtype):
    matrices = with_spectra(spectrum(case, 40), dtype)
    x = randn(3, 40, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # all of them converge
        pairs = leading_eigenpairs(linear(matrices), x, k, generator=seeded())
    assert_leading(pairs, matrices, k)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [1, 2, 6])
def test_all_eigenpairs(case, size, dtype):
    matrices = with_spectra(spectrum(case, size), dtype)
    pairs = leading_eigenpairs(linear(matrices), randn(3, size, dtype=dtype), size)
    # by a dense solver: a few hundred roundings
    assert_leading(pairs, matrices, size, {DOUBLE: 1e-13, SINGLE: 2e-5})


@pytest.mark.parametrize("case", ["posterior", "repeated"])
def test_leading_eigenpairs_in_300_dimensions(case, dtype):
    matrices = with_spectra(spectrum(case, 300), dtype, skew=0.1)
    pairs = leading_eigenpairs(linear(matrices), randn(3, 300, dtype=dtype), 5, generator=seeded())
    assert_leading(pairs, matrices, 5)


def test_leading_eigenpairs_of_an_exact_score(mixture, x):
    for k in (1, 3, 5):
        for mode in ("both", "forward", "reverse"):
            pairs = leading_eigenpairs(mixture.score, x, k, mode=mode, generator=seeded())
            assert_leading(pairs, mixture.hessian(x), k)


def test_leading_eigenpairs_of_a_network_are_those_of_its_symmetric_part(dtype):
    net, x = network(30, 64, dtype), randn(4, 30, dtype=dtype)
    pairs = leading_eigenpairs(net, x, 4, generator=seeded())
    assert isinstance(pairs, Eigenpairs)
    assert_leading(pairs, naive_jacobian(net, x), 4)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_one_mode_suffices_where_the_jacobian_is_symmetric(mode):
    """Where it is not, the residual tells: it holds the skew part, if the space is all of R^D."""
    x, values = randn(3, 20), spectrum("spread", 20)
    for skew in (0.0, 0.3):
        matrices = with_spectra(values, skew=skew)
        pairs = leading_eigenpairs(linear(matrices), x, 2, steps=20, mode=mode, generator=seeded())
        assert_near(pairs.values, values.sort(descending=True).values[:, :2], CONVERGED)
        if skew == 0:
            assert_leading(pairs, matrices, 2)
        assert (pairs.residual > 0.1 * pairs.values.abs()).all() == (skew > 0)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 3),
    size=st.integers(1, 14),
    share=st.floats(0, 1),
    dtype=st.sampled_from([SINGLE, DOUBLE]),
    levels=st.integers(1, 20),
    skew=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 1000),
)
def test_leading_eigenpairs_over_shapes_and_spectra(n, size, share, dtype, levels, skew, seed):
    """Rounding the eigenvalues to few levels makes many of them equal."""
    k = 1 + round(share * (size - 1))
    values = (levels * randn(n, size, seed=seed)).round() / levels
    matrices = with_spectra(values, dtype, seed, skew)
    x = randn(n, size, seed=seed, dtype=dtype)
    pairs = leading_eigenpairs(linear(matrices), x, k, generator=seeded(seed))
    assert_leading(pairs, matrices, k)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 3),
    size=st.integers(1, 9),
    chunk=st.integers(1, 12),
    dtype=st.sampled_from([SINGLE, DOUBLE]),
    mode=st.sampled_from(["reverse", "forward"]),
    seed=st.integers(0, 1000),
)
def test_hessian_over_shapes(n, size, chunk, dtype, mode, seed):
    matrices, x = randn(n, size, size, seed=seed, dtype=dtype), randn(n, size, dtype=dtype)
    estimate = autodiff_hessian(lambda x: linear(matrices)(x.sin()), x, chunk, mode=mode)
    assert_near(estimate, symmetric(matrices * x.cos().unsqueeze(-2)), scale=matrices.abs().max())


def test_points_with_invariant_spaces_wait_for_the_slow_ones(dtype):
    """Their residuals vanish; the columns that must take their place are random."""
    spread = torch.linspace(-1, 1, 60, dtype=DOUBLE)
    few = torch.cat([torch.tensor([3.0, 2.0, 2.0, 1.0], dtype=DOUBLE), torch.zeros(56)])
    matrices = with_spectra(torch.stack([0 * spread, few, spread]), dtype)
    matrices[0] = 0 * torch.eye(60)
    for steps in (12, 60):
        x = randn(3, 60, dtype=dtype)
        pairs = leading_eigenpairs(linear(matrices), x, 3, steps=steps, generator=seeded())
        assert_leading(pairs, matrices, 3)


@pytest.mark.parametrize("steps", [6, 7, 9, 30])
def test_a_small_space_restarts_and_converges(monkeypatch, steps):
    widths, beside = [], autodiff._orthonormal_extension

    def spy(basis, block, generator):
        widths.append(basis.shape[-1] + block.shape[-1])
        return beside(basis, block, generator)

    monkeypatch.setattr(autodiff, "_orthonormal_extension", spy)
    matrices = with_spectra(spectrum("posterior", 60))
    pairs = leading_eigenpairs(linear(matrices), randn(3, 60), 3, steps=steps, generator=seeded())
    assert_leading(pairs, matrices, 3)
    assert steps - 3 < max(widths) <= steps and len(widths) * 3 > steps


def test_many_restarts_keep_the_vectors_orthonormal():
    """A wide spectrum in single precision loses the basis without reorthogonalisation."""
    values = -torch.logspace(0, 5, 80, dtype=DOUBLE).flip(0)[None]
    matrices = with_spectra(values, SINGLE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = leading_eigenpairs(
            linear(matrices), randn(1, 80, dtype=SINGLE), 3, steps=12, tolerance=1e-12
        )
    gram = pairs.vectors.mT @ pairs.vectors
    # float32 rounding, 6e-8, after many restarts; lost without reorthogonalisation
    assert_near(gram, torch.eye(3)[None], {SINGLE: 1e-4})


def test_too_few_iterations_are_told_and_their_residuals_true():
    matrices = with_spectra(spectrum("spread", 60))
    with pytest.warns(RuntimeWarning, match=r"2 iterations leave residuals up to"):
        pairs = leading_eigenpairs(linear(matrices), randn(3, 60), 2, iterations=2)
    left = matrices @ pairs.vectors - pairs.vectors * pairs.values.unsqueeze(-2)
    assert_near(pairs.residual, left.norm(dim=-2))
    assert (pairs.residual > 1e-3 * pairs.values.abs()).any()  # far above the default tolerance


def test_tolerance_sets_the_residual():
    matrices, worst = with_spectra(spectrum("spread", 60)), []
    scale = torch.linalg.eigvalsh(matrices).abs().amax(-1, keepdim=True)
    for tolerance in (1e-2, 1e-5, 1e-8):
        pairs = leading_eigenpairs(
            linear(matrices), randn(3, 60), 2, tolerance=tolerance, generator=seeded()
        )
        worst.append(float((pairs.residual / scale).max()))
        assert worst[-1] <= tolerance
    assert worst[0] > 100 * worst[1] > 1e4 * worst[2]


def test_seeds_repeat_and_do_not_matter():
    matrices, x = with_spectra(spectrum("posterior", 40)), randn(3, 40)
    first, again, other = (
        leading_eigenpairs(linear(matrices), x, 3, generator=seeded(seed)) for seed in (1, 1, 2)
    )
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first.values, other.values)
    assert_near(other.values, first.values)
    # the residual, 5e-11, over the gaps between eigenvalues, from .1
    assert_near(other.vectors, first.vectors, {DOUBLE: 1e-8})


def test_no_square_matrix_is_formed():
    """D = 4,000, k = 2: D x D would take 64 MB, the Krylov space takes a fiftieth."""
    size = 4000
    factor = randn(size, 3, dtype=SINGLE) / size**0.5
    x, results = randn(1, size, dtype=SINGLE), []
    peak = allocated_peak(
        lambda: results.append(
            leading_eigenpairs(lambda x: (x @ factor) @ factor.T - x, x, 2, generator=seeded())
        )
    )
    assert peak < 4 * size**2 / 10
    exact = torch.linalg.eigvalsh(factor.T @ factor).flip(-1)[:2] - 1
    assert_near(results[0].values, exact[None], CONVERGED, 1.0)


def subspace_iteration(score_function, x, k, iterations, step, shift):
    """Return values (n, k) and vectors (n, D, k) as in algorithm 1 of Manor and Michaeli (2024).

    V <- qr((J + shift I) V) by differences of length `step`; the values are norms. Their operator
    is the posterior covariance over sigma^4, which has shift 1 / sigma^2.
    """
    value = score_function(x)

    def product(vectors):
        columns = [
            (score_function(x + step * v) - value) / step + shift * v for v in vectors.unbind(-1)
        ]
        return torch.stack(columns, -1)

    vectors = torch.linalg.qr(randn(*x.shape, k, seed=0))[0]
    for _ in range(iterations):
        vectors = torch.linalg.qr(product(vectors))[0]
    values, order = product(vectors).norm(dim=-2).sort(-1, descending=True)
    return values - shift, vectors.take_along_dim(order.unsqueeze(-2), -1)


def test_subspace_iteration_converges_but_needs_more_products():
    """At equal numbers of products with k vectors, the Krylov space is far nearer."""
    k, x, matrices = 3, randn(3, 60), with_spectra(spectrum("posterior", 60))[:1].expand(3, 60, 60)
    exact = torch.linalg.eigvalsh(matrices).flip(-1)[:, :k]
    errors = {}
    for iterations in (10, 100):
        values, vectors = subspace_iteration(linear(matrices), x, k, iterations, 1e-4, 1.0)
        errors[iterations] = float((values - exact).abs().max())
    # differences of step 1e-4 round to 1e-16 / 1e-4 = 1e-12; 100 products leave the rest
    assert errors[100] < 1e-6
    assert_near((vectors * (matrices @ vectors)).sum(-2), exact, {DOUBLE: 1e-6})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        krylov = leading_eigenpairs(linear(matrices), x, k, iterations=11, generator=seeded())
    # at equal products the error is 1e-4 of the other's, or less
    assert float((krylov.values - exact).abs().max()) < 1e-4 * errors[10]


# ---------------------------------------------------------------- what is refused

SCORE, GOOD = linear(torch.eye(3)), torch.zeros(2, 3)
POINTS = [torch.zeros(3), torch.zeros(2, 3, 1), torch.zeros(0, 3), torch.zeros(2, 0)]
WHOLE = [torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3, dtype=torch.bool)]
FUNCTIONS = [
    autodiff_hessian,
    lambda score, x: autodiff_hessian(score, x, mode="forward"),
    lambda score, x: vector_jacobian_product(score, x, x),
    lambda score, x: hutchinson_diagonal(score, x, 1),
    lambda score, x: leading_eigenpairs(score, x, 1),
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("x", [*POINTS, *WHOLE], ids=lambda x: f"{x.dtype}{tuple(x.shape)}")
def test_illegal_points_are_named(function, x):
    with pytest.raises(ValueError, match=r"x must have .*, got") as error:
        function(SCORE, x)
    wrong = tuple(x.shape) if x.is_floating_point() else x.dtype
    assert str(wrong) in str(error.value)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_score_of_another_shape_is_named(function):
    with pytest.raises(ValueError, match=r"x \(2, 3\) and s1 \(2, 1, 3\)"):
        function(lambda x: x[:, None], GOOD)


@pytest.mark.parametrize("other", [torch.zeros(2, 4), torch.zeros(3), WHOLE[0]])
def test_illegal_directions_are_named(other):
    with pytest.raises(
        ValueError, match=r"x \(2, 3\) .*v \(|v must have a floating-point dtype"
    ) as error:
        vector_jacobian_product(SCORE, GOOD, other)
    wrong = tuple(other.shape) if other.is_floating_point() else other.dtype
    assert str(wrong) in str(error.value)


@pytest.mark.parametrize("value", [0, -2, 1.5, True, None])
def test_illegal_counts_are_named(value):
    calls = {
        "probes": lambda: hutchinson_diagonal(SCORE, GOOD, value),
        "k": lambda: leading_eigenpairs(SCORE, GOOD, value),
        "iterations": lambda: leading_eigenpairs(SCORE, GOOD, 1, iterations=value),
        "steps": lambda: leading_eigenpairs(SCORE, GOOD, 1, steps=value),
        "chunk_size": lambda: autodiff_hessian(SCORE, GOOD, value),
        "memory_limit": lambda: autodiff_hessian(SCORE, GOOD, memory_limit=value),
    }
    optional = {"steps", "chunk_size", "memory_limit"} if value is None else set()
    for name in set(calls) - optional:
        with pytest.raises(ValueError, match=f"{name} must be a whole number .*, got {value}"):
            calls[name]()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 4}, "k must be a whole number from 1 to 3, got 4"),
        ({"k": 1, "steps": 1}, "steps must be a whole number from 2 to 3, got 1"),
        ({"k": 3, "steps": 2}, "steps must be a whole number from 3 to 3, got 2"),
        ({"k": 1, "steps": 4}, "steps must be a whole number from 2 to 3, got 4"),
        ({"k": 1, "tolerance": 0.0}, "tolerance must be between 0 and 1, got 0.0"),
        ({"k": 1, "tolerance": float("nan")}, "tolerance must be between 0 and 1, got nan"),
        ({"k": 1, "tolerance": 1.0}, "tolerance must be between 0 and 1, got 1.0"),
        ({"k": 1, "mode": "dense"}, "mode must be one of reverse, forward, both, got 'dense'"),
    ],
)
def test_illegal_settings_of_the_eigenpairs_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        leading_eigenpairs(SCORE, GOOD, **options)


def test_illegal_settings_of_the_hessian_are_named():
    with pytest.raises(
        ValueError, match="mode must be one of reverse, forward, both, got 'backward'"
    ):
        autodiff_hessian(SCORE, GOOD, mode="backward")
    with pytest.raises(ValueError, match="chunk_size must be None where .*, got 2"):
        autodiff_hessian(SCORE, GOOD, 2, memory_limit=10**6)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_jacobian_that_is_not_finite_is_named(wrong):
    with pytest.raises(ValueError, match="the Jacobian must be finite"):
        leading_eigenpairs(lambda x: x * wrong, GOOD, 1)
