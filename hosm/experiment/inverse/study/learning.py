"""The model of the study: both scores at every noise scale, learned from draws of the law."""

import torch
from torch import Tensor

from hosm.distributions import GaussianMixture
from hosm.experiment.settings import InverseParams
from hosm.experiment.shared.range_models import learned_model
from hosm.scores import ScoreModel
from hosm.training import Settings

__all__ = ["learned"]

EPOCH = 16384  # fresh draws at a time
HELD_OUT = 10**6  # the epoch of the validation points


def learned(law: GaussianMixture, params: InverseParams) -> ScoreModel:
    """Return a model of a range of noise scales, trained on fresh draws of the law.

    Args:
        law: of the clean points.
        params: sizes of the network and of its training.
    """
    settings = Settings(
        sigma=params.sigma,
        target="likelihood",
        variance_reduction=None,
        gamma=params.gamma,
        learning_rate=params.learning_rate,
        batch_size=params.batch_size,
        max_steps=params.train_steps,
        validate_every=params.train_steps,
        seed=params.seed,
    )

    def draw(epoch: int) -> Tensor:
        return law.sample(EPOCH, torch.Generator().manual_seed(epoch)).float()

    held_out = draw(HELD_OUT)[:1000]
    return learned_model(law, draw, held_out, settings, params.rank, params.width)
