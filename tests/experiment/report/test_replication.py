from dataclasses import replace

import pytest

from hosm.experiment.presenting.judge import Claim
from hosm.experiment.report.claims import replicated_claims
from hosm.experiment.report.replication import replication
from hosm.experiment.report.results import load_results
from hosm.experiment.report.texts import paper
from tests.experiment.report.report_inputs import write_inputs


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    return replicated_claims(load_results(write_inputs(tmp_path_factory.mktemp("replication"))))


def test_each_judged_claim_of_the_paper_decides_or_stands_beside_one(judged):
    named = {name for each in paper().claims for name in (*each.decides, *each.beside)}
    assert not [claim.statement for claim in judged if claim.paper and claim.name not in named]


def test_each_entry_is_decided_by_something(judged):
    names = {claim.name for claim in judged}
    for found in replication(judged):
        assert found.holds or found.fails or found.undecided, found.paper.claim
        assert set(found.paper.decides + found.paper.beside) <= names


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
    lefts = {"holds": 3.0, "does not hold": 5.0, "undecided": 4.0}
    claim = Claim("joint-s1-error", "here", "s1 is as good", 3.0, "<", 4.0, "", True, error=0.1)
    found = replication([replace(claim, left=lefts[each]) for each in verdicts])
    entry = next(each for each in found if claim.name in each.paper.decides)
    assert entry.verdict == expected
