"""Objectives: dense twins, unbiasedness at exact scores, minimisers, error orders, misprints."""

import math

import pytest
import torch
from torch.distributions import MultivariateNormal, Normal

from hosm.distributions import Gaussian, GaussianMixture
from hosm.objectives import dsm, joint, joint_terms, likelihood, second_order
from hosm.operators import DiagonalPlusLowRank
from hosm.scores import autodiff_hessian
from tests.tolerances import FLOAT32, FLOAT64, ROUNDING, monte_carlo

DOUBLE = torch.float64
TARGETS = ["moment", "residual", "jacobian"]
REDUCTIONS = [None, "control", "antithetic"]


def randn(*shape, seed=0, dtype=DOUBLE):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE).to(
        dtype
    )


# Dense twins: the objectives as they are defined, with D x D matrices ---------------------------


def dense_moment(s1, s2, z, sigma):
    eye = torch.eye(s1.shape[1], dtype=s1.dtype)
    noise = (eye - z.unsqueeze(2) * z.unsqueeze(1)) / sigma**2
    return s2 + s1.unsqueeze(2) * s1.unsqueeze(1) + noise, noise


def dense_residual(s1, s2, z, sigma):
    u = s1.detach() + z / sigma
    outer = torch.eye(s1.shape[1], dtype=s1.dtype) / sigma**2 - u.unsqueeze(2) * u.unsqueeze(1)
    return s2 + outer, outer


def dense_likelihood(s1, s2, z, sigma):
    """The two scores with D x D matrices, for each sample."""
    e = -(z + sigma * s1.detach())
    S = torch.eye(e.shape[1], dtype=e.dtype) + sigma**2 * s2
    variance = S.diagonal(dim1=1, dim2=2)
    constant = e.shape[1] * math.log(2 * math.pi) / 2
    whole = -MultivariateNormal(torch.zeros_like(e), S).log_prob(e) - constant
    each = -Normal(torch.zeros_like(e), variance.sqrt()).log_prob(e).sum(1) - constant
    return whole, each


def dense_loss(target, model, x, z, sigma, diagonal):
    """The defining square, less the part that no parameter changes."""
    s1, s2 = model(x + sigma * z)
    matrix, constant = (dense_moment if target == "moment" else dense_residual)(
        s1, s2.to_dense(), z, sigma
    )
    if diagonal:
        matrix, constant = (
            part.diagonal(dim1=1, dim2=2).unsqueeze(2) for part in (matrix, constant)
        )
    return (matrix.square().sum((1, 2)) - constant.square().sum((1, 2))).mean()


class Quadratic(torch.nn.Module):
    """A small model with smooth, coupled scores."""

    def __init__(self, dimension=4, rank=2, dtype=DOUBLE):
        super().__init__()
        self.a = torch.nn.Parameter(randn(dimension, dimension, seed=1).to(dtype))
        self.d = torch.nn.Parameter(randn(dimension, dimension, seed=2).to(dtype))
        self.b = torch.nn.Parameter(randn(dimension, dimension * rank, seed=3).to(dtype))
        self.rank = rank

    def score(self, x):
        return torch.tanh(x @ self.a)

    def forward(self, x):
        beta = torch.sin(x @ self.b).view(len(x), -1, self.rank)
        return self.score(x), DiagonalPlusLowRank(torch.cos(x @ self.d), beta)


