"""Moment matching of deepinv with ours in its place: the same gradient, without its Jacobian."""

import pytest
import torch

from hosm.distributions import Gaussian
from hosm.inverse.conditioning import measured
from hosm.inverse.linear_operators import inpainting
from hosm.networks import ConditionalMLP
from hosm.operators import DiagonalPlusLowRank
from hosm.scores import ScoreModel
from tests.tolerances import FLOAT32, monte_carlo

deepinv = pytest.importorskip("deepinv", reason="deepinv is not installed")
adapter = pytest.importorskip("hosm.inverse.deepinv_adapter")

SHAPE, D, SIGMA, NOISE = (1, 6, 6), 36, 0.7, 0.2
# conjugate gradients of both stop at relative residuals of about 1e-5, in float32
SOLVED = {"rtol": 5e-3, "atol": 5e-4}


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def law(rank=3):
    """A Gaussian whose covariance is a diagonal plus low rank."""
    factor = torch.randn(D, rank, generator=seeded(0), dtype=torch.float64)
    diagonal = torch.rand(D, generator=seeded(1), dtype=torch.float64) + 0.3
    return Gaussian(torch.full((D,), 0.5).double(), torch.diag(diagonal) + factor @ factor.mT)


def model(x, sigma):
    """Both exact scores in float32, of which s2 is dense; autodiff can follow s1."""
    smooth = law().smoothed(sigma)
    inverse = torch.linalg.inv(smooth.covariance).float()
    return (smooth.mean.float() - x) @ inverse, -inverse.expand(len(x), D, D)


def physics(name):
    options = {"img_size": SHAPE, "noise_model": deepinv.physics.GaussianNoise(NOISE)}
    if name == "inpainting":
        return deepinv.physics.Inpainting(mask=0.5, rng=seeded(2), **options)
    if name == "super-resolution":
        return deepinv.physics.Downsampling(factor=2, filter=None, **options)
    kernel = torch.ones(1, 1, 3, 3) / 9
    return deepinv.physics.Blur(
        filter=kernel, padding="circular", noise_model=options["noise_model"]
    )


class Denoiser(deepinv.models.Denoiser):
    """The exact denoiser, as their own class differentiates it."""

    def forward(self, x, sigma, **options):
        flat = x.flatten(1)
        scale = float(torch.as_tensor(sigma).flatten()[0])
        return (flat + scale**2 * model(flat, scale)[0]).view_as(x)


@pytest.mark.parametrize("name", ["inpainting", "super-resolution", "blur"])
@pytest.mark.parametrize("sigma", [SIGMA, torch.tensor(SIGMA, dtype=torch.float64)])
def test_the_gradient_is_that_of_their_moment_matching(name, sigma):
    """Whose conjugate gradients are let run until they converge, in place of three."""
    x, seen = torch.randn(4, *SHAPE, generator=seeded(3)), physics(name)
    y = seen.A(torch.rand(4, *SHAPE, generator=seeded(4)))
    theirs = deepinv.sampling.MomentMatchingDataFidelity(
        Denoiser(), 0.7, cg_max_iter=200, cg_tol=1e-6
    )
    expected = theirs.grad(x, y, seen, SIGMA, get_model_outputs=True)
    ours = adapter.CovarianceDataFidelity(adapter.ScoreDenoiser(model), 0.7)
    found = ours.grad(x, y, seen, sigma, get_model_outputs=True)
    torch.testing.assert_close(found, expected, **SOLVED)
    torch.testing.assert_close(ours.grad(x, y, seen, sigma), found[0], rtol=0, atol=0)


def test_the_score_of_the_measurement_is_that_of_the_gaussian():
    """Of p(y | x~), known for a Gaussian law; in float64 outside, as the sampler hands it over."""
    seen = physics("inpainting")
    x = torch.randn(4, *SHAPE, generator=seeded(5), dtype=torch.float64)
    y = seen.A(torch.rand(4, *SHAPE, generator=seeded(6)))
    exact, known = law(), seen.mask.flatten().bool()
    gain = exact.covariance @ torch.linalg.inv(exact.smoothed(SIGMA).covariance)
    points = x.flatten(1).requires_grad_()
    clean = exact.mean + (points - exact.mean) @ gain.mT
    V = (SIGMA**2 * gain)[known][:, known] + NOISE**2 * torch.eye(int(known.sum())).double()
    normal = torch.distributions.MultivariateNormal(clean[:, known], V)
    normal.log_prob(y.flatten(1)[:, known].double()).sum().backward()
    found = adapter.CovarianceDataFidelity(adapter.ScoreDenoiser(model)).grad(x, y, seen, SIGMA)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found.flatten(1), -points.grad, **SOLVED)


