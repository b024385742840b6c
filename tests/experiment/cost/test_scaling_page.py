"""The page on scaling shows what is kept, and says which mark it lacks."""

from pathlib import Path

import pytest

from hosm.experiment.cost.scaling_page import filled, page_tables

ROOT = Path(__file__).resolve().parents[3]

KEPT = ROOT / "reports" / "whole"


def test_the_page_shows_the_kept_results():
    text = (ROOT / "docs" / "scaling.md").read_text()
    assert filled(text, page_tables(KEPT)) == text


def test_tables_stand_between_their_marks():
    text = "a\n<!-- begin:x -->\nold\n<!-- end:x -->\nb"
    once = filled(text, {"x": r"new \\1"})
    assert once == "a\n<!-- begin:x -->\nnew \\\\1\n<!-- end:x -->\nb"
    assert filled(once, {"x": r"new \\1"}) == once
    with pytest.raises(ValueError, match="the page must have the marks <!-- begin:y -->"):
        filled(text, {"y": "z"})
