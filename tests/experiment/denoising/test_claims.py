import pytest

from hosm.experiment.denoising.claims import denoising_claims
from tests.experiment.claims import claim_of


@pytest.mark.parametrize(
    ("values", "name"),
    [({"covariance_error": 0.2}, "plane-covariance"), ({"coverage_0.95": 0.88}, "plane-coverage")],
)
def test_posteriors_in_the_plane_are_judged(results, values, name):
    where = "points in the plane"
    assert claim_of(denoising_claims(results.denoising.posteriors), where, name).verdict == "holds"
    planar = results.denoising.posteriors.copy()
    planar.loc[planar["dataset"] == "rings", list(values)] = list(values.values())
    assert claim_of(denoising_claims(planar), where, name).verdict == "does not hold"


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"covariance_error": 0.152}, "plane-covariance"),  # standard error 0.002
        ({"coverage_0.95": 0.902}, "plane-coverage"),  # of a share of 2,000 points 0.005
    ],
)
def test_posteriors_within_two_standard_errors_of_a_bound_are_undecided(results, values, name):
    planar = results.denoising.posteriors.copy()
    planar.loc[planar["dataset"] == "rings", list(values)] = list(values.values())
    claim = claim_of(denoising_claims(planar), "points in the plane", name)
    assert claim.verdict == "undecided"
