"""Order three and above: exact posteriors, error orders, dense twins, unbiasedness, training."""

import itertools
import math
from functools import partial

import pytest
import torch

from hosm.distributions import GaussianMixture
from hosm.networks import MLP
from hosm.objectives import HighOrderModel, HighOrderObjective, order_k
from hosm.operators import DiagonalPlusCP, DiagonalPlusLowRank
from hosm.scores import ScoreModel
from hosm.training import Settings, fit
from tests.tolerances import FLOAT32, FLOAT64, monte_carlo

DOUBLE = torch.float64
REDUCTIONS = [None, "control", "antithetic"]


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def mixture(dtype=DOUBLE):
    means = torch.tensor([[-1.0, 0.3], [0.8, -0.5]], dtype=dtype)
    covariances = torch.stack(
        [torch.tensor([[0.6, 0.2], [0.2, 0.5]]), torch.tensor([[0.4, -0.1], [-0.1, 0.7]])]
    ).to(dtype)
    return GaussianMixture(torch.tensor([0.5, 0.5], dtype=dtype), means, covariances)


# Exact scores in the forms of the models ---------------------------------------------------------


def as_cp(dense):
    """A dense symmetric tensor in 2-D, (n, 2, .., 2), as powers of k + 1 fixed directions."""
    n, order = len(dense), dense.ndim - 1
    angles = torch.arange(order + 1, dtype=dense.dtype) * math.pi / (order + 1)
    W = torch.stack([angles.cos(), angles.sin()])
    powers = torch.stack([product([w] * order) for w in W.T]).flatten(1)
    c = dense.flatten(1) @ torch.linalg.pinv(powers)
    return DiagonalPlusCP(dense.new_zeros(n, 2), W.expand(n, 2, order + 1), c, order)


def as_low_rank(hessian):
    """A dense symmetric 2 x 2 matrix as diag(alpha) + off (u u^T - v v^T) / 2."""
    root = (hessian[:, 0, 1:].abs() / 2).sqrt()
    sign = hessian[:, 0, 1:].sign()
    factor = torch.stack([torch.cat([root, s * root * sign], 1) for s in (1, -1)], 2)
    signs = torch.tensor([1.0, -1.0], dtype=hessian.dtype)
    return DiagonalPlusLowRank(hessian.diagonal(dim1=1, dim2=2), factor, signs)


def product(vectors):
    """The outer product of vectors (D,)."""
    return torch.einsum(",".join("abcdef"[: len(vectors)]), *vectors)


def derivative(function, x):
    """Return the derivative of a function of points, with one index more."""
    basis = torch.eye(x.shape[1], dtype=x.dtype)
    return torch.stack([torch.func.jvp(function, (x,), (e.expand_as(x),))[1] for e in basis], -1)


def exact_score(law, order):
    """x -> s_k of a law, dense, for k = 3, 4."""
    return law.third_derivative if order == 3 else partial(derivative, law.third_derivative)


def exact_lower(law, order):
    """x -> (s1, .., s_(k-1)) of a law in 2-D, in the forms that `order_k` takes."""

    def lower(x):
        scores = [law.score(x), as_low_rank(law.hessian(x)), as_cp(law.third_derivative(x))]
        return scores[: order - 1]

    return lower


# Exact posteriors of a few atoms: no Monte Carlo, no quadrature ----------------------------------

SIGMA = 0.6


