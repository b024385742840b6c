"""What the page says of the machine on which times were measured."""

import pandas as pd
import pytest

from hosm.experiment.presenting.timing import machine_note, marked

TIMES = pd.DataFrame(
    {
        "others": [0.02, 0.04],
        "stolen": [0.0, 0.01],
        "threads": [1, 1],
        "megahertz": [2600.0, 2600.4],
        "machine": ["2 cores of a processor, no GPU"] * 2,
        "left_out": [0, 2],
    }
)


def test_a_time_is_marked_only_if_the_machine_was_busy():
    quiet, busy = {"others": 0.1, "stolen": 0.05}, {"others": 0.11, "stolen": 0.0}
    assert marked("5.5×", quiet) == "5.5×"
    assert marked("5.5×", quiet, busy) == "5.5× (busy machine)"
    assert marked("5.5×", {"others": 0.0, "stolen": 0.06}) == "5.5× (busy machine)"


@pytest.mark.parametrize("row", [{}, {"others": float("nan"), "stolen": float("nan")}])
def test_what_is_unknown_is_not_marked(row):
    assert marked("5.5×", row) == "5.5×"


def test_the_note_names_machine_threads_and_load():
    assert machine_note(TIMES) == (
        "Timed on 2 cores of a processor, no GPU, 1 thread, 2,600 MHz. Meanwhile other processes "
        "used at most 4% of the cores, and the host of the machine kept at most 1%. Up to 2 "
        "disturbed rounds are left out."
    )


def test_the_note_says_that_a_busy_machine_measures_nothing():
    note = machine_note(TIMES.assign(others=[0.02, 0.5], megahertz=float("nan"), left_out=0))
    assert "50% of the cores" in note and "MHz" not in note
    assert note.endswith("Times marked as of a busy machine are no measure of the method.")


def test_results_of_before_have_an_unknown_load():
    unknown = "What other processes did while this was timed is unknown."
    assert machine_note(TIMES[["threads"]]) == unknown
    assert machine_note(TIMES.assign(others=float("nan"))) == unknown
