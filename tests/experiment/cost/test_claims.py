import pytest

from hosm.experiment.cost.claims import cost_claims, speed_claims
from tests.experiment.claims import claim_of

TIMES = ["seconds", "seconds_low", "seconds_high"]


def _changed(frame, of, **factors):
    """The frame with times multiplied by a factor where `of`, a query, holds."""
    out = frame.copy()
    for column, factor in factors.items():
        out.loc[out.eval(of), column] *= factor
    return out


def _sharp(frame):
    """The frame as if every repetition had taken the same time."""
    return frame.assign(seconds_low=frame["seconds"], seconds_high=frame["seconds"])


def test_costs_are_judged_against_s1_alone_and_a_line(results):
    training, growths = _sharp(results.cost.training), _sharp(results.cost.growth)
    step, growth = cost_claims(training, results.cost.slopes, growths)
    assert step.verdict == growth.verdict == "holds"
    assert "s1 alone: 1.40×" in step.evidence and "antithetic" in step.where
    assert "1.00 (1.00 to 1.00) and 1.00" in growth.evidence
    dear = _changed(training, "target == 'jacobian'", **dict.fromkeys(TIMES, 2))
    steep = results.cost.slopes.assign(late_memory=1.3)
    assert {claim.verdict for claim in cost_claims(dear, steep, growths)} == {"does not hold"}


def test_a_step_or_a_slope_whose_range_holds_the_bound_is_undecided(results):
    cost = results.cost
    wide = _changed(cost.training, "target == 'jacobian'", seconds_high=1.5)
    spread = _changed(cost.growth, "method == 'joint step'", seconds_high=2.0)
    step, growth = cost_claims(wide, cost.slopes, spread)
    assert step.verdict == growth.verdict == "undecided"


def test_speed_is_judged_against_the_papers_factor_and_the_best_baseline(results):
    judged = list(speed_claims(results.cost.speed))
    assert claim_of(judged, "MLP", "s2-beats-loop").verdict == "does not hold"
    assert claim_of(judged, "U-Net", "s2-beats-loop").verdict == "holds"
    assert claim_of(judged, "MLP", "s2-beats-chunked").evidence.endswith(
        "autodiff reverse, chunked"
    )
    slow = results.cost.speed.copy()
    slow.loc[slow["method"] == "autodiff forward, chunked", TIMES] = 1e-4
    claim = claim_of(speed_claims(slow), "MLP", "s2-beats-chunked")
    assert claim.verdict == "does not hold"
    assert claim.evidence.endswith("autodiff forward, chunked")


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.2, "holds"), (1.5, "undecided"), (2.0, "does not hold")]
)
def test_s2_costs_like_s1_where_the_whole_range_does(results, ratio, verdict):
    speed = results.cost.speed.copy()
    first = speed["method"] == "s1"
    speed.loc[first, TIMES] = speed.loc[first, ["seconds"] * 3].to_numpy()
    for rank in (20, 50, 200):
        s2 = (speed["method"] == "s2") & (speed["rank"] == rank)
        base = speed[first].set_index("backbone")["seconds"]
        middle = ratio * speed.loc[s2, "backbone"].map(base)
        for column, factor in zip(TIMES, (1.0, 0.9, 1.1), strict=True):
            speed.loc[s2, column] = factor * middle
    assert claim_of(speed_claims(speed), "U-Net", "s2-costs-like-s1").verdict == verdict