class Atoms:
    """Weighted atoms in 2-D, and the exact posterior at one noisy point."""

    def __init__(self):
        self.x, self.x_noisy = randn(6, 2, seed=11), torch.tensor([[0.2, -0.3]], dtype=DOUBLE)
        self.z = (self.x_noisy - self.x) / SIGMA
        self.r = torch.softmax(-self.z.square().sum(1) / 2 + randn(6, seed=12) / 2, 0)
        self.m = self.r @ self.x

    def central(self, order):
        """E[(x - m)^(x)k | x_noisy], dense."""
        return sum(r * product([x - self.m] * order) for r, x in zip(self.r, self.x, strict=True))

    def cumulant(self, order):
        """The textbook's cumulants from central moments, symmetrised over their indices."""
        mu = [None, None, *(self.central(k) for k in range(2, order + 1))]
        products = {4: (3, 2, 2), 5: (10, 3, 2)}
        if order < 4:
            return mu[order]
        factor, first, second = products[order]
        outer = torch.tensordot(mu[first], mu[second], dims=0)
        permutations = list(itertools.permutations(range(order)))
        symmetric = sum(outer.permute(p) for p in permutations) / len(permutations)
        return mu[order] - factor * symmetric

    def lower(self, order, error=0.0):
        """(s1, .., s_(k-1)), each off by `error` in the posterior's cumulant."""
        wrong = error * randn(2, seed=13)
        s1 = (self.m + wrong - self.x_noisy) / SIGMA**2
        C = self.cumulant(2) + error * torch.tensor([[0.3, 0.5], [0.5, -0.4]], dtype=DOUBLE)
        scores = [s1, as_low_rank(((C - SIGMA**2 * torch.eye(2)) / SIGMA**4)[None])]
        for k in range(3, order):
            kappa = self.cumulant(k) + error * product([randn(2, seed=k)] * k)
            scores.append(as_cp(kappa[None]) * SIGMA ** (-2 * k))
        return lambda x_noisy: scores

    def loss(self, A, error=0.0):
        """The posterior mean of the objective without variance reduction."""
        lower = self.lower(A.order, error)
        losses = [
            order_k(lambda p: A, lower, x[None], SIGMA, "residual", None, z=z[None])
            for x, z in zip(self.x, self.z, strict=True)
        ]
        return self.r @ torch.stack(losses)

    def expected(self, A):
        """||A||^2 - 2 <A, s_k> at the exact score, with dense tensors."""
        dense, exact = A.to_dense()[0], self.cumulant(A.order) / SIGMA ** (2 * A.order)
        return (dense * (dense - 2 * exact)).sum()


def random_tensor(order, rank=2, n=1, size=2, seed=20):
    parts = (randn(n, size, seed=seed), randn(n, size, rank, seed=seed + 1))
    return DiagonalPlusCP(*parts, randn(n, rank, seed=seed + 2), order)


@pytest.mark.parametrize("order", [3, 4, 5])
def test_the_residual_target_has_the_exact_mean(order):
    atoms, A = Atoms(), random_tensor(order)
    torch.testing.assert_close(atoms.loss(A), atoms.expected(A), **FLOAT64)


@pytest.mark.parametrize("order", [3, 4, 5])
def test_errors_of_the_lower_orders_enter_squared(order):
    atoms, A = Atoms(), random_tensor(order)
    errors = torch.tensor([1e-4, 2e-4, 4e-4, 8e-4], dtype=DOUBLE)
    bias = torch.stack([atoms.loss(A, float(error)) - atoms.expected(A) for error in errors])
    slopes = bias.abs().log().diff() / errors.log().diff()
    assert ((slopes - 2).abs() <= 0.2).all(), slopes


# Dense twins -------------------------------------------------------------------------------------


def symmetrised(a, b):
    """The mean of a (x) b over the orders of its indices, for a (n, D, ..), b (n, D, ..)."""
    left, right = "abcd"[: a.ndim - 1], "efgh"[: b.ndim - 1]
    outer = torch.einsum(f"n{left},n{right}->n{left}{right}", a, b)
    orders = list(itertools.permutations(range(1, outer.ndim)))
    return sum(outer.permute(0, *p) for p in orders) / len(orders)


