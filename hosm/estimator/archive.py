"""A fitted model as one file: tensors as safetensors, all else as JSON in the file's header.

The file is written under another name and renamed when it is complete, so that a failure leaves
an earlier file as it was. Nothing in a file is executed when it is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from hosm import __version__
from hosm.distributions import GaussianMixture
from hosm.estimator.answers import FittedModel
from hosm.estimator.arrays import Scaling
from hosm.estimator.clean_law import CleanLaw
from hosm.estimator.closed_form import ClosedFormModel
from hosm.estimator.column_gain import ColumnGain
from hosm.estimator.features import ORDERS
from hosm.estimator.frozen_denoiser import frozen_model
from hosm.estimator.kernel_correction import Bumps
from hosm.estimator.local_dimension import kept_rows
from hosm.estimator.recipe import first_model, with_head
from hosm.io import of_a_saved_model, read_archive, write_archive
from hosm.scores import ScoreModel

__all__ = ["load_model", "save_model"]

PICTURES = "pictures"  # kind of the archives of `hosm.pictures`
LAW = ("weights", "means", "covariances")  # tensors of a mixture
CLEAN = ("values", "correlation")  # tensors of draws of clean rows, beside their mixture
GAIN = ("mean", "error")  # tensors of the gain by column
BUMPS = ("centres", "knots", "widths", "weights")  # tensors of the kernels
MODULES = ("backbone", "head", "denoiser")  # parameters that no file holds


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return a parameter as JSON can say it: numbers and arrays of NumPy as those of Python."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _listed(names: Iterable[str]) -> str:
    """Return names as an error gives them."""
    return ", ".join(names) or "no module"


def save_model(
    path: str | os.PathLike[str], fitted: FittedModel, parameters: dict[str, Any]
) -> None:
    """Write a fitted model, and the parameters of its estimator, into one file.

    The file does not hold the modules or the denoiser that were given, only the names of these
    parameters; nor the callback, the device, whether progress is shown, and a random_state that
    is not an integer.

    Args:
        path: the file; an earlier one is replaced.
        fitted: what the estimator has learned.
        parameters: arguments of the constructor of `hosm.ScoreEstimator`, by name.

    Raises:
        OSError: the folder is missing or cannot be written to.
    """
    given = [name for name in MODULES if parameters[name] is not None]
    left_out = {*MODULES, "callback", "device", "verbose"}
    if not isinstance(parameters["random_state"], Integral):
        left_out.add("random_state")
    facts, tensors = _packed(fitted)
    card = {
        "version": __version__,
        "parameters": {k: _plain(v) for k, v in parameters.items() if k not in left_out},
        "given": given,
        "model": facts,
        "sigma": fitted.sigma,
        "names": fitted.names,
        "search": [*fitted.search.items()],
        "history": fitted.history,
        "report": fitted.report,
    }
    scaling = fitted.scaling
    own = {"mean": scaling.mean, "scale": scaling.scale, "starts": fitted.starts}
    own["rows"] = fitted.rows
    write_archive(path, {**tensors, **own, "unseen": fitted.unseen}, card)


def _packed(fitted: FittedModel) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what a model is, and its tensors."""
    model = fitted.model
    if isinstance(model, ClosedFormModel):
        folds = [_packed_closed_form(each) for each in (model, *fitted.folds)]
        tensors = {
            f"law.{k}.{name}": value
            for k, (_, each) in enumerate(folds)
            for name, value in each.items()
        }
        if fitted.gain is not None:
            tensors |= {f"gain.{name}": getattr(fitted.gain, name) for name in GAIN}
        if fitted.clean is not None:
            tensors |= _packed_clean_law(fitted.clean)
        return {"closed_form": [facts for facts, _ in folds]}, tensors
    facts = {"sigma": model.sigma, "rank": model.rank, "data_std": model.data_std}
    return facts, {f"model.{name}": value for name, value in model.state_dict().items()}


def _packed_clean_law(clean: CleanLaw) -> dict[str, Tensor]:
    """Return the tensors of what draws of clean rows are made of."""
    mixture = {f"clean.mixture.{name}": getattr(clean.law, name) for name in LAW}
    return mixture | {f"clean.{name}": getattr(clean, name) for name in CLEAN}


def _unpacked_clean_law(tensors: dict[str, Tensor], device: str) -> CleanLaw | None:
    """Return what `_packed_clean_law` was given, if the tensors of a file hold it."""
    if "clean.values" not in tensors:
        return None
    law = GaussianMixture(*(tensors[f"clean.mixture.{name}"].to(device) for name in LAW))
    return CleanLaw(law, *(tensors[f"clean.{name}"] for name in CLEAN))


def _unpacked_gain(tensors: dict[str, Tensor]) -> ColumnGain | None:
    """Return the gain by column, if the tensors of a file hold it; older files do not."""
    if "gain.mean" not in tensors:
        return None
    return ColumnGain(*(tensors[f"gain.{name}"] for name in GAIN))


