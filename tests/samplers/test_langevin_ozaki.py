"""Laws of the samplers: exact steps on Gaussians, orders of bias, guards, stationary laws."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from hosm.distributions import named_laws as energies
from hosm.operators import DiagonalPlusLowRank
from hosm.samplers import GUARDS, langevin, ozaki, sample_chain
from tests.tolerances import FLOAT64, LEAST_P_VALUE, monte_carlo

FLOOR = 0.1  # the default h0


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


class Gaussian:
    """N(mu, C) with exact scores, s2 as an operator (diagonal C) or dense."""

    def __init__(self, mean, covariance):
        self.mean = torch.tensor(mean, dtype=torch.float64)
        self.covariance = torch.as_tensor(covariance, dtype=torch.float64)
        self.precision = torch.linalg.inv(self.covariance)

    def score(self, x):
        return (self.mean - x) @ self.precision

    def log_prob(self, x):
        return 0.5 * (self.score(x) * (x - self.mean)).sum(-1)

    def diagonal_model(self, x):
        h = -self.precision.diagonal().expand(x.shape)
        return self.score(x), DiagonalPlusLowRank.from_diagonal(h)

    def dense_model(self, x):
        return self.score(x), -self.precision.expand(*x.shape, x.shape[-1])


class TwoModes:
    """The equal mixture of N(-mode, 1/2) and N(mode, 1/2) in one dimension."""

    variance = 0.5

    def __init__(self, mode=2.0):
        self.mode = mode

    def parts(self, x):
        return (self.mode - x) / self.variance, (-self.mode - x) / self.variance

    def log_prob(self, x):
        logs = [-0.5 * self.variance * part.square() for part in self.parts(x)]
        return torch.logaddexp(*logs).sum(-1)

    def model(self, x):
        right, left = self.parts(x)
        w = torch.sigmoid(2 * self.mode * x / self.variance)
        return w * right + (1 - w) * left, w * (1 - w) * (right - left) ** 2 - 1 / self.variance

    def score(self, x):
        return self.model(x)[0]

    def sample(self, n, seed=0):
        g = generator(seed)
        sign = torch.randint(0, 2, (n, 1), generator=g, dtype=torch.float64) * 2 - 1
        noise = torch.randn(n, 1, generator=g, dtype=torch.float64)
        return self.mode * sign + self.variance**0.5 * noise

    def distance(self, x):
        """Kolmogorov distance of draws of any shape from the law."""

        def cdf(t):
            modes = (-self.mode, self.mode)
            return sum(stats.norm.cdf(t, m, self.variance**0.5) for m in modes) / 2

        return stats.kstest(x.numpy().ravel(), cdf).statistic


DIAGONAL = Gaussian([1.0, -2.0, 0.5], np.diag([0.3, 1.0, 4.0]))
FULL = Gaussian([1.0, -2.0], [[1.0, 1.35], [1.35, 2.25]])  # correlation .9
START = torch.tensor([[3.0, -1.0, 2.0]], dtype=torch.float64)


def exact_step(law, x, t):
    """Mean and covariance after time t of dx = s1 dt + sqrt(2) dW, by matrix exponentials."""
    decay = torch.linalg.matrix_exp(-t * law.precision)
    mean = law.mean + (x - law.mean) @ decay.T
    return mean, law.covariance - decay @ law.covariance @ decay.T


@pytest.mark.parametrize("clock", ["paper", "langevin"])
@pytest.mark.parametrize("step_size", [1e-3, 0.5, 6.0, 1e4])
@pytest.mark.parametrize("law", [DIAGONAL, FULL], ids=["diagonal", "full"])
def test_one_ozaki_step_is_exact_for_a_gaussian(law, step_size, clock):
    full = law is FULL
    model = law.dense_model if full else law.diagonal_model
    x = START[:, : len(law.mean)]
    state = ozaki(model, step_size, "none", clock=clock, form="full" if full else "diagonal").init(
        x
    )
    root = state.spread[0] if full else torch.diag(state.spread[0])
    mean, covariance = exact_step(law, x, step_size if clock == "paper" else step_size / 2)
    torch.testing.assert_close(state.mean, mean, **FLOAT64)
    torch.testing.assert_close(root @ root.T, covariance, **FLOAT64)


@pytest.mark.parametrize("law", [DIAGONAL, FULL], ids=["diagonal", "full"])
def test_draws_of_an_ozaki_step_have_the_exact_law(law):
    n, full = 200_000, law is FULL
    kernel = ozaki(
        law.dense_model if full else law.diagonal_model, 0.4, form="full" if full else "diagonal"
    )
    x = START[:, : len(law.mean)].expand(n, -1)
    draws = sample_chain(kernel, x, 1, generator=generator(3))[:, 0]
    mean, covariance = exact_step(law, x[:1], 0.4)
    root = torch.linalg.cholesky(covariance)
    white = torch.linalg.solve_triangular(root, (draws - mean).T, upper=False).numpy()
    assert np.abs(white.mean(1)).max() < monte_carlo(n)
    error = np.abs(white @ white.T / n - np.eye(len(white)))
    assert error.max() < monte_carlo(n, 2**0.5)
    assert all(stats.kstest(row, "norm").pvalue > LEAST_P_VALUE for row in white)


@pytest.mark.parametrize("dimension", [6, 300])  # dense eigenvectors, and Lanczos
def test_a_low_rank_step_is_the_full_step_of_the_same_curvature(dimension):
    g = generator(1)
    diag = -0.5 - torch.rand(4, dimension, generator=g, dtype=torch.float64)
    factor = torch.randn(4, dimension, 3, generator=g, dtype=torch.float64) / dimension**0.5
    s2 = DiagonalPlusLowRank(diag, factor)
    x = torch.randn(4, dimension, generator=g, dtype=torch.float64)
    low, full = (ozaki(lambda x: (-x, s2), 1.5, form=f).init(x) for f in ("low-rank", "full"))
    # Lanczos is asked for 1e-4 of the length of a vector, which is ten times an entry or so
    bounds = FLOAT64 if dimension == 6 else {"rtol": 1e-3, "atol": 1e-3}
    torch.testing.assert_close(low.mean, full.mean, **bounds)
    z = torch.randn(4, dimension, generator=g, dtype=torch.float64)
    expected = (full.spread @ z.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(low.spread(z), expected, **bounds)
    diagonal = ozaki(lambda x: (-x, s2), 1.5).init(x)
    assert (diagonal.mean - full.mean).abs().max() > 0.01


def test_draws_of_a_low_rank_step_have_the_exact_law():
    factor = torch.tensor([[1.0, 0.2, -0.5]], dtype=torch.float64).mT
    s2 = DiagonalPlusLowRank(torch.tensor([-2.0, -1.0, -3.0], dtype=torch.float64), factor)
    law = Gaussian([1.0, -2.0, 0.5], torch.linalg.inv(-s2.to_dense()))
    n = 200_000
    batch = DiagonalPlusLowRank(s2.diag.expand(n, -1), factor.expand(n, -1, -1))
    kernel = ozaki(lambda x: (law.score(x), batch), 0.4, form="low-rank")
    draws = sample_chain(kernel, START.expand(n, -1), 1, generator=generator(3))[:, 0]
    mean, covariance = exact_step(law, START, 0.4)
    root = torch.linalg.cholesky(covariance)
    white = torch.linalg.solve_triangular(root, (draws - mean).T, upper=False).numpy()
    assert np.abs(white.mean(1)).max() < monte_carlo(n)
    assert np.abs(white @ white.T / n - np.eye(3)).max() < monte_carlo(n, 2**0.5)


@pytest.mark.parametrize("adjusted", [False, True])
@pytest.mark.parametrize("form", [None, "diagonal", "low-rank", "full"])
def test_each_chain_may_have_its_own_step_size(form, adjusted):
    """Chains of several step sizes in one batch propose as chains of each do alone."""
    if form == "low-rank" and adjusted:
        return
    log_prob = DIAGONAL.log_prob if adjusted else None

    def kernel(eps):
        if form is None:
            return langevin(DIAGONAL.score, eps, log_prob)
        model = DIAGONAL.diagonal_model if form == "low-rank" else DIAGONAL.dense_model
        return ozaki(model, eps, form=form, log_prob=log_prob)

    x = START.repeat(3, 1) + torch.arange(3).unsqueeze(-1)
    sizes = torch.tensor([0.01, 0.4, 3.0], dtype=torch.float64)
    together = kernel(sizes)
    state = together.init(x)
    moved, info = together.step(state, generator())
    noise = torch.randn(x.shape, generator=generator(), dtype=x.dtype)
    for i, eps in enumerate(sizes.tolist()):
        alone = kernel(eps).init(x)
        torch.testing.assert_close(state.mean[i], alone.mean[i])
        fixed = kernel(eps)
        one = fixed._replace(step=fixed.step)
        new, _ = one.step(fixed.init(x), generator())
        if not adjusted:
            torch.testing.assert_close(moved.x[i], new.x[i])
        elif form is None:
            proposal = alone.mean[i] + eps**0.5 * noise[i]
            assert torch.allclose(moved.x[i], proposal) or torch.equal(moved.x[i], x[i])
            expected, whole = fixed.step(fixed.init(x), generator())
            torch.testing.assert_close(info.log_ratio[i], whole.log_ratio[i])
            assert torch.allclose(expected.x[i], moved.x[i])
    assert moved.x.shape == x.shape


def test_a_model_of_scores_and_diagonal_is_asked_for_no_more():
    class Model:
        def __call__(self, x):
            raise AssertionError("the whole s2 was asked for")

        def score_and_diagonal(self, x):
            return -x, -torch.ones_like(x)

    state = ozaki(Model(), 0.5).init(START)
    torch.testing.assert_close(state.mean, START * math.exp(-0.5))
    with pytest.raises(AssertionError, match="the whole s2"):
        ozaki(Model(), 0.5, form="full").init(START)


@pytest.mark.parametrize("name", ["two_modes", "ring6", "ring8", "mog2", "mog6", "ring2d"])
def test_adjusted_chains_keep_the_moments_of_every_target(name):
    """From exact draws, mean, second moments and energy stay within 4 standard errors."""
    law = getattr(energies, name)(torch.float64)
    n = 20_000
    x0 = law.sample(n, generator(1))
    dense = lambda x: (law.score(x), law.hessian(x))  # noqa: E731
    kernels = {
        "mala": langevin(law.score, 0.3, law.log_prob),
        "diagonal": ozaki(law.score_and_diagonal, 1.0, log_prob=law.log_prob),
        "abs": ozaki(law.score_and_diagonal, 1.0, "abs", log_prob=law.log_prob),
        "full": ozaki(dense, 1.0, "langevin", form="full", log_prob=law.log_prob),
    }
    exact = law.sample(400_000, generator(2))

    def statistics(x):
        energy = law.log_prob(x).unsqueeze(-1)
        return torch.cat([x, x.square(), x.prod(-1, keepdim=True), energy, energy.square()], -1)

    truth = statistics(exact)
    for label, kernel in kernels.items():
        x = statistics(sample_chain(kernel, x0, 1, 19, generator(3))[:, 0])
        error = (x.var(0) / n + truth.var(0) / len(truth)).sqrt()
        z = (x.mean(0) - truth.mean(0)) / error
        assert float(z.abs().max()) < 4, (label, z)


def test_two_half_steps_are_one_step_in_law():
    whole, half = (ozaki(DIAGONAL.diagonal_model, eps).init(START) for eps in (1.0, 0.5))
    decay = (half.mean - DIAGONAL.mean) / (START - DIAGONAL.mean)
    torch.testing.assert_close(whole.mean - DIAGONAL.mean, decay * (half.mean - DIAGONAL.mean))
    both = half.spread.square() * (1 + decay.square())
    torch.testing.assert_close(whole.spread.square(), both)


@pytest.mark.parametrize(("clock", "langevin_steps"), [("paper", 2.0), ("langevin", 1.0)])
@pytest.mark.parametrize("guard", ["none", "langevin"])
def test_clock_of_a_small_step(clock, langevin_steps, guard):
    """Ozaki(eps) tends to Langevin(2 eps) on the paper's clock, to Langevin(eps) on the other."""
    x = torch.linspace(-2, 2, 5, dtype=torch.float64).unsqueeze(-1)
    target, errors = TwoModes(), []
    for eps in (1e-3, 1e-4):
        first = langevin(target.score, langevin_steps * eps).init(x)
        second = ozaki(target.model, eps, guard, clock=clock).init(x)
        drift = ((second.mean - x) / (first.mean - x) - 1).nan_to_num().abs().max()
        errors.append(max(float(drift), float((second.spread / first.spread - 1).abs().max())))
    assert errors[0] < 0.02
    # the next order in eps moves the slope by some eps = 1e-3 times the curvature
    assert math.log10(errors[0] / errors[1]) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("guard", GUARDS)
