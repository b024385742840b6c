"""The front door: from a table of points, or a denoiser of your own, to Hessians.

`score_estimator` is the estimator itself: it learns a model by `recipe`, holds it as a
`FittedModel` of `answers`, which evaluates it, and keeps it in one file by `archive`; `arrays`
converts between the arrays of users and tensors. `drawing` runs chains of a law in closed form
and compares draws with the rows; `clean_law` imitates a table. `frozen_denoiser` learns the second
order of a denoiser that exists already, `implicit_score_matching` compares scores when the true
score is unknown, and `out_of_distribution` says how unlike the training data a point is, by its
`features`; `outlier_detector` is scikit-learn's front for that. `local_dimension` says in how many
directions data vary around a point. `column_gain` says in which columns a law in closed form is
better than a Gaussian, and `threads` gives small tables one thread.
"""

from hosm.estimator.answers import FittedModel
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
    OutOfDistributionScores,
    out_of_distribution_scores,
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
from hosm.estimator.score_estimator import NotFittedError, ScoreEstimator

__all__ = [
    "Denoiser",
    "FittedModel",
    "FrozenDenoiser",
    "NotFittedError",
    "OutOfDistributionScores",
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
    "out_of_distribution_scores",
    "score_features",
    "spread",
    "with_head",
]
