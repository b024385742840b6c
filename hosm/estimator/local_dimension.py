r"""In how many directions data vary around a point: the local intrinsic dimension d <= D.

By scores. Let the data near x lie on a surface of dimension d, and let q_sigma be the density of
x + sigma z. For small sigma it is that of a Gaussian across the surface, sigma^(d - D) times
something that does not depend on sigma (Tempczyk et al., "LIDL: Local Intrinsic Dimension
Estimation Using Approximate Likelihood", ICML 2022). As d q_sigma / d(sigma^2) = (1/2) Laplacian
q_sigma, the equation of heat,

    d = D + d log q_sigma / d log sigma = D + sigma^2 (tr s2 + |s1|^2),

all of it from one forward pass of a model of both scores: FLIPD of Kamkari, Ross, Cresswell,
Caterini, Krishnan and Loaiza-Ganem ("A Geometric View of Data Complexity: Efficient Local
Intrinsic Dimension Estimation with Diffusion Models", NeurIPS 2024). By Tweedie's formula it is
(tr C + |m - x|^2) / sigma^2, where m and C are mean and covariance of the posterior of the clean
point given x. It is as good as the scores are at the distance sigma, and q_sigma must be seen at
a sigma below the radius of curvature: `dimension_by_scores`.

By rows. Where the law is that of n rows, no model is needed. If the noise is uniform in a ball
around x and not Gaussian, the posterior given x is uniform on the rows in the ball; as in a
method of nearest neighbours, the ball is so large that it holds k of them. Near x the rows are
uniform on a ball of dimension d, whose covariance C has d equal eigenvalues, so that

    d = (tr C)^2 / |C|_F^2,

the participation ratio, which does not ask for the size of the ball. In many dimensions that is
what matters: no two rows are near each other there, so that ratios of distances, or C over
sigma^2, say less than d, while directions are still uniform. The skewness of simplices by
Johnsson, Soneson and Fontes ("Low Bias Local Intrinsic Dimension Estimation from Expected Simplex
Skewness", IEEE TPAMI 2015) uses the same. Given the distance to row k + 1, the k rows are
independent draws, and so unbiased estimates of (tr C)^2 and |C|_F^2 exist whatever their law
(Himeno and Yamada, "Estimations for Some Functions of Covariance Matrix in High Dimension under
Non-normality and Its Applications", Journal of Multivariate Analysis 2014): with the sample
covariance S of k rows and Q = sum_i |x_i - mean|^4 / (k - 1),

    c = (k - 1) / (k (k - 2) (k - 3)),
    (tr C)^2 ~ c (2 |S|_F^2 + (k^2 - 3 k + 1) (tr S)^2 - k Q),
    |C|_F^2  ~ c ((k - 1) (k - 2) |S|_F^2 + (tr S)^2 - k Q).

Without bias k can be small, about 10, which keeps the ball where the surface is flat; that a
ratio of two noisy numbers is biased is mended by means of both over the balls around the nearest
rows, each in units of its own mean square distance. Errors that remain: a surface that bends
within a ball has too large a dimension; rows that vary much more along some directions of the
surface than along others within a ball, too small a one; and near where surfaces of several
dimensions meet, the answer lies between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from hosm.checks import check_count
from hosm.estimator.arrays import Scaling, as_table
from hosm.io import Array

__all__ = [
    "dimension_by_rows",
    "dimension_by_scores",
    "kept_rows",
    "local_dimension",
    "standard_error",
]

NEIGHBOURS, BALLS = 10, 50  # rows in a ball, and balls over which the means are
FEWEST_NEIGHBOURS = 4  # that give unbiased estimates
FOLDS = 5  # of the jackknife
MOST_ROWS = 10_000  # that are kept
MOST_NUMBERS = 2**20  # of them
NUMBERS_PER_CHUNK = 2**22  # of distances and neighbourhoods held at once


def dimension_by_scores(s1: Tensor, trace: Tensor, sigma: float) -> Tensor:
    """Return D + sigma^2 (tr s2 + |s1|^2) at each point, shape (n,): FLIPD, see the module.

    Args:
        s1: first-order scores of q_sigma, shape (n, D).
        trace: traces of the second-order scores, shape (n,).
        sigma: noise scale, in the units of the points.
    """
    return s1.shape[1] + sigma**2 * (trace + s1.square().sum(1))


def kept_rows(points: Tensor, seed: int) -> Tensor:
    """Return the distinct of points (n, D), float32, shuffled: at most 10,000, shape (m, D)."""
    rows = points.float().unique(dim=0)
    most = min(MOST_ROWS, max(1000, MOST_NUMBERS // points.shape[1]))
    order = torch.randperm(len(rows), generator=Generator().manual_seed(seed))[:most]
    return rows[order.to(rows.device)]


def _unbiased(neighbours: Tensor) -> tuple[Tensor, Tensor]:
    """Return estimates of (tr C)^2 and |C|_F^2 from rows of balls, in units of their size.

    Args:
        neighbours: the k rows of each ball, shape (m, k, D).

    Returns:
        Both of shape (m,), divided by the square of the mean square distance to the mean.
    """
    k = neighbours.shape[1]
    centred = neighbours - neighbours.mean(1, keepdim=True)
    gram = centred @ centred.mT
    squares = gram.diagonal(dim1=1, dim2=2)
    trace, fourth = squares.sum(1) / (k - 1), squares.square().sum(1) / (k - 1)
    frobenius = gram.square().sum((1, 2)) / (k - 1) ** 2
    c = (k - 1) / (k * (k - 2) * (k - 3)) / squares.mean(1).square()
    first = 2 * frobenius + (k * k - 3 * k + 1) * trace.square() - k * fourth
    second = (k - 1) * (k - 2) * frobenius + trace.square() - k * fourth
    return c * first, c * second


def _nearest(rows: Tensor, x: Tensor, count: int) -> Iterator[Tensor]:
    """Yield the places of the rows nearest to points x, chunk by chunk, shape (*, count)."""
    for part in x.split(max(1, NUMBERS_PER_CHUNK // len(rows))):
        yield torch.cdist(part, rows).topk(count, largest=False).indices


def _moments(rows: Tensor, centres: Tensor, neighbours: int) -> tuple[Tensor, Tensor]:
    """Return `_unbiased` of the balls around centres (m, D), of which they are no members."""
    found = []
    rows_at_once = max(1, NUMBERS_PER_CHUNK // (rows.shape[1] * (neighbours + 1)))
    near = torch.cat([*_nearest(rows, centres, neighbours + 1)])
    for part, x in zip(near.split(rows_at_once), centres.split(rows_at_once), strict=True):
        offsets = rows[part] - x.unsqueeze(1)
        distances = offsets.square().sum(2)
        others = torch.where(distances > 0, distances, math.inf)  # a centre may be a row
        order = others.argsort(1)[:, :neighbours].unsqueeze(2).expand(-1, -1, rows.shape[1])
        found.append(_unbiased(offsets.gather(1, order)))
    first, second = zip(*found, strict=True)
    return torch.cat(first), torch.cat(second)


def dimension_by_rows(
    rows: Tensor, x: Tensor, neighbours: int = NEIGHBOURS, balls: int = BALLS
) -> Tensor:
    """Return the local dimension of rows at points x, shape (n,), from 0 to D: see the module.

    Args:
        rows: distinct rows, shape (m, D).
        x: points, shape (n, D), of the type of the rows; a row is no neighbour of itself.
        neighbours: rows in a ball, k, from 4 to m - 1.
        balls: balls over which the means are: that around the point itself, and those around the
            nearest rows; all where there are fewer.

    Raises:
        ValueError: a count is out of range.
    """
    check_count("neighbours", neighbours, FEWEST_NEIGHBOURS)
    check_count("balls", balls)
    if len(rows) <= neighbours:
        raise ValueError(
            f"neighbours must be below the number of distinct rows, {len(rows)}, got {neighbours}"
        )
    rows, x = rows.double(), x.double()
    first, second = _moments(rows, x, neighbours)
    if others := min(balls - 1, len(rows) - 1):
        near = torch.cat([*_nearest(rows, x, others)])
        needed, place = near.unique(return_inverse=True)
        around = _moments(rows, rows[needed], neighbours)
        first = (first + around[0][place].sum(1)) / (1 + others)
        second = (second + around[1][place].sum(1)) / (1 + others)
    first = first.clamp_min(torch.finfo(first.dtype).tiny)
    return first / second.clamp_min(first / rows.shape[1])


def standard_error(
    rows: Tensor, x: Tensor, neighbours: int = NEIGHBOURS, balls: int = BALLS
) -> Tensor:
    """Return how much `dimension_by_rows` changes with the rows, shape (n,).

    It is the jackknife of five folds: ((K - 1) / K times the sum of squares about the mean of
    what the rows without one fold give)^(1/2). Bias is left out.

    Args:
        rows: distinct rows in random order, shape (m, D).
        x: points, shape (n, D).
        neighbours: as in `dimension_by_rows`; four fifths of the rows must be more.
        balls: as in `dimension_by_rows`.
    """
    fold = torch.arange(len(rows), device=rows.device) % FOLDS
    parts = [dimension_by_rows(rows[fold != k], x, neighbours, balls) for k in range(FOLDS)]
    return (FOLDS - 1) ** 0.5 * torch.stack(parts).std(0, correction=0)


def local_dimension(
    X: Any,  # noqa: ANN401
    rows: Any = None,  # noqa: ANN401
    *,
    neighbours: int = NEIGHBOURS,
    balls: int = BALLS,
    return_std: bool = False,
) -> Array | tuple[Array, Array]:
    """Return in how many directions a table varies around each of its rows, shape (n,).

    No model is fitted. Columns are divided by their standard deviations first; of more than
    10,000 distinct rows (fewer beyond 104 columns), so many are drawn. See the module.

    Args:
        X: points, shape (n, D): an array, a data frame or a tensor.
        rows: the table around which the dimension is asked for, shape (m, D); None for X.
        neighbours: rows in a ball, from 4. Compare 10 with 20 and 40: where the answers grow, the
            rows are too few for their curvature, or too noisy.
        balls: balls over which the means are; 1 for the most local and most random answer.
        return_std: return standard errors too (see `standard_error`), of the same shape.

    Raises:
        ValueError: X or rows hold anything but finite numbers, have other shapes, or are too few.
    """
    points = as_table("X", X)
    table = points if rows is None else as_table("rows", rows)
    if points.x.shape[1] != table.x.shape[1]:
        raise ValueError(
            f"X must have {table.x.shape[1]} columns, as rows do, got {points.x.shape[1]}"
        )
    scaling = Scaling.fitted(table.x, True)
    kept, y = kept_rows(scaling.into(table.x), 0), scaling.into(points.x)
    found = points.array(dimension_by_rows(kept, y, neighbours, balls))
    if not return_std:
        return found
    return found, points.array(standard_error(kept, y, neighbours, balls))
