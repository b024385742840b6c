from dataclasses import replace

import pytest

from hosm.experiment.diversity.claims import diversity_claims
from tests.experiment.claims import claim_of

WHERE = "chains of images, mnist5k"


def _claim(results, name, **columns):
    """Return a claim about Ozaki at equal steps, with other values in its row of the summary."""
    found = results.diversity["mnist5k"]
    summary = found.summary.copy()
    for column, value in columns.items():
        summary.loc[summary["sampler"] == "Ozaki", column] = value
    return claim_of(diversity_claims({"mnist5k": replace(found, summary=summary)}), WHERE, name)


@pytest.mark.parametrize(
    ("gain", "verdict"), [(0.21, "holds"), (0.19, "undecided"), (-0.21, "does not hold")]
)
def test_a_gain_at_equal_steps_counts_from_two_standard_errors(results, gain, verdict):
    columns = {"gain": gain, "gain_standard_error": 0.1}
    assert _claim(results, "more-changes-at-equal-steps", **columns).verdict == verdict


@pytest.mark.parametrize(
    ("ahead", "verdict"), [(0.0, "holds"), (0.2, "undecided"), (0.5, "does not hold")]
)
def test_the_clock_explains_a_lead_that_is_mostly_gone_at_equal_time(results, ahead, verdict):
    """Half of the lead is 0.2 ± 0.03; the rest has a standard error of 0.04."""
    columns = {"gain": 0.4, "gain_standard_error": 0.06, "equal_time_gain": ahead}
    columns["equal_time_gain_standard_error"] = 0.04
    assert _claim(results, "clock-explains-changes", **columns).verdict == verdict


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [((1.0, 1.15), "holds"), ((1.1, 1.2), "undecided"), ((1.16, 1.3), "does not hold")],
)
def test_the_cost_of_an_iteration_is_judged_by_its_range(results, ends, verdict):
    found = results.diversity["mnist5k"]
    cost = found.cost.assign(ratio=sum(ends) / 2, ratio_low=ends[0], ratio_high=ends[1])
    claims = diversity_claims({"mnist5k": replace(found, cost=cost)})
    assert claim_of(claims, WHERE, "iteration-of-image-chains-cheap").verdict == verdict


def test_the_largest_steps_are_compared_with_each_rival(results):
    claims = [c for c in diversity_claims(results.diversity) if "largest-steps" in c.name]
    rivals = ("of Langevin", "of Ozaki with a fixed curvature")
    for place in (WHERE, f"{WHERE}, at length"):
        ends = [claim.statement for claim in claims if claim.where == place]
        assert len(ends) == 2 and all(e.endswith(r) for e, r in zip(ends, rivals, strict=True))