@pytest.mark.parametrize(("dtype", "sigma"), [(DOUBLE, 0.3), (torch.float32, 0.5)])
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("target", ["moment", "residual"])
def test_structured_value_and_gradient_equal_the_dense_ones(target, diagonal, dtype, sigma):
    model, x, z = (
        Quadratic(dtype=dtype),
        randn(6, 4, seed=4, dtype=dtype),
        randn(6, 4, seed=5, dtype=dtype),
    )
    parameters = list(model.parameters())
    fast = second_order(model, x, sigma, target, None, diagonal, z=z)
    slow = dense_loss(target, model, x, z, sigma, diagonal)
    torch.testing.assert_close(fast, slow, **ROUNDING[dtype])
    pairs = zip(
        torch.autograd.grad(fast, parameters, allow_unused=True),
        torch.autograd.grad(slow, parameters, allow_unused=True),
        strict=True,
    )
    for ours, theirs in pairs:
        assert (ours is None) == (theirs is None) or theirs.abs().max() == 0
        if ours is not None:
            torch.testing.assert_close(ours, theirs, **ROUNDING[dtype])


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("target", ["moment", "residual"])
def test_factors_of_both_signs_count_with_their_signs(target, diagonal):
    class Signed(Quadratic):
        def forward(self, x):
            s1, s2 = super().forward(x)
            return s1, DiagonalPlusLowRank(s2.diag, s2.factor, s2.diag.new_tensor([1.0, -1.0]))

    model, x, z = Signed(), randn(6, 4, seed=4), randn(6, 4, seed=5)
    found = second_order(model, x, 0.3, target, None, diagonal, z=z)
    expected = dense_loss(target, model, x, z, 0.3, diagonal)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(loss, (model.b, model.d)) for loss in (found, expected)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


class Positive(Quadratic):
    """The same, of an S = I + sigma^2 s2 > 0 at sigma = .5."""

    psd = True

    def forward(self, x):
        d = 3 * torch.cos(x @ self.d)
        if not self.rank:
            return self.score(x), DiagonalPlusLowRank.from_diagonal(d)
        return self.score(x), DiagonalPlusLowRank(d, 0.3 * super().forward(x)[1].factor)


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("diagonal", [False, True])
def test_likelihood_is_its_dense_twin(diagonal, rank):
    model, x, z, sigma = Positive(rank=rank), randn(6, 4), randn(6, 4, seed=1), 0.5
    options = {"diagonal": diagonal, "variance_reduction": None, "z": z}
    options["v"] = randn(6, 4, seed=2).sign()
    s1, s2 = model(x + sigma * z)
    whole, each = dense_likelihood(s1, s2.to_dense(), z, sigma)
    expected = each + whole if rank and not diagonal else each
    expected = expected.mean() + 100 * sigma**4 * second_order(
        model, x, sigma, "jacobian", **options
    )
    ours = second_order(model, x, sigma, "likelihood", **options)
    torch.testing.assert_close(ours, expected)
    parameters = [model.d, model.b] if rank else [model.d]
    grads = [torch.autograd.grad(loss, parameters) for loss in (ours, expected)]
    for first, second in zip(*grads, strict=True):
        torch.testing.assert_close(first, second)


def test_likelihood_minds_no_variance_reduction_and_no_gradient_of_s1():
    model, x, z, v = Positive(), randn(6, 4), randn(6, 4, seed=1), randn(6, 4, seed=2).sign()
    values = [
        second_order(model, x, 0.5, "likelihood", reduction, z=z, v=v) for reduction in REDUCTIONS
    ]
    assert values[0] == values[1] == values[2]
    assert torch.autograd.grad(values[0], model.a, allow_unused=True)[0] is None


def test_each_score_of_likelihood_is_least_at_the_second_moment_of_the_error():
    """Also of a posterior that is no Gaussian, and with a wrong mean."""
    e = torch.distributions.Exponential(1.0).sample((200_000, 3)).double() @ randn(3, 3, seed=2)
    e = e - e.mean(0) + 0.3
    moment = e.T @ e / len(e)
    steps = [torch.zeros(3, 3, dtype=DOUBLE)]
    for i in range(3):
        for j in range(i, 3):
            step = torch.zeros(3, 3, dtype=DOUBLE)
            step[i, j] = step[j, i] = 0.05 * float((moment[i, i] * moment[j, j]).sqrt())
            steps += [step, -step]
    values = []
    for step in steps:
        S = (moment + step).expand(len(e), 3, 3)
        s2 = S - torch.eye(3, dtype=DOUBLE)  # at sigma = 1, with m = x_noisy - e, z = -e
        scores = dense_likelihood(torch.zeros_like(e), s2, -e, 1.0)
        values.append(torch.stack([score.mean() for score in scores]))
    whole, each = (torch.stack(values) - values[0]).T
    assert whole[1:].min() > 0
    assert each[1:].min() > -FLOAT64["atol"]  # blind for what is off the diagonal


