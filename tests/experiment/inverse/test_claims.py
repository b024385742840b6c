"""What users rely on, judged on made-up numbers: where it holds and where it does not."""

from dataclasses import replace

import pytest

from hosm.experiment.inverse.claims import inverse_claims


def judged(run):
    return {claim.name: claim for claim in inverse_claims(run)}


def changed(run, of, **values):
    methods = run.methods.copy()
    for name, value in values.items():
        methods.loc[methods.eval(of), name] = value
    return replace(run, methods=methods)


def test_all_hold_where_ours_is_best(results):
    found = judged(results.inverse.run)
    assert {claim.verdict for claim in found.values()} == {"holds"}
    assert len(found) == 6 and not any(claim.paper for claim in found.values())


@pytest.mark.parametrize(
    ("name", "of", "values"),
    [
        ("inverse-calibrated", "method == 'covariance'", {"coverage_0.8": 0.74}),
        ("inverse-calibrated", "method == 'covariance'", {"coverage_0.5": 0.56}),
        ("inverse-mean", "method == 'tmpd'", {"mean_error": 0.09}),
        ("inverse-distance", "method == 'dps'", {"distance": 0.04}),
        ("inverse-near-exact", "method == 'covariance'", {"distance": 0.08}),
    ],
)
def test_each_fails_where_ours_is_worse(results, name, of, values):
    run = changed(results.inverse.run, f"task == 'blur' and {of}", **values)
    assert judged(run)[name].verdict == "does not hold"


@pytest.mark.parametrize("method", ["dps", "pigdm"])
def test_a_rival_that_is_calibrated_is_told(results, method):
    of = f"task == 'blur' and model == 'learned' and method == '{method}'"
    run = changed(results.inverse.run, of, **{f"coverage_{p}": p for p in (0.5, 0.8, 0.95)})
    found = judged(run)[f"inverse-calibrated-where-{method}-is-not"]
    assert found.verdict == "does not hold" and "blur: 0" in found.evidence


def test_exact_scores_do_not_judge_the_learned_model(results):
    of = "model == 'exact' and method == 'covariance'"
    run = changed(results.inverse.run, of, mean_error=9.0, distance=9.0)
    wrong = {name for name, claim in judged(run).items() if claim.verdict != "holds"}
    assert wrong == {"inverse-near-exact"}
