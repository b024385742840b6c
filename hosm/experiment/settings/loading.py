"""params.yaml is read into validated models that cannot change; nothing else checks settings.

A value written as a mapping over the profiles {smoke, laptop, paper} depends on the switch
`profile`; any other value holds for all three. An unknown key, a wrong type or a value out of
range ends in one line, which says what the value must be and what it is.
"""

from itertools import product
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import ValidationError

from hosm.experiment.settings.accuracy import KINDS, AccuracyParams, SweepParams
from hosm.experiment.settings.cost import ScalingParams, SpeedParams
from hosm.experiment.settings.diffusion import DiffusionParams
from hosm.experiment.settings.images import (
    ClassifierParams,
    DiversityParams,
    ScalesParams,
    UncertaintyParams,
)
from hosm.experiment.settings.inverse import InverseParams
from hosm.experiment.settings.layers import Layers, mapping
from hosm.experiment.settings.machines_and_data import ClusterParams, PrepareParams
from hosm.experiment.settings.model import ModelParams, Section, SettingsError
from hosm.experiment.settings.photos import PhotosParams
from hosm.experiment.settings.planar import DenoisingParams, MixingParams, ReductionParams
from hosm.experiment.settings.tabular import TabularParams

__all__ = ["Params", "check_rank", "load_params"]

Profile = Literal["smoke", "laptop", "paper"]
MUST = {  # type of pydantic's error -> what the value must be
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "one of {expected}",
    "finite_number": "finite",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "tuple_type": "a list",
    "dict_type": "a mapping of settings",
    "model_type": "a mapping of settings",
    "model_attributes_type": "a mapping of settings",
}
WRONG_VALUES = (ValueError, TypeError, LookupError, AttributeError)  # of PyYAML's own readers
BRANCHES = ("constrained-", "tuple[")  # how pydantic names the branches of a union
PROFILES = ("smoke", "laptop", "paper")


class Params(Section):
    """All of params.yaml under one profile."""

    profile: Profile
    cluster: ClusterParams
    prepare: PrepareParams
    train: dict[str, ModelParams]
    sweep: SweepParams
    accuracy: AccuracyParams
    reduction: ReductionParams
    speed: SpeedParams
    scaling: ScalingParams
    mixing: MixingParams
    denoising: DenoisingParams
    laws: tuple[str, ...]
    images: tuple[str, ...]
    scales: ScalesParams
    uncertainty: UncertaintyParams
    classifier: ClassifierParams
    diversity: DiversityParams
    tabular: TabularParams
    photos: PhotosParams
    diffusion: DiffusionParams
    inverse: InverseParams

    def trained(self, name: str) -> ModelParams:
        """Return the settings of a model of the section `train`.

        Raises:
            SettingsError: there is none of that name.
        """
        if name not in self.train:
            raise SettingsError(
                f"the model must be one of {', '.join(sorted(self.train))}, the sections of "
                f"train, got {name!r}"
            )
        return self.train[name]


class _Plain(yaml.SafeLoader):
    """Reads plain values: no key twice, and no alias, since a few of these can fill memory."""

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401
        """Return the next value; an error if it is an alias."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            text = f"values must be plain, got the alias *{event.anchor}"
            raise yaml.MarkedYAMLError(problem=text, problem_mark=event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping; an error if it has a key twice."""
        before: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in before:
                text = f"a key must appear once, got {key.value} twice"
                raise yaml.MarkedYAMLError(problem=text, problem_mark=key.start_mark)
            before.add(str(key.value))
        return super().construct_mapping(node, deep)


def _at_profile(value: Any, profile: str, where: str = "") -> Any:  # noqa: ANN401
    """Resolve every mapping over profiles within the value at `where`."""
    if not isinstance(value, dict):
        return value
    if wrong := [key for key in value if not isinstance(key, str)]:
        raise SettingsError(f"params.yaml: a key must be a text, got {where}{wrong[0]!r}")
    if value and set(value) <= set(PROFILES):
        if profile not in value:
            given = ", ".join(sorted(value))
            raise SettingsError(
                f"params.yaml: {where[:-1]} lacks a value for {profile}; it has {given}"
            )
        return value[profile]
    return {key: _at_profile(inner, profile, f"{where}{key}.") for key, inner in value.items()}


def _train_layers(raw: dict[str, Any]) -> Layers:
    """Return the layers of the section `train`."""
    section = raw.get("train")
    return Layers.read("train", section if isinstance(section, dict) else {})


def _sweep_layers(raw: dict[str, Any]) -> Layers:
    """Return the layers of the section `sweep`: those of its settings that are mappings."""
    section = raw.get("sweep")
    settings = section.items() if isinstance(section, dict) else ()
    return Layers.read("sweep", {key: own for key, own in settings if isinstance(own, dict)})


def _arranged(raw: dict[str, Any], train: Layers, sweep: Layers) -> dict[str, Any]:
    """Turn the file's layers into the models' shape."""
    out = dict(raw)
    if isinstance(raw.get("train"), dict):
        out["train"] = {name: train.settings(name) for name in train.names()}
    if isinstance(raw.get("sweep"), dict):
        models = {name: sweep.settings(name) for name in sweep.names()}
        for name, kind in product(models, KINDS):
            if kind in models[name]:
                where = f"{sweep.source(name, kind)}.{kind}"
                models[name][kind] = mapping(models[name][kind], where)
        rest = {key: value for key, value in raw["sweep"].items() if key not in sweep.sections}
        out["sweep"] = {**rest, "models": models}
        names = rest.get("datasets")
        for name in names if isinstance(names, list) else []:
            if name not in [*models]:
                raise SettingsError(
                    f"params.yaml: sweep.datasets must be among {', '.join(models)}, got {name!r}"
                )
    return out


