"""A trial that Ray never began ends the grid in one line, as any other that fails."""

from types import SimpleNamespace

import pytest

from hosm.experiment.cluster import tune
from hosm.experiment.cluster.worker import why
from hosm.experiment.run.process import StageError


def test_a_trial_that_never_began_is_named(monkeypatch):
    cells = [{"dataset": "ring6", "seed": 0}, {"dataset": "ring6", "seed": 1}]
    results = [
        SimpleNamespace(metrics={"tables": '{"trials": "[{}]"}'}, error=None, config={}),
        SimpleNamespace(metrics=None, error=RuntimeError("the actor never ran"), config=None),
    ]
    fitted = SimpleNamespace(fit=lambda: results)
    monkeypatch.setattr(tune, "_tuner", lambda grid, name: fitted)
    grid = SimpleNamespace(cells=cells, show=str)
    with pytest.raises(StageError) as failed:
        tune.run_grid(grid, "sweep", lambda *_: None)
    said = "1 of 2 trials failed: ring6 seed 1 (the actor never ran)"
    assert str(failed.value) == said


def test_what_a_head_cancels_that_cannot_ask_back_names_the_mode_of_both_sides():
    """In the words of Ray where the process takes a token and the head sends none."""
    said = (
        "The actor died unexpectedly before finishing this task.\n\tclass_name: Trial\n"
        "The actor is dead because all references to the actor were removed including lineage ref "
        "count.\nThe actor never ran - it was cancelled before it started running."
    )
    assert why(RuntimeError(said)).endswith("where RAY_AUTH_MODE is not the same on both sides")
    assert why(RuntimeError("The actor never ran: lost")) == "The actor never ran: lost"
