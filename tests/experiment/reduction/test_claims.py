from hosm.experiment.reduction.claims import reduction_claims


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
