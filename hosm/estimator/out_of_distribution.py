r"""How unlike its training points a point is, by the size of the scores there.

Far from the data the score is long and points back; between modes the curvature is positive, in
thin parts of the data it is large. With y a standardised point of D coordinates, the features are

    length     |s1(y)| / D^(1/2),
    trace      tr s2(y) / D,
    curvature  |s2(y)|_F / D^(1/2),

and `implicit` is D^-1 (|s1|^2 / 2 + tr s2), what implicit score matching takes the mean of
(Hyvarinen, "Estimation of Non-Normalized Statistical Models by Score Matching", JMLR 2005). The
norms of first-order scores tell outliers in Mahmood, Oliva and Styner, "Multiscale Score Matching
for Out-of-Distribution Detection", ICLR 2021; the second order is added here.

A point is judged by how typical its features are, not by how large (Nalisnick, Matsukawa, Teh and
Lakshminarayanan, "Detecting Out-of-Distribution Inputs to Deep Generative Models Using
Typicality", 2019): `deviation` is their Mahalanobis distance from those of reference points, each
feature first made symmetric by its logarithm or, the trace, left as it is. `tail` is the share of
the reference points that deviate at least as much, counting the point itself: were it one of
them, and had neither the scores nor the reference seen it, tail <= t would have a probability of
at most t (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005). The
default reference is up to 1,000 of the training points, at which scores are somewhat better than
elsewhere: name held-out points for tails that can be relied on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hosm.estimator.score_estimator import ScoreEstimator
from hosm.io import Array

__all__ = ["ORDERS", "OutOfDistributionScores", "out_of_distribution_scores", "score_features"]

POINTS_PER_CHUNK = 1000  # points whose Hessians are held at once
FEATURES = ("length", "trace", "curvature")
ORDERS = {1: FEATURES[:1], 2: FEATURES}  # features of scores up to this order


@dataclass(frozen=True)
class OutOfDistributionScores:
    """What the scores say of n points.

    Attributes:
        features: of each name in the module's list, and `implicit`: values, shape (n,).
        deviation: of the features from those of the reference, 0 or more, shape (n,).
        tail: share of the reference that deviates at least as much, in (0, 1], shape (n,).
    """

    features: dict[str, Array]
    deviation: Array
    tail: Array


def score_features(estimator: ScoreEstimator, X: Any) -> dict[str, Array]:  # noqa: ANN401
    """Return the features of each point, by name, each of shape (n,).

    Args:
        estimator: a fitted one.
        X: points, shape (n, D).

    Raises:
        ValueError: before `fit`, or points of another shape, not numbers or not finite.
    """
    parts = [
        _features(estimator, X[i : i + POINTS_PER_CHUNK])
        for i in range(0, max(1, len(X)), POINTS_PER_CHUNK)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _features(estimator: ScoreEstimator, points: Any) -> dict[str, Array]:  # noqa: ANN401
    s1 = estimator.score_function(points) * estimator.scaling_.scale.numpy()
    s2: Any = estimator.hessian(points)
    scale = estimator.scaling_.scale.to(s2.diag)
    s2 = type(s2)(s2.diag * scale**2, s2.factor * scale.unsqueeze(-1), s2.signs)
    size = s1.shape[1]
    square, trace = (s1**2).mean(1), s2.trace().numpy() / size
    return {
        "length": np.sqrt(square),
        "trace": trace,
        "curvature": np.sqrt(np.maximum(s2.frobenius_norm_squared().numpy(), 0) / size),
        "implicit": square / 2 + trace,
    }


def _symmetric(features: dict[str, Array], order: int) -> Array:
    """Return the features of scores up to an order, lengths by their logarithms, (n, k)."""
    tiny = np.finfo(np.float32).tiny
    columns = [
        features[name] if name == "trace" else np.log(features[name] + tiny)
        for name in ORDERS[order]
    ]
    return np.stack(columns, 1).astype(np.float64)


def out_of_distribution_scores(
    estimator: ScoreEstimator,
    X: Any,  # noqa: ANN401
    reference: Any = None,  # noqa: ANN401
    *,
    order: int = 2,
) -> OutOfDistributionScores:
    """Return how unlike the reference points are, by their scores.

    Args:
        estimator: a fitted one.
        X: points, shape (n, D).
        reference: points of the law that was learned, best held out of the fit, shape (m, D);
            None for the training points that the estimator holds.
        order: 1 for the length of s1 alone, 2 for all features.

    Raises:
        ValueError: before `fit`, another order, less than 4 reference points, or points of
            another shape, not numbers or not finite.
    """
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(map(str, ORDERS))}, got {order}")
    if reference is None:
        reference = estimator.scaling_.out_of(estimator.starts_).numpy()
    known = _symmetric(score_features(estimator, reference), order)
    if len(known) < 4:
        raise ValueError(f"reference must hold 4 points or more, got {len(known)}")
    found = score_features(estimator, X)
    mean = known.mean(0)
    covariance = np.atleast_2d(np.cov(known.T))
    floor = 1e-9 * np.trace(covariance) + np.finfo(np.float64).tiny
    inverse = np.linalg.inv(covariance + floor * np.eye(len(covariance)))

    def distance(values: Array) -> Array:
        return np.sqrt(np.einsum("ni,ij,nj->n", values - mean, inverse, values - mean))

    deviation, own = distance(_symmetric(found, order)), np.sort(distance(known))
    beyond = len(own) - np.searchsorted(own, deviation, side="left")
    return OutOfDistributionScores(found, deviation, (1 + beyond) / (1 + len(own)))
