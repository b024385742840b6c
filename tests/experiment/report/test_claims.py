import math
from dataclasses import replace

import pytest

from hosm.experiment.accuracy import claims as accuracy_module
from hosm.experiment.accuracy.claims import accuracy_claims
from hosm.experiment.accuracy.table1 import BASELINE
from hosm.experiment.cost.claims import cost_claims, speed_claims
from hosm.experiment.denoising.claims import denoising_claims
from hosm.experiment.presenting.claims import Claim, error_of_difference, judge
from hosm.experiment.reduction.claims import reduction_claims
from hosm.experiment.report.claims import claims
from hosm.experiment.report.results import load_results
from hosm.experiment.uncertainty.claims import uncertainty_claims
from tests.experiment.report.report_inputs import write_inputs


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return load_results(write_inputs(tmp_path_factory.mktemp("claims")))


@pytest.mark.parametrize(
    ("left", "comparison", "verdict"),
    [
        (0.9, "<", "holds"),
        (1.0, "<", "does not hold"),
        (1.0, "<=", "holds"),
        (1.1, "<=", "does not hold"),
        (1.1, ">", "holds"),
        (1.0, ">", "does not hold"),
        (1.0, ">=", "holds"),
        (0.9, ">=", "does not hold"),
        (math.nan, "<", "does not hold"),
        (math.nan, ">=", "does not hold"),
        (None, ">", "undecided"),
    ],
)
def test_a_value_and_a_bound_are_judged_as_they_compare(left, comparison, verdict):
    claim = Claim("name", "here", "so it is", left, comparison, 1.0, "")
    assert judge(claim) == claim.verdict == verdict


@pytest.mark.parametrize(
    ("left", "verdict"), [(0.7, "holds"), (0.8, "undecided"), (1.2, "undecided"), (1.3, "fails")]
)
def test_a_difference_within_two_standard_errors_decides_nothing(left, verdict):
    claim = Claim("name", "here", "so it is", left, "<", 1.0, "", error=0.125)
    assert judge(claim) == {"fails": "does not hold"}.get(verdict, verdict)


@pytest.mark.parametrize(
    ("left", "at_best", "verdict"),
    [(0.9, 0.7, "holds"), (1.2, 0.9, "undecided"), (1.2, 1.1, "does not hold")],
)
def test_what_only_chance_lets_fail_is_undecided(left, at_best, verdict):
    claim = Claim("name", "here", "so it is", left, "<=", 1.0, "", left_at_best=at_best)
    assert judge(claim) == verdict


def test_the_error_of_a_difference_leaves_out_what_is_unknown():
    assert error_of_difference(3.0, 4.0) == 5.0
    assert error_of_difference(3.0, math.nan) == 3.0
    assert error_of_difference(math.nan, math.nan) == 0.0


def _find(judged, where, name, exact=False):
    judged = list(judged)
    found = [
        claim
        for claim in judged
        if (claim.where == where if exact else claim.where.startswith(where))
        and claim.name == name
    ]
    assert len(found) == 1, [(claim.where, claim.name) for claim in judged]
    return found[0]


def test_an_objective_that_loses_to_autodiff_does_not_hold(results):
    claim = _find(claims(results), "gaussian100", "moment-beats-autodiff")
    assert claim.verdict == "does not hold" and claim.paper
    assert claim.evidence == (
        "squared error of the Hessian: 7.200 ± 0.031 by s2, moment, r = 30; "
        "6.520 ± 0.050 by autodiff, DSM-VR"
    )


