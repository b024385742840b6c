from dataclasses import replace

import pytest

from hosm.experiment.presenting.judge import Claim
from hosm.experiment.report.claims import claims
from hosm.experiment.report.replication import (
    own_verdicts,
    paper_verdicts,
    replication,
    summary,
    told,
    verdict_of,
)
from hosm.experiment.report.results import load_results
from hosm.experiment.report.texts import own, paper
from tests.experiment.report.report_inputs import write_inputs


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    return claims(load_results(write_inputs(tmp_path_factory.mktemp("replication"))))


def test_the_papers_claims_are_those_that_decide_its_entries(judged):
    deciding = {name for each in paper().claims for name in each.decides}
    assert {claim.name for claim in judged if claim.paper} == deciding
    assert not deciding & {name for each in paper().claims for name in each.beside}


def test_each_entry_is_decided_by_something(judged):
    names = {claim.name for claim in judged}
    for found in replication(judged):
        assert any(found.places.values()), found.paper.claim
        assert set(found.paper.decides + found.paper.beside) <= names


def test_each_of_our_statements_stands_under_a_subject_or_beside_a_claim_of_the_paper(judged):
    ours = {claim.name for claim in judged if not claim.paper}
    beside = {name for each in paper().claims for name in each.beside}
    assert ours == beside | {name for subject in own() for name in subject.claims}


def test_verdicts_are_counted_in_words():
    mixed = _judged_as(CLAIM, ["holds", "does not hold", "does not hold"])
    assert told(mixed) == "of 3 places, it holds at 1 and does not hold at 2"
    assert told(_judged_as(CLAIM, ["holds"] * 2)) == "at both places"
    assert told(_judged_as(CLAIM, ["vacuous"] * 3)) == "at all 3 places"
    assert told(_judged_as(CLAIM, ["does not hold"] * 2)) == "at any of 2 places"
    assert told(_judged_as(CLAIM, ["holds"])) == "at the one place that was measured"
    assert verdict_of(mixed) == "holds only in part"


def test_accuracy_is_judged_by_the_whole_table(tmp_path):
    results = load_results(write_inputs(tmp_path))
    moment = results.accuracy.whole.table1["method"] == "s2, moment"
    results.accuracy.whole.table1.loc[moment, ["mean", "standard_error"]] = 0.1, 0.001
    found = next(e for e in replication(claims(results)) if e.paper.figure == "accuracy")
    assert found.verdict == "holds"


CLAIM = Claim("joint-s1-error", "here", "s1 is as good", 3.0, "<", 4.0, "", True, error=0.1)
OWN = replace(CLAIM, name="plane-coverage", statement="regions are right", paper=False)


def _judged_as(claim, verdicts):
    lefts = {"holds": 3.0, "does not hold": 5.0, "undecided": 4.0, "vacuous": 3.0}
    return [
        replace(claim, left=lefts[each], sound=each != "vacuous", where=f"place {i}")
        for i, each in enumerate(verdicts)
    ]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["holds", "holds"], "holds"),
        (["does not hold"], "does not hold"),
        (["does not hold", "undecided"], "does not hold"),
        (["does not hold", "vacuous"], "does not hold"),
        (["holds", "does not hold"], "holds only in part"),
        (["holds", "undecided"], "holds only in part"),
        (["holds", "vacuous"], "holds only in part"),
        (["undecided"], "undecided"),
        (["vacuous", "undecided"], "undecided"),
        (["vacuous", "vacuous"], "vacuous"),
        ([], "not measured"),
    ],
)
def test_the_verdict_is_that_of_all_places(verdicts, expected):
    found = replication(_judged_as(CLAIM, verdicts))
    entry = next(each for each in found if CLAIM.name in each.paper.decides)
    assert entry.verdict == expected


def test_a_statement_beside_tells_each_of_its_verdicts():
    judged = _judged_as(OWN, ["holds", "undecided", "undecided", "vacuous"])
    entry = next(each for each in replication(judged) if OWN.name in each.paper.beside)
    counted = "holds at 1, undecided at 2, vacuous at 1 of 4 places"
    assert entry.tally == [("regions are right", counted)]


def test_the_papers_claims_are_counted_apart_from_ours():
    ours = _judged_as(OWN, ["holds"] * 3)
    checks = [replace(each, by_construction=True, statement="it must") for each in ours]
    judged = [*_judged_as(CLAIM, ["does not hold", "undecided"]), *ours, *checks]
    total = paper_verdicts(judged).iloc[-1]
    assert list(total)[2:] == ["0", "1", "1", "0"]
    assert (
        total["Verdict"] == summary(replication(judged)) == "1 does not hold, 10 are not measured"
    )
    own = own_verdicts(judged)
    assert list(own.iloc[-1])[2:] == ["3", "0", "0", "0"]  # without what holds by construction
    assert list(own["Kind"]) == ["measured", "true by construction: checks the code", "measured"]
