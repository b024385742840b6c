"""What a model is and how it trains: settings of one model, wherever params.yaml names one.

Every stage reads settings, and few of them train. So this module imports neither torch nor
`hosm.objectives` nor `hosm.training`: a change there must not rerun a stage that trains nothing.
What it repeats of them (names of targets, what they need, names and ranges of training settings)
is held to them by `tests/experiment/settings/test_agreement.py`.
"""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "Backbone",
    "Count",
    "Section",
    "ModelParams",
    "NEEDS_PSD",
    "Positive",
    "Regime",
    "SIGMA_POWERS",
    "SecondOrder",
    "SettingsError",
    "TargetName",
]

Regime = Literal["streaming", "finite"]
SecondOrder = Literal["jacobian", "residual", "moment"]  # targets that any model can have
TargetName = Literal[SecondOrder, "likelihood", "dsm", "dsm-vr"]
NEEDS_PSD = ("likelihood",)  # targets of models that are positive by construction
SIGMA_POWERS = {"likelihood": 0}  # of sigma, that weights a sample's second-order term; else 4

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]


class SettingsError(ValueError):
    """A setting in params.yaml is wrong."""


class Section(BaseModel):
    """A section whose keys and values are checked and cannot change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _reject_booleans(cls, values: Any) -> Any:  # noqa: ANN401
        for name, value in values.items() if isinstance(values, dict) else ():
            within = value if isinstance(value, list | tuple) else [value]
            kind = cls.model_fields[name].annotation if name in cls.model_fields else bool
            if bool not in (kind, *get_args(kind)) and any(
                isinstance(each, bool) for each in within
            ):
                raise ValueError(f"{name} must not be true or false, got {value}")
        return values


class Backbone(Section):
    """The network behind a score model."""

    kind: Literal["mlp", "unet"]
    shared: bool
    width: int = Field(default=128, ge=1)
    second_width: int = Field(default=0, ge=0)
    depth: int = Field(default=3, ge=2)
    skip: bool = False
    frequencies: int = Field(default=0, ge=0)
    bandwidth: Positive = 3.0
    channels: tuple[int, ...] = Field(default=(16, 32, 32), min_length=2)
    blocks: int = Field(default=1, ge=1)
    attention: bool = False
    dropout: float = Field(default=0.0, ge=0, lt=1)
    head: int = Field(default=0, ge=0)
    autocast: bool = False


class ModelParams(Section):
    """One model and its training; a range of sigma makes one model of every scale in it."""

    backbone: Backbone
    sigma: Positive | tuple[Positive, Positive]
    rank: int = Field(ge=0)
    parametrisation: Literal["score", "denoiser"] = "score"
    psd: bool = False
    target: TargetName = "jacobian"
    variance_reduction: Literal["antithetic", "control", "none"] = "antithetic"
    gamma: float = Field(default=1.0, ge=0)
    second_order_share: float = Field(default=1.0, gt=0, le=1)
    orthogonal_noise: bool = False
    regime: Regime = "streaming"
    optimizer: Literal["adam", "muon"] = "adam"
    learning_rate: float = Field(gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    batch_size: int = Field(ge=1)
    max_steps: int = Field(ge=1)
    average_width: float = Field(ge=0, le=0.28)  # as hosm.training.settings
    clip_norm: float = Field(default=0.0, ge=0)
    validate_every: int = Field(ge=1)
    patience: int = Field(default=0, ge=0)
    seed: int = 0
    accumulate: int = Field(default=1, ge=1)
    compiled: bool = False
    channels_last: bool = False
    flips: bool = False
    prefetch: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _fits(self) -> "ModelParams":
        ranged = isinstance(self.sigma, tuple)
        if isinstance(self.sigma, tuple) and self.sigma[0] >= self.sigma[1]:
            raise ValueError(f"sigma must be [low, high] with low < high, got {list(self.sigma)}")
        if self.parametrisation == "score" and (ranged or self.psd):
            raise ValueError(
                "parametrisation must be denoiser for a range of sigma or for psd, got score"
            )
        if self.accumulate > self.batch_size:
            raise ValueError(
                f"accumulate must be at most batch_size = {self.batch_size}, got {self.accumulate}"
            )
        if self.flips and self.regime != "finite":
            raise ValueError("regime must be finite for flips, which are of images, got streaming")
        if self.target in NEEDS_PSD and not self.psd:
            raise ValueError(f"psd must be true for the target {self.target}, got false")
        if ranged and (self.backbone.skip or self.backbone.frequencies):
            raise ValueError(
                "the backbone must have no skip and no frequencies for a range of sigma"
            )
        return self

    @property
    def first_order(self) -> bool:
        """Say whether the model learns s1 alone."""
        return self.target in ("dsm", "dsm-vr")

    def at_scale(self, sigma: float, **changes: int) -> "ModelParams":
        """Return the settings of a model of one scale, with the loss of the range at that scale.

        Over a range, DSM counts sigma^2 times and a target's term sigma^4 times, or once (see
        `hosm.objectives`); of one scale, both count once, and gamma says the rest.

        Args:
            sigma: the noise scale.
            changes: other settings that differ.
        """
        gamma = self.gamma * sigma ** (2 - SIGMA_POWERS.get(self.target, 4))
        return ModelParams(**{**self.model_dump(), "sigma": sigma, "gamma": gamma, **changes})
