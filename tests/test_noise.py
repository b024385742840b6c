"""Noise: the keyed generator is standard normal, independent across keys, and reproducible."""

import math

import pytest
import torch
from scipy import stats

from hosm import noise

INDEX = torch.arange(5000)


def test_keyed_noise_is_standard_normal():
    z = noise.keyed_normal(INDEX, 20, seed=3, epoch=2, dtype=torch.float64)
    assert stats.kstest(z.flatten().numpy(), "norm").pvalue > 0.01
    assert abs(z.mean()) < 4 / math.sqrt(z.numel())
    assert abs(z.square().mean() - 1) < 4 * math.sqrt(2 / z.numel())


def test_coordinates_samples_epochs_and_streams_are_uncorrelated():
    z = noise.keyed_normal(INDEX, 6, seed=0, epoch=0)
    others = [
        noise.keyed_normal(INDEX, 6, seed=1, epoch=0),
        noise.keyed_normal(INDEX, 6, seed=0, epoch=1),
        noise.keyed_normal(INDEX, 6, seed=0, epoch=0, stream=5),
        z.roll(1, 0),
    ]
    bound = 4.5 / math.sqrt(len(INDEX))
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
    assert abs(v.mean()) < 4 / math.sqrt(v.numel())
    assert abs((v * z).mean()) < 4 / math.sqrt(v.numel())


def test_permutation_is_one_and_changes_with_the_epoch():
    first = noise.keyed_permutation(100, seed=0, epoch=0)
    assert torch.equal(first.sort().values, torch.arange(100))
    assert torch.equal(first, noise.keyed_permutation(100, seed=0, epoch=0))
    assert not torch.equal(first, noise.keyed_permutation(100, seed=0, epoch=1))


def test_antithetic_pair_is_centred_on_the_clean_point(generator):
    x, z = torch.randn(4, 3, generator=generator), torch.randn(4, 3, generator=generator)
    plus, minus = noise.antithetic_pair(x, 0.5, z)
    torch.testing.assert_close((plus + minus) / 2, x)
    torch.testing.assert_close((plus - minus) / 2, 0.5 * z)


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, "1"])
def test_illegal_sigma_is_named(sigma):
    with pytest.raises(ValueError, match=r"sigma must be a finite number above 0, got"):
        noise.check_sigma(sigma)


def test_shapes_that_differ_are_named():
    with pytest.raises(ValueError, match=r"\(2, 4\).*\(2, 3\)"):
        noise.perturb(torch.zeros(2, 3), 1.0, torch.zeros(2, 4))