def test_guards_entry_by_entry(guard, dtype):
    t, score = 0.5, 1.0
    curvature = [3.0, 1e-4, 1e-12, 0.0, -1e-12, -0.05, -2.0, -1e6]
    guarded = {
        "none": lambda h: h,
        "floor": lambda h: min(h, -FLOOR),
        "abs": lambda h: -abs(h),
        "langevin": lambda h: min(h, 0.0),
    }[guard]
    h = torch.tensor([curvature], dtype=dtype)
    state = ozaki(lambda x: (score * torch.ones_like(x), h), t, guard).init(torch.zeros_like(h))
    limits = [guarded(value) for value in curvature]
    move = [math.expm1(t * a) / a if a else t for a in limits]
    variance = [math.expm1(2 * t * a) / a if a else 2 * t for a in limits]
    rtol = 32 * torch.finfo(dtype).eps  # of expm1, a quotient, a root and its square
    expected = torch.tensor([move, variance], dtype=dtype)
    actual = torch.cat([state.mean / score, state.spread.square()])
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=0)  # some units, as said


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("guard", GUARDS)
def test_only_the_printed_step_overflows_at_positive_curvature(guard, full):
    h = torch.tensor([[200.0, -1e6, 0.0]])
    s2 = torch.diag_embed(h) if full else h
    kernel = ozaki(lambda x: (x.sign(), s2), 6.0, guard, form="full" if full else "diagonal")
    _, info = kernel.step(kernel.init(torch.ones(1, 3)), generator())
    assert info.finite_share == (0.0 if guard == "none" else 1.0)