def test_the_verdict_follows_the_numbers(results):
    accuracy = results.accuracy.table1.copy()
    moment = (accuracy["method"] == "s2, moment") & (accuracy["dataset"] == "gaussian100")
    accuracy.loc[moment, "mean"] = 1.9
    judged = list(accuracy_claims(accuracy))
    assert _find(judged, "gaussian100", "moment-beats-autodiff").verdict == "holds"
    assert _find(judged, "gaussian100", "moment-reaches-paper").verdict == "holds"
    accuracy.loc[moment, ["mean", "standard_error"]] = 6.5, 0.4
    judged = list(accuracy_claims(accuracy))
    assert _find(judged, "gaussian100", "moment-beats-autodiff").verdict == "undecided"
    assert _find(judged, "gaussian100", "moment-reaches-paper").verdict == "does not hold"


def test_one_seed_decides_by_the_means(results):
    accuracy = results.accuracy.table1.assign(standard_error=math.nan)
    claim = _find(accuracy_claims(accuracy), "logistic50", "best-s2-beats-best-autodiff")
    assert claim.verdict == "holds"
    assert claim.evidence == (
        "squared error of the Hessian: 7.80 by s2, jacobian; 8.10 by autodiff, DSM-VR"
    )


def test_methods_no_better_than_a_constant_are_named(results):
    claim = _find(claims(results), "logistic50", "all-beat-constant")
    assert claim.verdict == "does not hold"
    assert claim.evidence.endswith(
        "at least as large are 19.30 ± 0.40 by autodiff, DSM; 20.20 ± 0.25 by s2, moment"
    )


def test_a_constant_that_is_exact_is_no_yardstick(results):
    judged = claims(results)
    assert not [
        c for c in judged if c.where.startswith("gaussian") and c.name == "all-beat-constant"
    ]


def test_joint_training_is_compared_with_training_alone(results):
    claim = _find(claims(results), "gaussian100", "joint-s1-error")
    assert (claim.verdict, claim.evidence) == (
        "does not hold",
        "squared error of s1: 0.615 trained jointly, 0.525 trained alone",
    )


def test_costs_are_judged_against_s1_alone_and_a_line(results):
    step, growth = cost_claims(results.cost.training, results.cost.slopes)
    assert step.verdict == growth.verdict == "holds"
    assert "s1 alone: 1.40×" in step.evidence and "antithetic" in step.where
    assert "1.00 and 1.00" in growth.evidence
    dear = results.cost.training.copy()
    dear.loc[dear["target"] == "jacobian", "seconds"] *= 2
    steep = results.cost.slopes.assign(late_time=1.3)
    assert {claim.verdict for claim in cost_claims(dear, steep)} == {"does not hold"}


def test_speed_is_judged_against_the_papers_factor_and_the_best_baseline(results):
    judged = claims(results)
    assert _find(judged, "MLP", "s2-beats-loop").verdict == "does not hold"
    assert _find(judged, "U-Net", "s2-beats-loop").verdict == "holds"
    assert _find(judged, "MLP", "s2-beats-chunked").evidence.endswith("autodiff reverse, chunked")
    slow = results.cost.speed.copy()
    slow.loc[slow["method"] == "autodiff forward, chunked", ["seconds", "seconds_low"]] = 1e-4
    claim = _find(speed_claims(slow), "MLP", "s2-beats-chunked")
    assert claim.verdict == "does not hold"
    assert claim.evidence.endswith("autodiff forward, chunked")


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
        ("model == 'range'", {"correlation": 0.7}, "variance-correlates-with-error"),
        ("sigma == 0.3", {"nll_low_rank": -1500.0}, "low-rank-likelier"),
        ("sigma == 0.3", {"nll_diagonal": -700.0}, "low-rank-likelier"),
        ("sigma == 0.5", {"edge_variance": 0.001}, "variance-larger-at-edges"),
        ("model == 'one scale'", {"nll_low_rank": -1700.0}, "one-model-of-all-scales"),
        ("sigma == 0.5", {"least_variance": -1e-6}, "variance-positive"),
    ],
)
def test_a_denoiser_is_judged_by_its_numbers_at_every_scale(results, of, values, name):
    numbers = results.denoisers["mnist5k"].numbers
    where = "denoiser, mnist5k"
    assert _find(_denoiser_claims(results), where, name).verdict == "holds"
    judged = _denoiser_claims(results, numbers=_changed(numbers, of, **values))
    assert _find(judged, where, name).verdict == "does not hold"


