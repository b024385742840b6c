"""Score models by their settings: built, saved as safetensors with a JSON card, loaded again.

A saved model is a folder with `model.safetensors` (the averaged weights) and `card.json`
(architecture, sigma, data hash, code version, signature). Nothing in it is executed on loading.
"""

import importlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from hosm import __version__
from hosm.experiment.settings import Backbone, ModelParams, check_rank
from hosm.experiment.train.weights import read_weights, write_weights
from hosm.networks import MLP, ConditionalMLP, parameter_count
from hosm.scores import ScoreModel, outputs_per_coordinate

__all__ = ["build_backbone", "build_heads", "build_model", "folders", "load_model", "save_model"]


def build_backbone(
    spec: Backbone, shape: Sequence[int], outputs: int, width: int, conditional: bool = False
) -> nn.Module:
    """Build one backbone for samples of a shape: (D,) or (channels, height, width).

    Args:
        spec: its settings.
        shape: of a sample.
        outputs: numbers for each coordinate.
        width: units of an MLP's hidden layers.
        conditional: whether it is told the noise scale.
    """
    if spec.kind == "mlp" and conditional:
        return ConditionalMLP(math.prod(shape), outputs, width, spec.depth)
    if spec.kind == "mlp":
        features: dict[str, Any] = {"frequencies": spec.frequencies, "bandwidth": spec.bandwidth}
        return MLP(math.prod(shape), outputs, width, spec.depth, skip=spec.skip, **features)
    if len(shape) != 3:
        raise ValueError(f"a unet needs samples (channels, height, width), got {tuple(shape)}")
    unet = importlib.import_module("hosm.networks.unet")  # its library takes seconds to import
    options: dict[str, Any] = {"head": spec.head, "conditional": conditional}
    options |= {name: getattr(spec, name) for name in ("blocks", "attention", "dropout")}
    return unet.UNet(tuple(shape), outputs, spec.channels, **options)


def build_model(spec: ModelParams, shape: Sequence[int], data_std: float) -> ScoreModel:
    """Build an untrained score model.

    Args:
        spec: its settings; the weights depend on `spec.seed`.
        shape: shape of a sample, (D,) or (channels, height, width).
        data_std: standard deviation of the clean data.

    Raises:
        ValueError: the rank exceeds D, or a unet for data that are not images.
    """
    check_rank(spec.rank, math.prod(shape))
    state = torch.get_rng_state()
    torch.manual_seed(spec.seed)
    extra = 0 if spec.first_order else outputs_per_coordinate(spec.rank)
    shared = spec.backbone.shared or spec.first_order
    ranged, width = isinstance(spec.sigma, tuple), spec.backbone.width
    trunk = build_backbone(spec.backbone, shape, 1 + (extra if shared else 0), width, ranged)
    width = spec.backbone.second_width or width
    plain = spec.backbone.model_copy(update={"skip": False})  # the skip is of s1
    second = None if shared else build_backbone(plain, shape, extra, width, ranged)
    torch.set_rng_state(state)
    return ScoreModel(
        trunk,
        second,
        sigma=spec.sigma,
        rank=spec.rank,
        parametrisation=spec.parametrisation,
        psd=spec.psd,
        data_std=data_std,
        autocast=spec.backbone.autocast,
    )


def build_heads(
    spec: ModelParams,
    shape: Sequence[int],
    data_std: float,
    ranks: Sequence[int],
    weights: dict[str, Any],
) -> nn.ModuleDict:
    """Build untrained heads of several ranks on one learned s1; names are ranks as text.

    Heads as wide as s1's own network begin as its hidden layers, which already tell the modes of
    the data apart.

    Args:
        spec: settings of the heads.
        shape: shape of a sample, (D,).
        data_std: standard deviation of the clean data.
        ranks: of each head; 0 for a diagonal one.
        weights: of the first-order model, tensors or arrays.
    """
    apart = spec.backbone.model_copy(update={"shared": False})
    first = spec.model_copy(update={"target": "dsm"})
    trunk = build_model(first, shape, data_std)
    trunk.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()})
    models = {}
    for rank in ranks:
        own = spec.model_copy(update={"backbone": apart, "rank": rank})
        models[str(rank)] = model = build_model(own, shape, data_std)
        model.trunk = trunk.trunk
        if apart.kind == "mlp" and apart.second_width in (0, apart.width):
            model.second.begin_as(trunk.trunk)  # type: ignore[operator, union-attr]
    return nn.ModuleDict(models)


def save_model(
    weights: dict[str, Tensor],
    spec: ModelParams,
    shape: Sequence[int],
    data_std: float,
    folder: Path,
    **facts: Any,  # noqa: ANN401
) -> None:
    """Write a model's folder whole or not at all.

    Args:
        weights: state dict of the model.
        spec: its settings.
        shape: shape of a sample.
        data_std: standard deviation of the clean data.
        folder: where to; what is there is replaced.
        facts: further entries of the card, such as the data hash.
    """
    dimension = math.prod(shape)
    card = {
        "settings": spec.model_dump(mode="json"),
        "shape": list(shape),
        "data_std": data_std,
        "parameters": parameter_count(build_model(spec, shape, data_std)),
        "version": __version__,
        "signature": {
            "inputs": [{"name": "x_noisy", "dtype": "float32", "shape": [-1, dimension]}],
            "outputs": [
                {"name": "s1", "dtype": "float32", "shape": [-1, dimension]},
                {"name": "alpha", "dtype": "float32", "shape": [-1, dimension]},
                {"name": "beta", "dtype": "float32", "shape": [-1, dimension, spec.rank]},
            ],
        },
        **facts,
    }
    write_weights(weights, card, folder)


def folders(place: Path) -> list[Path]:
    """Return the folders of the models that a stage saved side by side, by name.

    Args:
        place: where they lie.

    Raises:
        ValueError: there are none.
    """
    found = sorted(folder for folder in place.glob("*/") if not folder.name.startswith("."))
    if not found:
        raise ValueError(f"{place} holds no models; run the stage that trains them")
    return found


def load_model(folder: Path) -> tuple[ScoreModel, dict[str, Any]]:
    """Return a saved model, in evaluation mode, and its card.

    Args:
        folder: as written by `save_model`.

    Raises:
        ValueError: the folder is incomplete or damaged, or its weights do not fit its card.
    """
    weights, card = read_weights(folder)
    try:
        spec, shape, std = ModelParams(**card["settings"]), card["shape"], card["data_std"]
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, ("settings", *first["loc"])))
        reason = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{folder}/card.json: {where}: {reason}") from error
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder} holds no complete model: {error}") from error
    model = build_model(spec, shape, std)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(f"the weights in {folder} do not fit its card: {reason}") from error
    return model.eval(), card