def dense_target(order, x_noisy, x, scores, sigma):
    """T_k in the data's units: r^3 - 3 C r; r^4 - 6 C r r + 3 C C - 4 kappa_3 r; over sigma^2k."""
    r = x - x_noisy - sigma**2 * scores[0]
    C = sigma**4 * scores[1].to_dense() + sigma**2 * torch.eye(x.shape[1], dtype=x.dtype)
    rr = symmetrised(r, r)
    if order == 3:
        return (symmetrised(rr, r) - 3 * symmetrised(C, r)) / sigma**6
    kappa = sigma**6 * scores[2].to_dense()
    out = symmetrised(rr, rr) - 6 * symmetrised(C, rr)
    return (out + 3 * symmetrised(C, C) - 4 * symmetrised(kappa, r)) / sigma**8


def inner(A, target):
    return (A.to_dense() * target).flatten(1).sum(1)


def dense_loss(order, model, lower, x, z, sigma, reduction):
    zero = [torch.zeros_like(x), DiagonalPlusLowRank.from_diagonal(torch.zeros_like(x))]
    zero.append(DiagonalPlusCP.from_diagonal(torch.zeros_like(x), 3))
    values = []
    signs = (1, -1) if reduction == "antithetic" else (1,)
    for noise in (sign * sigma * z for sign in signs):
        A, scores = (
            model(x + noise),
            [s.detach() if k != 1 else s for k, s in enumerate(lower(x + noise))],
        )
        value = A.to_dense().flatten(1).square().sum(1)
        value = value - 2 * inner(A, dense_target(order, x + noise, x, scores, sigma))
        if reduction:
            # the same polynomial of the noise alone: its mean is zero at the clean point
            control = dense_target(order, x + noise, x, zero, sigma)
            value = value + 2 * inner(model(x), control)
        values.append(value)
    return (sum(values) / len(values)).mean()


class Curved(torch.nn.Module):
    """A small model of order k with smooth, coupled parts."""

    def __init__(self, order, size=2, rank=2):
        super().__init__()
        self.order, self.rank = order, rank
        self.d, self.w, self.c = (
            torch.nn.Parameter(randn(size, width, seed=30 + i))
            for i, width in enumerate((size, size * rank, rank))
        )

    def forward(self, x):
        W = torch.sin(x @ self.w).view(len(x), -1, self.rank)
        return DiagonalPlusCP(torch.cos(x @ self.d), W, torch.tanh(x @ self.c), self.order)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("order", [3, 4])
def test_residual_value_and_gradient_equal_the_dense_ones(order, reduction):
    model, lower = Curved(order), exact_lower(mixture().smoothed(0.9), order)
    x, z, sigma = randn(5, 2, seed=4), randn(5, 2, seed=5), 0.4
    fast = order_k(model, lower, x, sigma, "residual", reduction, z=z)
    slow = dense_loss(order, model, lower, x, z, sigma, reduction)
    torch.testing.assert_close(fast, slow, **FLOAT64)
    pairs = (torch.autograd.grad(loss, list(model.parameters())) for loss in (fast, slow))
    for ours, theirs in zip(*pairs, strict=True):
        torch.testing.assert_close(ours, theirs, **FLOAT64)


@pytest.mark.parametrize("order", [3, 4])
def test_jacobian_target_is_the_frobenius_distance_on_average(order):
    """Over all signs, less the constant; at lower scores that are nobody's derivatives."""
    model, lower = Curved(order), lambda x: (x, *[Below(order)(x)] * (order - 2))
    x, z, sigma = randn(1, 2, seed=4), randn(1, 2, seed=5), 0.4
    signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=DOUBLE)] * 2)
    many = (x.expand(4, 2), sigma)
    fast = order_k(model, lower, *many, "jacobian", z=z.expand(4, 2), v=signs)
    x_noisy = x + sigma * z
    rate = derivative(lambda p: lower(p)[-1].to_dense(), x_noisy)
    A = model(x_noisy).to_dense()
    slow = (A * (A - 2 * rate)).sum()
    torch.testing.assert_close(fast, slow, **FLOAT64)
    pairs = (torch.autograd.grad(loss, list(model.parameters())) for loss in (fast, slow))
    for ours, theirs in zip(*pairs, strict=True):
        torch.testing.assert_close(ours, theirs, **FLOAT64)
    step = order_k(model, lower, *many, "jacobian", z=z.expand(4, 2), v=signs, jvp_step=1e-5)
    # errors of first order in the step are opposite at v and -v: its square, 1e-10, is left
    torch.testing.assert_close(step, fast, rtol=1e-8, atol=1e-8)


