"""Settings of the studies of images: scales, uncertainty, the classifier and diversity."""

from itertools import product
from typing import Any, Literal

from pydantic import Field

from hosm.experiment.settings.model import Count, ModelParams, Positive, Section

__all__ = ["ClassifierParams", "DiversityParams", "ScalesParams", "UncertaintyParams"]


class ScalesParams(Section):
    """Models of one noise scale each, which the model of a range is judged by.

    Of the `budgets` at each scale, `equal steps` is as many steps as the model of the range has,
    and `equal total` that number over the number of scales compared, so that all those of one
    scale take together as many steps as the one model. `unconstrained` is what differs for one
    more, whose covariance may be negative.
    """

    sigmas: tuple[Positive, ...] = Field(min_length=1)
    budgets: tuple[Literal["equal steps", "equal total"], ...] = Field(min_length=1)
    validate_every: int = Field(ge=1)
    unconstrained: dict[str, Any]

    def models(self, whole: ModelParams, compared: int) -> dict[tuple[str, str], ModelParams]:
        """Return the settings of each model, by the names of its folder and of its kind.

        Args:
            whole: of the model of the range.
            compared: number of noise scales at which models are compared.
        """
        every, models = {"validate_every": self.validate_every}, {}
        part = max(whole.max_steps // compared, 1)
        steps = {"equal steps": whole.max_steps, "equal total": part}
        for sigma, budget in product(self.sigmas, self.budgets):
            label = f"{sigma:g}-{budget.replace(' ', '-')}"
            own = whole.at_scale(sigma, max_steps=steps[budget], **every)
            models[label, f"one scale, {budget}"] = own
        free = ModelParams(**{**whole.model_dump(), **every, **self.unconstrained})
        return {**models, ("unconstrained", "unconstrained"): free}


class UncertaintyParams(Section):
    """Figures 3 and 4: how many images, noise draws and directions."""

    sigmas: tuple[Positive, ...] = Field(min_length=1)
    shown: int = Field(ge=1)
    images: int = Field(ge=2)
    mapped: int = Field(ge=2)
    draws: int = Field(ge=1)
    likelihood_draws: int = Field(ge=1)
    direction_images: int = Field(ge=1)
    direction_sigma: Positive
    iterations: tuple[Count, ...] = Field(min_length=1)
    repeats: int = Field(ge=1)
    seed: int


class ClassifierParams(Section):
    """The classifier of images: its size, and how it trains."""

    width: Count
    steps: Count
    batch_size: int = Field(ge=2)
    learning_rate: Positive
    seed: int


class DiversityParams(Section):
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