def test_forms_of_the_second_score_agree():
    x = torch.randn(4, 3, generator=generator(), dtype=torch.float64)
    s2 = DiagonalPlusLowRank(-2 - x.square(), 0.3 * x.unsqueeze(-1))
    forms = (s2, s2.diagonal(), s2.to_dense())
    states = [ozaki(lambda x, form=form: (-x, form), 0.7).init(x) for form in forms]
    fulls = [ozaki(lambda x, f=f: (-x, f), 0.7, form="full").init(x) for f in (s2, s2.to_dense())]
    for first, *others in (states, fulls):
        for state in others:
            assert torch.equal(state.mean, first.mean) and torch.equal(state.spread, first.spread)
    assert not torch.allclose(states[0].mean, fulls[0].mean)


def test_langevin_bias_is_of_first_order():
    """On N(0, 1) the stationary variance is 1 / (1 - eps / 4), a bias of order eps."""
    step_sizes, n, biases = [0.2, 0.4, 0.8], 300_000, []
    for eps in step_sizes:
        x0 = torch.randn(n, 1, generator=generator(1), dtype=torch.float64)
        kernel = langevin(lambda x: -x, eps)
        x = sample_chain(kernel, x0, 1, int(10 / eps), generator(2))
        biases.append(float(x.square().mean()) - 1)
        exact = 1 / (1 - eps / 4)
        assert abs(biases[-1] + 1 - exact) < monte_carlo(n, 2**0.5 * exact)
    slope = np.polyfit(np.log(step_sizes), np.log(biases), 1)[0]
    assert 0.95 < slope < 1.25  # the closed form has 1.11 over this range


