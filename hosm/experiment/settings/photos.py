"""Settings of the study of the denoiser of photographs."""

from typing import Literal

from pydantic import Field

from hosm.experiment.settings.model import Positive, Section

__all__ = ["PhotosParams"]


class PhotosParams(Section):
    """Which models are judged, on how much of which pictures, under which noise.

    `models` and the folders of `ensemble` are relative to the project's folder.
    """

    models: str = Field(min_length=1)
    ensemble: tuple[str, ...]
    kinds: tuple[Literal["grey", "colour"], ...] = Field(min_length=1)
    pictures: int = Field(ge=2)
    side: int = Field(ge=32)
    sigmas: tuple[Positive, ...] = Field(min_length=1)
    passes: int = Field(ge=2)
    tuning_side: int = Field(ge=32)
    seed: int = Field(ge=0)
