"""The headline numbers, and the block of the README that holds them."""

from dataclasses import replace

import pandas as pd
import pytest

from hosm.experiment.report import headline

FACTS = {"profile": "laptop", "seeds": [0, 1], "hardware": "2 cores of a test"}


def test_the_readme_block_holds_the_headline_numbers(results):
    block = headline.readme_block(results, FACTS)
    lines = [line for line in block.splitlines() if line.startswith("|")][2:]
    assert 8 <= len(lines) <= 20
    for text in ("2.05 ± 0.544", "7.200 ± 0.031", "2.100 ± 0.031", "floor 1.76", "600×", "510×"):
        assert text in block
    assert "21.81 / 28.89" in block
    assert "6.0 % / 11.0 %" in block
    assert "-2,005 / -1,568 / -766" in block  # of the denoiser trained at length
    assert "-1,605" not in block
    assert "21.7 at variance ratio 1.34, beyond the bounds / 28.9 at variance ratio 3.90" in block
    assert "2.00 ± 0.28" in block  # of the samplers' longer study
    assert block.endswith("ranges are least to largest.")
    assert "means over 2 seeds (`make table1`)" in block
    assert "profile `laptop`, seeds 0, 1, on 2 cores of a test;" in block


def test_the_readme_block_shows_fresh_draws_at_the_papers_middle_sigma(results):
    accuracy = results.accuracy.whole.table1
    other = [accuracy.assign(regime="finite", mean=0.5), accuracy.assign(sigma=0.1, mean=0.6)]
    whole = replace(results.accuracy.whole, table1=pd.concat([*other, accuracy]))
    changed = replace(results, accuracy=replace(results.accuracy, whole=whole))
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
