"""The headline numbers, and the block of the README that holds them."""

import re
from dataclasses import replace

import pandas as pd
import pytest

from hosm.experiment.accuracy.headline import accuracy_headline
from hosm.experiment.report import headline

FACTS = {"profile": "laptop", "seeds": [0, 1], "hardware": "2 cores of a test"}


def _rows(block):
    return [line for line in block.splitlines() if line.startswith("|")]


def test_the_readme_block_says_in_sentences_what_was_measured(results):
    block = headline.readme_block(results, FACTS)
    cells = [line.strip("| ").split(" | ") for line in _rows(block)[2:]]
    assert 8 <= len(cells) <= 16 and {len(row) for row in cells} == {4}
    for measured, ours, rival, run in cells:
        assert run in ("this run", "long run")
        assert measured[0].isupper() and measured.endswith(".")
        assert re.search(r"\d", ours) and re.search(r"\d", rival)
    for text in ("7.80 ± 0.25 | 17.8 by a constant Hessian", "510× in the paper | this run"):
        assert text in block
    assert "6.0 to 11.0 % |" in block
    assert "-2,005 | -766.0 by one variance for all pixels" in block  # the one trained at length
    assert "-1,605" not in block
    assert (
        "the paper's first data set. | 2.00 ± 0.28 | 1 by Langevin's | long run" in block
    )  # the longer study
    assert "*This run*: profile `laptop`, seeds 0, 1, on 2 cores of a test." in block


def test_the_page_says_in_ten_sentences_what_was_found_and_by_which_run(results):
    told = headline.findings(results)
    assert len(told) == 10
    for each in told:
        assert each.sentence[0].isupper() and each.sentence.endswith(".")
        assert re.search(r"\d", each.sentence) and each.findings
    accuracy, speed, *_ = told
    assert "7.80 ± 0.25 if learned from 640,000 fresh points" in accuracy.sentence
    assert "a constant Hessian 17.8, the derivative of the first-order score 8.100" in (
        accuracy.sentence
    )
    assert (accuracy.run, speed.run) == ("long run", "this run")
    assert "600 times as long as its second-order score (432 to 833 over" in speed.sentence


def test_a_number_is_of_this_run_where_no_longer_one_is_kept(results):
    short = replace(results, diffusion=replace(results.diffusion, whole=None))
    runs = [each.run for each in headline.findings(short)]
    longer = [each.run for each in headline.findings(results)]
    assert (runs[8], longer[8]) == ("this run", "long run") and runs[:8] == longer[:8]


def test_the_findings_hold_the_numbers_of_few_points_where_there_are_some(results):
    table1 = results.accuracy.whole.table1
    both = pd.concat([table1, table1.assign(regime="finite", mean=9 * table1["mean"])])
    block = headline.readme_block(_with_table1(results, both), FACTS)
    points = results.accuracy.whole.card["protocol"]["train_points"]
    (few,) = [row for row in _rows(block) if f"learned from {points} points" in row]
    assert "| 70.20 ± " in few and "160 by a constant Hessian" in few


def test_the_table_of_errors_holds_the_papers_numbers(results):
    text = accuracy_headline(results.accuracy.whole).to_markdown(index=False)
    assert "2.05 ± 0.544" in text and "floor 1.76" in text


def test_a_number_that_was_timed_on_a_busy_machine_says_so(results):
    """Of times of before nothing is known, and nothing is said."""
    assert "busy" not in headline.readme_block(results, FACTS)
    load, cost = {"others": 0.4, "stolen": 0.0}, results.cost
    slow = replace(cost, speed=cost.speed.assign(**load), training=cost.training.assign(**load))
    found = replace(results, cost=slow)
    block = headline.readme_block(found, FACTS)
    assert "(432 to 833) (busy machine) | 510× in the paper" in block
    assert "1.40× (busy machine) | at least 1" in block


def _with_table1(results, table1):
    whole = replace(results.accuracy.whole, table1=table1)
    return replace(results, accuracy=replace(results.accuracy, whole=whole))


def test_few_data_stand_beside_fresh_draws_whose_points_are_counted(results, only):
    table1 = results.accuracy.whole.table1
    finite = table1.assign(regime="finite", mean=9 * table1["mean"])
    table = accuracy_headline(_with_table1(results, pd.concat([table1, finite])).accuracy.whole)
    row = only(table, Estimate="s2, jacobian (the best here)")
    points = results.accuracy.whole.card["protocol"]["train_points"]
    assert row[f"Ours ± s.e., {points} points"] == "70.20 ± 0.25"
    assert row["Ours ± s.e., fresh draws"] == "7.80 ± 0.25"
    assert row["Points drawn"] == f"{2500 * 256:,}"  # steps of s1 times its batch
    assert row["To beat"] == "constant 160"  # of the finite regime, nine times 17.8
    notes = {name for name in table["Estimate"] if name.startswith("autodiff")}
    plain = "autodiff, DSM-VR, plain MLP"  # beside which the other one's network is told apart
    with_truth = "autodiff, DSM-VR (a network that contains the truth)"
    assert notes == {"autodiff, DSM-VR", with_truth, plain}
    best = only(table, Estimate="s2, jacobian, r = 30 (the best here)")
    assert (best["To beat"], best["Paper"]) == ("floor 15.8", "–")


def test_a_regime_that_is_not_there_is_a_dash(results):
    table = accuracy_headline(results.accuracy.whole)
    points = results.accuracy.whole.card["protocol"]["train_points"]
    assert set(table[f"Ours ± s.e., {points} points"]) == {"–"}
    finite = results.accuracy.whole.table1.assign(regime="finite")
    table = accuracy_headline(_with_table1(results, finite).accuracy.whole)
    assert set(table["Ours ± s.e., fresh draws"]) == set(table["Points drawn"]) == {"–"}


def test_the_readme_block_shows_the_papers_middle_sigma(results):
    accuracy = results.accuracy.whole.table1
    changed = _with_table1(results, pd.concat([accuracy.assign(sigma=0.1, mean=0.6), accuracy]))
    assert headline.readme_block(changed, FACTS) == headline.readme_block(results, FACTS)


def test_a_block_replaces_what_stands_between_markers():
    text = "before\n<!-- a -->\nold\n<!-- b -->\nafter\n"
    once = headline.replace_between_markers(text, "<!-- a -->", "<!-- b -->", "new\n")
    assert once == "before\n<!-- a -->\nnew\n<!-- b -->\nafter\n"
    assert headline.replace_between_markers(once, "<!-- a -->", "<!-- b -->", "new") == once


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing, END", "'BEGIN' must occur once, got 0"),
        ("BEGIN, nothing", "'END' must occur once, got 0"),
        ("BEGIN END BEGIN", "'BEGIN' must occur once, got 2"),
        ("END BEGIN", "'END' stands before 'BEGIN'"),
    ],
)
def test_markers_must_be_there_once_and_in_order(text, message):
    with pytest.raises(ValueError, match=message):
        headline.replace_between_markers(text, "BEGIN", "END", "new")
