"""A model of both scores at every noise scale, learned from fresh draws of a known law."""

from collections.abc import Callable

import torch
from torch import Tensor

from hosm.distributions import GaussianMixture
from hosm.networks import ConditionalMLP
from hosm.scores import ScoreModel
from hosm.training import Settings, fit

__all__ = ["learned_model"]


def learned_model(
    law: GaussianMixture,
    draw: Callable[[int], Tensor],
    held_out: Tensor,
    settings: Settings,
    rank: int,
    width: int,
) -> ScoreModel:
    """Return a network of a range of noise scales, trained on draws of a law.

    Args:
        law: of the clean points.
        draw: from the number of an epoch to its draws, shape (n, D), float32.
        held_out: other draws, shape (m, D), float32.
        settings: of the training; their sigma is the range.
        rank: columns of the covariance.
        width: of the network.
    """
    torch.manual_seed(settings.seed)
    model = ScoreModel(
        ConditionalMLP(law.dimension, 2 + rank, width),
        sigma=settings.sigma,
        rank=rank,
        parametrisation="denoiser",
        psd=True,
        data_std=float(law.variance.mean().sqrt()),
    )
    model.load_state_dict(fit(model, settings, draw, held_out).weights)
    return model.eval().requires_grad_(False)
