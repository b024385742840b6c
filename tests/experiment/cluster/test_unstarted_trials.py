"""A trial that Ray never began ends the grid in one line, as any other that fails."""

from types import SimpleNamespace

import pytest

from hosm.experiment.cluster import tune
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