class Below(torch.nn.Module):
    """The lower score that an order is differentiated from."""

    def __init__(self, order):
        super().__init__()
        self.order = order

    def forward(self, x):
        A = Curved(self.order - 1)(1.5 * x + 0.2)
        if self.order > 3:
            return A
        return DiagonalPlusLowRank(A.diag, A.factor, torch.tensor([1.0, -1.0], dtype=DOUBLE))


# Unbiasedness at the exact scores of a law -------------------------------------------------------


def shifted(exact, shift):
    """The exact score, with curved changes of d, W and c that are zero at the optimum."""

    def model(x):
        A, curved = as_cp(exact(x)), torch.cos(2 * x)
        W, c = A.factor + shift[1] * curved.unsqueeze(2), A.weights + shift[2] * curved[:, :1]
        return DiagonalPlusCP(A.diag + shift[0] * curved, W, c, A.order)

    return model


def gradients(order, sigma, target, reduction, offset=0.0, count=100, batch=64):
    """Gradients in the shift for each of `count` batches, shape (count, 3)."""
    law = mixture()
    smoothed, rows = law.smoothed(sigma), []
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        x = law.sample(batch, generator)
        shift = torch.full((3,), offset, dtype=DOUBLE, requires_grad=True)
        model = shifted(exact_score(smoothed, order), shift)
        lower = exact_lower(smoothed, order)
        loss = order_k(model, lower, x, sigma, target, reduction, generator)
        rows.append(torch.autograd.grad(loss, shift)[0])
    return torch.stack(rows)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("order", "sigma"), [(3, 0.2), (3, 0.5), (4, 0.5)])
def test_residual_gradient_vanishes_at_the_exact_scores(order, sigma, reduction):
    grads = gradients(order, sigma, "residual", reduction)
    assert (grads.mean(0).abs() <= monte_carlo(len(grads)) * grads.std(0)).all()
    moved = gradients(order, sigma, "residual", reduction, offset=2.0, count=30)
    assert (moved.mean(0).abs() > monte_carlo(len(moved)) * moved.std(0)).any()


@pytest.mark.parametrize("order", [3, 4])
def test_jacobian_gradient_is_zero_at_the_exact_scores_for_each_sample(order):
    grads = gradients(order, 0.3, "jacobian", None, count=2, batch=4)
    assert grads.abs().max() <= FLOAT64["atol"]
    assert gradients(order, 0.3, "jacobian", None, 0.3, count=2, batch=4).abs().max() > 0.1


@pytest.mark.parametrize(("order", "share"), [(3, 0.25), (4, 0.05)])
def test_variance_reduction_keeps_the_mean_and_reduces_the_variance(order, share):
    """At small sigma: noise of order sigma^(1-k), or sigma^(2-k), in place of sigma^-k."""
    plain, control, antithetic = (
        gradients(order, 0.05, "residual", reduction, offset=0.3) for reduction in REDUCTIONS
    )
    for reduced in (control, antithetic):
        spread = (plain.var(0) + reduced.var(0)).sqrt() / math.sqrt(len(plain))
        assert ((plain.mean(0) - reduced.mean(0)).abs() <= 4 * spread).all()
    linear = [0, 2]  # d and c; the gradient in W holds the error of s_k as well
    assert (control.var(0)[linear] < 0.5 * plain.var(0)[linear]).all()
    assert (antithetic.var(0)[linear] < share * plain.var(0)[linear]).all()


