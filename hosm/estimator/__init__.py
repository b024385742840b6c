"""The front door: from a table of points, or a denoiser of your own, to Hessians.

`score_estimator` fits and `answers` says what a fitted estimator can be asked; `recipe` turns a
table into a model, `frozen_denoiser` puts the second order on a denoiser that exists,
`implicit_score_matching` compares scores without knowing the truth, `out_of_distribution` scores
how unlike its training data a point is, `arrays` converts what users pass in and get back, and
`archive` keeps an estimator in one file.
"""

from hosm.estimator.answers import Fitted
from hosm.estimator.frozen_denoiser import (
    Denoiser,
    FrozenDenoiser,
    frozen_model,
    learn_covariance,
    spread,
)
from hosm.estimator.implicit_score_matching import implicit_loss
from hosm.estimator.out_of_distribution import (
    ORDERS,
    Novelty,
    novelty,
    score_features,
)
from hosm.estimator.recipe import (
    Recipe,
    Reshaped,
    first_model,
    gaussian_start,
    learn_first,
    learn_second,
    with_head,
)
from hosm.estimator.score_estimator import ScoreEstimator

__all__ = [
    "Denoiser",
    "Fitted",
    "FrozenDenoiser",
    "Novelty",
    "ORDERS",
    "Recipe",
    "Reshaped",
    "ScoreEstimator",
    "first_model",
    "frozen_model",
    "gaussian_start",
    "implicit_loss",
    "learn_covariance",
    "learn_first",
    "learn_second",
    "novelty",
    "score_features",
    "spread",
    "with_head",
]
