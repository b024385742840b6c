"""A trial of table 1: every estimate once, one s1 for all heads, and no work done twice."""

import copy
import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from hosm.experiment.accuracy.study.budgets import budgets
from hosm.experiment.accuracy.study.errors import autodiff_error, s2_error, table1
from hosm.experiment.accuracy.study.sweep import _frames, run_sweep
from hosm.experiment.accuracy.study.trial import (
    BEGAN,
    DIVERGED,
    ENDED,
    SweepInputs,
    run_trial,
    task_of,
)
from hosm.experiment.data import datasets
from hosm.experiment.settings import ClusterParams, SettingsError, SweepParams
from hosm.experiment.train.training_task import train_here

ERRORS = ("s1_error", "autodiff_error", "s2_error", "validation_dsm", "validation_second")


def sweep(**changes):
    backbone = {"kind": "mlp", "width": 16, "shared": False}
    model = {"backbone": backbone, "learning_rate": 1e-2, "batch_size": 32, "average_width": 0.1}
    model |= {
        "max_steps": 20,
        "validate_every": 10,
        "jacobian": {"max_steps": 10},
        "dsm": {},
        "plain": {"backbone": {"kind": "mlp", "width": 12, "shared": False}},
        "joint": {},
    }
    base = {
        "datasets": ("gaussian2",),
        "sigmas": (0.1,),
        "ranks": (1, 2),
        "targets": ("jacobian", "moment"),
        "joint": ("moment",),
        "regimes": ("streaming",),
        "seeds": (0,),
        "workers_per_trial": 1,
        "cpus_per_worker": 1,
        "max_concurrent": 0,
        "test_points": 50,
        "models": {"gaussian2": model},
    }
    return SweepParams(**{**base, **changes})


def inputs(**changes):
    sizes = {"train_points": 200, "validation_points": 50, "test_points": 60}
    data = datasets.prepare("gaussian2", seed=0, **sizes)
    arrays = {split: getattr(data, split) for split in ("train", "validation", "test")}
    every = {"gaussian2": {**arrays, "std": data.card["std"]}}
    return SweepInputs(every, sweep(**changes))


def cluster():
    return ClusterParams(
        workers=1,
        use_gpu=False,
        backend="auto",
        cpus_per_worker=1,
        local_cpus=2,
        object_store_mb=100,
        max_failures=0,
        checkpoint_every=0,
        checkpoints_kept=2,
    )


def train(task, report, state):
    return train_here(task, report=report, state=state)


def timeless(rows):
    return [{k: v for k, v in row.items() if k not in ("seconds", BEGAN, ENDED)} for row in rows]


def test_every_estimate_of_the_grid_comes_from_one_trial():
    given = inputs()
    grid = given.sweep.grid()
    assert [(c["target"], c["rank"]) for c in grid] == [
        ("dsm-vr", 0),
        ("dsm", 0),
        ("plain", 0),
        ("joint-moment", 1),
        ("joint-moment", 2),
    ]
    for cell in grid:
        rows, curves = run_trial(given, cell, train)
        expected = given.sweep.estimates(cell)
        assert [{key: row[key] for key in cell} for row in rows] == expected
        assert {(p["target"], p["rank"]) for p in curves} == {
            (row["target"], row["rank"]) for row in rows
        }
        for row in rows:
            assert row[BEGAN] <= row[ENDED]
            assert np.isfinite([row[name] for name in ERRORS if name in row]).all()
            assert ("s2_error" in row) != (row["target"] in ("dsm", "dsm-vr", "plain"))


@pytest.mark.parametrize("regime", ["streaming", "finite"])
def test_diagonal_heads_of_few_rows_are_shrunk_too(regime):
    given = inputs(regimes=(regime,))
    given.sweep.models["gaussian2"]["rank"] = 0
    first, *heads = run_trial(given, given.sweep.grid()[0], train)[0]
    assert "shrunk_error" not in first
    for row in heads:
        assert ("shrunk_error" in row) == ("share" in row) == (regime == "finite")
        if regime == "finite":
            assert 0 <= row["share"] <= 1 and row["shrunk_error"] != row["s2_error"]
    methods = set(table1(pd.DataFrame([first, *heads]))["method"])
    assert ("s2, jacobian, shrunk" in methods) == (regime == "finite")


