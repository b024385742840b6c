"""Finished parts: made once, named by what they depend on, and the same as if made anew."""

import math

import pytest

from hosm.experiment.shared.finished_parts import NOTHING_FINISHED, FinishedParts


def never():
    raise AssertionError("made twice")


def test_a_part_is_made_once(tmp_path):
    parts = FinishedParts(tmp_path / "runs", {"seed": 0})
    assert parts.part({"block": 1}, lambda: [1, 2.5]) == [1, 2.5]
    assert parts.part({"block": 1}, never) == [1, 2.5]


@pytest.mark.parametrize(
    ("depends", "about"), [({"seed": 1}, {"block": 1}), ({"seed": 0}, {"block": 2})]
)
def test_a_part_of_other_settings_is_made_anew(tmp_path, depends, about):
    FinishedParts(tmp_path, {"seed": 0}).part({"block": 1}, lambda: 1)
    assert FinishedParts(tmp_path, depends).part(about, lambda: 2) == 2


def test_numbers_return_as_they_were_whether_kept_or_not(tmp_path):
    made = [0.1 + 0.2, 1e-300, math.pi, -math.inf, 7]
    for parts in (NOTHING_FINISHED, FinishedParts(tmp_path, {})):
        assert parts.part("numbers", lambda: tuple(made)) == made
    assert math.isnan(NOTHING_FINISHED.part("number", lambda: math.nan))


def test_a_damaged_part_is_named(tmp_path):
    parts = FinishedParts(tmp_path, {})
    parts.part("part", lambda: [1, 2])
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:3])
    with pytest.raises(ValueError, match=f"{path.name} is damaged: .*; remove it"):
        parts.part("part", never)


def test_a_part_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(AssertionError, match="made twice"):
        FinishedParts(tmp_path, {}).part("part", never)
    assert list(tmp_path.iterdir()) == []
