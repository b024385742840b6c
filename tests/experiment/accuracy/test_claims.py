import math

from hosm.experiment.accuracy import claims as module
from hosm.experiment.accuracy.claims import accuracy_claims, first_order_claims
from tests.experiment.claims import claim_of


def test_an_objective_that_loses_to_autodiff_does_not_hold(results):
    claim = claim_of(
        accuracy_claims(results.accuracy.table1), "gaussian100", "moment-beats-autodiff"
    )
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
    assert claim_of(judged, "gaussian100", "moment-beats-autodiff").verdict == "holds"
    assert claim_of(judged, "gaussian100", "moment-reaches-paper").verdict == "holds"
    accuracy.loc[moment, ["mean", "standard_error"]] = 6.5, 0.4
    judged = list(accuracy_claims(accuracy))
    assert claim_of(judged, "gaussian100", "moment-beats-autodiff").verdict == "undecided"
    assert claim_of(judged, "gaussian100", "moment-reaches-paper").verdict == "does not hold"


def test_one_seed_decides_by_the_means(results):
    accuracy = results.accuracy.table1.assign(standard_error=math.nan)
    claim = claim_of(accuracy_claims(accuracy), "logistic50", "best-s2-beats-best-autodiff")
    assert claim.verdict == "holds"
    assert claim.evidence == (
        "squared error of the Hessian: 7.80 by s2, jacobian; 8.10 by autodiff, DSM-VR"
    )


def test_methods_no_better_than_a_constant_are_named(results):
    claim = claim_of(accuracy_claims(results.accuracy.table1), "logistic50", "all-beat-constant")
    assert claim.verdict == "does not hold"
    assert claim.evidence.endswith(
        "at least as large are 19.30 ± 0.40 by autodiff, DSM; 20.20 ± 0.25 by s2, moment"
    )


def test_a_constant_that_is_exact_is_no_yardstick(results):
    judged = accuracy_claims(results.accuracy.table1)
    assert not [
        c for c in judged if c.where.startswith("gaussian") and c.name == "all-beat-constant"
    ]


def test_joint_training_is_compared_with_training_alone(results):
    claim = claim_of(first_order_claims(results.accuracy.trials), "gaussian100", "joint-s1-error")
    assert (claim.verdict, claim.evidence) == (
        "does not hold",
        "squared error of s1: 0.615 trained jointly, 0.525 trained alone",
    )


def test_joint_training_is_judged_by_the_derivative_of_its_s1():
    row = {"rank": 15, "standard_error": 0.1}
    baseline = [{**row, "method": "autodiff, DSM-VR", "mean": 6.5}]
    for mean, verdict in ((6.6, "holds"), (9.0, "does not hold")):
        joint = {**row, "method": "autodiff, joint moment", "mean": mean}
        (claim,) = module._joint("here", [joint, *baseline], baseline)
        assert claim.verdict == verdict and claim.paper
