"""A measurement added to N(m, C), against the dense formulas of Gaussian laws."""

import pytest
import torch

from hosm.autodiff import autodiff_hessian
from hosm.distributions import GaussianMixture
from hosm.exact_scores import ExactScores
from hosm.inverse import LinearOperator, blur, inpainting, measured, projections, super_resolution
from hosm.inverse.conditioning import denoised
from hosm.operators import DiagonalPlusLowRank
from hosm.uncertainty import Posterior
from tests.tolerances import FLOAT64, ILL_CONDITIONED, monte_carlo

DOUBLE, D = torch.float64, 12
MATRIX = torch.randn(5, D, generator=torch.Generator().manual_seed(2), dtype=DOUBLE)
OPERATORS = {
    "inpainting": inpainting(torch.arange(D) % 3 == 0),
    "super-resolution": super_resolution((D,), 4),
    "blur": blur((D,), torch.tensor([0.25, 0.5, 0.25], dtype=DOUBLE)),
    "projections": projections(MATRIX),
    "pair": LinearOperator(lambda x: x @ MATRIX.to(x).mT, lambda u: u @ MATRIX.to(u), D),
}


def law(rank, count=4, dtype=DOUBLE):
    generator = torch.Generator().manual_seed(rank)
    mean, diag = (torch.rand(count, D, generator=generator, dtype=DOUBLE) + 0.1 for _ in "md")
    factor = torch.randn(count, D, rank, generator=generator, dtype=DOUBLE)
    C = DiagonalPlusLowRank(diag.to(dtype), factor.to(dtype))
    return Posterior(mean.to(dtype), C, torch.zeros(count, dtype=dtype))


def dense(prior, operator, y, noise):
    """Mean and covariance of x given y, from dense matrices in float64."""
    A = operator.forward(torch.eye(D, dtype=DOUBLE)).mT
    C, m = prior.covariance.to(DOUBLE).to_dense(), prior.mean.double()
    V = A @ C @ A.mT + noise**2 * torch.eye(len(A), dtype=DOUBLE)
    gain = C @ A.mT @ torch.linalg.inv(V)
    return m + (gain @ (y.double() - m @ A.mT).unsqueeze(-1)).squeeze(-1), C - gain @ A @ C


