"""What the experiment's settings repeat of `hosm`, without importing it, agrees with it."""

from dataclasses import fields
from typing import get_args

import pytest
from pydantic import ValidationError

from hosm.cli.arguments import parser
from hosm.experiment.settings import ModelParams, model
from hosm.experiment.train.training_task import training_settings
from hosm.objectives import TARGETS
from hosm.training import Settings

NEEDED = {"batch_size": 8, "learning_rate": 1e-3, "max_steps": 9, "validate_every": 3}
NEEDED |= {"average_width": 0.2, "sigma": 0.5}


def test_targets_and_what_they_need_are_those_of_the_registry():
    psd = tuple(target.name for target in TARGETS.values() if target.psd)
    anyone = tuple(name for name in TARGETS if name not in psd)
    assert get_args(model.SecondOrder) == anyone and psd == model.NEEDS_PSD
    assert get_args(model.TargetName) == (*anyone, *psd, "dsm", "dsm-vr")
    for name, target in TARGETS.items():
        assert model.SIGMA_POWERS.get(name, 4) == target.sigma_power
    for name in anyone:
        assert parser().parse_args(["fit", "x", "-o", "m", "--target", name]).target == name


def params(**changes):
    backbone = {"kind": "mlp", "shared": True}
    return ModelParams(backbone=backbone, rank=1, regime="finite", **{**NEEDED, **changes})


def test_settings_of_training_have_the_same_names_and_defaults():
    names = {each.name for each in fields(Settings)}
    assert names - {"diagonal"} <= set(ModelParams.model_fields)
    assert training_settings(params()) == Settings(**NEEDED)


CHANGED = {"sigma": 0.25, "target": "moment", "variance_reduction": "control", "gamma": 2.0}
CHANGED |= {"orthogonal_noise": True, "second_order_share": 0.5, "learning_rate": 0.1}
CHANGED |= {"weight_decay": 3.0, "batch_size": 7, "max_steps": 11, "average_width": 0.1}
CHANGED |= {"clip_norm": 1.5, "validate_every": 2, "patience": 4, "seed": 6}
CHANGED |= {"optimizer": "muon", "accumulate": 3, "compiled": True, "channels_last": True}
CHANGED |= {"prefetch": 2}


def test_every_setting_reaches_training():
    assert set(CHANGED) == {each.name for each in fields(Settings)} - {"diagonal"}
    for name, value in CHANGED.items():
        assert getattr(training_settings(params(**{name: value})), name) == value


OUT_OF_RANGE = {"sigma": 0.0, "target": "best", "gamma": -1.0, "second_order_share": 1.5}
OUT_OF_RANGE |= {"learning_rate": 0.0, "weight_decay": -1.0, "batch_size": 0, "max_steps": 0}
OUT_OF_RANGE |= {
    "optimizer": "sgd",
    "average_width": 0.29,
    "validate_every": 0,
    "clip_norm": -1.0,
    "patience": -1,
    "accumulate": 9,
    "prefetch": -1,
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_what_training_refuses_is_refused_when_the_file_is_read(name):
    with pytest.raises(ValueError, match=name):
        Settings(**{**NEEDED, name: OUT_OF_RANGE[name]})
    with pytest.raises(ValidationError, match=name):
        params(**{name: OUT_OF_RANGE[name]})
