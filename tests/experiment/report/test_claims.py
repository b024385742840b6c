from hosm.experiment.report.claims import claims


def test_every_study_makes_claims_and_each_is_made_once_at_a_place(results):
    found = [(claim.name, claim.where, claim.statement) for claim in claims(results)]
    assert len(found) == len(set(found))
    names = {name for name, _, _ in found}
    assert names >= {
        "moment-beats-autodiff",
        "joint-s1-error",
        "plain-fails-at-small-sigma",
        "s2-beats-loop",
        "joint-step-cost",
        "tuned-ozaki-faster",
        "plane-covariance",
        "low-rank-likelier",
        "more-changes-at-equal-steps",
    }


def test_accuracy_is_judged_by_the_table_at_the_papers_sizes(results):
    table1 = results.accuracy.whole.table1
    errors = set(table1["mean"]) - {0.0}
    assert {c.left for c in claims(results) if c.name == "moment-beats-autodiff"} <= errors


def test_what_holds_by_construction_is_no_claim_of_the_paper(results):
    found = [claim for claim in claims(results) if claim.by_construction]
    known = {"adjusted-unbiased", "variance-positive", "diffusion-likelihood-exact-scores"}
    assert {claim.name for claim in found} == known
    assert not any(claim.paper for claim in found)
