"""Optimisers of a run: Adam, or Muon for matrices and Adam for the rest.

Muon replaces the momentum of a matrix of weights by the nearest matrix with orthogonal rows or
columns, so that every direction of a layer learns at one rate (Jordan et al., "Muon: An Optimizer
for Hidden Layers in Neural Networks", 2024, as `torch.optim.Muon`). It is meant for the inner
layers of a network; what is no matrix, such as a bias or a convolution's four-dimensional weights,
is left to Adam (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.optim import AdamW, Muon, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from hosm.training.settings import Settings

__all__ = ["Optimizers", "linear_decay"]

MATRIX_RATE = 20.0  # learning rate of matrices under Muon, over that of the rest


def linear_decay(settings: Settings) -> Callable[[int], float]:
    """Return step -> factor of the learning rate: linear from one to zero."""
    return lambda step: max(0.0, 1 - step / settings.max_steps)


def _trained(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, p) for name, p in module.named_parameters() if p.requires_grad]


def _adam(named: list[tuple[str, nn.Parameter]], settings: Settings) -> AdamW:
    """Return Adam; linear skips have no decay."""
    skips = [("skip" in name.split("."), parameter) for name, parameter in named]
    parts = [[p for is_skip, p in skips if is_skip == spared] for spared in (False, True)]
    groups = zip(parts, (settings.weight_decay, 0.0), strict=True)
    kept = [{"params": part, "weight_decay": decay} for part, decay in groups if part]
    return AdamW(kept, settings.learning_rate, fused=True)


def _optimizers(module: nn.Module, settings: Settings) -> list[Optimizer]:
    """Return the optimisers of a module's parameters, by `Settings.optimizer`."""
    named = _trained(module)
    if settings.optimizer == "adam":
        return [_adam(named, settings)]
    matrices = [p for _, p in named if p.ndim == 2]
    rate, decay = MATRIX_RATE * settings.learning_rate, settings.weight_decay
    muon = Muon(matrices, rate, decay)
    return [muon, _adam([(name, p) for name, p in named if p.ndim != 2], settings)]


class Optimizers:
    """The optimisers of a run and their schedules, which step as one.

    Args:
        module: what is trained.
        settings: `optimizer`, `learning_rate`, `weight_decay` and `max_steps` are used.

    Raises:
        ValueError: `muon` for a module without a matrix.
    """

    def __init__(self, module: nn.Module, settings: Settings) -> None:
        self.parts = _optimizers(module, settings)
        self.schedules = [LambdaLR(part, linear_decay(settings)) for part in self.parts]

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def step(self) -> None:
        """Take one step, and lower the learning rates."""
        for part, schedule in zip(self.parts, self.schedules, strict=True):
            part.step()
            schedule.step()

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs."""
        both = zip(self.parts, self.schedules, strict=True)
        return {str(k): [each.state_dict() for each in pair] for k, pair in enumerate(both)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        for k, (part, schedule) in enumerate(zip(self.parts, self.schedules, strict=True)):
            part.load_state_dict(state[str(k)][0])
            schedule.load_state_dict(state[str(k)][1])
