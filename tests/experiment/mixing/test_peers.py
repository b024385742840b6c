"""BlackJAX on our laws: the same densities, the right draws, the search for a step, the rows."""

from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
import torch

from hosm.distributions import Gaussian, GaussianMixture
from hosm.experiment.data.datasets import law
from hosm.experiment.mixing.study import peers
from hosm.experiment.mixing.study.draws_quality import quality, within
from hosm.experiment.settings import load_params
from hosm.experiment.shared.stopwatch import CIRCUMSTANCES
from hosm.samplers import langevin
from tests.tolerances import FLOAT32

LAWS = ("two-modes", "ring6", "ring8", "mog2", "mog6", "ring2d")
SIZES = {"chains": 8, "burn_in": 200, "steps": 2000}  # the same everywhere: compiled once
SLANTED = GaussianMixture(  # two terms, as the law `two-modes` has: compiled once for both
    torch.tensor([0.3, 0.7]),
    torch.tensor([[-1.0, 2.0], [1.0, 0.5]]),
    torch.tensor([[[1.0, 0.3], [0.3, 0.5]], [[0.8, -0.4], [-0.4, 1.5]]]),
)


@pytest.fixture(scope="module")
def made():
    return {method: peers.draw(SLANTED, method, **SIZES, seed=0) for method in peers.METHODS}


@pytest.mark.parametrize("exact", [*map(law, LAWS), SLANTED])
def test_densities_are_those_of_our_laws(exact, generator):
    density, points = peers.log_density(exact), exact.sample(50, generator)
    points = torch.cat([points, 4 * torch.randn(50, 2, generator=generator)])
    value, gradient = jax.jit(jax.vmap(jax.value_and_grad(density)))(points.numpy())
    wide = exact.to(torch.float64)
    log_p, s1 = wide.log_prob(points.double()), wide.score(points.double())
    np.testing.assert_allclose(value, log_p, **FLOAT32)
    np.testing.assert_allclose(gradient, s1, **FLOAT32)


def test_other_laws_are_refused():
    with pytest.raises(
        ValueError, match="law must be a GaussianMixture or a Ring, got a Gaussian"
    ):
        peers.log_density(Gaussian(torch.zeros(2), torch.eye(2)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "HMC"}, "method must be one of NUTS, MALA, got 'HMC'"),
        ({"chains": 0}, "chains must be .*got 0"),
        ({"burn_in": 0}, "burn_in must be .*got 0"),
        ({"steps": 39}, "steps must be .*got 39"),
    ],
)
def test_bad_settings_end_in_one_line(change, message):
    with pytest.raises(ValueError, match=message):
        peers.draw(**{"exact": SLANTED, "method": "NUTS", **SIZES, "seed": 0, **change})


@pytest.mark.parametrize("method", peers.METHODS)
def test_draws_follow_the_law_within_four_standard_errors(made, method, generator):
    draws = made[method].draws
    assert draws.shape == (8, 2000, 2) and draws.dtype == torch.float32
    found = quality(draws, SLANTED, SLANTED.sample(20_000, generator))
    assert found["r_hat"] < 1.05 and found["ess_bulk"] > 300
    error = (SLANTED.variance / found["ess_bulk"]).sqrt()
    assert ((draws.mean((0, 1)) - SLANTED.mean).abs() < 4 * error).all()
    assert found["kolmogorov"] < 2 / found["ess_bulk"] ** 0.5
    assert made[method].seconds > 0


def test_each_peer_tells_what_it_found(made):
    assert 0.7 < made["NUTS"].acceptance < 0.98 and made["NUTS"].tried == []
    assert 2 < made["NUTS"].gradients < 30
    assert made["MALA"].gradients == 1


def test_the_step_of_mala_is_the_most_effective_of_those_tried(made):
    tried, kept = pd.DataFrame(made["MALA"].tried), made["MALA"].step_size
    short, long = tried[tried["draws"] == 200], tried[tried["draws"] == 2000]
    assert len(long) == peers.FINALISTS and set(long["step_size"]) <= set(short["step_size"])
    assert tuple(short["step_size"]) == peers.STEPS[: len(short)]
    assert (tried["acceptance"].iloc[1:] >= peers.LEAST).all()
    effective = np.minimum(tried["ess_bulk"], 8 * tried["ess_nice"])[long.index]
    chosen = np.isclose(long["step_size"], kept, rtol=FLOAT32["rtol"])  # chains keep it in float32
    assert effective[chosen].item() >= peers.ALIKE * effective.max()


def test_the_step_of_mala_is_half_of_our_own(made, generator):
    """At eps = 2 h our chains, begun at draws of the law, are accepted as often."""
    kernel = langevin(SLANTED.score, 2 * made["MALA"].step_size, SLANTED.log_prob)
    state, accepted = kernel.init(SLANTED.sample(500, generator)), []
    for _ in range(40):
        state, info = kernel.step(state, generator)
        accepted.append(info.acceptance.mean().item())
    # standard errors: .0026 of 500 chains of 40 steps, .0033 of 8 of 2,000
    assert made["MALA"].acceptance == pytest.approx(np.mean(accepted), abs=0.02)


def test_a_seed_fixes_the_draws(made):
    again = peers.draw(SLANTED, "MALA", **SIZES, seed=0)
    assert torch.equal(again.draws, made["MALA"].draws)
    assert not torch.equal(peers.draw(SLANTED, "MALA", **SIZES, seed=1).draws, again.draws)


def test_rows_tell_quality_and_pace_of_both_methods():
    settings = load_params(Path(__file__).parents[3] / "params.yaml").mixing
    params = settings.model_copy(update={**SIZES, "bias_bound": 0.1, "variance_bound": 1.5})
    rows, tuning = peers.study(["two-modes"], params)
    table = pd.DataFrame(rows)
    start = ["target", "method", "library", "step_size", "acceptance", "gradients"]
    start += ["ess_nice", "ess_bulk", "r_hat", "kolmogorov", "variance_ratio", "finite_share"]
    ends = ["seconds_per_iteration", "ess_bulk_per_second", "within_bound"]
    assert list(table.columns) == [*start, *ends, *CIRCUMSTANCES]
    assert set(table["threads"]) == {1}
    assert list(table["method"]) == ["NUTS", "MALA"] and set(table["target"]) == {"two-modes"}
    assert table["library"].str.fullmatch(r"BlackJAX \d+\.\d+.*").all()
    for row in rows:
        assert row["within_bound"] == within(row, 0.1, 1.5)
    seconds = 2200 * table["seconds_per_iteration"]
    assert (table["ess_bulk_per_second"] * seconds).tolist() == pytest.approx(
        table["ess_bulk"].tolist()
    )
    assert {row["method"] for row in tuning} == {"MALA"}
    numbers = peers.headline(table)
    assert numbers["two-modes.NUTS.ess_bulk"] == rows[0]["ess_bulk"] and len(numbers) == 8
