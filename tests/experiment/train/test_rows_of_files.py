"""Training from rows of files: bit for bit as from memory, also from the middle of an epoch."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hosm.experiment.data.shards import ShardedRows, pack
from hosm.experiment.settings import Backbone, ModelParams
from hosm.experiment.train.training_task import TrainingTask, train_here

ROWS = np.random.default_rng(0).normal(size=(70, 2)).astype(np.float32)


def spec(**changes):
    base = {"sigma": 0.1, "rank": 1, "learning_rate": 1e-2, "batch_size": 16, "max_steps": 20}
    base |= {"average_width": 0.1, "validate_every": 10, "regime": "finite"}
    backbone = Backbone(kind="mlp", shared=False, width=8)
    return ModelParams(backbone=backbone, **{**base, **changes})


@pytest.fixture
def rows(tmp_path):
    pack([ROWS[:30], ROWS[30:]], tmp_path)
    return ShardedRows(tmp_path)


def task(train, **changes):
    return TrainingTask("two-modes", spec(**changes), (2,), 1.0, train, ROWS[:10])


def equal(one, other):
    return all(torch.equal(one.weights[name], other.weights[name]) for name in one.weights)


def test_training_is_that_from_memory(rows):
    one, other = train_here(task(rows)), train_here(task(ROWS))
    assert equal(one, other) and one.history == other.history


def test_a_run_goes_on_in_the_middle_of_an_epoch(rows):
    states = []
    whole = train_here(
        task(rows),
        due=lambda step: step == 6,  # of epochs of four steps
        report=lambda progress: states.append(progress.state()),
    )
    assert states[0]["step"] == 6
    assert equal(whole, train_here(task(rows), state=states[0]))


@pytest.mark.parametrize("changes", [{"regime": "streaming"}, {"flips": True}])
def test_rows_of_files_are_neither_drawn_anew_nor_turned(rows, changes):
    with pytest.raises(ValueError, match="rows of files need regime finite and flips false"):
        train_here(task(rows, **changes))


def test_files_that_change_make_another_run(rows, tmp_path):
    before = task(rows).fingerprint()
    assert task(ShardedRows(tmp_path)).fingerprint() == before
    assert task(ShardedRows(tmp_path, unit=2.0)).fingerprint() != before
    np.save(tmp_path / "000001.npy", ROWS[30:] + 1)
    assert task(ShardedRows(tmp_path)).fingerprint() != before
    assert task(ROWS).fingerprint() == ROWS.tobytes() + ROWS[:10].tobytes()
    assert replace(task(ROWS), first={"w": ROWS}).fingerprint() != task(ROWS).fingerprint()