class WithoutGradient(torch.autograd.Function):
    """The identity, through which nothing is differentiated."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise AssertionError("differentiated")


def test_a_network_is_asked_once_and_never_differentiated():
    torch.manual_seed(0)
    trunk = ConditionalMLP(D, 2 + 3, 16)
    network = ScoreModel(trunk, sigma=(0.1, 5.0), rank=3, parametrisation="denoiser", psd=True)
    asked = []

    def both(x, sigma):
        asked.append(sigma)
        return network(WithoutGradient.apply(x), sigma)

    x, seen = torch.randn(2, *SHAPE, generator=seeded(7)), physics("blur")
    y = seen.A(torch.rand(2, *SHAPE, generator=seeded(8)))
    adapter.CovarianceDataFidelity(adapter.ScoreDenoiser(both)).grad(x, y, seen, SIGMA)
    assert asked == [SIGMA]


def test_the_gradient_leads_to_the_mean_of_the_conditioned_law():
    """m - sigma^2 times the gradient is E[x | x~, y] of `hosm.inverse.conditioning`."""
    torch.manual_seed(0)
    trunk = ConditionalMLP(D, 2 + 3, 16)
    network = ScoreModel(trunk, sigma=(0.1, 5.0), rank=3, parametrisation="denoiser", psd=True)
    network.requires_grad_(False)
    seen = physics("inpainting")
    known = seen.mask.flatten().bool()
    x = torch.randn(3, *SHAPE, generator=seeded(9))
    y = seen.A(torch.rand(3, *SHAPE, generator=seeded(10)))
    denoiser = adapter.ScoreDenoiser(network)
    gradient, mean = adapter.CovarianceDataFidelity(denoiser).grad(
        x, y, seen, SIGMA, get_model_outputs=True
    )
    prior = denoiser.moments(x, SIGMA)
    expected = measured(prior, inpainting(known), y.flatten(1)[:, known], NOISE).mean()
    torch.testing.assert_close((mean - SIGMA**2 * gradient).flatten(1), expected, **SOLVED)


def test_a_sampler_of_theirs_draws_from_the_posterior():
    """Of a Gaussian: means and variances of draws by 100 steps are those that are exact."""
    seen, exact = physics("inpainting"), law()
    y = seen.A(torch.rand(1, *SHAPE, generator=seeded(11)))
    known = seen.mask.flatten().bool()
    A = torch.eye(D).double()[known]
    gain = (
        exact.covariance
        @ A.mT
        @ torch.linalg.inv(A @ exact.covariance @ A.mT + NOISE**2 * torch.eye(len(A)).double())
    )
    mean = exact.mean + gain @ (y.flatten().double()[known] - A @ exact.mean)
    variance = (exact.covariance - gain @ A @ exact.covariance).diagonal()
    sde = deepinv.sampling.VarianceExplodingDiffusion(sigma_min=0.01, sigma_max=30.0)
    sampler = deepinv.sampling.PosteriorDiffusion(
        data_fidelity=adapter.CovarianceDataFidelity(),
        denoiser=adapter.ScoreDenoiser(model),
        sde=sde,
        solver=deepinv.sampling.DDPMSolver(
            timesteps=torch.linspace(1, 0, 100), rng=torch.Generator()
        ),
        minus_one_one=False,
    )
    n = 300
    draws = sampler(y.expand(n, *SHAPE).contiguous(), seen, seed=0).flatten(1)
    apart = (draws.mean(0) - mean) / variance.sqrt()
    # 100 steps leave a bias of some hundredths of a standard deviation
    assert float(apart.abs().max()) < monte_carlo(n) + 0.1
    ratio = float((draws.var(0) / variance).mean())
    assert ratio == pytest.approx(1, abs=0.1)  # the steps leave too little, by some hundredths


@pytest.mark.parametrize("case", ["denoiser", "noise", "linear", "scales"])
def test_what_does_not_fit_is_refused(case):
    x, seen, denoiser, sigma = torch.zeros(2, *SHAPE), physics("blur"), None, SIGMA
    if case != "denoiser":
        denoiser = adapter.ScoreDenoiser(model)
    if case == "noise":
        seen.noise_model = deepinv.physics.PoissonNoise()
    if case == "linear":
        seen = deepinv.physics.Physics()
    if case == "scales":
        sigma = torch.tensor([0.5, 0.7])
    named = {
        "denoiser": "ScoreDenoiser",
        "noise": "Poisson",
        "linear": "linear",
        "scales": "one for all",
    }
    with pytest.raises(ValueError, match=named[case]):
        adapter.CovarianceDataFidelity(denoiser).grad(x, x, seen, sigma)


def test_below_its_range_a_model_is_asked_at_its_least_noise_scale():
    class Ranged:
        sigma = (0.1, 5.0)

        def __call__(self, x, sigma):
            self.asked = sigma
            return -x, DiagonalPlusLowRank.from_diagonal(-torch.ones_like(x))

    ranged = Ranged()
    x = torch.ones(2, *SHAPE)
    found = adapter.ScoreDenoiser(ranged)(x, 0.05)
    assert ranged.asked == 0.1
    torch.testing.assert_close(found, 0.99 * x, **FLOAT32)