def test_ozaki_reaches_both_modes_where_langevin_is_biased():
    target = TwoModes()
    x0 = target.sample(400)
    kernels = {
        "langevin": langevin(target.score, 2.0),
        "paper": ozaki(target.model, 6.0),
        "abs": ozaki(target.model, 6.0, "abs"),
        "guard": ozaki(target.model, 6.0, "langevin"),
    }
    draws = {k: sample_chain(v, x0, 500, 50, generator(4)) for k, v in kernels.items()}
    distances = {name: target.distance(x) for name, x in draws.items()}
    assert distances.pop("langevin") > 0.08
    assert max(distances.values()) < 0.03
    crossed = (draws["paper"][:, -1].sign() != draws["paper"][:, 0].sign()).double().mean()
    assert float(crossed) > 0.2


ADJUSTED = {
    "mala": lambda target: langevin(target.score, 0.9, target.log_prob),
    "ozaki": lambda target: ozaki(target.model, 1.0, log_prob=target.log_prob),
    "abs": lambda target: ozaki(target.model, 1.0, "abs", log_prob=target.log_prob),
    "full": lambda target: ozaki(
        lambda x: (target.score(x), torch.diag_embed(target.model(x)[1])),
        1.0,
        form="full",
        log_prob=target.log_prob,
    ),
}


