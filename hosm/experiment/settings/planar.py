"""Settings of the studies in the plane: variance reduction, denoising and mixing."""

from typing import Any, Literal

from pydantic import Field, model_validator

from hosm.experiment.settings.model import Count, ModelParams, Positive, SecondOrder, Section

__all__ = ["DenoisingParams", "MixingParams", "ReductionParams"]


class ReductionParams(Section):
    """Figure 1: the grid, and how each of its models trains."""

    sigmas: tuple[Positive, ...] = Field(min_length=1)
    targets: tuple[SecondOrder, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=1)
    width: int = Field(ge=1)
    learning_rate: float = Field(gt=0)
    batch_size: int = Field(ge=1)
    max_steps: int = Field(ge=1)
    record_every: int = Field(ge=1)


class DenoisingParams(Section):
    """Figure 2: points in the plane, and the model that denoises them."""

    datasets: tuple[str, ...] = Field(min_length=1)
    sigma: Positive
    train_points: Count
    test_points: int = Field(ge=2)
    model: dict[str, Any]
    seed: int

    @property
    def spec(self) -> ModelParams:
        """Settings of the model, of which `sigma` and `seed` are those of the section."""
        return ModelParams(**{**self.model, "sigma": self.sigma, "seed": self.seed})


class MixingParams(Section):
    """Table 3, figures 5 and 6: chains, and the step sizes that tuning tries."""

    chains: int = Field(ge=2)
    runs: int = Field(ge=2)
    burn_in: int = Field(ge=0)
    steps: int = Field(ge=10)
    paper_steps: int = Field(ge=10)
    tuning_chains: int = Field(ge=2)
    tuning_steps: int = Field(ge=10)
    drift_chains: int = Field(ge=10)
    drift_iterations: int = Field(ge=2)
    step_sizes: tuple[Positive, Positive]
    guards: tuple[Literal["none", "floor", "abs", "langevin"], ...]
    tries: int = Field(ge=4)
    bias_bound: float = Field(gt=0, le=1)
    variance_bound: float = Field(gt=1)
    floor: Positive
    equal_step: Positive
    repeats: int = Field(ge=1)
    timed_iterations: int = Field(ge=1)
    compiled: tuple[str, ...]
    bias_chains: int = Field(ge=10)
    picture_chains: int = Field(ge=10)
    longest: int = Field(ge=10)
    seed: int

    @model_validator(mode="after")
    def _fits(self) -> "MixingParams":
        low, high = self.step_sizes
        if low >= high:
            raise ValueError(
                f"step_sizes must be [low, high] with low < high, got [{low}, {high}]"
            )
        if not {"none", "floor"} <= {*self.guards}:
            got = ", ".join(self.guards) or "no guard"
            raise ValueError(f"guards must contain none and floor, as in table 3, got {got}")
        return self