# The model, and training -------------------------------------------------------------------------


def relative_error(model, law, exact, points=2000):
    """The root of E||s_k^ - s_k||^2 / E||s_k||^2 over samples of q_sigma."""
    x = law.sample(points, torch.Generator().manual_seed(99))
    with torch.no_grad():
        estimate = model(x).to_dense()
    return float((estimate - exact(x)).norm() / exact(x).norm())


def three_modes():
    """A law in float32 that is far from Gaussian at sigma .5."""
    means = torch.tensor([[-1.2, -0.4], [1.0, -0.8], [0.2, 1.3]])
    covariances = torch.tensor(
        [[[0.25, 0.12], [0.12, 0.2]], [[0.2, -0.1], [-0.1, 0.3]], [[0.35, 0.1], [0.1, 0.12]]]
    )
    return GaussianMixture(torch.tensor([0.4, 0.35, 0.25]), means, covariances)


def trained(order, target, sigma, steps, width=64):
    law = three_modes()
    exact = exact_score(law.smoothed(sigma), order)
    torch.manual_seed(0)
    trunk = MLP(2, 1 + 2 * 3, width=width)
    model = HighOrderModel(trunk, order=order, sigma=sigma, rank=3)
    settings = Settings(
        sigma=sigma,
        target=target,
        batch_size=256,
        max_steps=steps,
        validate_every=steps,
        learning_rate=1e-2 if order == 3 else 5e-3,
    )
    lower = exact_lower(law.smoothed(sigma), order)
    objective = partial(HighOrderObjective, lower=lower)
    data = law.sample(50_000, torch.Generator().manual_seed(1))
    held = law.sample(500, torch.Generator().manual_seed(2))
    before = relative_error(model, law.smoothed(sigma), exact)
    result = fit(model, settings, lambda epoch: data, held, objective=objective)
    assert set(result.metrics) == {f"train_order_{order}", f"validation_order_{order}"}
    model.load_state_dict(result.weights)
    return before, relative_error(model, law.smoothed(sigma), exact)


@pytest.mark.parametrize(
    ("target", "steps", "bound"),
    [
        ("jacobian", 500, 0.2),
        pytest.param("residual", 2400, 0.25, marks=pytest.mark.slow),
    ],
)
def test_fit_reaches_the_third_order_score(target, steps, bound):
    before, after = trained(3, target, 0.5, steps)
    assert before > 0.9 and after <= bound, (before, after)


@pytest.mark.slow
def test_fit_reaches_the_fourth_order_score():
    before, after = trained(4, "jacobian", 0.5, 1000)
    assert before > 0.9 and after <= 0.5, (before, after)


def test_the_objective_leaves_the_lower_model_out():
    lower = ScoreModel(MLP(2, 3, width=8), sigma=0.5, rank=1)
    model = HighOrderModel(MLP(2, 5, width=8), order=3, sigma=0.5, rank=2)
    for target in ("jacobian", "residual"):
        objective = HighOrderObjective(model, Settings(sigma=0.5, target=target), lower=lower)
        names = {name.removeprefix("model.") for name in objective.state_dict()}
        assert names == set(model.state_dict()) and objective.names == ("order_3",)
        x, z = randn(6, 2).float(), randn(6, 2, seed=1).float()
        (loss,) = objective(x, z, z.sign(), z[:, 0])
        model.zero_grad()
        loss.backward()
        assert all(p.grad.abs().max() > 0 for p in model.parameters())
        assert all(p.grad is None for p in lower.parameters())
        expected = order_k(model, lower, x, 0.5, target, z=z, v=z.sign())
        torch.testing.assert_close(loss, expected)


