r"""How unlike its training points a point is, by the size of the scores there.

Far from the data the score is long and points back; between modes the curvature is positive, in
thin parts of the data it is large. The features of a point are the length of s1 and the trace and
norm of s2 (`hosm.estimator.features`), and `implicit` is D^-1 (|s1|^2 / 2 + tr s2), what implicit
score matching takes the mean of (Hyvarinen, "Estimation of Non-Normalized Statistical Models by
Score Matching", JMLR 2005). The norms of first-order scores tell outliers in Mahmood, Oliva and
Styner, "Multiscale Score Matching for Out-of-Distribution Detection", ICLR 2021; the second order
is added here.

A point is judged by how typical its features are, not by how large (Nalisnick, Matsukawa, Teh and
Lakshminarayanan, "Detecting Out-of-Distribution Inputs to Deep Generative Models Using
Typicality", 2019): `deviation` is their Mahalanobis distance from those of training points.
`tail` is the share of reference points that deviate at least as much, counting the point itself.
Of reference points that were held out of the fit, tail <= t has a probability of at most t if the
point follows their law (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World",
2005), and with m of them no tail is below 1 / (m + 1).

The default reference are training rows that a model had not seen. By networks they are those that
were held out to stop early: a tenth, so that a table of 100 rows leaves 10, and used once, to
stop. In closed form they are all rows, each by the model that was fitted without its fold (as in
Vovk, "Cross-Conformal Predictors", 2015, and Barber, Candes, Ramdas and Tibshirani, "Predictive
Inference with the Jackknife+", 2021), where new points are judged by the model of all rows, which
knows a quarter more of them. No theorem bounds these tails. Measured, the share of new rows of the
same law with tail <= .05 is .039 on wine and .042 on iris (8 splits in 70 and 30 % of the rows),
.070 on diabetes and .049 on Boston's houses (6), .066 on digits and .033 on breast cancer (5),
with standard errors of .01 to .02. Where a law follows its rows much too closely it is less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from torch import Tensor

from hosm.estimator.answers import FittedModel
from hosm.estimator.arrays import Table
from hosm.estimator.features import FEATURES, ORDERS, Usual
from hosm.estimator.score_estimator import ScoreEstimator
from hosm.io import Array

__all__ = [
    "ORDERS",
    "OutOfDistributionScores",
    "Reference",
    "check_order",
    "out_of_distribution_scores",
    "score_features",
]

FEWEST_POINTS = 4  # of a reference


def check_order(order: int) -> None:
    """Raise ValueError unless there are features of scores up to this order."""
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(map(str, ORDERS))}, got {order}")


@dataclass(frozen=True)
class OutOfDistributionScores:
    """What the scores say of n points, in their float type, but for `tail`.

    Attributes:
        features: of each name in `hosm.estimator.features`, and `implicit`: values, shape (n,).
        deviation: of the features from those of training points, 0 or more, shape (n,).
        tail: share of the reference that deviates at least as much, in (0, 1], shape (n,),
            float64, so that it compares with .05 as counts do.
    """

    features: dict[str, Array]
    deviation: Array
    tail: Array


@dataclass(frozen=True)
class Reference:
    """How far m points of the law deviate that the scores have not seen.

    Attributes:
        usual: the features that a fitted model has at its training points.
        order: of the scores whose features count.
        own: deviations of the m points, ascending, shape (m,).
    """

    usual: Usual
    order: int
    own: Array

    @classmethod
    def of(cls, fitted: FittedModel, order: int, x: Tensor | None = None) -> Self:
        """Return the reference of a fitted model.

        Args:
            fitted: the model.
            order: 1 for the length of s1 alone, 2 for all features.
            x: points of the law that were held out, shape (m, D), float64; None for rows of the
                training data (see the module).

        Raises:
            ValueError: another order, or less than 4 points.
        """
        check_order(order)
        usual = fitted.usual()
        if x is None:
            own = fitted.unseen[:, [*ORDERS].index(order)]
        else:
            own = usual.deviation(fitted.features(x), order)
        if len(own) < FEWEST_POINTS:
            found = f"{FEWEST_POINTS} points or more, got {len(own)}"
            raise ValueError(f"reference must hold {found}")
        return cls(usual, order, own.sort().values.numpy())

    def deviation(self, features: Tensor) -> Array:
        """Return the deviation of points, shape (n,), by their features, shape (n, 3)."""
        return self.usual.deviation(features, self.order).numpy()

    def beyond(self, deviation: Array) -> Array:
        """Return how many reference points deviate at least as much, both of shape (n,)."""
        return len(self.own) - np.searchsorted(self.own, deviation, side="left")


def score_features(estimator: ScoreEstimator, X: Any) -> dict[str, Array]:  # noqa: ANN401
    """Return the features of each point, by name, each of shape (n,).

    Args:
        estimator: a fitted one.
        X: points, shape (n, D).

    Raises:
        ValueError: before `fit`, or points of another shape, not numbers or not finite.
    """
    points = estimator._points("X", X)
    return _named(estimator._fitted().features(points.x), points)


def _named(features: Tensor, points: Table) -> dict[str, Array]:
    """Return features (n, 3) of points by name, with `implicit`, in the points' float type."""
    named = dict(zip(FEATURES, features.mT, strict=True))
    named["implicit"] = named["length"].square() / 2 + named["trace"]
    return {name: points.array(values) for name, values in named.items()}


def out_of_distribution_scores(
    estimator: ScoreEstimator,
    X: Any,  # noqa: ANN401
    reference: Any = None,  # noqa: ANN401
    *,
    order: int = 2,
) -> OutOfDistributionScores:
    """Return how unlike the training points are, by their scores, beside points of their law.

    Args:
        estimator: a fitted one.
        X: points, shape (n, D).
        reference: points of the law that was learned, held out of the fit, shape (m, D); None
            for training rows that scores had not seen (see the module), which by networks are
            few: those that were held out to stop early, a tenth of all by default.
        order: 1 for the length of s1 alone, 2 for all features.

    Raises:
        ValueError: before `fit`, another order, less than 4 reference points, or points of
            another shape, not numbers or not finite.
    """
    fitted = estimator._fitted()
    given = None if reference is None else estimator._points("X", reference).x
    known = Reference.of(fitted, order, given)
    points = estimator._points("X", X)
    found = fitted.features(points.x)
    deviation = known.deviation(found)
    tail = (1 + known.beyond(deviation)) / (1 + len(known.own))
    return OutOfDistributionScores(_named(found, points), deviation.astype(points.dtype), tail)
