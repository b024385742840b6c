"""The named laws: their numbers, and the ring against quadrature."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from hosm.distributions import Ring
from hosm.distributions import named_laws as energies
from hosm.metrics import hessian_error, score_error, standard_error
from tests.tolerances import FLOAT32, FLOAT64, LEAST_P_VALUE, monte_carlo

DOUBLE = torch.float64
FACTORIES = [
    energies.gaussian2,
    energies.gaussian100,
    energies.two_modes,
    energies.ring6,
    energies.ring8,
    energies.mog2,
    energies.mog6,
    energies.ring2d,
]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("make", FACTORIES)
def test_named_laws_come_in_every_dtype(make):
    assert make().dtype == torch.float32
    law = make(DOUBLE)
    x = law.sample(20, generator())
    assert x.shape == (20, law.dimension)
    assert x.dtype == law.hessian(x).dtype == DOUBLE
    mild = law.to(torch.float32).score(x.float()).double()
    torch.testing.assert_close(mild, law.score(x), **FLOAT32)


# gaussian100


def test_gaussian100_has_35_pairs_of_the_stated_correlation():
    covariance = energies.gaussian100(DOUBLE).covariance
    # the entries of the precision matrix are given to seven digits
    torch.testing.assert_close(
        covariance.diagonal(), torch.ones(100, dtype=DOUBLE), atol=1e-6, rtol=0
    )
    first, second = (covariance.triu(1) > 0.01).nonzero(as_tuple=True)
    assert first.tolist() == list(range(0, 70, 2))
    assert torch.equal(second, first + 1)
    stated = [0.36395] * 35  # five digits
    assert covariance[first, second].tolist() == pytest.approx(stated, abs=1e-5)  # as said


@pytest.mark.parametrize("rank", [15, 20, 30])
def test_gaussian100_floor_of_diagonal_plus_rank_r(rank):
    law = energies.gaussian100(DOUBLE)
    hessian = law.hessian(law.sample(3, generator()))
    alpha, beta = hessian[0].diagonal().clone(), torch.zeros(100, rank, dtype=DOUBLE)
    for pair in range(rank):
        i, j = 2 * pair, 2 * pair + 1
        coupling = hessian[0, i, j]
        beta[[i, j], pair] = coupling.sqrt()
        alpha[[i, j]] -= coupling
    best = (alpha.diag() + beta @ beta.T).expand(3, 100, 100)
    floor = 0.352 * (35 - rank)  # 2 p^2 = .352000 to six digits
    assert hessian_error(best, hessian) == pytest.approx(floor, rel=1e-5)


def test_gaussian100_floor_is_not_beaten_by_search():
    law = energies.gaussian100(DOUBLE)
    hessian = law.hessian(torch.zeros(1, 100, dtype=DOUBLE))[0]
    alpha = hessian.diagonal()
    for _ in range(200):  # alternate the best diagonal and the best positive rank 20
        values, vectors = torch.linalg.eigh(hessian - alpha.diag())
        low_rank = (vectors[:, -20:] * values[-20:].clamp_min(0)) @ vectors[:, -20:].T
        alpha = (hessian - low_rank).diagonal()
    error = (alpha.diag() + low_rank - hessian).square().sum()
    assert error >= 0.352 * 15 * (1 - 1e-5)  # the digits of .352


# logistic mixtures


@pytest.mark.parametrize(("dimension", "seed"), [(50, 0), (50, 7), (80, 0)])
def test_a_constant_predictor_on_a_logistic_mixture(dimension, seed):
    law = energies.logistic_mixture(dimension, seed, DOUBLE)
    truth = law.hessian_diag(law.sample(4_000, generator(1)))
    constant = truth.mean(0).expand_as(truth)
    errors = score_error(constant, truth, per_point=True)
    expected = 64 / 180 * dimension
    overlap = 0.001 * expected  # of components, which makes the law differ from the one apart
    assert abs(errors.mean() - expected) <= 4 * standard_error(errors) + overlap
    if dimension == 50:
        assert expected == pytest.approx(17.8, abs=0.05)  # three digits


def test_logistic_mixture_is_fixed_by_its_seed():
    one, same, other = (energies.logistic_mixture(5, seed) for seed in (3, 3, 4))
    assert torch.equal(one.locations, same.locations)
    assert not torch.equal(one.locations, other.locations)
    assert one.weights.tolist() == pytest.approx([0.05] * 20)
    assert torch.equal(one.scales, torch.full((20, 5), 0.5))
    wide = energies.logistic_mixture(500).locations
    assert wide.std().item() == pytest.approx(2, rel=monte_carlo(2 * wide.numel()))


# mixtures in the plane


@pytest.mark.parametrize(
    ("make", "modes", "radius", "std"),
    [
        (energies.two_modes, 2, 2.0, 0.5**0.5),
        (energies.ring6, 6, 4.33, 0.7),
        (energies.ring8, 8, 9.97, 1.4),
        (energies.mog2, 2, 5.0, 0.5),
        (energies.mog6, 6, 5.0, 0.5),
    ],
)
def test_numbers_of_the_mixtures_in_the_plane(make, modes, radius, std):
    law = make(DOUBLE)
    assert law.weights.tolist() == pytest.approx([1 / modes] * modes)
    radii = law.means.norm(dim=-1)
    assert radii.tolist() == pytest.approx([radius] * modes)
    nearest = torch.cdist(law.means, law.means) + 99 * torch.eye(modes, dtype=DOUBLE)
    chord = 2 * radius * math.sin(math.pi / modes)
    assert nearest.amin(0).tolist() == pytest.approx([chord] * modes)
    eye = std**2 * torch.eye(2, dtype=DOUBLE)
    torch.testing.assert_close(law.covariances, eye.expand(modes, 2, 2))
    torch.testing.assert_close(law.mean, torch.zeros(2, dtype=DOUBLE), **FLOAT64)


def test_two_modes_lie_on_the_first_axis():
    assert sorted(energies.two_modes().means.tolist()) == [[-2.0, 0.0], [2.0, 0.0]]
    assert energies.two_modes().variance.tolist() == pytest.approx([4.5, 0.5])


# the ring


def radial_density(radius, width):
    def weight(r):
        return r * math.exp(-(((r - radius) / width) ** 2))

    total = integrate.quad(weight, 0, radius + 12 * width, epsabs=1e-14)[0]
    return lambda r: weight(r) / total


def ring(radius, width):
    return Ring(torch.tensor(radius, dtype=DOUBLE), torch.tensor(width, dtype=DOUBLE))


@pytest.mark.parametrize(("radius", "width"), [(2.0, 0.4), (0.5, 1.0)])
def test_ring_density_and_moments_are_those_of_quadrature(radius, width):
    law, density = ring(radius, width), radial_density(radius, width)
    r = torch.linspace(0.1, 3, 7, dtype=DOUBLE)
    x = torch.stack((r * math.cos(1.0), r * math.sin(1.0)), -1)
    truth = [density(value) / (2 * math.pi * value) for value in r.tolist()]
    assert law.log_prob(x).exp().tolist() == pytest.approx(truth, rel=FLOAT64["rtol"])
    second = integrate.quad(lambda r: r**2 * density(r), 0, radius + 12 * width)[0]
    # quadrature stops at its default precision, 1.5e-8
    assert law.variance.tolist() == pytest.approx([second / 2] * 2, rel=1e-7)
    assert law.mean.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("radius", "width"), [(2.0, 0.4), (0.5, 1.0)])
def test_ring_draws_have_the_radial_law_and_uniform_angles(radius, width):
    x = ring(radius, width).sample(4_000, generator(2))
    grid = np.linspace(0, radius + 9 * width, 2_001)
    density = list(map(radial_density(radius, width), grid))
    table = integrate.cumulative_simpson(density, x=grid, initial=0)
    length = x.norm(dim=-1).numpy()
    assert stats.kstest(length, lambda r: np.interp(r, grid, table)).pvalue > LEAST_P_VALUE
    angle = torch.atan2(x[:, 1], x[:, 0]).numpy()
    assert stats.kstest(angle, stats.uniform(-math.pi, 2 * math.pi).cdf).pvalue > LEAST_P_VALUE


def test_ring2d_has_the_stated_energy():
    law = energies.ring2d(DOUBLE)
    x = torch.tensor([[2.0, 0.0], [0.0, 2.4], [1.2, 0.0]], dtype=DOUBLE)
    log_prob = law.log_prob(x)
    assert (log_prob[0] - log_prob).tolist() == pytest.approx([0.0, 1.0, 4.0])


def test_ring_at_the_origin_is_finite_and_has_score_zero():
    law, origin = energies.ring2d(), torch.zeros(1, 2)
    assert law.score(origin).tolist() == [[0.0, 0.0]]
    for name in ("log_prob", "hessian", "third_derivative"):
        assert torch.isfinite(getattr(law, name)(origin)).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: energies.ring_of_gaussians(0, 1.0, 1.0),
            "modes must be a whole number of 1 or more, got 0",
        ),
        (lambda: energies.ring_of_gaussians(3, -1.0, 1.0), "radius must be .*got -1.0"),
        (lambda: energies.ring_of_gaussians(3, 1.0, 0.0), "std must be .*got 0.0"),
        (
            lambda: energies.logistic_mixture(0),
            "dimension must be a whole number of 1 or more, got 0",
        ),
        (lambda: ring(2.0, 0.0), "width must be .*got 0.0"),
        (lambda: ring(-2.0, 1.0), "radius must be .*got -2.0"),
    ],
)
def test_illegal_numbers_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
