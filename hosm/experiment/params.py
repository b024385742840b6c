"""Settings: params.yaml -> validated, frozen models. The only validation of settings.

A value written as a mapping over the profiles {smoke, laptop, paper} depends on the switch
`profile`; any other value holds for all three. Unknown keys, wrong types and values out of range
end in one line that names the value and the legal ones.
"""

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import ValidationError

from hosm.experiment.chain_sections import ClassifierParams, DiversityParams
from hosm.experiment.sections import (
    CELL,
    AccuracyParams,
    ClusterParams,
    DenoisingParams,
    MixingParams,
    PrepareParams,
    ReductionParams,
    ScalesParams,
    ScalingParams,
    SpeedParams,
    SweepParams,
    UncertaintyParams,
)
from hosm.experiment.specs import Backbone, Frozen, ModelParams, SettingsError

__all__ = [
    "CELL",
    "AccuracyParams",
    "Backbone",
    "ClassifierParams",
    "ClusterParams",
    "DenoisingParams",
    "DiversityParams",
    "MixingParams",
    "ModelParams",
    "Params",
    "PrepareParams",
    "ReductionParams",
    "ScalesParams",
    "ScalingParams",
    "SettingsError",
    "SpeedParams",
    "SweepParams",
    "UncertaintyParams",
    "check_rank",
    "load_params",
]

Profile = Literal["smoke", "laptop", "paper"]
BRANCHES = ("constrained-", "tuple[")  # how pydantic names the branches of a union
PROFILES = ("smoke", "laptop", "paper")


class Params(Frozen):
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
    images: tuple[str, ...]
    scales: ScalesParams
    uncertainty: UncertaintyParams
    classifier: ClassifierParams
    diversity: DiversityParams

    def trained(self, name: str) -> ModelParams:
        """Return the settings of a model of the section `train`.

        Raises:
            SettingsError: there is none of that name.
        """
        if name not in self.train:
            raise SettingsError(f"no model {name!r} under train; legal: {sorted(self.train)}")
        return self.train[name]


def _at_profile(value: Any, profile: str) -> Any:  # noqa: ANN401
    """Resolve every mapping over profiles within `value`."""
    if isinstance(value, dict):
        if value and set(value) <= set(PROFILES):
            if profile not in value:
                raise SettingsError(f"no value for profile {profile}; given: {sorted(value)}")
            return value[profile]
        return {key: _at_profile(inner, profile) for key, inner in value.items()}
    return value


def _layered(section: dict[str, Any], names: list[str]) -> dict[str, dict[str, Any]]:
    """Lay what differs for each name over the section's `common` part."""
    return {name: {**section.get("common", {}), **(section[name] or {})} for name in names}


def _arranged(raw: dict[str, Any]) -> dict[str, Any]:
    """Turn the file's layers into the models' shape."""
    out, train, sweep = dict(raw), raw.get("train"), raw.get("sweep")
    if isinstance(train, dict):
        out["train"] = _layered(train, [name for name in train if name != "common"])
    if isinstance(sweep, dict):
        sections = {key for key, value in sweep.items() if isinstance(value, dict)}
        models = _layered(sweep, sorted(sections - {"common"}))
        rest = {key: value for key, value in sweep.items() if key not in sections}
        out["sweep"] = {**rest, "models": models}
        if missing := [name for name in sweep.get("datasets", []) if name not in models]:
            raise SettingsError(f"sweep.datasets names {missing[0]!r}; legal: {sorted(models)}")
    return out


def _legal_keys(model: Any, location: tuple[Any, ...]) -> str:  # noqa: ANN401
    """Return the keys that are legal where an unknown one stands."""
    for part in location[:-1]:
        annotation = model.model_fields[part].annotation if part in model.model_fields else None
        model = annotation if hasattr(annotation, "model_fields") else ModelParams
    return ", ".join(sorted(model.model_fields))


def _explain(error: ValidationError, model: type[Frozen], where: str = "") -> str:
    """Return one problem, a misspelt key before the missing one, as a line with what is legal.

    `model` is what was to be made, from what stands at `where` in the file.
    """
    first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    place = [str(part) for part in first["loc"] if not str(part).startswith(BRANCHES)]
    name = where + ".".join(place)
    if first["type"] == "extra_forbidden":
        return f"params.yaml: unknown key {name}; legal: {_legal_keys(model, first['loc'])}"
    if first["type"] == "missing":
        return f"params.yaml: {name} is missing"
    return f"params.yaml: {name} = {first['input']!r}: {first['msg']}"


def load_params(path: Path) -> Params:
    """Read and validate params.yaml.

    Args:
        path: the file.

    Raises:
        SettingsError: a key is unknown or missing, or a value is not legal; in one line.
    """
    try:
        raw = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise SettingsError(f"cannot read {path}: {' '.join(str(error).split())}") from error
    if not isinstance(raw, dict):
        raise SettingsError(f"{path} must hold a mapping of sections")
    if (profile := raw.get("profile")) not in PROFILES:
        raise SettingsError(f"profile = {profile!r}; legal: {', '.join(PROFILES)}")
    try:
        params = Params(**_arranged(_at_profile(raw, profile)))
    except ValidationError as error:
        raise SettingsError(_explain(error, Params)) from error
    for cell in params.sweep.every_cell():
        try:
            params.sweep.model(cell)
        except ValidationError as error:
            where = f"sweep.{cell['dataset']}."
            raise SettingsError(_explain(error, ModelParams, where)) from error
    try:
        _ = params.denoising.spec
    except ValidationError as error:
        raise SettingsError(_explain(error, ModelParams, "denoising.model.")) from error
    for name in params.images:
        _check_images(params, name)
    return params


def _check_images(params: Params, name: str) -> None:
    """Check what is asked of the denoiser of one set of images against what it learns."""
    whole = params.trained(name)
    try:
        params.scales.models(whole)
    except ValidationError as error:
        raise SettingsError(_explain(error, ModelParams, "scales.unconstrained.")) from error
    covered = whole.sigma if isinstance(whole.sigma, tuple) else (whole.sigma, whole.sigma)
    judged, chains = params.uncertainty, params.diversity
    asked = {"uncertainty": (*judged.sigmas, judged.direction_sigma), "diversity": (chains.sigma,)}
    for section, sigmas in asked.items():
        for sigma in sigmas:
            if not covered[0] <= sigma <= covered[1]:
                raise SettingsError(
                    f"params.yaml: {section} asks for sigma = {sigma}; legal for train.{name}: "
                    f"{covered[0]} to {covered[1]}"
                )


def check_rank(rank: int, dimension: int) -> None:
    """Check a rank against the data.

    Raises:
        SettingsError: the rank exceeds the dimension.
    """
    if not 0 <= rank <= dimension:
        raise SettingsError(f"rank = {rank}; legal for these data: 0..{dimension}")
