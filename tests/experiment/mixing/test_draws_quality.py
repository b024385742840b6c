"""The quality of draws: of exact ones, of blurred and scaled ones, and of chains that diverge."""

import math

import pytest
import torch

from hosm.experiment.data.datasets import law
from hosm.experiment.mixing.study.draws_quality import bias, quality
from tests.tolerances import FLOAT32, monte_carlo

RING6 = law("ring6")
REFERENCE = RING6.sample(20_000, torch.Generator().manual_seed(0))
DRAWS = RING6.sample(8_000, torch.Generator().manual_seed(1)).reshape(8, 1_000, 2)


def test_independent_draws_of_the_law_are_all_effective_and_unbiased():
    found = quality(DRAWS, RING6, REFERENCE)
    assert found["ess_nice"] == 1_000 and found["finite_share"] == 1
    # a sum of one lag has the standard error (6 / 8,000)^(1/2) (Sokal), .027
    assert found["ess_bulk"] == pytest.approx(8_000, rel=0.11)
    # half the relative variance of 16 means of 500 draws, (1 + 4 (2 / 15)^(1/2)) / 1,000
    assert found["r_hat"] == pytest.approx(1, abs=0.0025)
    # Kolmogorov's law: sqrt(n m / (n + m)) D > 2 has the probability 2 e^-8 = .0007
    assert found["kolmogorov"] < 2 * math.sqrt(1 / 8_000 + 1 / 20_000)
    both = 1 / (1 / 8_000 + 1 / 20_000)
    assert found["variance_ratio"] == pytest.approx(1, rel=monte_carlo(both, 2**0.5))
    again = quality(DRAWS.double(), RING6, REFERENCE)
    assert again == pytest.approx(found, rel=FLOAT32["rtol"])


def test_effective_samples_are_those_of_one_run_with_the_spread_over_runs():
    whole = quality(DRAWS, RING6, REFERENCE)
    parts = [quality(run, RING6, REFERENCE) for run in DRAWS.split(2)]
    found = quality(DRAWS, RING6, REFERENCE, chains=2)
    bulk = torch.tensor([part["ess_bulk"] for part in parts], dtype=torch.float64)
    assert found["ess_bulk"] == pytest.approx(float(bulk.mean()))
    assert found["ess_bulk_standard_error"] == pytest.approx(float(bulk.std()) / 2)
    assert found.keys() == whole.keys() | {"ess_bulk_standard_error"}
    for name in ("r_hat", "kolmogorov", "variance_ratio", "finite_share"):
        assert found[name] == whole[name]
    with pytest.raises(ValueError, match="chains must be a multiple of 3, got 8"):
        quality(DRAWS, RING6, REFERENCE, chains=3)


def test_a_blob_with_the_moments_of_a_ring_is_found_out_by_its_radius():
    blob = torch.randn(8_000, 2, generator=torch.Generator().manual_seed(2))
    found = bias(RING6.mean + blob * RING6.variance.sqrt(), RING6, REFERENCE)
    radius = RING6.variance.sum().sqrt()  # most exact draws lie near it, 63% of the blob within
    assert radius == pytest.approx(4.44, abs=0.005)  # three digits
    assert found["kolmogorov"] > 0.3
    assert found["variance_ratio"] > 4  # of the radius; those of the coordinates are right


def test_the_ratio_that_is_furthest_from_1_as_a_factor_is_told():
    for factor in (0.5, 2.0):
        found = bias(REFERENCE * factor, RING6, REFERENCE)
        assert found["variance_ratio"] == pytest.approx(factor**2, rel=FLOAT32["rtol"])


def test_chains_that_diverge_have_the_largest_bias_and_no_ess():
    draws = DRAWS.clone()
    draws[0, 3, 1] = math.inf
    found = quality(draws, RING6, REFERENCE)
    assert found["kolmogorov"] == 1 and found["finite_share"] == pytest.approx(1 - 1 / 8_000)
    assert math.isnan(found["variance_ratio"]) and math.isnan(found["ess_bulk"])


def test_points_of_another_dimension_are_refused():
    with pytest.raises(ValueError, match="must have D = "):
        bias(torch.zeros(10, 3), RING6, REFERENCE)