def test_likelihood_refuses_what_is_not_positive_by_construction():
    model, x = Positive(), randn(6, 4)
    model.psd = False
    with pytest.raises(ValueError, match="psd=True for the target `likelihood`, got psd=False"):
        second_order(model, x, 0.5, "likelihood")
    s2 = DiagonalPlusLowRank(randn(6, 4), randn(6, 4, 1), -torch.ones(1, dtype=DOUBLE))
    with pytest.raises(ValueError, match="got -1"):
        likelihood(randn(6, 4), s2, *[randn(6, 4)] * 3, 0.5, False)


def test_small_sigma_in_float32_keeps_the_gradient_of_float64():
    """At sigma = .01 the omitted constants are 1e8 times what remains."""
    grads = []
    for dtype in (torch.float32, DOUBLE):
        model = Quadratic(dtype=dtype)
        x, z = randn(6, 4, seed=4).to(dtype), randn(6, 4, seed=5).to(dtype)
        loss = second_order(model, x, 0.01, "moment", None, z=z)
        grads.append([g.double() for g in torch.autograd.grad(loss, list(model.parameters()))])
    for ours, reference in zip(*grads, strict=True):
        assert (ours - reference).norm() <= FLOAT32["rtol"] * reference.norm()


@pytest.mark.parametrize("diagonal", [False, True])
def test_jacobian_target_is_the_frobenius_distance_on_average(diagonal):
    model, x, z = Quadratic(), randn(1, 4, seed=4), randn(1, 4, seed=5)
    x_noisy = x + 0.3 * z
    difference = model(x_noisy)[1].to_dense() - autodiff_hessian_unsymmetrised(
        model.score, x_noisy
    )
    if diagonal:
        expected = difference.diagonal(dim1=1, dim2=2).square().sum()
    else:
        expected = difference.square().sum()
    signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=DOUBLE)] * 4)
    many = (x.expand(16, 4), z.expand(16, 4))
    loss = second_order(model, many[0], 0.3, "jacobian", None, diagonal, z=many[1], v=signs)
    if diagonal:  # one probe adds the variance of v * (J v), which s2 cannot change
        jacobian = autodiff_hessian_unsymmetrised(model.score, x_noisy)[0]
        expected = expected + jacobian.square().sum() - jacobian.diagonal().square().sum()
    torch.testing.assert_close(loss, expected)


def autodiff_hessian_unsymmetrised(score, x):
    return torch.func.vmap(torch.func.jacrev(lambda p: score(p[None])[0]))(x)


# Laws ------------------------------------------------------------------------------------------


def mixture(dtype=DOUBLE):
    means = torch.tensor([[-1.0, 0.3], [0.8, -0.5]], dtype=dtype)
    covariances = torch.stack(
        [torch.tensor([[0.6, 0.2], [0.2, 0.5]]), torch.tensor([[0.4, -0.1], [-0.1, 0.7]])]
    ).to(dtype)
    return GaussianMixture(torch.tensor([0.5, 0.5], dtype=dtype), means, covariances)


def exact_model(law, shift1=None, shift2=None):
    """Exact scores of a smoothed law, with parameters that are zero at the optimum.

    They multiply a curved function of x: a constant would leave the noise terms of variance
    reduction, which are second differences, without gradient.
    """

    def model(x):
        s1, hessian = law.score(x), law.hessian(x)
        if shift1 is not None:
            s1 = s1 + shift1 * torch.cos(2 * x)
        alpha = hessian.diagonal(dim1=1, dim2=2)
        if shift2 is not None:
            alpha = alpha + shift2 * torch.cos(2 * x)
        off = hessian[:, 0, 1].unsqueeze(1)  # off-diagonal c: c (u u^T - v v^T) / 2 in 2-D
        root = (off.abs() / 2).sqrt()
        plus = torch.cat([root, root * off.sign()], 1)
        minus = torch.cat([root, -root * off.sign()], 1)
        factor = torch.stack([plus, minus], 2)
        return s1, DiagonalPlusLowRank(alpha, factor, torch.tensor([1.0, -1.0], dtype=x.dtype))

    return model