def test_a_denoiser_trained_at_length_is_judged_apart(results):
    judged = list(uncertainty_claims(results.denoisers))
    name = "low-rank-likelier"
    assert "-1,605" in _find(judged, "denoiser, mnist5k", name, exact=True).evidence
    assert "-2,005" in _find(judged, "denoiser, mnist5k, trained at length", name).evidence


def test_one_bin_of_one_scale_decides_over_reliability(results):
    bins = results.denoisers["mnist5k"].reliability
    name, where = "variance-calibrated", "denoiser, mnist5k"
    assert _find(_denoiser_claims(results), where, name).verdict == "holds"
    worse = _changed(bins, "model == 'range' and sigma == 0.5 and bin == 8", scale=2.0)
    unsure = worse.assign(standard_error=worse["predicted"])
    claim = _find(_denoiser_claims(results, reliability=unsure), where, name)
    assert claim.verdict == "undecided"
    claim = _find(_denoiser_claims(results, reliability=worse), where, name)
    assert claim.verdict == "does not hold" and "σ = 0.5: 0.45" in claim.evidence
    other = _changed(bins, "model == 'one scale'", scale=2.0)
    assert _find(_denoiser_claims(results, reliability=other), where, name).verdict == "holds"


@pytest.mark.parametrize("values", [{"share": 0.5}, {"seconds": 0.05}])
def test_directions_must_hold_as_much_and_cost_little(results, values):
    directions = results.denoisers["mnist5k"].directions
    where, name = "denoiser, mnist5k", "directions-of-s2"
    assert _find(_denoiser_claims(results), where, name).verdict == "holds"
    judged = _denoiser_claims(results, directions=_changed(directions, "method == 's2'", **values))
    assert _find(judged, where, name).verdict == "does not hold"


@pytest.mark.parametrize(
    ("values", "name"),
    [({"covariance_error": 0.2}, "plane-covariance"), ({"coverage_0.95": 0.88}, "plane-coverage")],
)
def test_posteriors_in_the_plane_are_judged(results, values, name):
    where = "points in the plane"
    assert _find(denoising_claims(results.denoising.posteriors), where, name).verdict == "holds"
    planar = _changed(results.denoising.posteriors, "dataset == 'rings'", **values)
    assert _find(denoising_claims(planar), where, name).verdict == "does not hold"


def test_figure_1_is_judged_at_both_ends_of_sigma(results):
    near, far, same = reduction_claims(results.reduction.errors)
    assert (near.verdict, far.verdict, same.verdict) == ("holds", "does not hold", "holds")
    assert near.where.endswith("σ = 0.001") and far.where.endswith("σ = 0.1")
    assert "3,000 and 3,000 without variance reduction, 0.02" in near.evidence
    assert same.evidence.endswith("1.00×")
    errors = results.reduction.errors.copy()
    none = errors["reduction"] == "none"
    errors.loc[none, ["s1_error", "s2_error"]] = 0.03
    near, far, _ = reduction_claims(errors)
    assert (near.verdict, far.verdict) == ("does not hold", "holds")
    errors.loc[~none & (errors["sigma"] == 0.1), "s2_error"] = 1.0
    assert list(reduction_claims(errors))[2].verdict == "does not hold"


def test_joint_training_is_judged_by_the_derivative_of_its_s1():
    row = {"rank": 15, "standard_error": 0.1}
    baseline = [{**row, "method": BASELINE, "mean": 6.5}]
    for mean, verdict in ((6.6, "holds"), (9.0, "does not hold")):
        joint = {**row, "method": "autodiff, joint moment", "mean": mean}
        (claim,) = accuracy_module._joint("here", [joint, *baseline], baseline)
        assert claim.verdict == verdict and claim.paper