@pytest.mark.parametrize("rank", [0, 3, D])
@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_the_mean_is_the_dense_one(operator, rank):
    prior = law(rank)
    y = torch.randn(4, operator.measurements, dtype=DOUBLE)
    mean, _ = dense(prior, operator, y, 0.3)
    # conjugate gradients stop at a relative residual of 4e-11
    found = measured(prior, operator, y, 0.3).mean()
    # conjugate gradients stop at a relative residual of 4e-11
    torch.testing.assert_close(found, mean, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_little_noise_is_safe_in_float32(operator):
    """With s = .003 beside variances of 3, V spans six digits."""
    prior = law(3, dtype=torch.float32)
    y = torch.randn(4, operator.measurements, generator=torch.Generator().manual_seed(1))
    found = measured(prior, operator, y, 0.003).mean()
    mean, _ = dense(prior, operator, y, 0.003)
    size = float(mean.abs().max())
    # relative residuals are at most 2e-5, in a matrix whose condition is 1e6
    torch.testing.assert_close(found.double(), mean, rtol=0, atol=2e-3 * size)
    seen = operator.forward(mean.float())  # y itself only as far as the law allows it
    # as above
    torch.testing.assert_close(operator.forward(found), seen, rtol=0, atol=2e-3 * size)


@pytest.mark.parametrize("name", ["inpainting", "projections"])
def test_draws_have_the_dense_mean_and_covariance(name):
    operator, count = OPERATORS[name], 5000
    one = law(3, 1)
    prior = Posterior(
        one.mean.expand(count, -1).contiguous(),
        DiagonalPlusLowRank(
            one.covariance.diag.expand(count, -1), one.covariance.factor.expand(count, -1, -1)
        ),
        torch.zeros(count, dtype=DOUBLE),
    )
    y = torch.ones(1, operator.measurements, dtype=DOUBLE)
    generator = torch.Generator().manual_seed(7)
    draws = measured(prior, operator, y.expand(count, -1), 0.3).draw(generator)
    mean, covariance = dense(one, operator, y, 0.3)
    std = covariance[0].diagonal().sqrt()
    gap = (draws.mean(0) - mean[0]) / std
    assert float(gap.abs().max()) < monte_carlo(count)
    correlations = (torch.cov(draws.mT) - covariance[0]) / std.outer(std)
    assert float(correlations.abs().max()) < monte_carlo(count, 2**0.5)


def test_the_covariance_is_the_jacobian_of_the_denoiser():
    """The conditional mean is x~ + sigma^2 times both scores, by autodiff of m."""
    generator = torch.Generator().manual_seed(3)
    factors = torch.randn(2, D, D, generator=generator, dtype=DOUBLE) / 3
    covariances = factors @ factors.mT + 0.1 * torch.eye(D, dtype=DOUBLE)
    means = torch.randn(2, D, generator=generator, dtype=DOUBLE)
    model = ExactScores(GaussianMixture(torch.tensor([0.3, 0.7]).double(), means, covariances))
    sigma, noise, A = 0.7, 0.2, MATRIX
    x = torch.randn(4, D, generator=generator, dtype=DOUBLE)
    y = torch.randn(4, 5, generator=generator, dtype=DOUBLE)
    prior = denoised(x, *model(x, sigma), sigma)
    eye = torch.eye(D, dtype=DOUBLE)
    jacobian = eye + sigma**2 * autodiff_hessian(lambda p: model.score(p, sigma), x)
    torch.testing.assert_close(prior.covariance.to_dense(), sigma**2 * jacobian, **ILL_CONDITIONED)
    V = sigma**2 * A @ jacobian @ A.mT + noise**2 * torch.eye(5, dtype=DOUBLE)
    residual = (y - prior.mean @ A.mT).unsqueeze(-1)
    score = (jacobian.mT @ A.mT @ torch.linalg.solve(V, residual)).squeeze(-1)
    found = measured(prior, projections(A), y, noise).mean()
    expected = x + sigma**2 * (model.score(x, sigma) + score)
    # conjugate gradients stop at a relative residual of 4e-11
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_an_operator_and_its_dense_form_are_one_law():
    generator = torch.Generator().manual_seed(4)
    x, s1 = torch.randn(2, 3, D, generator=generator, dtype=DOUBLE)
    s2 = DiagonalPlusLowRank(-torch.ones(3, D, dtype=DOUBLE), torch.full((3, D, 1), 0.1).double())
    ours, full = denoised(x, s1, s2, 0.5), denoised(x, s1, s2.to_dense(), 0.5)
    torch.testing.assert_close(ours.mean, full.mean, **FLOAT64)
    torch.testing.assert_close(
        ours.covariance.to_dense(), full.covariance.to_dense(), **ILL_CONDITIONED
    )


def test_a_dense_matrix_that_is_no_covariance_is_projected():
    s2 = torch.diag(torch.tensor([-1.0, -100.0, 0.0])).double()[None]
    zero = torch.zeros(1, 3, dtype=DOUBLE)
    found = denoised(zero, zero, s2, 0.5)
    assert float(found.clipped_share) > 0 and float(found.variance.min()) > 0


@pytest.mark.parametrize(
    ("y", "noise", "words"),
    [
        (torch.zeros(4, 3).double(), 0.1, r"y must have shape \(4, 5\)"),
        (torch.zeros(3, 5).double(), 0.1, r"y must have shape \(4, 5\)"),
        (torch.zeros(4, 5).double(), 0.0, "noise must be finite and above 0, got 0"),
    ],
)
def test_what_does_not_fit_is_told(y, noise, words):
    with pytest.raises(ValueError, match=words):
        measured(law(2), OPERATORS["projections"], y, noise)