def gradients(loss_of, count, batch=64):
    """Per-batch gradients of a loss with respect to a zero parameter, shape (count, 2)."""
    rows = []
    for seed in range(count):
        shift = torch.zeros(2, dtype=DOUBLE, requires_grad=True)
        generator = torch.Generator().manual_seed(seed)
        rows.append(torch.autograd.grad(loss_of(shift, generator, batch), shift)[0])
    return torch.stack(rows)


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sigma", [0.1, 0.5])
def test_gradient_vanishes_at_the_exact_scores(target, reduction, sigma, diagonal):
    """Within 4 standard errors; the misprinted 1/sigma fails (see below)."""
    law = mixture()
    smoothed = law.smoothed(sigma)

    def loss(shift, generator, batch):
        x = law.sample(batch, generator)
        model = exact_model(smoothed, shift2=shift)
        return second_order(model, x, sigma, target, reduction, diagonal, generator)

    grads = gradients(loss, 150)
    sampling = monte_carlo(len(grads)) * grads.std(0)  # none for some targets
    assert (grads.mean(0).abs() <= sampling + FLOAT64["atol"]).all()


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_moment_gradient_in_s1_and_dsm_gradient_vanish_at_the_exact_scores(reduction):
    law, sigma = mixture(), 0.3
    smoothed = law.smoothed(sigma)

    def moment(shift, generator, batch):
        x = law.sample(batch, generator)
        model = exact_model(smoothed, shift1=shift)
        return second_order(model, x, sigma, "moment", reduction, False, generator)

    def first(shift, generator, batch):
        x = law.sample(batch, generator)
        return dsm(lambda p: smoothed.score(p) + shift, x, sigma, reduction, generator)

    for loss in (moment, first):
        grads = gradients(loss, 200)
        assert (grads.mean(0).abs() <= monte_carlo(len(grads)) * grads.std(0)).all()


def test_the_misprinted_variance_reduction_is_biased():
    """With 1/sigma in place of 1/sigma^2 the gradient at the exact scores does not vanish."""
    law, sigma = mixture(), 0.5
    smoothed = law.smoothed(sigma)

    def misprinted(shift, generator, batch):
        x = law.sample(batch, generator)
        z = torch.randn(x.shape, generator=generator, dtype=DOUBLE)
        model = exact_model(smoothed, shift2=shift)
        psi = []
        for point in (x + sigma * z, x - sigma * z, x):
            s1, s2 = model(point)
            psi.append(s2.to_dense() + s1.unsqueeze(2) * s1.unsqueeze(1))
        noise = torch.eye(2, dtype=DOUBLE) - z.unsqueeze(2) * z.unsqueeze(1)
        cross = (noise * (psi[0] + psi[1] - 2 * psi[2])).sum((1, 2)) / sigma
        return ((psi[0].square() + psi[1].square()).sum((1, 2)) / 2 + cross).mean()

    grads = gradients(misprinted, 100)
    assert (grads.mean(0).abs() > 8 * grads.std(0) / math.sqrt(len(grads))).any()


@pytest.mark.parametrize("target", ["moment", "residual"])
@pytest.mark.parametrize("sigma", [0.1, 0.01])
def test_variance_reduction_keeps_the_mean_and_reduces_the_variance(target, sigma):
    law = mixture()
    smoothed, offset = law.smoothed(sigma), torch.tensor([0.3, -0.2], dtype=DOUBLE)
    results = {}
    for reduction in REDUCTIONS:

        def loss(shift, generator, batch, reduction=reduction):
            x = law.sample(batch, generator)
            model = exact_model(smoothed, shift2=shift + offset)
            return second_order(model, x, sigma, target, reduction, False, generator)

        results[reduction] = gradients(loss, 150)
    plain = results[None]
    for reduction in ("control", "antithetic"):
        reduced = results[reduction]
        spread = math.hypot(plain.std(0).max(), reduced.std(0).max()) / math.sqrt(len(plain))
        assert (plain.mean(0) - reduced.mean(0)).abs().max() <= 4 * spread
    assert results["antithetic"].var(0).max() < 0.1 * plain.var(0).min() * (sigma / 0.1) ** 2
    assert results["control"].var(0).max() < 0.5 * plain.var(0).min()


