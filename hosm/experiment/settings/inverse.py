"""Settings of the study of linear inverse problems."""

from pydantic import Field

from hosm.experiment.settings.model import Count, Positive, Section

__all__ = ["InverseParams"]


class InverseParams(Section):
    """The model that is trained, and how many draws of how many measurements judge it.

    `sigma` is the range of noise scales of training and of sampling; `strengths` are the factors
    of guidance that rivals are tuned over, on `tuning` measurements of their own.
    """

    sigma: tuple[Positive, Positive]
    rank: Count
    width: Count
    batch_size: Count
    train_steps: Count
    learning_rate: Positive
    gamma: Positive
    noise: Positive
    steps: Count
    measurements: int = Field(ge=2)
    draws: int = Field(ge=39)
    tuning: Count
    strengths: tuple[Positive, ...] = Field(min_length=1)
    seed: int = Field(ge=0)
