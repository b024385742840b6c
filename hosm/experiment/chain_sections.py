"""The sections of params.yaml about chains of images: the classifier, and figures 7 and 8."""

from pydantic import Field

from hosm.experiment.specs import Count, Frozen, Positive

__all__ = ["METHODS", "ClassifierParams", "DiversityParams"]

METHODS = {"langevin": "Langevin", "ozaki": "Ozaki", "fixed": "fixed curvature"}  # in reports


class ClassifierParams(Frozen):
    """The classifier of images: its size, and how it trains."""

    width: Count
    steps: Count
    batch_size: int = Field(ge=2)
    learning_rate: Positive
    seed: int


class DiversityParams(Frozen):
    """Figures 7 and 8: chains of images, their steps, and the search for the largest ones."""

    sigma: Positive
    noise_step: Positive
    noise_iterations: Count
    step: Positive
    chains: int = Field(ge=2)
    iterations: Count
    records: int = Field(ge=2)
    times: tuple[Positive, ...] = Field(min_length=1)
    bias_bound: float = Field(gt=0, lt=1)
    bias_chains: int = Field(ge=2)
    bias_time: Positive
    repeats: int = Field(ge=1)
    seed: int