@pytest.mark.parametrize("reduction", ["control", "antithetic"])
def test_variance_reduction_of_dsm_removes_the_noise_of_small_sigma(reduction):
    law, sigma = mixture(), 0.05
    smoothed = law.smoothed(sigma)

    def loss(shift, generator, batch, kind):
        x = law.sample(batch, generator)
        return dsm(
            lambda p: smoothed.score(p) + shift * torch.cos(2 * p), x, sigma, kind, generator
        )

    plain = gradients(lambda s, g, b: loss(s, g, b, None), 100)
    reduced = gradients(lambda s, g, b: loss(s, g, b, reduction), 100)
    assert reduced.var(0).max() < 0.1 * plain.var(0).min()
    assert (reduced.mean(0).abs() <= monte_carlo(len(reduced)) * reduced.std(0)).all()


def test_antithetic_residual_sees_the_clean_point_without_the_linear_noise():
    """Against the defining average over +z and -z less its value at x, where those cancel."""
    model, x, z, sigma = Quadratic(), randn(6, 4, seed=4), randn(6, 4, seed=5), 0.3
    halves = [second_order(model, x, sigma, "residual", None, z=sign * z) for sign in (1, -1)]
    s2 = model(x)[1]
    noise = 2 * (s2.trace() - (z * (s2 @ z)).sum(1)) / sigma**2
    expected = (halves[0] + halves[1]) / 2 - noise.mean()
    ours = second_order(model, x, sigma, "residual", "antithetic", z=z)
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("target", TARGETS)
def test_minimiser_on_a_gaussian_is_minus_the_precision(target, reduction):
    """A constant s2 fitted in closed form by each target recovers -(Sigma + sigma^2 I)^-1."""
    covariance = torch.tensor([[1.0, 0.6], [0.6, 1.5]], dtype=DOUBLE)
    law, sigma, n = Gaussian(torch.zeros(2, dtype=DOUBLE), covariance), 0.5, 40_000
    smoothed = law.smoothed(sigma)
    x, z = law.sample(n, torch.Generator().manual_seed(0)), randn(n, 2, seed=1)
    v = randn(n, 2, seed=2).sign()
    alpha = torch.zeros(2, dtype=DOUBLE, requires_grad=True)
    beta = torch.full((2,), 0.5, dtype=DOUBLE, requires_grad=True)

    def model(points):  # alpha and beta are not unique in 2-D, their matrix is
        factor = beta.expand(len(points), 2).unsqueeze(2)
        return smoothed.score(points), DiagonalPlusLowRank(alpha.expand(len(points), 2), factor)

    options = {"max_iter": 200, "tolerance_change": 1e-14, "tolerance_grad": 1e-10}
    optimiser = torch.optim.LBFGS([alpha, beta], line_search_fn="strong_wolfe", **options)

    def closure():
        optimiser.zero_grad()
        loss = second_order(model, x, sigma, target, reduction, z=z, v=v)
        loss.backward()
        return loss

    optimiser.step(closure)
    fitted = model(x[:1])[1].to_dense()[0].detach()
    expected = -torch.linalg.inv(covariance + sigma**2 * torch.eye(2, dtype=DOUBLE))
    # four standard errors: that of an entry is .030, by variance reduction .0145; of `jacobian`,
    # which has no noise, what LBFGS leaves
    bound = 1e-6 if target == "jacobian" else 0.12 if reduction is None else 0.06
    torch.testing.assert_close(fitted, expected, rtol=0, atol=bound)  # as said


def test_the_diagonal_target_leaves_s1_unbent():
    """For a diagonal model of a correlated Gaussian the full loss would bend s1; ours does not."""
    covariance = torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=DOUBLE)
    law, sigma = Gaussian(torch.zeros(2, dtype=DOUBLE), covariance), 0.5
    smoothed = law.smoothed(sigma)
    diagonal = smoothed.hessian_diag(torch.zeros(1, 2, dtype=DOUBLE))[0]

    def loss(shift, generator, batch, diagonal_only):
        x = law.sample(batch, generator)

        def model(points):
            s1 = smoothed.score(points) * (1 + shift)
            s2 = DiagonalPlusLowRank.from_diagonal(diagonal.expand(len(points), 2))
            return s1, s2

        return joint(model, x, sigma, 0.0, "moment", "antithetic", diagonal_only, generator)

    ours = gradients(lambda s, g, b: loss(s, g, b, True), 200)
    full = gradients(lambda s, g, b: loss(s, g, b, False), 200)
    assert (ours.mean(0).abs() <= monte_carlo(200) * ours.std(0)).all()
    assert (full.mean(0).abs() > 4.5 * full.std(0) / math.sqrt(200)).all()


