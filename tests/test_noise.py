"""Noise: the keyed generator is standard normal, independent across keys, and reproducible."""

import math

import pytest
import torch
from scipy import stats

from hosm import noise
from tests.tolerances import LEAST_P_VALUE, monte_carlo

INDEX = torch.arange(5000)


def test_keyed_noise_is_standard_normal():
    z = noise.keyed_normal(INDEX, 20, seed=3, epoch=2, dtype=torch.float64)
    assert stats.kstest(z.flatten().numpy(), "norm").pvalue > LEAST_P_VALUE
    assert abs(z.mean()) < monte_carlo(z.numel())
    assert abs(z.square().mean() - 1) < monte_carlo(z.numel(), 2**0.5)


def test_coordinates_samples_epochs_and_streams_are_uncorrelated():
    z = noise.keyed_normal(INDEX, 6, seed=0, epoch=0)
    others = [
        noise.keyed_normal(INDEX, 6, seed=1, epoch=0),
        noise.keyed_normal(INDEX, 6, seed=0, epoch=1),
        noise.keyed_normal(INDEX, 6, seed=0, epoch=0, stream=5),
        z.roll(1, 0),
    ]
    bound = 4.5 / math.sqrt(len(INDEX))  # of 159 correlations
    within = torch.corrcoef(z.T) - torch.eye(6)
    assert within.abs().max() < bound
    for other in others:
        assert torch.corrcoef(torch.cat([z, other], 1).T)[:6, 6:].abs().max() < bound


def test_noise_belongs_to_the_sample_not_to_its_place_in_the_batch():
    whole = noise.keyed_normal(INDEX, 3, seed=0, epoch=4)
    shard = noise.keyed_normal(INDEX[1::2], 3, seed=0, epoch=4)
    assert torch.equal(whole[1::2], shard)


def test_rademacher_signs_are_fair_and_independent_of_the_noise():
    v = noise.keyed_rademacher(INDEX, 8, seed=0, epoch=0)
    z = noise.keyed_normal(INDEX, 8, seed=0, epoch=0)
    assert set(v.unique().tolist()) == {-1.0, 1.0}
    assert abs(v.mean()) < monte_carlo(v.numel())
    assert abs((v * z).mean()) < monte_carlo(v.numel())


def test_permutation_is_one_and_changes_with_the_epoch():
    first = noise.keyed_permutation(100, seed=0, epoch=0)
    assert torch.equal(first.sort().values, torch.arange(100))
    assert torch.equal(first, noise.keyed_permutation(100, seed=0, epoch=0))
    assert not torch.equal(first, noise.keyed_permutation(100, seed=0, epoch=1))


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, "1"])
def test_illegal_sigma_is_named(sigma):
    with pytest.raises(ValueError, match=r"sigma must be a finite number above 0, got"):
        noise.check_sigma(sigma)


def test_shapes_that_differ_are_named():
    with pytest.raises(ValueError, match=r"x \(2, 3\) and z \(2, 4\)"):
        noise.perturb(torch.zeros(2, 3), 1.0, torch.zeros(2, 4))


def test_uniform_numbers_fill_the_unit_interval_and_belong_to_the_sample():
    index = torch.arange(100_000)
    u = noise.keyed_uniform(index, 1, seed=1, epoch=2, dtype=torch.float64)[:, 0].sort().values
    gap = (u - (torch.arange(100_000) + 0.5) / 100_000).abs().max()
    assert gap < 1.63 / 100_000**0.5 and 0 < u[0] and u[-1] < 1  # Kolmogorov, 1 %
    part = noise.keyed_uniform(index[7:9], 1, seed=1, epoch=2)
    assert torch.equal(part, noise.keyed_uniform(index, 1, seed=1, epoch=2)[7:9])


def test_scales_are_log_uniform_between_the_ends():
    scales = noise.noise_scales(torch.tensor([0.0, 0.5, 1.0]), (0.1, 10.0))
    torch.testing.assert_close(scales, torch.tensor([0.1, 1.0, 10.0]))


def mixed(value):
    """The finaliser of Steele, Lea and Flood, on one Python integer."""
    value %= 2**64
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)


def test_keyed_noise_is_its_definition_in_plain_integers():
    """No constant may drift: a resumed run must see the noise of the run that it resumes."""
    golden = 0x9E3779B97F4A7C15
    for stream, seed, epoch in ((2, 7, 3), (2, 2**63 + 5, -1), (1, 7, 3)):
        key = 0
        for part in (seed, epoch, stream):
            key = mixed(key + golden + part)
        bits = [
            [mixed(mixed(i * golden + key) + (j + 1) * golden) for j in range(4)]
            for i in (0, 1, 5, 2**40)
        ]
        index, keys = torch.tensor([0, 1, 5, 2**40]), {"seed": seed, "epoch": epoch}
        uniform = [[((b >> 11) + 0.5) * 2.0**-53 for b in row] for row in bits]
        found = noise.keyed_uniform(index, 4, stream=stream, **keys, dtype=torch.float64)
        assert found.tolist() == uniform
        signs = torch.tensor([[1.0 - 2 * (b >> 63) for b in row] for row in bits])
        assert torch.equal(noise.keyed_rademacher(index, 4, stream=stream, **keys), signs)


@pytest.mark.parametrize("row", [0, 1, 2, 4])
def test_each_row_of_orthogonal_noise_is_standard_normal(row, generator):
    """Over many blocks: the three directions of a frame, and its second use with other signs."""
    z = torch.randn(4000, 6, 3, generator=generator, dtype=torch.float64)
    q = torch.stack([noise.orthogonalised(part)[row] for part in z])
    assert all(stats.kstest(q[:, j].numpy(), "norm").pvalue > LEAST_P_VALUE for j in range(3))
    products = (q.T @ q / len(q) - torch.eye(3)).abs()
    assert float(products.max()) < monte_carlo(len(q), 2**0.5)
