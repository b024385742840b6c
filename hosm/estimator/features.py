r"""How large the scores of both orders are at a point, and how usual that is.

With y a standardised point of D coordinates, and s1 and s2 the scores (Meng, Song, Li and Ermon,
"Estimating High Order Gradients of the Data Distribution by Denoising", NeurIPS 2021), the
features are

    length     |s1(y)| / D^(1/2),
    trace      tr s2(y) / D,
    curvature  |s2(y)|_F / D^(1/2);

of laws in closed form of more than 64 coordinates the curvature is that of the diagonal of s2
alone, so that no D x D matrix is formed for each row.

What is usual depends on the model: where a column hardly varies, the trace is the inverse of a
variance that another part of the rows gives otherwise. So a model judges points by the features
that it has at the rows that it was fitted to: the `deviation` of a point is their Mahalanobis
distance from those, each feature first made symmetric by its logarithm or, the trace, left as it
is. Scores are better at rows that were fitted to than elsewhere. How far rows deviate that were
not, each row tells in turn, to a model that was fitted without its fold ("cross-validatory
choice", Stone, 1974).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from hosm.estimator.closed_form import ClosedFormModel
from hosm.scores import ScoreModel

__all__ = ["FEATURES", "ORDERS", "Usual", "features_of", "unseen_deviations"]

FEATURES = ("length", "trace", "curvature")
ORDERS = {1: FEATURES[:1], 2: FEATURES}  # features of scores up to this order
MOST_COLUMNS = 64  # of Hessians in closed form that are formed whole
MOST_ROWS = 1000  # that tell what is usual
NUMBERS_PER_CHUNK = 2**22  # of Hessians held at once


@torch.no_grad()
def features_of(model: ScoreModel | ClosedFormModel, y: Tensor) -> Tensor:
    """Return the features at standardised points.

    Args:
        model: of both scores.
        y: points, shape (n, D), on the device of the model.

    Returns:
        The features in the order of `FEATURES`, shape (n, 3), float64, on the CPU.
    """
    size = y.shape[1]
    columns = size if isinstance(model, ClosedFormModel) else 2 + model.rank
    rows = max(1, NUMBERS_PER_CHUNK // (size * columns))
    return torch.cat([_features(model, part) for part in y.split(rows)])


def _features(model: ScoreModel | ClosedFormModel, y: Tensor) -> Tensor:
    size = y.shape[1]
    if isinstance(model, ClosedFormModel):
        diagonal = model.diagonal(y)
        entries = model.matrices(y).flatten(1) if size <= MOST_COLUMNS else diagonal
        trace, squares = diagonal.sum(1), entries.square().sum(1)
    else:
        s2 = model.second_order(y)
        assert s2 is not None  # `fit` learns both orders
        s2 = s2.to("cpu", torch.float64)
        trace, squares = s2.trace(), s2.frobenius_norm_squared().clamp_min(0)
    length = model.score(y).double().square().mean(1).sqrt()
    return torch.stack([length.cpu(), trace.cpu() / size, (squares.cpu() / size).sqrt()], 1)


def _symmetric(features: Tensor) -> Tensor:
    """Return features (n, 3) with the logarithms of lengths, of the same shape."""
    logarithms = (features + torch.finfo(torch.float32).tiny).log()
    trace = torch.tensor([name == "trace" for name in FEATURES])
    return torch.where(trace, features, logarithms)


@dataclass(frozen=True)
class Usual:
    """The features that a model has at rows that it was fitted to, made symmetric.

    Attributes:
        mean: shape (3,).
        covariance: shape (3, 3).
    """

    mean: Tensor
    covariance: Tensor

    @classmethod
    def at(cls, model: ScoreModel | ClosedFormModel, y: Tensor) -> Self:
        """Return what is usual at standardised rows, y, shape (m, D)."""
        values = _symmetric(features_of(model, y))
        return cls(values.mean(0), values.mT.cov())

    def deviation(self, features: Tensor, order: int) -> Tensor:
        """Return how far points deviate, shape (n,), by features of scores up to an order.

        Args:
            features: in the order of `FEATURES`, shape (n, 3).
            order: 1 for the length of s1 alone, 2 for all features.
        """
        count = len(ORDERS[order])
        covariance = self.covariance[:count, :count]
        floor = 1e-9 * covariance.trace() + torch.finfo(torch.float64).tiny
        precision = torch.linalg.inv(covariance + floor * torch.eye(count, dtype=floor.dtype))
        centred = (_symmetric(features) - self.mean)[:, :count]
        return torch.einsum("ni,ij,nj->n", centred, precision, centred).sqrt()

    def deviations(self, features: Tensor) -> Tensor:
        """Return the deviations by scores of first order and of both, shape (n, 2).

        Args:
            features: as in `deviation`, shape (n, 3).
        """
        return torch.stack([self.deviation(features, order) for order in ORDERS], 1)


def unseen_deviations(models: Sequence[ClosedFormModel], fold: Tensor, y: Tensor) -> Tensor:
    """Return how far each row deviates for the model that was fitted without its fold.

    Args:
        models: one for each fold.
        fold: fold of each row, shape (n,).
        y: standardised rows, shape (n, D).

    Returns:
        Deviations as in `Usual.deviations`, shape (n, 2).
    """
    found = torch.empty(len(y), len(ORDERS), dtype=torch.float64)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0)).to(y.device)
    for k, model in enumerate(models):
        seen = order[fold[order] != k][:MOST_ROWS]
        left_out = (fold == k).nonzero().squeeze(1)
        usual = Usual.at(model, y[seen])
        found[left_out.cpu()] = usual.deviations(features_of(model, y[left_out]))
    return found