@pytest.mark.parametrize(("target", "order"), [("residual", 2), ("moment", 1)])
def test_error_in_s1_biases_residual_to_second_order_and_moment_to_first(target, order):
    """The optimum of a free s2 is the conditional mean of its target; 1-D, by quadrature."""
    law = Gaussian(torch.zeros(1, dtype=DOUBLE), torch.eye(1, dtype=DOUBLE))
    sigma, deltas = 0.5, torch.tensor([0.02, 0.04, 0.08, 0.16], dtype=DOUBLE)
    smoothed, x_noisy = law.smoothed(sigma), torch.tensor([[0.7]], dtype=DOUBLE)
    grid = torch.linspace(-8, 8, 4001, dtype=DOUBLE).unsqueeze(1)
    z = (x_noisy - grid) / sigma
    weight = torch.softmax(law.log_prob(grid) - z.square().sum(1) / 2, 0)
    biases = []
    for delta in deltas:
        alpha = torch.zeros((), dtype=DOUBLE, requires_grad=True)

        def model(points, delta=delta, alpha=alpha):
            s2 = DiagonalPlusLowRank.from_diagonal(alpha.expand(len(points), 1))
            return smoothed.score(points) + delta, s2

        losses = (
            torch.stack(
                [
                    weight[i]
                    * second_order(model, grid[i : i + 1], sigma, target, None, z=z[i : i + 1])
                    for i in range(0, len(grid), 40)
                ]
            )
            / weight[::40].sum()
        )
        slope = torch.autograd.grad(losses.sum(), alpha)[0]
        biases.append(-slope / 2 - smoothed.hessian(x_noisy)[0, 0, 0])
    slopes = torch.stack(biases).abs().log().diff() / deltas.log().diff()
    assert abs(float(slopes.mean()) - order) <= 0.2


# Interface -------------------------------------------------------------------------------------


def test_joint_adds_gamma_times_dsm_and_seeds_reproduce():
    model, x = Quadratic(), randn(6, 4, seed=4)
    z, v = randn(6, 4, seed=5), randn(6, 4, seed=6).sign()
    for target in TARGETS:
        terms = joint_terms(model, x, 0.3, target, z=z, v=v)
        total = joint(model, x, 0.3, 2.5, target, z=z, v=v)
        torch.testing.assert_close(total, terms.second + 2.5 * terms.first)
        torch.testing.assert_close(terms.first, dsm(model.score, x, 0.3, "antithetic", z=z))
        a, b = (joint(model, x, 0.3, generator=torch.Generator().manual_seed(3)) for _ in "ab")
        assert torch.equal(a, b)


class Scaled(Quadratic):
    """The same model with scores that depend on each point's noise scale."""

    def score(self, x, sigma):
        return torch.tanh(x @ self.a) * (1 + sigma.unsqueeze(1))

    def forward(self, x, sigma):
        beta = torch.sin(x @ self.b).view(len(x), -1, self.rank) * sigma[:, None, None]
        return self.score(x, sigma), DiagonalPlusLowRank(torch.cos(x @ self.d), beta)


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_scale_for_each_sample_weights_its_terms(target, reduction, diagonal):
    """The terms are the means of sigma^2 DSM and sigma^4 second order, sample by sample."""
    model, x = Scaled(), randn(6, 4, seed=4)
    z, v = randn(6, 4, seed=5), randn(6, 4, seed=6).sign()
    scales = torch.tensor([0.1, 0.2, 0.5, 0.5, 1.0, 2.0], dtype=DOUBLE)
    first, second = joint_terms(model, x, scales, target, reduction, diagonal, z=z, v=v)
    expected = []
    for i, sigma in enumerate(scales):

        class At:
            def __call__(self, points, sigma=sigma):
                return model(points, sigma.expand(len(points)))

            def score(self, points, sigma=sigma):
                return model.score(points, sigma.expand(len(points)))

        one = slice(i, i + 1)
        options = {"z": z[one], "v": v[one]}
        terms = joint_terms(At(), x[one], float(sigma), target, reduction, diagonal, **options)
        expected.append(torch.stack([sigma**2 * terms.first, sigma**4 * terms.second]))
    torch.testing.assert_close(torch.stack([first, second]), torch.stack(expected).mean(0))
    torch.testing.assert_close(dsm(model.score, x, scales, reduction, z=z), first)


