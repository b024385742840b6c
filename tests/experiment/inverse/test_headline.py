"""What the README and the page say first of linear inverse problems."""

from hosm.experiment.inverse.headline import inverse_findings, inverse_sentence


def run_with(run, off):
    """The results with intervals of 80 % that hold so many points too much, by method."""
    methods = run.methods.assign(
        **{"coverage_0.5": 0.5, "coverage_0.8": 0.8, "coverage_0.95": 0.95}
    )
    methods["coverage_0.8"] += methods["method"].map(off).fillna(0.0) / 100
    return type(run)(methods=methods, card=run.card)


def test_ours_stands_beside_the_best_method_of_others(results):
    off = {
        "covariance": 6.0,
        "diagonal": 1.0,
        "tmpd": -9.0,
        "pigdm": 7.0,
        "dps": 12.0,
        "mmps": 20.0,
    }
    run = run_with(results.inverse.run, off)
    (finding,) = inverse_findings(run)
    assert (finding.ours, finding.rival) == ("6.0", "7.0 by ΠGDM")
    assert "50, 80 and 95 %" in finding.measured
    told = inverse_sentence(run)
    assert "at most 6.0 percentage points" in told and "that of ΠGDM" in told
