"""Schedules: time and noise scale are inverse, signal and noise fit, grids end at 0."""

import pytest
import torch

from hosm.diffusion import EDM, VE, VPCosine, VPLinear
from tests.tolerances import FLOAT64, ILL_CONDITIONED

SCHEDULES = [VPLinear(), VPCosine(), VE(), EDM()]
TIMES = torch.linspace(0.01, 0.95, 30, dtype=torch.float64)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda each: type(each).__name__)
def test_time_is_the_inverse_of_sigma(schedule):
    torch.testing.assert_close(schedule.time(schedule.sigma(TIMES)), TIMES, **ILL_CONDITIONED)
    assert (schedule.sigma(TIMES).diff() > 0).all()


@pytest.mark.parametrize("schedule", SCHEDULES[:2], ids=["linear", "cosine"])
def test_variance_is_preserved(schedule):
    alpha, sigma = schedule.alpha(TIMES), schedule.sigma(TIMES)
    torch.testing.assert_close(alpha**2 * (1 + sigma**2), torch.ones_like(TIMES), **FLOAT64)


def test_the_linear_schedule_is_that_of_ddpm():
    """The product of 1 - beta_i for 1000 betas from 1e-4 to .02, in the limit of small steps."""
    betas = torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64)
    product = (1 - betas).cumprod(0)
    continuous = VPLinear().alpha(torch.arange(1, 1001, dtype=torch.float64) / 1000) ** 2
    # the sum of beta^2 / 2 over the steps is .07: the limit differs by that share at the end
    torch.testing.assert_close(continuous, product, rtol=0.08, atol=1e-3)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("steps", [1, 2, 10])
def test_grid(schedule, steps):
    grid = schedule.grid(steps)
    assert grid.shape == (steps + 1,)
    assert grid[0] == schedule.high
    assert grid[-1] == 0
    assert (grid.diff() < 0).all()
    if steps > 1:
        assert grid[-2] == schedule.low


def test_the_edm_grid_is_the_formula_of_the_paper():
    i = torch.arange(10, dtype=torch.float64)
    ends = 80 ** (1 / 7), 0.002 ** (1 / 7)
    expected = (ends[0] + i / 9 * (ends[1] - ends[0])) ** 7
    torch.testing.assert_close(EDM().grid(10)[:-1], expected, **FLOAT64)


def test_bad_arguments():
    with pytest.raises(ValueError, match="high must be above low, got 0.1 and 0.2"):
        VE(0.2, 0.1)
    with pytest.raises(ValueError, match="low must be finite and above 0, got -1"):
        EDM(-1.0, 1.0)
    with pytest.raises(ValueError, match="steps must be a whole number of 1 or more, got 0"):
        VE().grid(0)
