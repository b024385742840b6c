"""Evaluation on top of the library: table 1, table 2, mixing, denoising, saved models."""

import json
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
import torch

from hosm.experiment.accuracy.study import errors as accuracy
from hosm.experiment.data.datasets import law
from hosm.experiment.settings import (
    Backbone,
    ModelParams,
    SettingsError,
)
from hosm.experiment.train.models import build_heads, build_model, load_model, save_model
from hosm.experiment.train.training_task import training_settings
from hosm.operators import DiagonalPlusLowRank
from hosm.training import Settings
from tests.tolerances import FLOAT32, monte_carlo


def spec(**changes):
    base = {
        "backbone": Backbone(kind="mlp", shared=False, width=16, second_width=8),
        "sigma": 0.5,
        "rank": 2,
        "learning_rate": 1e-3,
        "batch_size": 8,
        "max_steps": 1,
        "average_width": 0.0,
        "validate_every": 1,
    }
    return ModelParams(**{**base, **changes})


# Accuracy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [15, 20, 30])
def test_rank_floor_of_gaussian100_is_the_known_one(rank):
    floor = 0.352 * (35 - rank)  # 2 p^2 = .352000 to six digits
    assert accuracy.rank_floor("gaussian100", rank) == pytest.approx(floor, rel=1e-5)  # as said


def test_constant_predictor_of_logistic50_scores_about_18():
    generator = torch.Generator().manual_seed(0)
    train, test = (law("logistic50").sample(3000, generator).numpy() for _ in range(2))
    found = accuracy.constant_error("logistic50", train, test, True)
    # three digits, and the error of a mean over 3,000 points, each with the spread 2.7
    assert found == pytest.approx(17.8, abs=0.05 + monte_carlo(3000, 2.7))


class Exact(torch.nn.Module):
    """A model that knows the law and adds one offset to s2 and another to the score's slope."""

    def __init__(self, exact, offset, slope):
        super().__init__()
        self.exact, self.offset, self.slope = exact, offset, slope

    def score(self, x):
        return self.exact.score(x) + self.slope * x

    def second_order(self, x):
        return DiagonalPlusLowRank.from_diagonal(self.exact.hessian_diag(x) + self.offset)


def test_errors_are_summed_over_entries_and_averaged_over_points():
    exact = law("logistic50")
    test = exact.sample(600, torch.Generator().manual_seed(0)).numpy()
    model = Exact(exact, 0.1, 0.2)
    second = accuracy.s2_error(model, "logistic50", test, diagonal=True)
    assert second == pytest.approx(50 * 0.01, rel=FLOAT32["rtol"])
    by_autodiff = accuracy.autodiff_error(model, "logistic50", test, diagonal=True)
    assert by_autodiff == pytest.approx(50 * 0.04, rel=FLOAT32["rtol"])
    by_probes = accuracy.hutchinson_error(model, "logistic50", test)
    # the noise of 10 probes adds to it
    assert (1 - FLOAT32["rtol"]) * by_autodiff < by_probes < 2 * by_autodiff
    first = accuracy.s1_error(model, "logistic50", test)
    assert first == pytest.approx(0.04 * np.square(test).sum(1).mean(), rel=FLOAT32["rtol"])


TABLE1 = {"moment": (2.0, 4.0), "jacobian": (1.8, 1.8), "joint-moment": (2.5, 2.5)}


def test_table1_pools_seeds_and_sets_the_papers_value_beside():
    rows = [
        {"dataset": "gaussian100", "regime": "streaming", "sigma": 0.05, "target": target}
        | {"rank": 30, "seed": seed, "s2_error": error, "autodiff_error": 9.0, "seconds": 1.0}
        | {"steps": 10}
        for target, errors in TABLE1.items()
        for seed, error in enumerate(errors)
    ]
    table = accuracy.table1(pd.DataFrame(rows)).set_index("method")
    assert table.loc["s2, moment", "mean"] == 3.0
    assert table.loc["s2, moment", "standard_error"] == pytest.approx(1.0)
    assert table.loc["s2, moment", "paper"] == 2.05
    assert np.isnan(table.loc["s2, jacobian", "paper"])
    assert table.loc["s2, joint moment", "paper"] == 2.05
    assert table.loc["autodiff, joint moment", "mean"] == 9.0
    assert not [method for method in table.index if method.startswith("Hutchinson")]
    assert "autodiff, jacobian" not in table.index  # heads share the s1 of DSM-VR
    numbers = accuracy.headline(accuracy.table1(pd.DataFrame(rows)))
    assert numbers["gaussian100.streaming.sigma0.05.s2_jacobian_r30"] == pytest.approx(1.8)


