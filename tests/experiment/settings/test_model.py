"""Settings of one model: what excludes what, and the models of one scale beside a range."""

import json
import math
from itertools import product
from pathlib import Path

import pytest
import torch
import yaml
from pydantic import ValidationError

from hosm.experiment.settings import ModelParams, SettingsError, load_params
from hosm.experiment.train.models import build_heads, build_model, folders, load_model, save_model
from hosm.experiment.train.training_task import training_settings
from hosm.networks import ConditionalMLP
from hosm.networks.unet import UNet
from hosm.training import JointObjective
from tests.tolerances import FLOAT32

ROOT = Path(__file__).resolve().parents[3]
SPEC = {
    "backbone": {"kind": "mlp", "width": 8, "shared": True},
    "sigma": [0.1, 1.0],
    "rank": 1,
    "parametrisation": "denoiser",
    "psd": True,
    "target": "likelihood",
    "variance_reduction": "none",
    "gamma": 400.0,
    "regime": "finite",
    "learning_rate": 4e-3,
    "batch_size": 16,
    "max_steps": 6,
    "average_width": 0.1,
    "validate_every": 3,
}


def spec(**changes):
    return ModelParams(**{**SPEC, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sigma": [1.0, 0.1]}, r"sigma must be \[low, high\] with low < high, got \[1.0, 0.1\]"),
        ({"sigma": [0.5, 0.5]}, "low < high"),
        ({"parametrisation": "score"}, "must be denoiser for a range of sigma"),
        ({"parametrisation": "score", "sigma": 0.5}, "or for psd, got score"),
        ({"psd": False}, "psd must be true for the target likelihood"),
        ({"backbone": {**SPEC["backbone"], "skip": True}}, "no skip and no frequencies"),
        ({"backbone": {**SPEC["backbone"], "frequencies": 4}}, "no skip and no frequencies"),
        ({"sigma": [0.1, -1.0]}, "greater than 0"),
        ({"target": "best"}, "likelihood"),
    ],
)
def test_options_that_exclude_each_other_are_named(changes, message):
    with pytest.raises(ValidationError, match=message):
        spec(**changes)


@pytest.mark.parametrize(("target", "power"), [("likelihood", 0), ("jacobian", 4)])
def test_a_model_of_one_scale_minimises_the_loss_of_the_range_at_that_scale(target, power):
    """Term by term, up to the factor sigma^power of both, for one batch."""
    whole, sigma = spec(target=target), 0.4
    alone = whole.at_scale(sigma, max_steps=7)
    assert (alone.sigma, alone.max_steps, alone.target) == (sigma, 7, target)
    generator = torch.Generator().manual_seed(0)
    x, z = torch.randn(2, 5, 3, generator=generator)
    v = torch.randint(0, 2, (5, 3), generator=generator) * 2.0 - 1
    model = build_model(whole, (3,), 1.3)
    t = torch.full((5,), math.log(sigma / 0.1) / math.log(10))
    ranged = JointObjective(model, training_settings(whole))(x, z, v, t)
    single = JointObjective(_OneScale(model, sigma), training_settings(alone))(x, z, v, t)
    total = whole.gamma * ranged[0] + ranged[1]
    other = (alone.gamma * single[0] + single[1]) * sigma**power
    torch.testing.assert_close(total, other, **FLOAT32)


class _OneScale(torch.nn.Module):
    """A model of a range in the place of one of a single scale."""

    psd = True

    def __init__(self, model, sigma):
        super().__init__()
        self.model, self.sigma = model, sigma

    def score(self, x):
        return self.model.score(x, self.sigma)

    def forward(self, x):
        return self.model(x, self.sigma)


@pytest.mark.parametrize("shared", [True, False])
def test_a_range_builds_conditional_backbones(shared):
    mlp = build_model(spec(backbone={**SPEC["backbone"], "shared": shared}), (3,), 1.0)
    assert isinstance(mlp.trunk, ConditionalMLP) and mlp.sigma == (0.1, 1.0)
    assert shared or isinstance(mlp.second, ConditionalMLP)
    net = {"kind": "unet", "channels": [8, 8, 8], "shared": shared}
    images = build_model(spec(backbone=net), (1, 8, 8), 1.0)
    assert isinstance(images.trunk, UNet) and images.trunk.conditional
    assert build_model(spec(backbone=net, sigma=0.3), (1, 8, 8), 1.0).trunk.conditional is False


def test_a_model_of_a_range_is_saved_and_loaded(tmp_path):
    model = build_model(spec(), (3,), 1.3)
    save_model(model.state_dict(), spec(), (3,), 1.3, tmp_path / "m", data="x")
    again, card = load_model(tmp_path / "m")
    assert card["settings"]["sigma"] == [0.1, 1.0] and again.sigma == (0.1, 1.0)
    x = torch.randn(4, 3)
    torch.testing.assert_close(again(x, 0.3)[0], model(x, 0.3)[0])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: (path / "model.safetensors").unlink(), "holds no complete model"),
        (
            lambda path: (path / "model.safetensors").write_bytes(b"torn"),
            "holds no complete model: .*header",
        ),
        (lambda path: _edited(path, lambda card: card.pop("shape")), "no complete model: 'shape'"),
        (
            lambda path: _edited(path, lambda card: card["settings"].update(psd=False)),
            "card.json: settings: psd must be true for the target likelihood, got false",
        ),
        (
            lambda path: _edited(path, lambda card: card["settings"].update(rank=2)),
            "the weights in .* do not fit its card",
        ),
    ],
)
def test_a_damaged_model_ends_in_a_line_that_names_it(tmp_path, spoil, message):
    save_model(build_model(spec(), (3,), 1.3).state_dict(), spec(), (3,), 1.3, tmp_path / "m")
    spoil(tmp_path / "m")
    with pytest.raises(ValueError, match=message):
        load_model(tmp_path / "m")