@pytest.mark.parametrize("target", TARGETS)
def test_a_score_that_would_broadcast_is_named(target):
    x = randn(6, 4)
    with pytest.raises(ValueError, match=r"\(18, 1\)|\(12, 1\)|\(6, 1\)"):
        dsm(lambda p: p[:, :1], x, 0.3)

    def model(points):
        return points[:, :1], DiagonalPlusLowRank.from_diagonal(torch.zeros_like(points))

    with pytest.raises(ValueError, match="must have one shape"):
        second_order(model, x, 0.3, target)
    with pytest.raises(ValueError, match="int64"):
        dsm(lambda p: p, x, 0.3, z=torch.zeros(6, 4, dtype=torch.int64))


@pytest.mark.parametrize("scales", [torch.ones(5), torch.zeros(6), torch.full((6,), math.inf)])
def test_illegal_scales_are_named(scales):
    with pytest.raises(ValueError, match="sigma must"):
        dsm(Scaled().score, randn(6, 4), scales)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_dsm_estimates_the_square_less_its_constant(reduction):
    law, sigma = mixture(), 0.5
    x, z = law.sample(200_000, torch.Generator().manual_seed(0)), randn(200_000, 2, seed=1)
    score = law.smoothed(1.0).score  # not the optimum: its terms do not vanish
    expected = 0.5 * (score(x + sigma * z) + z / sigma).square().sum(1) - z.square().sum(1) / (
        2 * sigma**2
    )
    value = dsm(score, x, sigma, reduction, z=z)
    assert abs(value - expected.mean()) <= 6 * expected.std() / math.sqrt(len(x))


def test_targets_detach_s1_where_they_say_so():
    model, x, z, v = Quadratic(), randn(6, 4), randn(6, 4, seed=1), randn(6, 4, seed=2).sign()
    for target, bends in (("moment", True), ("residual", False), ("jacobian", False)):
        loss = second_order(model, x, 0.3, target, z=z, v=v)
        gradient = torch.autograd.grad(loss, model.a, allow_unused=True)[0]
        assert (gradient is not None and bool(gradient.abs().max() > 0)) == bends


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(0, 4, dtype=DOUBLE)}, r"x must have shape \(n, D\).*got \(0, 4\)"),
        ({"x": torch.zeros(6, 4, dtype=torch.int64)}, "int64"),
        ({"x": torch.zeros(6, dtype=DOUBLE)}, r"\(6,\)"),
        ({"z": torch.zeros(5, 4, dtype=DOUBLE)}, r"x \(6, 4\) and z \(5, 4\)"),
        ({"sigma": 0.0}, "sigma must be"),
        ({"sigma": math.nan}, "sigma must be"),
        ({"target": "best"}, "jacobian, residual, moment, likelihood, got 'best'"),
        ({"variance_reduction": "yes"}, "None, control, antithetic, got 'yes'"),
        ({"gamma": -1.0}, "gamma must be"),
    ],
)
def test_illegal_arguments_are_named(change, message):
    arguments = {"x": randn(6, 4), "sigma": 0.3, **change}
    if "z" not in change and arguments["x"].is_floating_point():
        arguments["z"] = torch.zeros_like(arguments["x"])
    elif "z" not in change:
        arguments["z"] = torch.zeros(6, 4, dtype=DOUBLE)
    with pytest.raises(ValueError, match=message):
        joint(Quadratic(), **arguments)


def test_exact_hessian_is_reached_by_autodiff_of_the_exact_score():
    law, x = mixture(), randn(4, 2)
    model = exact_model(law)
    torch.testing.assert_close(model(x)[1].to_dense(), autodiff_hessian(law.score, x))
