import math
from dataclasses import replace

import pytest

from hosm.experiment.reduction.claims import reduction_claims
from tests.tolerances import FLOAT64


def _with(curves, of, **errors):
    """The curves with errors of seed 0 and seed 1 where `of`, a query, holds."""
    out = curves.copy()
    for order, by_seed in errors.items():
        for seed, value in enumerate(by_seed):
            out.loc[out.eval(f"({of}) and seed == {seed}"), order] = value
    return out


def test_figure_1_is_judged_at_both_ends_of_sigma(results):
    curves = results.reduction.run.curves
    near, far, same = reduction_claims(curves)
    assert (near.verdict, far.verdict, same.verdict) == ("holds", "does not hold", "holds")
    assert near.where.endswith("σ = 0.001") and far.where.endswith("σ = 0.1")
    assert "3,000 (3,000 to 3,000) and 3,000" in near.evidence
    assert "1.00×" in same.evidence
    alike = {"s1_error": (0.03, 0.03), "s2_error": (0.03, 0.03)}
    curves = _with(curves, "reduction == 'none'", **alike)
    near, far, _ = reduction_claims(curves)
    assert (near.verdict, far.verdict) == ("does not hold", "holds")
    curves = _with(curves, "reduction != 'none' and sigma == 0.1", s2_error=(1.0, 1.0))
    assert list(reduction_claims(curves))[2].verdict == "does not hold"


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [
        ((400.0, 500.0), "holds"),
        ((1.5, 9000.0), "undecided"),  # a mean of 4,500, that of one seed
        ((math.inf, 400.0), "holds"),  # diverged
        ((0.4, 0.5), "does not hold"),
    ],
)
def test_one_large_error_among_small_ones_decides_nothing(results, errors, verdict):
    curves = _with(results.reduction.run.curves, "reduction == 'none'", s2_error=errors)
    assert next(reduction_claims(curves)).verdict == verdict


def test_errors_are_compared_seed_by_seed(results):
    """Errors of seeds a hundred times apart whose ratio is three at each."""
    here = "sigma == 0.1 and reduction =="
    curves = _with(results.reduction.run.curves, f"{here} 'none'", s2_error=(3.0, 300.0))
    curves = _with(curves, f"{here} 'antithetic'", s2_error=(1.0, 100.0))
    curves = _with(curves, here + " 'none'", s1_error=(0.02, 0.02))
    _, far, _ = reduction_claims(curves)
    assert far.verdict == "does not hold"
    assert far.error == pytest.approx(0, abs=FLOAT64["atol"])


def test_one_seed_decides_nothing(results):
    claims = list(reduction_claims(results.reduction.run.curves.query("seed == 0")))
    assert {claim.verdict for claim in claims} == {"undecided"}


def test_the_longer_run_is_judged_where_there_is_one(results):
    assert results.reduction.longest is results.reduction.run
    longer = replace(results.reduction.run, card={"profile": "paper"})
    assert replace(results.reduction, whole=longer).longest is longer