def test_outputs_are_in_units_of_the_length():
    models = []
    for length in (None, 1.0):
        torch.manual_seed(3)
        trunk = MLP(4, 7, width=8)
        models.append(HighOrderModel(trunk, order=4, sigma=0.1, rank=3, length=length))
    by_sigma, by_one = (model(torch.zeros(2, 4), 0.1).to_dense() for model in models)
    torch.testing.assert_close(by_sigma / 1e4, by_one, **FLOAT32)
    assert 0.1 < by_one.norm() < 10
    assert HighOrderModel(MLP(4, 1), order=3, sigma=0.1, rank=0)(torch.zeros(2, 4)).rank == 0


def test_seeds_reproduce():
    model, lower, x = Curved(3), exact_lower(mixture(), 3), randn(6, 2)
    for target in ("jacobian", "residual"):
        a, b, other = (
            order_k(model, lower, x, 0.5, target, generator=torch.Generator().manual_seed(seed))
            for seed in (1, 1, 2)
        )
        assert torch.equal(a, b) and not torch.equal(a, other)


# Bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["jacobian", "residual"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(0, 2, dtype=DOUBLE)}, r"x must have shape \(n, D\).*got \(0, 2\)"),
        ({"x": torch.zeros(6, 2, dtype=torch.int64), "z": randn(6, 2)}, "int64"),
        ({"x": torch.zeros(6, dtype=DOUBLE)}, r"\(6,\)"),
        ({"z": randn(5, 2)}, r"x \(6, 2\) and z \(5, 2\)"),
        ({"sigma": 0.0}, "sigma must be"),
        ({"target": "moment"}, r"'jacobian'\), got 'moment'"),
        ({"variance_reduction": "yes"}, r"'antithetic'\), got 'yes'"),
        (
            {"lower": exact_lower(mixture(), 4)},
            "a score of order 2 there|must return 2 scores for order 3, got 3",
        ),
        ({"lower": lambda x: (x, x)}, "a score of order 2 there"),
    ],
)
def test_illegal_arguments_are_named(target, change, message):
    arguments = {"model": Curved(3), "lower": exact_lower(mixture(), 3), "x": randn(6, 2)}
    with pytest.raises(ValueError, match=message):
        order_k(**{**arguments, "sigma": 0.5, "target": target, **change})


def test_illegal_signs_models_and_settings_are_named():
    lower = exact_lower(mixture(), 3)
    with pytest.raises(ValueError, match="jvp_step must be .*got 0"):
        order_k(Curved(3), lower, randn(6, 2), 0.5, jvp_step=0.0)
    with pytest.raises(ValueError, match=r"x \(6, 2\) and v \(5, 2\)"):
        order_k(Curved(3), lower, randn(6, 2), 0.5, v=randn(5, 2))
    legal = {"order": 3, "sigma": 0.5, "rank": 1}
    for change, message in (
        ({"order": 2}, "order must be an integer of at least 3, got 2"),
        ({"rank": -1}, "rank must be an integer of at least 0, got -1"),
        ({"sigma": -1.0}, "sigma must be"),
        ({"length": math.inf}, "length must be a finite number above 0, got inf"),
    ):
        with pytest.raises(ValueError, match=message):
            HighOrderModel(MLP(2, 3), **{**legal, **change})
    model = HighOrderModel(MLP(2, 3), **legal)
    for call, message in (
        (lambda: model(torch.zeros(3, 4)), r"\(n, 2\), got \(3, 4\)"),
        (lambda: model(torch.zeros(3, 2), 0.6), "trained at sigma 0.5, got 0.6"),
        (lambda: HighOrderModel(MLP(2, 4), **legal)(torch.zeros(3, 2)), r"\(3, 3, 2\)"),
        (lambda: HighOrderObjective(model, Settings(sigma=0.5, target="dsm"), lower=lower), "dsm"),
        (lambda: HighOrderObjective(model, Settings(sigma=(0.1, 0.5)), lower=lower), "sigma"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