def _edited(path, change):
    card = json.loads((path / "card.json").read_text())
    change(card)
    (path / "card.json").write_text(json.dumps(card))


def test_models_side_by_side_are_found_by_name(tmp_path):
    for name in ("0.5", "0.3", ".half-written"):
        (tmp_path / "s" / name).mkdir(parents=True)
    assert [path.name for path in folders(tmp_path / "s")] == ["0.3", "0.5"]
    for place in ("none", "s/0.3"):
        with pytest.raises(ValueError, match="holds no models; run the stage"):
            folders(tmp_path / place)


def test_fourier_features_are_saved_and_shared_by_heads(tmp_path):
    network = {"kind": "mlp", "width": 8, "shared": False, "frequencies": 4}
    chosen = spec(sigma=0.3, backbone=network)
    model = build_model(chosen.model_copy(update={"target": "dsm"}), (2,), 1.0)
    heads = build_heads(chosen, (2,), 1.0, [0, 1], model.state_dict())
    for head in heads.values():
        assert torch.equal(head.second.frequencies, model.trunk.frequencies)
    first = chosen.model_copy(update={"target": "dsm"})
    save_model(model.state_dict(), first, (2,), 1.0, tmp_path / "m")
    x = torch.randn(4, 2)
    torch.testing.assert_close(load_model(tmp_path / "m")[0].score(x), model.score(x))


def written(tmp_path, change):
    raw = yaml.safe_load((ROOT / "params.yaml").read_text())
    change(raw)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(raw))
    return tmp_path / "params.yaml"


def test_models_of_one_scale_follow_the_model_of_the_range(tmp_path):
    both = ["equal steps", "equal total"]
    params = load_params(written(tmp_path, lambda raw: raw["scales"].update(budgets=both)))
    whole = params.trained("mnist5k")
    low, high = whole.sigma
    models = params.scales.models(whole, 4)
    steps = {"equal steps": whole.max_steps, "equal total": whole.max_steps // 4}
    for sigma, (budget, count) in product(params.scales.sigmas, steps.items()):
        label = f"{sigma:g}-{budget.replace(' ', '-')}"
        each = models.pop((label, f"one scale, {budget}"))
        assert (each.sigma, each.target, each.rank) == (sigma, whole.target, whole.rank)
        assert (each.max_steps, each.average_width) == (count, whole.average_width)
    assert all(low <= sigma <= high for sigma in params.uncertainty.sigmas)
    ((name, free),) = models.items()
    assert name == ("unconstrained", "unconstrained")
    assert (free.psd, free.target, free.parametrisation) == (False, "jacobian", "denoiser")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw.update(images=["mnist6k"]), "the model must be one of .*, got 'mnist6k'"),
        (
            lambda raw: raw["scales"]["unconstrained"].update(rnak=3),
            r"unknown key scales.unconstrained.rnak; known: .*rank",
        ),
        (
            lambda raw: raw["scales"]["unconstrained"].update(target="likelihood"),
            "scales.unconstrained.*psd must be true",
        ),
        (
            lambda raw: raw["denoising"]["model"].update(rank=-1),
            "denoising.model.rank must be at least 0, got -1",
        ),
        (
            lambda raw: raw["train"]["mnist5k"].update(sigma=[1.0, 0.1]),
            r"train.mnist5k.*sigma must be .*, got \[1.0, 0.1\]",
        ),
        (
            lambda raw: raw["uncertainty"].update(images=1),
            "uncertainty.images must be at least 2, got 1",
        ),
        (
            lambda raw: raw["uncertainty"].update(sigmas=[0.3, 2.0]),
            r"uncertainty must lie in \[0.1, 1.0\], the range of train.mnist5k, got 2.0",
        ),
        (
            lambda raw: raw["uncertainty"].update(direction_sigma=0.05),
            "range of train.mnist5k, got 0.05",
        ),
    ],
)
def test_bad_settings_of_denoisers_end_in_one_line(tmp_path, change, message):
    with pytest.raises(SettingsError, match=message) as error:
        load_params(written(tmp_path, change))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("profile", ["smoke", "laptop", "paper"])
def test_every_profile_has_its_denoisers(tmp_path, profile):
    def change(raw):
        raw.update(profile=profile, images=["mnist5k", "mnist", "cifar10"])

    params = load_params(written(tmp_path, change))
    for name in params.images:
        assert params.trained(name).sigma == (0.1, 1.0)
        assert params.scales.models(params.trained(name), len(params.uncertainty.sigmas))
    assert params.denoising.spec.sigma == 0.15
