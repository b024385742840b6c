from dataclasses import replace

import pytest

from hosm.experiment.presenting.claims import Claim
from hosm.experiment.report.captions import FIGURES
from hosm.experiment.report.claims import replicated_claims
from hosm.experiment.report.replication import ERRATA, PAPER, replication
from hosm.experiment.report.tables import load_results
from tests.experiment.report.report_inputs import write_inputs


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    return replicated_claims(load_results(write_inputs(tmp_path_factory.mktemp("replication"))))


def test_each_judged_claim_of_the_paper_decides_or_stands_beside_one(judged):
    starts = tuple(start for paper in PAPER for start in (*paper.decides, *paper.beside))
    assert not [c.statement for c in judged if c.paper and not c.statement.startswith(starts)]


def test_each_entry_is_decided_by_something(judged):
    for found in replication(judged):
        assert found.holds or found.fails or found.undecided, found.paper.claim
        for start in found.paper.decides + found.paper.beside:
            assert [c for c in judged if c.statement.startswith(start)], start


def test_accuracy_is_judged_by_the_whole_table(tmp_path):
    results = load_results(write_inputs(tmp_path))
    moment = results.accuracy.whole.table1["method"] == "s2, moment"
    results.accuracy.whole.table1.loc[moment, ["mean", "standard_error"]] = 0.1, 0.001
    found = next(e for e in replication(replicated_claims(results)) if e.paper.figure == "whole")
    assert found.verdict == "holds"


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["holds", "holds"], "holds"),
        (["does not hold"], "does not hold"),
        (["does not hold", "undecided"], "does not hold"),
        (["holds", "does not hold"], "holds only in part"),
        (["holds", "undecided"], "holds only in part"),
        (["undecided"], "undecided"),
        ([], "not measured"),
    ],
)
def test_the_verdict_is_that_of_all_places(verdicts, expected):
    claim = Claim("here", "s1 trained jointly is so", "holds", "3 against 4", True)
    found = replication([replace(claim, verdict=each) for each in verdicts])
    entry = next(each for each in found if each.paper.decides == ("s1 trained jointly",))
    assert entry.verdict == expected


def test_pictures_and_sections_exist():
    assert {paper.figure for paper in PAPER} <= set(FIGURES)
    assert all(erratum.right and erratum.known_by for erratum in ERRATA)
