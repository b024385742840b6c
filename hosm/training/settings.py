"""Settings of a training run; `hosm.training.loop` carries them out.

`Settings` is the one place where a setting of training has its name, default, range and
explanation. The estimator's `Recipe` holds one. The experiment's `ModelParams`, which must not
import torch, repeats the names and ranges, and tests compare the two.
"""

from dataclasses import dataclass
from typing import Literal

from hosm.checks import check_choice
from hosm.noise import check_scales
from hosm.objectives import TARGETS, VarianceReduction

__all__ = ["LARGEST_AVERAGE_WIDTH", "Settings"]

LARGEST_AVERAGE_WIDTH = 0.28  # the average of all steps alike has width 1 / sqrt(12) = .289


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a model is trained.

    Args:
        sigma: noise scale, above 0; or a range (low, high) that each sample's scale is drawn
            from, uniformly on a logarithmic axis, for a model of all of them.
        target: one of `hosm.objectives.TARGETS`; `dsm` trains s1 alone.
        diagonal: fit the diagonal of s2 alone.
        variance_reduction: None, `control` or `antithetic`.
        gamma: weight of DSM beside the second-order term, at least 0.
        orthogonal_noise: make the noise of each global batch orthogonal.
        second_order_share: share of each batch that the second-order term is evaluated on, above
            0 and at most 1.
        optimizer: `adam`; or `muon` for the matrices among the weights, and Adam for the rest.
        learning_rate: of Adam in its first step, above 0; it decays linearly to zero. Matrices
            under `muon` have twenty times this rate.
        weight_decay: share of each weight that a step of rate one takes off, at least 0, as few
            data need it (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR
            2019). Linear skips are spared, because they do not overfit.
        batch_size: size of the global batch, over all workers, at least 1.
        max_steps: optimiser steps, at least 1.
        average_width: width of the window that weights are averaged over, as the standard
            deviation of a step's weight over the number of steps so far, at most .28; 0 for no
            average.
        clip_norm: bound on the gradient's norm, above 0; None for no bound.
        validate_every: steps between validations, at least 1.
        patience: validations without improvement before the run stops, at least 1; None for no
            early stop.
        seed: keys the order of the samples and their noise.
        accumulate: parts of a batch whose gradients are computed one after another, so that a
            batch needs the memory of a part, at least 1.
        compiled: compile the networks (`torch.compile`).
        channels_last: keep the weights of convolutions as GPUs like them, channels last.
        prefetch: batches that a thread prepares ahead of the training, at least 0; for points that
            lie on the CPU and a model on a GPU.

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
    optimizer: Literal["adam", "muon"] = "adam"
    learning_rate: float = 2e-3
    weight_decay: float = 0.0
    batch_size: int = 128
    max_steps: int = 4000
    average_width: float = 0.1
    clip_norm: float | None = None
    validate_every: int = 500
    patience: int | None = None
    seed: int = 0
    accumulate: int = 1
    compiled: bool = False
    channels_last: bool = False
    prefetch: int = 0

    def __post_init__(self) -> None:
        check_scales(self.sigma)
        if self.target not in (*TARGETS, "dsm"):
            raise ValueError(f"target must be one of {', '.join(TARGETS)}, dsm, got {self.target}")
        if not 0 < self.second_order_share <= 1:
            raise ValueError(
                f"second_order_share must lie in (0, 1], got {self.second_order_share}"
            )
        check_choice("optimizer", self.optimizer, ("adam", "muon"))
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be above 0, got {self.learning_rate}")
        if not 0 <= self.gamma < float("inf"):
            raise ValueError(f"gamma must be finite and at least 0, got {self.gamma}")
        if not 0 <= self.weight_decay < float("inf"):
            raise ValueError(
                f"weight_decay must be finite and at least 0, got {self.weight_decay}"
            )
        if not 0 <= self.average_width <= LARGEST_AVERAGE_WIDTH:
            raise ValueError(
                f"average_width must lie in [0, {LARGEST_AVERAGE_WIDTH}], got {self.average_width}"
            )
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm must be above 0 or None, got {self.clip_norm}")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience must be at least 1 or None, got {self.patience}")
        if self.prefetch < 0:
            raise ValueError(f"prefetch must be at least 0, got {self.prefetch}")
        for name in ("batch_size", "max_steps", "validate_every", "accumulate"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.accumulate > self.batch_size:
            raise ValueError(
                f"accumulate must be at most batch_size = {self.batch_size}, got {self.accumulate}"
            )
