"""What the experiment's settings repeat of `hosm`, without importing it, agrees with it."""

from typing import get_args

from hosm.cli.arguments import parser
from hosm.experiment.settings import model
from hosm.objectives import TARGETS


def test_targets_and_what_they_need_are_those_of_the_registry():
    psd = tuple(target.name for target in TARGETS.values() if target.psd)
    anyone = tuple(name for name in TARGETS if name not in psd)
    assert get_args(model.SecondOrder) == anyone and psd == model.NEEDS_PSD
    assert get_args(model.TargetName) == (*anyone, *psd, "dsm", "dsm-vr")
    for name, target in TARGETS.items():
        assert model.SIGMA_POWERS.get(name, 4) == target.sigma_power
    for name in anyone:
        assert parser().parse_args(["fit", "x", "-o", "m", "--target", name]).target == name