def test_cost_counts_heads_of_all_ranks_once_and_without_their_score():
    trial = {"dataset": "g", "regime": "finite", "sigma": 0.1, "seed": 0}
    seconds = {("dsm-vr", 0): 10.0, ("jacobian", 15): 14.0, ("jacobian", 20): 14.0}
    seconds |= {("joint-moment", 15): 30.0, ("joint-moment", 20): 40.0}
    rows = [
        {**trial, "target": target, "rank": rank, "seconds": value}
        for (target, rank), value in seconds.items()
    ]
    cost = accuracy.training_cost(pd.DataFrame(rows)).set_index("target")
    assert cost["seconds"].to_dict() == {"dsm-vr": 10.0, "jacobian": 4.0, "joint-moment": 70.0}
    assert cost["fits"].to_dict() == {"dsm-vr": 1, "jacobian": 1, "joint-moment": 2}


def test_curves_are_kept_at_the_middle_sigma_and_the_largest_rank():
    rows = [
        {"dataset": "g", "regime": "finite", "sigma": sigma, "rank": rank, "error": 1.0}
        for sigma in (0.01, 0.05, 0.1)
        for rank in (0, 15, 30)
    ]
    kept = accuracy.middle_curves(pd.DataFrame(rows))
    assert set(kept["sigma"]) == {0.05} and list(kept["rank"]) == [0, 30]


# Tasks -----------------------------------------------------------------------------------------


def test_every_setting_of_a_model_reaches_the_training_loop():
    """A field that both know is taken over; each is given a value that is not its default."""
    values = {"sigma": 0.3, "target": "residual", "variance_reduction": "control", "gamma": 2.0}
    values |= {"orthogonal_noise": True, "second_order_share": 0.5, "seed": 4}
    values |= {"learning_rate": 0.1, "weight_decay": 3.0, "batch_size": 7, "max_steps": 9}
    values |= {"average_width": 0.2, "clip_norm": 5.0, "validate_every": 2, "patience": 6}
    values |= {"optimizer": "muon", "accumulate": 3, "compiled": True, "channels_last": True}
    values |= {"prefetch": 2}
    chosen = training_settings(spec(**values, regime="finite"))
    shared = {field.name for field in fields(Settings)} - {"diagonal"}
    assert shared == set(values)
    assert {name: getattr(chosen, name) for name in shared} == values
    default = Settings(sigma=1.0)
    assert all(getattr(default, name) != value for name, value in values.items())
    assert training_settings(spec(**values)).patience is None  # fresh draws need no early stop
    assert training_settings(spec(rank=0)).diagonal and not chosen.diagonal


# Models ----------------------------------------------------------------------------------------


def test_a_saved_model_is_the_model(tmp_path):
    model = build_model(spec(), (5,), 1.3)
    save_model(model.state_dict(), spec(), (5,), 1.3, tmp_path / "m", data_sha256="abc")
    loaded, card = load_model(tmp_path / "m")
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(loaded(x)[1].to_dense(), model(x)[1].to_dense())
    assert card["data_sha256"] == "abc" and card["signature"]["inputs"][0]["shape"] == [-1, 5]


def test_a_linear_skip_belongs_to_s1_alone():
    backbone = Backbone(kind="mlp", shared=False, width=16, skip=True)
    first = build_model(spec(backbone=backbone, target="dsm-vr"), (5,), 1.0)
    assert first.trunk.skip is not None
    assert build_model(spec(), (5,), 1.0).trunk.skip is None
    assert build_model(spec(backbone=backbone), (5,), 1.0).second.skip is None
    heads = build_heads(spec(backbone=backbone), (5,), 1.0, (1, 2), first.state_dict())
    assert all(model.trunk.skip is not None for model in heads.values())
    assert all(model.second.skip is None for model in heads.values())


def test_damaged_models_and_impossible_ranks_are_named(tmp_path):
    with pytest.raises(ValueError, match="holds no complete model"):
        load_model(tmp_path)
    model = build_model(spec(), (5,), 1.0)
    save_model(model.state_dict(), spec(), (5,), 1.0, tmp_path / "m")
    card = json.loads((tmp_path / "m" / "card.json").read_text())
    card["settings"]["backbone"]["width"] = 17
    (tmp_path / "m" / "card.json").write_text(json.dumps(card))
    with pytest.raises(ValueError, match="do not fit its card"):
        load_model(tmp_path / "m")
    with pytest.raises(SettingsError, match=r"rank must lie in \[0, 5\] for these data, got 6"):
        build_model(spec(rank=6), (5,), 1.0)


def test_building_is_reproducible_and_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    first, second = (build_model(spec(), (5,), 1.0).state_dict() for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(first[name], second[name]) for name in first)