def test_a_plain_score_is_that_of_another_network_by_the_same_loss():
    given = inputs(regimes=("finite",))
    layers = given.sweep.models["gaussian2"]
    layers |= {"first": {"max_steps": 30}, "finite": {"weight_decay": 2.0, "batch_size": 16}}
    layers["plain-finite"] = {"weight_decay": 0.5}
    layers["backbone"]["skip"] = True
    first, plain = (
        given.sweep.model({**given.sweep.grid()[0], "target": target})
        for target in ("dsm-vr", "plain")
    )
    assert (first.backbone.width, first.backbone.skip) == (16, True)
    assert (plain.backbone.width, plain.backbone.skip) == (12, False)  # replaced, not merged
    assert plain.target == first.target == "dsm-vr"
    assert (first.weight_decay, plain.weight_decay) == (2.0, 0.5)
    assert (plain.max_steps, plain.batch_size) == (first.max_steps, first.batch_size) == (30, 16)
    assert given.sweep.kinds({"regime": "streaming", "target": "plain"}) == ("first", "plain")


def test_heads_of_all_targets_share_their_budget():
    given = sweep()
    layers = given.models["gaussian2"]
    layers |= {"heads": {"max_steps": 40, "batch_size": 8}, "moment": {"learning_rate": 1e-3}}
    cells = given.estimates(given.grid()[0])[1:]
    found = {(c["target"], given.model(c).max_steps, given.model(c).batch_size) for c in cells}
    assert found == {("jacobian", 10, 8), ("moment", 40, 8)}  # its own prevails
    assert {given.model(c).learning_rate for c in cells if c["target"] == "moment"} == {1e-3}
    rows = budgets(given)
    assert list(rows["target"]) == ["dsm-vr", "jacobian", "moment", "dsm", "plain", "joint-moment"]
    (moment,) = rows[rows["target"] == "moment"].to_dict("records")
    assert (moment["points"], moment["patience"], moment["learning_rate"]) == (320, 0, 1e-3)


def test_heads_share_one_score_and_count_its_time():
    rows, curves = run_trial(inputs(), inputs().sweep.grid()[0], train)
    first = rows[0]
    for row in rows[1:]:
        assert row["autodiff_error"] == first["autodiff_error"]
        assert row["seconds"] > first["seconds"]
        of_row = [p for p in curves if (p["target"], p["rank"]) == (row["target"], row["rank"])]
        assert first["seconds"] < of_row[0]["seconds"] <= of_row[-1]["seconds"] == row["seconds"]
        assert [p["step"] for p in of_row][-1] == row["steps"]


def test_errors_are_those_of_the_trained_models():
    """With no more test points than a curve takes, its end is the row's error."""
    rows, curves = run_trial(inputs(), inputs().sweep.grid()[0], train)
    for row in rows:
        end = [p for p in curves if (p["target"], p["rank"]) == (row["target"], row["rank"])][-1]
        assert end["error"] == pytest.approx(row.get("s2_error", row["autodiff_error"]))


@pytest.mark.parametrize("every", [7, 10])
@pytest.mark.parametrize("place", [0, 1, 2, 4, 6])
def test_an_interrupted_trial_ends_like_one_that_was_not(place, every):
    """Whether it was at a validation or between two, every 7th step."""
    given, trained = inputs(), []

    def train(task, report, state):
        due = lambda step: step % every == 0  # noqa: E731
        return train_here(task, report=report, due=due, state=state)

    cell = given.sweep.grid()[0]
    states = []
    whole = run_trial(given, cell, train, lambda state: states.append(copy.deepcopy(state)))
    finished = set(states[place]["done"])

    def watched(task, report, state):
        trained.append(task.spec.target)
        return train(task, report, state)

    again = run_trial(given, cell, watched, state=states[place])
    for one, other in zip(whole, again, strict=True):
        assert timeless(one) == timeless(other)
    assert again[0][0][BEGAN] == whole[0][0][BEGAN]  # of the training of s1, before the stop
    assert not set(trained) & finished


