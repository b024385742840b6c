"""Settings: params.yaml -> validated, frozen models. The only validation of settings.

A value written as a mapping over the profiles {smoke, laptop, paper} depends on the switch
`profile`; any other value holds for all three. Unknown keys, wrong types and values out of range
end in one line that names the value and the legal ones.
"""

import os
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

__all__ = [
    "AccuracyParams",
    "Backbone",
    "ClusterParams",
    "ModelParams",
    "Params",
    "SettingsError",
    "SweepParams",
    "load_params",
]

Profile = Literal["smoke", "laptop", "paper"]
PROFILES = ("smoke", "laptop", "paper")
Regime = Literal["streaming", "finite"]
TargetName = Literal["jacobian", "residual", "moment", "dsm", "dsm-vr"]


Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
CELL = ("dataset", "regime", "sigma", "target", "rank", "seed")


class SettingsError(ValueError):
    """A setting in params.yaml is not legal."""


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ClusterParams(_Frozen):
    """Where Ray runs, and how many workers a training run has."""

    workers: Count
    use_gpu: bool
    backend: Literal["auto", "gloo", "nccl"]
    cpus_per_worker: int = Field(ge=1)
    local_cpus: int = Field(ge=1)
    object_store_mb: int = Field(ge=80)
    max_failures: int = Field(ge=0)

    @model_validator(mode="after")
    def _fits(self) -> "ClusterParams":
        needed, here = self.workers * self.cpus_per_worker, self.local_cpus
        if "RAY_ADDRESS" not in os.environ and needed > here:
            raise ValueError(
                f"{self.workers} workers need {needed} CPUs, but local_cpus is {here}; "
                "legal: workers x cpus_per_worker <= local_cpus"
            )
        return self


class PrepareParams(_Frozen):
    """Sizes of the splits."""

    seed: int
    train_points: Count
    validation_points: Count
    test_points: Count
    folder: str


class Backbone(_Frozen):
    """The network behind a score model."""

    kind: Literal["mlp", "unet"]
    shared: bool
    width: int = Field(default=128, ge=1)
    second_width: int = Field(default=0, ge=0)
    depth: int = Field(default=3, ge=2)
    channels: tuple[int, int, int] = (16, 32, 32)


class ModelParams(_Frozen):
    """One model and its training."""

    backbone: Backbone
    sigma: float = Field(gt=0)
    rank: int = Field(ge=0)
    psd: bool = False
    target: TargetName = "jacobian"
    variance_reduction: Literal["antithetic", "control", "none"] = "antithetic"
    gamma: float = Field(default=1.0, ge=0)
    second_order_share: float = Field(default=1.0, gt=0, le=1)
    jvp_step: float = Field(default=0.0, ge=0)
    regime: Regime = "streaming"
    learning_rate: float = Field(gt=0)
    batch_size: int = Field(ge=1)
    max_steps: int = Field(ge=1)
    ema_decay: float = Field(ge=0, lt=1)
    clip_norm: float = Field(default=0.0, ge=0)
    validate_every: int = Field(ge=1)
    patience: int = Field(default=0, ge=0)
    seed: int = 0

    @property
    def first_order(self) -> bool:
        """Whether the model learns s1 alone."""
        return self.target in ("dsm", "dsm-vr")


class SweepParams(_Frozen):
    """The grid of Table 1 and how each of its trials trains."""

    datasets: tuple[str, ...] = Field(min_length=1)
    sigmas: tuple[Positive, ...] = Field(min_length=1)
    ranks: tuple[Count, ...] = Field(min_length=1)
    targets: tuple[Literal["jacobian", "residual", "moment"], ...]
    baselines: tuple[Literal["dsm", "dsm-vr"], ...]
    regimes: tuple[Regime, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=1)
    workers_per_trial: int = Field(ge=1)
    cpus_per_worker: int = Field(ge=1)
    max_concurrent: int = Field(ge=0)
    test_points: int = Field(ge=1)
    models: dict[str, dict[str, Any]]

    def grid(self) -> list[dict[str, Any]]:
        """Return the cells of the sweep: dataset, regime, sigma, target, rank, seed."""
        cells: dict[tuple[Any, ...], dict[str, Any]] = {}
        for dataset, regime, sigma, seed in product(
            self.datasets, self.regimes, self.sigmas, self.seeds
        ):
            fixed = self.models[dataset].get("rank")
            ranks = self.ranks if fixed is None else (fixed,)
            kinds = [(target, rank) for target in self.targets for rank in ranks]
            for target, rank in [*kinds, *((target, 0) for target in self.baselines)]:
                cell = (dataset, regime, sigma, target, rank, seed)
                cells[cell] = dict(zip(CELL, cell, strict=True))
        return list(cells.values())

    def model(self, cell: dict[str, Any]) -> ModelParams:
        """Return the settings of the trial at a cell of the grid."""
        chosen = {key: value for key, value in cell.items() if key != "dataset"}
        return ModelParams(**{**self.models[cell["dataset"]], **chosen})


class AccuracyParams(_Frozen):
    """Table 1 made from the sweep."""

    constant_points: Count


class SpeedParams(_Frozen):
    """Table 2: what is timed, and how often."""

    batch: int = Field(ge=1)
    ranks: tuple[Count, ...] = Field(min_length=1)
    repeats: int = Field(ge=1)
    threads: int = Field(ge=1)
    loop_rows: int = Field(ge=1)


class MixingParams(_Frozen):
    """Table 3: chains, and the step sizes that tuning tries."""

    chains: int = Field(ge=2)
    burn_in: int = Field(ge=0)
    steps: int = Field(ge=10)
    tuning_steps: int = Field(ge=10)
    bias_bound: float = Field(gt=0, le=1)
    langevin_steps: tuple[Positive, ...] = Field(min_length=1)
    ozaki_steps: tuple[Positive, ...] = Field(min_length=1)
    guard: Literal["none", "floor", "abs", "langevin"]
    seed: int


class UncertaintyParams(_Frozen):
    """Figures 3 and 4: how many digits, noise draws and directions."""

    images: int = Field(ge=1)
    draws: int = Field(ge=1)
    directions: int = Field(ge=1)
    seed: int


class Params(_Frozen):
    """All of params.yaml under one profile."""

    profile: Profile
    cluster: ClusterParams
    prepare: PrepareParams
    train: dict[str, ModelParams]
    sweep: SweepParams
    accuracy: AccuracyParams
    speed: SpeedParams
    mixing: MixingParams
    uncertainty: UncertaintyParams

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


def _legal_keys(location: tuple[Any, ...]) -> str:
    """Return the keys that are legal where an unknown one stands."""
    model: Any = Params
    for part in location[:-1]:
        annotation = model.model_fields[part].annotation if part in model.model_fields else None
        model = annotation if hasattr(annotation, "model_fields") else ModelParams
    return ", ".join(sorted(model.model_fields))


def _explain(error: ValidationError) -> str:
    """Return one problem, a misspelt key before the missing one, as a line with what is legal."""
    first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    name = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"params.yaml: unknown key {name}; legal: {_legal_keys(first['loc'])}"
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
        for cell in params.sweep.grid():
            params.sweep.model(cell)
        return params
    except ValidationError as error:
        raise SettingsError(_explain(error)) from error


def check_rank(rank: int, dimension: int) -> None:
    """Check a rank against the data.

    Raises:
        SettingsError: the rank exceeds the dimension.
    """
    if not 0 <= rank <= dimension:
        raise SettingsError(f"rank = {rank}; legal for these data: 0..{dimension}")
