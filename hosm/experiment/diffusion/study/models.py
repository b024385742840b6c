"""The law of the study, a network of all noise scales that is trained on it, and its twins."""

from dataclasses import dataclass

import torch
from torch import Tensor

from hosm.distributions import GaussianMixture
from hosm.exact_scores import ExactScores
from hosm.experiment.settings import DiffusionParams
from hosm.experiment.shared.range_models import learned_model
from hosm.scores import ScoreModel
from hosm.training import Settings

__all__ = ["ExactCovariance", "law", "seeded", "train"]

SPREAD, COLUMNS, VARIANCE = 1.0, 0.7, 0.2  # of the means, the factors, and what each has alone
HELD, POOL = 500, 20_000  # held-out points, and fresh draws of an epoch


def seeded(*key: int) -> torch.Generator:
    """Return a generator of a key of whole numbers."""
    number = 0
    for part in key:
        number = 1_000_003 * number + part
    return torch.Generator().manual_seed(number)


def law(params: DiffusionParams) -> GaussianMixture:
    """Return an equal mixture of Gaussians with covariances .2 I + F F^T, F of a few columns."""
    generator, size = seeded(0), (params.terms, params.dimension)
    means = SPREAD * torch.randn(size, generator=generator)
    factors = COLUMNS * torch.randn(*size, params.law_rank, generator=generator)
    covariances = factors @ factors.mT + VARIANCE * torch.eye(params.dimension)
    return GaussianMixture(torch.full((params.terms,), 1 / params.terms), means, covariances)


def train(params: DiffusionParams, exact: GaussianMixture) -> ScoreModel:
    """Return a network of both scores over the range of noise, trained on fresh draws."""
    held = exact.sample(HELD, seeded(1))
    settings = Settings(
        sigma=params.sigma,
        target="likelihood",
        variance_reduction=None,
        gamma=params.gamma,
        learning_rate=params.learning_rate,
        batch_size=params.batch_size,
        max_steps=params.max_steps,
        validate_every=params.max_steps,
    )

    def draw(epoch: int) -> Tensor:
        return exact.sample(POOL, seeded(2, epoch))

    return learned_model(exact, draw, held, settings, params.rank, params.width)


@dataclass(frozen=True)
class ExactCovariance:
    """The mean of a network with the exact covariance of the law: what s2 could be at best.

    Args:
        model: the network.
        exact: the law.
    """

    model: ScoreModel
    exact: ExactScores

    def score(self, x: Tensor, sigma: float) -> Tensor:
        """Return s1 of the network, both of shape (n, D)."""
        return self.model.score(x, sigma)

    def __call__(self, x: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
        """Return s1 of the network, shape (n, D), and s2 of the law, (n, D, D)."""
        return self.model.score(x, sigma), self.exact.law.smoothed(sigma).hessian(x)