def _packed_closed_form(model: ClosedFormModel) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the numbers of a law in closed form, and its tensors."""
    law, bumps = model.law, model.bumps
    facts: dict[str, Any] = {"sigma": model.sigma, "rank": model.rank}
    tensors = {f"mixture.{name}": getattr(law, name) for name in LAW}
    if bumps is not None:
        facts |= {"width": bumps.width, "scale": bumps.scale}
        tensors |= {f"kernels.{name}": getattr(bumps, name) for name in BUMPS}
    return facts, tensors


def _unpacked_closed_form(facts: dict[str, Any], tensors: dict[str, Tensor]) -> ClosedFormModel:
    """Return what `_packed_closed_form` was given."""
    bumps = None
    if "width" in facts:
        parts = {name: tensors[f"kernels.{name}"] for name in BUMPS}
        bumps = Bumps(width=facts["width"], scale=facts["scale"], **parts)
    return ClosedFormModel(
        law=GaussianMixture(*(tensors[f"mixture.{name}"] for name in LAW)),
        bumps=bumps,
        sigma=facts["sigma"],
        rank=facts["rank"],
    )


def load_model(
    path: str | os.PathLike[str], device: str, modules: dict[str, Any]
) -> tuple[FittedModel, dict[str, Any]]:
    """Return what `save_model` wrote: the fitted model, and the parameters of its estimator.

    Args:
        path: the file; nothing in it is executed.
        device: the device that the networks are put on.
        modules: `backbone`, `head` and `denoiser`, each if and as it was given to the
            constructor; the file holds the weights of the first two.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged or of another kind, or does not fit the modules.
    """
    tensors, card = read_archive(path)
    if card.get("kind") == PICTURES:
        raise ValueError(
            f"{path} must hold a model of points, got a denoiser of pictures; `hosm denoise` and "
            "`hosm.PictureDenoiser.load` take it"
        )
    with of_a_saved_model(path):
        return _unpacked(path, tensors, card, device, modules)


def _unpacked(
    path: str | os.PathLike[str],
    tensors: dict[str, Tensor],
    card: dict[str, Any],
    device: str,
    modules: dict[str, Any],
) -> tuple[FittedModel, dict[str, Any]]:
    """Return what an archive's contents are; the other arguments as in `load_model`."""
    given = [name for name in MODULES if modules.get(name) is not None]
    if given != card["given"] or not {*modules} <= {*MODULES}:
        raise ValueError(
            f"{path} must be loaded with {_listed(card['given'])}, got {_listed(modules)}"
        )
    scaling = Scaling(tensors.pop("mean"), tensors.pop("scale"))
    starts = tensors.pop("starts").to(device)
    rows = tensors.pop("rows").to(device) if "rows" in tensors else kept_rows(starts, 0)
    unseen = tensors.pop("unseen", torch.empty(0, len(ORDERS)).double())  # of older files
    model: ClosedFormModel | ScoreModel
    folds: list[ClosedFormModel] = []
    if "closed_form" in card["model"]:
        model, *folds = _closed_form(tensors, card["model"], device)
    else:
        model = _networks(path, tensors, card["model"], len(scaling.mean), device, modules)
    fitted = FittedModel(
        model=model,
        scaling=scaling,
        sigma=card["sigma"],
        names=card["names"],
        starts=starts,
        rows=rows,
        search=dict(card["search"]),
        history=card["history"],
        report=card["report"],
        folds=folds,
        unseen=unseen,
        clean=_unpacked_clean_law(tensors, device),
        gain=_unpacked_gain(tensors),
    )
    return fitted, {**card["parameters"], **modules, "device": device}


def _closed_form(
    tensors: dict[str, Tensor], facts: dict[str, Any], device: str
) -> list[ClosedFormModel]:
    """Return a law in closed form, and those of the folds."""
    models = []
    for k, each in enumerate(facts["closed_form"]):
        start = f"law.{k}."
        own = {name: tensors[name].to(device) for name in tensors if name.startswith(start)}
        models.append(
            _unpacked_closed_form(each, {n.removeprefix(start): v for n, v in own.items()})
        )
    return models


def _networks(
    path: str | os.PathLike[str],
    tensors: dict[str, Tensor],
    facts: dict[str, Any],
    dimension: int,
    device: str,
    modules: dict[str, Any],
) -> ScoreModel:
    """Return the networks of both scores; arguments as in `load_model`."""
    if not 0 <= facts["rank"] <= dimension:  # of which the head's size would follow
        raise ValueError(f"rank must lie in [0, {dimension}], got {facts['rank']}")
    if modules.get("denoiser") is None:
        first = first_model(dimension, facts["sigma"], modules.get("backbone"), 0)
    else:
        shape, std = (dimension,), facts["data_std"]
        first = frozen_model(modules["denoiser"], shape, facts["sigma"], std)
    model = with_head(first, modules.get("head"), facts["rank"], 0)
    try:
        model.load_state_dict({k.removeprefix("model."): v for k, v in tensors.items()})
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit the modules: {error}") from error
    return model.eval().requires_grad_(False).to(device)
