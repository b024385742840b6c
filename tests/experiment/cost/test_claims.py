from hosm.experiment.cost.claims import cost_claims, speed_claims
from tests.experiment.claims import claim_of


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
    judged = list(speed_claims(results.cost.speed))
    assert claim_of(judged, "MLP", "s2-beats-loop").verdict == "does not hold"
    assert claim_of(judged, "U-Net", "s2-beats-loop").verdict == "holds"
    assert claim_of(judged, "MLP", "s2-beats-chunked").evidence.endswith(
        "autodiff reverse, chunked"
    )
    slow = results.cost.speed.copy()
    slow.loc[slow["method"] == "autodiff forward, chunked", ["seconds", "seconds_low"]] = 1e-4
    claim = claim_of(speed_claims(slow), "MLP", "s2-beats-chunked")
    assert claim.verdict == "does not hold"
    assert claim.evidence.endswith("autodiff forward, chunked")
