"""The registry of targets: one name, one entry, and nothing else to edit for a new one."""

import pytest
import torch
from torch import nn

from hosm.networks import MLP
from hosm.objectives import TARGETS, Target, joint_terms, register_target
from hosm.scores import ScoreModel
from hosm.training import HeadsObjective, Settings, fit

DATA = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def toy(request):
    """A target that no file knows: the squared distance of the diagonal of s2 from one."""

    def integrand(at):
        assert not request.param.get("product") or at.product.shape == at.v.shape == at.z.shape
        assert len(at.s2.diag) == (3 if request.param.get("whole_stencil") else 1) * len(at.z)
        return (at.s2.diagonal()[: len(at.z)] - 1).square().sum(1)

    target = register_target(Target(name="toy", integrand=integrand, **request.param))
    yield target
    del TARGETS["toy"]


def test_each_name_is_that_of_its_target_and_no_name_is_registered_twice():
    assert list(TARGETS) == ["jacobian", "residual", "moment", "likelihood"]
    assert all(target.name == name for name, target in TARGETS.items())
    for name in (*TARGETS, "dsm"):
        with pytest.raises(ValueError, match=f"a name of its own, got '{name}'"):
            register_target(Target(name=name, integrand=lambda at: at.z.sum(1)))
    assert list(TARGETS) == ["jacobian", "residual", "moment", "likelihood"]


NEEDS = [
    {"values": False},
    {"product": True},
    {"whole_stencil": True},
    {"whole_stencil": True, "product": True, "values": False},
]


@pytest.mark.parametrize("toy", NEEDS, indirect=True)
@pytest.mark.parametrize("heads", [False, True])
def test_a_target_that_is_registered_can_be_trained(toy, heads):
    torch.manual_seed(1)
    model = ScoreModel(MLP(3, 1, width=8), MLP(3, 2, width=8), sigma=0.5, rank=1)
    shared = {"sigma": 0.5, "target": toy.name, "batch_size": 32, "learning_rate": 1e-2}
    settings = Settings(**shared, max_steps=120, validate_every=20)
    options = {"objective": HeadsObjective} if heads else {}
    trained = nn.ModuleDict({"second": model}) if heads else model
    history = fit(trained, settings, lambda epoch: DATA, DATA, **options).history
    assert history[-1]["validation_second"] < 0.5 * history[0]["validation_second"]
    with pytest.raises(ValueError, match="one of jacobian, residual, moment, likelihood, toy"):
        Settings(sigma=0.5, target="toys")


@pytest.mark.parametrize("toy", [{"psd": True}, {"trains_heads": False}], indirect=True)
def test_what_a_target_needs_is_checked_by_name(toy):
    model = ScoreModel(MLP(3, 1, width=8), MLP(3, 2, width=8), sigma=0.5, rank=1)
    with pytest.raises(ValueError, match="psd=True for the target `toy`|trains heads, got toy"):
        HeadsObjective(nn.ModuleDict({"second": model}), Settings(sigma=0.5, target="toy"))
    if toy.psd:
        with pytest.raises(ValueError, match="psd=True for the target `toy`, got psd=False"):
            joint_terms(model, DATA, 0.5, "toy")
