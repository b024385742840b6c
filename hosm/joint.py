"""The joint loss of s1 and s2: what a step of training minimises.

The objective of Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data
Distribution by Denoising" (NeurIPS 2021), equation 12: gamma times the DSM loss of s1 plus a
second-order term, see `hosm.objectives`.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from hosm import noise
from hosm.objectives import Target, Terms, dsm, joint_terms
from hosm.settings import Settings

__all__ = ["JointObjective"]


class JointObjective(nn.Module):
    """The model and its loss in one forward pass, so that DDP can wrap both.

    An objective names its terms, and the weights of their sum, which is minimised; early
    stopping watches the first of them. `model` is what is trained.

    Raises:
        ValueError: the model has another sigma than the settings.
    """

    model: Any
    names = ("dsm", "second")

    def __init__(self, model: nn.Module, settings: Settings) -> None:
        super().__init__()
        own = getattr(model, "sigma", settings.sigma)
        if own != settings.sigma:
            raise ValueError(f"the settings have sigma {settings.sigma} and the model has {own}")
        self.model, self.settings = model, settings
        self.weights = (settings.gamma, 1.0)

    def forward(self, x: Tensor, z: Tensor, v: Tensor, t: Tensor) -> Tensor:
        """Return the terms, shape (2,), of a batch (see `hosm.batches.Batch`)."""
        s = self.settings
        sigma = noise.noise_scales(t, s.sigma) if isinstance(s.sigma, tuple) else s.sigma
        count = 0 if s.target == "dsm" else math.ceil(s.second_order_share * len(x))
        first, second = x.new_zeros(()), x.new_zeros(())
        if count:
            part = slice(None, count)
            first, second = self._joint(x[part], _take(sigma, part), z[part], v[part])
        if count < len(x):
            part = slice(count, None)
            scales = (_take(sigma, part), s.variance_reduction)
            other = dsm(self.model.score, x[part], *scales, z=z[part])
            first = (first * count + other * (len(x) - count)) / len(x)
        return torch.stack([first, second])

    def _joint(self, x: Tensor, sigma: float | Tensor, z: Tensor, v: Tensor) -> Terms:
        s = self.settings
        target: Target = s.target  # type: ignore[assignment]
        options = (sigma, target, s.variance_reduction, s.diagonal)
        return joint_terms(self.model, x, *options, z=z, v=v)


def _take(sigma: float | Tensor, part: slice) -> float | Tensor:
    """Return the noise scales of a part of the batch."""
    return sigma[part] if isinstance(sigma, Tensor) else sigma
