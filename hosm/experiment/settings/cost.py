"""Settings of table 2 and of scaling out: what is timed, and how often."""

from pydantic import Field, model_validator

from hosm.experiment.settings.model import Count, Section

__all__ = ["ScalingParams", "SpeedParams"]


class SpeedParams(Section):
    """Table 2 and the cost of training: what is timed, and how often."""

    batch: int = Field(ge=1)
    ranks: tuple[Count, ...] = Field(min_length=1)
    repeats: int = Field(ge=1)
    threads: int = Field(ge=1)
    loop_rows: int = Field(ge=1)
    compiled: bool
    dense: tuple[tuple[Count, Count], ...] = Field(min_length=1)
    images: tuple[tuple[Count, Count], ...] = Field(min_length=1)
    image_batch: int = Field(ge=1)
    image_ranks: tuple[Count, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _fits(self) -> "SpeedParams":
        for channels, side in self.images:
            dimension = channels * side**2
            if side % 4 or max(self.image_ranks) > dimension:
                raise ValueError(
                    f"the side of an image must be divisible by 4 and image_ranks at most its "
                    f"dimension {dimension}, got [{channels}, {side}] and {max(self.image_ranks)}"
                )
        return self


class ScalingParams(Section):
    """Scaling out: the network and the run that is timed, alone and by Ray Train."""

    width: int = Field(ge=1)
    rank: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    steps: int = Field(ge=2)
    workers: tuple[Count, ...] = Field(min_length=1)
    repeats: int = Field(ge=1)
    threads: int = Field(ge=1)
