"""What users rely on, judged on made-up numbers: where it holds and where it does not."""

from dataclasses import replace

import pytest

from hosm.experiment.tabular.claims import tabular_claims


def judged(run):
    return {claim.name: claim for claim in tabular_claims(run)}


def changed(run, of, **values):
    laws = run.laws.copy()
    for name, value in values.items():
        laws.loc[laws.eval(of), name] = value
    return replace(run, laws=laws)


def test_all_hold_where_ours_is_best(results):
    found = judged(results.tabular.run)
    assert {claim.verdict for claim in found.values()} == {"holds"}
    assert len(found) == 6 and not any(claim.paper for claim in found.values())
    assert "0 of" in found["tabular-never-worse-than-constant"].evidence


@pytest.mark.parametrize(
    ("name", "of", "error"),
    [
        ("tabular-never-worse-than-constant", "law == 'ring' and method == 'ours'", 1.3),
        ("tabular-never-worse-than-gaussian", "law == 'ring' and method == 'ours'", 3.0),
        ("tabular-beats-kernels", "method == 'Stein kernel'", 0.01),
        ("tabular-near-mixture", "law == 'mixture3' and method == 'ours'", 0.9),
        ("tabular-beats-mixture", "method == 'Gaussian mixture by BIC'", 0.1),
    ],
)
def test_each_fails_where_ours_is_worse(results, name, of, error):
    claim = judged(changed(results.tabular.run, of, diagonal_error=error))[name]
    assert claim.verdict == "does not hold"


def test_the_worst_cell_is_named(results):
    run = changed(results.tabular.run, "law == 'ring' and method == 'ours'", diagonal_error=1.3)
    evidence = judged(run)["tabular-never-worse-than-constant"].evidence
    assert "1 of 2 cells are above: ring (2 columns, 1,000 rows)" in evidence


def test_an_overconfident_posterior_is_told(results):
    run = results.tabular.run
    tables = run.tables.assign(variance_ratio=0.7)
    assert judged(replace(run, tables=tables))["tabular-calibrated"].verdict == "does not hold"


def test_where_a_constant_is_better_than_the_gaussian_it_is_the_rival(results):
    """The Gaussian is at 2 there, the best constant at 1 by definition."""
    run = changed(results.tabular.run, "method == 'ours'", diagonal_error=1.04)
    found = judged(run)
    assert found["tabular-never-worse-than-constant"].verdict == "holds"
    assert found["tabular-never-worse-than-gaussian"].verdict == "holds"
    run = changed(run, "method == 'Ledoit-Wolf Gaussian'", diagonal_error=0.9)
    assert judged(run)["tabular-never-worse-than-constant"].verdict == "does not hold"