@pytest.mark.parametrize("name", ADJUSTED)
def test_adjusted_chains_keep_the_law(name):
    """From exact draws, the law after some large steps is still exact; it is not without."""
    target, n, shares = TwoModes(1.2), 100_000 if name != "full" else 30_000, []
    kernel = ADJUSTED[name](target)
    x0 = target.sample(n)
    draws = sample_chain(
        kernel,
        x0,
        1,
        9,
        generator(5),
        progress=lambda _, info: shares.append(float(info.acceptance.mean())),
    )
    assert 0.2 < min(shares) and max(shares) < 0.98
    assert target.distance(draws) < 1.95 / math.sqrt(n)  # p = .001
    assert float((draws[:, 0] != x0).double().mean()) > 0.8


@pytest.mark.parametrize("name", ["mala", "ozaki"])
def test_the_same_steps_without_adjustment_bend_the_law(name):
    target, n = TwoModes(1.2), 100_000
    kernel = {"mala": langevin(target.score, 0.9), "ozaki": ozaki(target.model, 1.0)}[name]
    draws = sample_chain(kernel, target.sample(n), 1, 9, generator(5))
    assert target.distance(draws) > 1.95 / math.sqrt(n)


def test_adjusted_chain_finds_the_law_from_a_wrong_start():
    target, n = TwoModes(1.2), 20_000
    x0 = torch.zeros(n, 1, dtype=torch.float64)
    draws = sample_chain(ADJUSTED["ozaki"](target), x0, 1, 60, generator(6))
    assert target.distance(draws) < 1.95 / math.sqrt(n)


@pytest.mark.parametrize("law", [DIAGONAL, FULL], ids=["diagonal", "full"])
def test_ozaki_on_a_gaussian_is_always_accepted(law):
    """The exact transition is reversible, so the Metropolis-Hastings ratio is 1."""
    full = law is FULL
    model = law.dense_model if full else law.diagonal_model
    kernel = ozaki(model, 1.3, form="full" if full else "diagonal", log_prob=law.log_prob)
    x = START[:, : len(law.mean)].expand(50, -1)
    state, info = kernel.step(kernel.init(x), generator())
    rounding = FLOAT64["atol"]
    assert float(info.log_ratio.abs().max()) < rounding
    assert bool((info.acceptance > 1 - rounding).all()) and bool((state.x != x).all())


def test_rejected_chains_keep_their_whole_state():
    target = TwoModes(1.2)
    kernel = ozaki(target.model, 1.0, "abs", log_prob=target.log_prob)
    old = kernel.init(target.sample(500))
    new, info = kernel.step(old, generator())
    stayed = (new.x == old.x).squeeze(-1)
    assert 0 < int(stayed.sum()) < 500
    for a, b, fresh in zip(new, old, kernel.init(new.x), strict=True):
        assert torch.equal(a[stayed], b[stayed])
        torch.testing.assert_close(a, fresh)
    assert info.finite_share == 1