def _known_keys(model: Any, location: tuple[Any, ...]) -> str:  # noqa: ANN401
    """Return the keys that are known where an unknown one is found."""
    for part in location[:-1]:
        annotation = model.model_fields[part].annotation if part in model.model_fields else None
        model = annotation if hasattr(annotation, "model_fields") else ModelParams
    return ", ".join(sorted(model.model_fields))


def _shown(value: Any) -> str:  # noqa: ANN401
    """Return a value as Python writes it, in 200 characters at most."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


def _explain(
    error: ValidationError,
    model: type[Section],
    where: tuple[str, ...] = (),
    layers: Layers | None = None,
    kinds: tuple[str, ...] = (),
) -> str:
    """Return one problem, a misspelt key before the missing one, in one line.

    Args:
        error: what went wrong.
        model: what was to be made.
        where: from the settings at this place of params.yaml.
        layers: to name the section that the setting of a model is written in.
        kinds: of the model; see `Layers.source`.
    """
    first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    place = [str(part) for part in first["loc"] if not str(part).startswith(BRANCHES)]
    place = [*where, *place]
    if layers and place[0] == layers.where and place[1:2] and place[1] in layers.names():
        place = [layers.source(place[1], "".join(place[2:3]), kinds), *place[2:]]
    name = ".".join(place)
    if first["type"] == "extra_forbidden":
        return f"params.yaml: unknown key {name}; known: {_known_keys(model, first['loc'])}"
    if first["type"] == "missing":
        return f"params.yaml: {name} is missing"
    if first["type"] == "value_error":
        return f"params.yaml: {name}: {first['msg'].removeprefix('Value error, ')}"
    shown = _shown(first["input"])
    if first["type"] not in MUST:
        return f"params.yaml: {name}: {first['msg']}, got {shown}"
    must = MUST[first["type"]].format(**first.get("ctx", {}))
    return f"params.yaml: {name} must be {must}, got {shown}"


def load_params(path: Path) -> Params:
    """Read and validate params.yaml.

    Args:
        path: the file.

    Raises:
        SettingsError: a key is unknown or missing, or a value is wrong; in one line.
    """
    try:
        raw = _Plain(path.read_text()).get_single_data()
    except (OSError, ArithmeticError, RecursionError, *WRONG_VALUES, yaml.YAMLError) as error:
        raise SettingsError(f"cannot read {path}: {' '.join(str(error).split())}") from error
    if not isinstance(raw, dict):
        raise SettingsError(f"{path} must hold a mapping of sections, got {_shown(raw)}")
    if (profile := raw.get("profile")) not in PROFILES:
        raise SettingsError(f"profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    chosen = _at_profile(raw, profile)
    train, sweep = _train_layers(chosen), _sweep_layers(chosen)
    try:
        params = Params(**_arranged(chosen, train, sweep))
    except ValidationError as error:
        raise SettingsError(_explain(error, Params, (), train)) from error
    for cell in params.sweep.every_cell():
        try:
            params.sweep.model(cell)
        except ValidationError as error:
            where = ("sweep", cell["dataset"])
            kinds = params.sweep.kinds(cell)
            raise SettingsError(_explain(error, ModelParams, where, sweep, kinds)) from error
    try:
        _ = params.denoising.spec
    except ValidationError as error:
        raise SettingsError(_explain(error, ModelParams, ("denoising", "model"))) from error
    _check_laws(params)
    for name in params.images:
        _check_images(params, name)
    return params


def _check_laws(params: Params) -> None:
    """Check that laws in the plane are named, each once, which networks of vectors learn."""
    if not params.laws:
        raise SettingsError("params.yaml: laws must name one law or more, got none")
    for place, name in enumerate(params.laws):
        if params.trained(name).backbone.kind != "mlp":
            raise SettingsError(f"params.yaml: laws must be in the plane, got the images {name!r}")
        if name in params.laws[:place]:
            raise SettingsError(f"params.yaml: laws must name each law once, got {name!r} twice")


def _check_images(params: Params, name: str) -> None:
    """Check the noise scales that one denoiser of images is used at against those it learns."""
    whole = params.trained(name)
    try:
        params.scales.models(whole, len(params.uncertainty.sigmas))
    except ValidationError as error:
        raise SettingsError(_explain(error, ModelParams, ("scales", "unconstrained"))) from error
    covered = whole.sigma if isinstance(whole.sigma, tuple) else (whole.sigma, whole.sigma)
    judged, chains = params.uncertainty, params.diversity
    asked = {"uncertainty": (*judged.sigmas, judged.direction_sigma), "diversity": (chains.sigma,)}
    for section, sigmas in asked.items():
        for sigma in sigmas:
            if not covered[0] <= sigma <= covered[1]:
                raise SettingsError(
                    f"params.yaml: sigma of {section} must lie in [{covered[0]}, {covered[1]}], "
                    f"the range of train.{name}, got {sigma}"
                )


def check_rank(rank: int, dimension: int) -> None:
    """Check a rank against the data.

    Raises:
        SettingsError: the rank is above the dimension.
    """
    if not 0 <= rank <= dimension:
        raise SettingsError(f"rank must lie in [0, {dimension}] for these data, got {rank}")
