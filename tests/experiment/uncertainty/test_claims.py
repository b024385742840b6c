from dataclasses import replace

import pytest

from hosm.experiment.uncertainty.claims import uncertainty_claims
from tests.experiment.claims import claim_of


def _denoiser_claims(results, **changed):
    found = replace(results.denoisers["mnist5k"], **changed)
    return list(uncertainty_claims({"mnist5k": found}))


def _changed(frame, of, **values):
    """The frame with other values where `of`, a query, holds."""
    out = frame.copy()
    for column, value in values.items():
        out.loc[out.eval(of), column] = value
    return out


@pytest.mark.parametrize(
    ("of", "values", "name"),
    [
        ("model == 'range'", {"correlation": 0.6}, "variance-correlates-with-error"),
        ("sigma == 0.3", {"nll_low_rank": -1500.0}, "low-rank-likelier"),
        ("sigma == 0.3", {"nll_diagonal": -700.0}, "low-rank-likelier"),
        ("sigma == 0.5", {"edge_variance": 0.001}, "variance-larger-at-edges"),
        ("sigma == 0.5", {"least_variance": -1e-6}, "variance-positive"),
    ],
)
def test_a_denoiser_is_judged_by_its_numbers_at_every_scale(results, of, values, name):
    numbers = results.denoisers["mnist5k"].numbers
    where = "denoiser, mnist5k"
    assert claim_of(_denoiser_claims(results), where, name).verdict == "holds"
    judged = _denoiser_claims(results, numbers=_changed(numbers, of, **values))
    assert claim_of(judged, where, name).verdict == "does not hold"


def test_a_denoiser_trained_at_length_is_judged_apart(results):
    judged = list(uncertainty_claims(results.denoisers))
    name = "low-rank-likelier"
    assert "-1,605" in claim_of(judged, "denoiser, mnist5k", name, exact=True).evidence
    assert "-2,005" in claim_of(judged, "denoiser, mnist5k, trained at length", name).evidence


def test_the_model_of_a_range_is_judged_against_both_budgets_of_one_scale(results):
    numbers = results.denoisers["mnist5k"].numbers
    of = "model == 'one scale, equal steps'"
    judged = _denoiser_claims(results, numbers=_changed(numbers, of, nll_low_rank=-1700.0))
    both = [claim for claim in judged if claim.name == "one-model-of-all-scales"]
    assert [claim.verdict for claim in both] == ["does not hold", "holds"]
    assert "for as many steps" in both[0].statement and "in total" in both[1].statement
    assert both[0].evidence.endswith("σ = 0.5: +5.6%")  # of -1,605 against -1,700


def test_one_bin_of_one_scale_decides_over_reliability(results):
    bins = results.denoisers["mnist5k"].reliability
    name, where = "variance-calibrated", "denoiser, mnist5k"
    assert claim_of(_denoiser_claims(results), where, name).verdict == "holds"
    worse = _changed(bins, "model == 'range' and sigma == 0.5 and bin == 8", scale=2.0)
    unsure = worse.assign(standard_error=worse["predicted"])
    claim = claim_of(_denoiser_claims(results, reliability=unsure), where, name)
    assert claim.verdict == "undecided"
    claim = claim_of(_denoiser_claims(results, reliability=worse), where, name)
    assert claim.verdict == "does not hold" and "σ = 0.5: 0.45" in claim.evidence
    other = _changed(bins, "model == 'one scale, equal steps'", scale=2.0)
    assert claim_of(_denoiser_claims(results, reliability=other), where, name).verdict == "holds"


def test_a_correlation_near_the_bound_is_undecided(results):
    """Of 100 images: (1 - 0.79²) / 10 = 0.038 is its standard error."""
    numbers = _changed(results.denoisers["mnist5k"].numbers, "sigma == 0.3", correlation=0.79)
    judged = _denoiser_claims(results, numbers=numbers)
    claim = claim_of(judged, "denoiser, mnist5k", "variance-correlates-with-error")
    assert claim.verdict == "undecided" and "0.790 ± 0.038" in claim.evidence


@pytest.mark.parametrize(
    "values", [{"share": 0.5}, {"seconds": 0.05, "seconds_low": 0.05, "seconds_high": 0.05}]
)
def test_directions_must_hold_as_much_and_cost_little(results, values):
    directions = results.denoisers["mnist5k"].directions
    where, name = "denoiser, mnist5k", "directions-of-s2"
    assert claim_of(_denoiser_claims(results), where, name).verdict == "holds"
    judged = _denoiser_claims(results, directions=_changed(directions, "method == 's2'", **values))
    assert claim_of(judged, where, name).verdict == "does not hold"