@pytest.mark.parametrize("adjusted", [False, True])
def test_one_evaluation_per_step(adjusted):
    calls = []

    def model(x):
        calls.append(1)
        return -x, -torch.ones_like(x)

    log_prob = (lambda x: -x.square().sum(-1) / 2) if adjusted else None
    sample_chain(ozaki(model, 0.1, log_prob=log_prob), torch.zeros(2, 2), 7, 3, generator())
    assert len(calls) == 11  # one for the start


def test_draws_are_reproducible_thinned_and_burnt():
    kernel = langevin(lambda x: -x, 0.1)
    x0 = torch.zeros(3, 2)
    draws = sample_chain(kernel, x0, 20, generator=generator(7))
    assert draws.shape == (3, 20, 2) and draws.dtype == x0.dtype
    assert torch.equal(draws, sample_chain(kernel, x0, 20, generator=generator(7)))
    assert not torch.equal(draws, sample_chain(kernel, x0, 20, generator=generator(8)))
    part = sample_chain(kernel, x0, 5, 5, generator(7), thin=3)
    assert torch.equal(part, draws[:, 7:20:3])
    assert torch.equal(x0, torch.zeros(3, 2))


def test_draws_hold_no_graph():
    weight = torch.ones((), requires_grad=True)
    draws = sample_chain(langevin(lambda x: -weight * x, 0.1), torch.zeros(3, 2), 4)
    assert not draws.requires_grad


def test_divergence_is_in_the_draws_and_in_the_info():
    shares = []
    draws = sample_chain(
        langevin(lambda x: -(x**3), 1.0),
        torch.tensor([[0.0], [30.0]]),
        10,
        generator=generator(),
        progress=lambda i, info: shares.append((i, info.finite_share)),
        diverged="keep",
    )
    assert [i for i, _ in shares] == list(range(1, 11))
    assert shares[-1][1] < 1 and not bool(draws[1, -1].isfinite().any())


@pytest.mark.parametrize("full", [False, True])
def test_a_diverged_chain_leaves_the_others_alone(full):
    def model(x):
        s2 = -torch.eye(3).repeat(2, 1, 1)
        s2[1] = float("nan")
        return -x * s2[:, 0, :1].abs(), s2

    kernel = ozaki(model, 0.5, form="full" if full else "diagonal")
    draws = sample_chain(kernel, torch.ones(2, 3), 5, 0, generator(), diverged="keep")
    assert bool(draws[0].isfinite().all()) and bool(draws[1].isnan().all())


def test_a_proposal_that_is_not_finite_is_rejected():
    def log_prob(x):
        return torch.where(x.abs() > 1, float("nan"), -x.square()).sum(-1)

    kernel = langevin(lambda x: -2 * x, 0.5, log_prob)
    draws = sample_chain(kernel, torch.zeros(200, 1), 50, generator=generator())
    assert float(draws.abs().max()) <= 1
    assert kernel.step(kernel.init(torch.ones(1, 1)), generator())[1].acceptance.shape == (1,)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: langevin(torch.neg, 0.0), "step_size must be .*got 0.0"),
        (lambda: langevin(torch.neg, float("nan")), "step_size must be .*got nan"),
        (lambda: ozaki(DIAGONAL.dense_model, -1.0), "step_size must be .*got -1.0"),
        (
            lambda: ozaki(DIAGONAL.dense_model, 1.0, "clip"),
            "guard must be one of none, floor, .*got 'clip'",
        ),
        (
            lambda: ozaki(DIAGONAL.dense_model, 1.0, clock="x"),
            "clock must be one of paper, langevin, got 'x'",
        ),
        (lambda: ozaki(DIAGONAL.dense_model, 1.0, floor=0.0), "floor must be .*got 0.0"),
        (lambda: sample_chain(langevin(torch.neg, 1.0), torch.ones(3), 2), r"\(n, D\).*\(3,\)"),
        (lambda: sample_chain(langevin(torch.neg, 1.0), START, 0), "steps must be .*got 0"),
        (lambda: sample_chain(langevin(torch.neg, 1.0), START, 1, -1), "burn_in must be .*got -1"),
        (lambda: sample_chain(langevin(torch.neg, 1.0), START, 1, thin=0), "thin must be .*got 0"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
