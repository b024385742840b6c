"""What users of few steps rely on, judged on made-up numbers: where it holds and where not."""

from dataclasses import replace

import pytest

from hosm.experiment.diffusion.claims import diffusion_claims


def judged(run):
    return {claim.name: claim for claim in diffusion_claims(run)}


def changed(run, frame, of, **values):
    rows = getattr(run, frame).copy()
    for name, value in values.items():
        rows.loc[rows.eval(of), name] = value
    return replace(run, **{frame: rows})


def test_all_hold_where_ours_is_best(results):
    found = judged(results.diffusion.run)
    assert {claim.verdict for claim in found.values()} == {"holds"}
    assert len(found) == 7 and not any(claim.paper for claim in found.values())


@pytest.mark.parametrize(
    ("name", "frame", "of", "values"),
    [
        ("near-exact-gap", "steps", "covariance == 'exact' and steps == 10", {"gap": 0.05}),
        ("near-exact-distance", "steps", "covariance == 'exact'", {"distance": 0.1}),
        ("best-gap", "steps", "covariance == 'diagonal' and steps == 5", {"gap": 0.1}),
        ("best-distance", "steps", "covariance == 'beta'", {"distance": 0.1}),
        ("likelihood-exact-scores", "likelihood", "mean == 'exact'", {"error": 0.03}),
        ("likelihood-network", "likelihood", "mean == 'network'", {"error": 0.03}),
        ("likelihood-seconds", "likelihood", "trace != 'trace of s2'", {"seconds": 0.5}),
    ],
)
def test_each_fails_where_ours_is_worse(results, name, frame, of, values):
    claim = judged(changed(results.diffusion.run, frame, of, **values))[f"diffusion-{name}"]
    assert claim.verdict == "does not hold"


def test_one_seed_decides_nothing(results):
    run = results.diffusion.run
    one = replace(run, steps=run.steps[run.steps["seed"] == 0])
    assert judged(one)["diffusion-near-exact-gap"].verdict == "undecided"
