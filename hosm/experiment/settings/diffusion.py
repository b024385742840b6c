"""Settings of the study of diffusion on a mixture of Gaussians."""

from pydantic import Field, model_validator

from hosm.experiment.settings.model import Count, Positive, Section

__all__ = ["DiffusionParams"]


class DiffusionParams(Section):
    """The law, the network of all noise scales, and what is measured of both.

    `points` are draws and held-out points for each seed; `probes` are Hutchinson's, beside the
    trace of s2, in likelihoods of `flow_points` points by the flow.
    """

    dimension: int = Field(ge=2)
    terms: Count
    law_rank: Count
    sigma: tuple[Positive, Positive]
    rank: Count
    width: Count
    learning_rate: Positive
    gamma: Positive
    batch_size: Count
    max_steps: Count
    steps: tuple[Count, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=1)
    points: int = Field(ge=2)
    probes: tuple[Count, ...] = Field(min_length=1)
    flow_steps: Count
    flow_points: Count
    repeats: int = Field(ge=2)

    @model_validator(mode="after")
    def _fits(self) -> "DiffusionParams":
        if self.sigma[0] >= self.sigma[1]:
            raise ValueError(f"sigma must be [low, high] with low < high, got {list(self.sigma)}")
        return self
