"""Settings of a training run; `hosm.training.loop` carries them out."""

from dataclasses import dataclass

from hosm.noise import check_scales
from hosm.objectives import TARGETS, VarianceReduction

__all__ = ["WIDEST", "Settings"]

WIDEST = 0.28  # the average of all steps alike has width 1 / sqrt(12) = .289


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a model is trained.

    Args:
        sigma: noise scale, above 0; or a range (low, high) that each sample's scale is drawn
            from, uniformly on a logarithmic axis, for a model of all of them.
        target: one of `hosm.objectives.TARGETS`; `dsm` trains s1 alone.
        diagonal: fit the diagonal of s2 alone.
        variance_reduction: None, `control` or `antithetic`.
        gamma: weight of DSM beside the second-order term.
        orthogonal_noise: make the noise of each global batch orthogonal.
        second_order_share: share of each batch that the second-order term is evaluated on.
        learning_rate: of Adam in its first step; it decays linearly to zero.
        weight_decay: share of each weight that a step of rate one takes off (Loshchilov and
            Hutter, "Decoupled Weight Decay Regularization", ICLR 2019); linear skips are spared,
            for they are not what overfits. For few data; 0 for none.
        batch_size: size of the global batch, over all workers.
        max_steps: optimiser steps.
        average_width: width of the window that weights are averaged over, as the standard
            deviation of a step's weight over the number of steps so far; 0 for no average.
        clip_norm: bound on the gradient's norm; None for no bound.
        validate_every: steps between validations.
        patience: validations without improvement before the run stops; None for no early stop.
        seed: keys the order of the samples and their noise.

    Raises:
        ValueError: a value out of its range.
    """

    sigma: float | tuple[float, float]
    target: str = "jacobian"
    diagonal: bool = False
    variance_reduction: VarianceReduction = "antithetic"
    gamma: float = 1.0
    orthogonal_noise: bool = False
    second_order_share: float = 1.0
    learning_rate: float = 2e-3
    weight_decay: float = 0.0
    batch_size: int = 128
    max_steps: int = 4000
    average_width: float = 0.1
    clip_norm: float | None = None
    validate_every: int = 500
    patience: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_scales(self.sigma)
        if self.target not in (*TARGETS, "dsm"):
            raise ValueError(f"target must be one of {', '.join(TARGETS)}, dsm, got {self.target}")
        if not 0 < self.second_order_share <= 1:
            raise ValueError(
                f"second_order_share must lie in (0, 1], got {self.second_order_share}"
            )
        if not (self.learning_rate > 0 and 0 <= self.gamma < float("inf")):
            raise ValueError(
                f"learning_rate must lie above 0 and gamma be finite and at least 0, got "
                f"{self.learning_rate} and {self.gamma}"
            )
        if not 0 <= self.weight_decay < float("inf"):
            raise ValueError(
                f"weight_decay must be finite and at least 0, got {self.weight_decay}"
            )
        if not 0 <= self.average_width <= WIDEST:
            raise ValueError(f"average_width must lie in [0, {WIDEST}], got {self.average_width}")
        for name in ("batch_size", "max_steps", "validate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