def test_a_fit_that_diverges_leaves_the_others_and_is_not_tried_again():
    wild = {"learning_rate": 1e30}
    model = inputs().sweep.models["gaussian2"]
    given = inputs(models={"gaussian2": {**model, "moment": wild}})
    cell, states, trained = given.sweep.grid()[0], [], []
    whole, plain = run_trial(given, cell, train, states.append), run_trial(inputs(), cell, train)
    rows, curves = whole
    lost = [row for row in rows if DIVERGED in row]
    assert [(row["target"], row["rank"]) for row in lost] == [("moment", 1), ("moment", 2)]
    assert all("diverged at step 10" in row[DIVERGED] and "s2_error" not in row for row in lost)
    assert [{key: row[key] for key in cell} for row in rows] == given.sweep.estimates(cell)
    kept = [row for row in plain[0] if row["target"] != "moment"]
    assert timeless([row for row in rows if DIVERGED not in row]) == timeless(kept)
    assert {point["target"] for point in curves} == {"dsm-vr", "jacobian"}
    again = run_trial(given, cell, lambda task, *_: trained.append(task), state=states[-1])
    assert timeless(again[0]) == timeless(rows) and not trained


def test_each_estimate_is_told_with_its_row_and_the_curve_of_its_own_training(monkeypatch):
    """Trials run one after another, without Ray."""

    def run_grid(grid, name, tell):
        found = []
        for cell in grid.cells:
            found.append(grid.trial(cell, train, lambda state, name: None, None))
            tell(cell, found[-1], "FINISHED")
        return found

    monkeypatch.setattr("hosm.experiment.accuracy.study.sweep.run_grid", run_grid)
    told = []
    trials, curves, _ = run_sweep(inputs(), cluster(), "/nowhere", "sweep", told.append)
    assert len(told) == len(trials)
    for each in told:
        assert each.status == "FINISHED" and each.curve
        for row in (each.row, *each.curve):
            assert {key: row[key] for key in each.cell} == each.cell
    assert sum(len(each.curve) for each in told) == len(curves)


def test_tables_of_the_sweep_do_not_depend_on_the_hour():
    rows, curves = run_trial(inputs(), inputs().sweep.grid()[0], train)
    assert BEGAN in rows[0]
    for frame in _frames(rows, curves):
        assert not {BEGAN, ENDED} & set(frame.columns)


def test_heads_of_an_s1_that_diverges_are_lost_with_it():
    model = inputs().sweep.models["gaussian2"]
    given = inputs(models={"gaussian2": {**model, "first": {"learning_rate": 1e30}}})
    rows, curves = run_trial(given, given.sweep.grid()[0], train)
    assert [row[DIVERGED] == "its s1 diverged" for row in rows] == [False] + 4 * [True]
    assert not curves


def test_heads_as_wide_as_the_score_begin_as_its_hidden_layers():
    given = inputs()
    cell = given.sweep.grid()[0]
    first = train_here(task_of(given, cell, {})).weights
    arrays = {name: value.numpy() for name, value in first.items()}
    heads = task_of(given, {**cell, "target": "jacobian"}, arrays).build()
    layers = ("0.weight", "0.bias", "2.weight", "2.bias")
    for model, name in itertools.product(heads.values(), layers):
        assert torch.equal(model.second.layers.state_dict()[name], first[f"trunk.layers.{name}"])
    assert len({id(model.trunk) for model in heads.values()}) == 1


def test_a_model_without_a_second_order_has_no_second_order_error():
    given = inputs()
    model = task_of(given, given.sweep.grid()[0], {}).build()
    test = given.arrays["gaussian2"]["test"]
    assert autodiff_error(model, "gaussian2", test, False) > 0
    with pytest.raises(ValueError, match="must have a second-order score"):
        s2_error(model, "gaussian2", test, False)


@pytest.mark.parametrize("joint", [("moment",), ()])
def test_a_rank_that_the_data_cannot_have_is_named_before_anything_runs(joint):
    """Of heads too, which are trained only once their s1 is learned."""
    given = inputs(ranks=(1, 3), joint=joint)
    with pytest.raises(SettingsError, match=r"rank must lie in \[0, 2\] for these data, got 3"):
        run_sweep(given, cluster(), "/nowhere", "never", lambda *_: pytest.fail("a trial ran"))
