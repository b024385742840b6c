r"""The causal order of variables, from the second derivatives of their log-density.

In an additive-noise model, x_j = f_j(parents of j) + Gaussian noise of variance v_j, let s_j and
h_j = d s_j / dx_j be the score and the Hessian's diagonal of the variables' law. If j is a leaf,
that is, no parent of any other, h_j = -1 / v_j everywhere, and otherwise it varies as a rule. So
the variable whose h_j varies least is the last one; it is removed, and so on with the others
(Rolland, Cevher, Kleindessner, Russell, Janzing, Scholkopf and Locatello, "Score Matching Enables
Causal Discovery of Nonlinear Additive Noise Models", ICML 2022).

With r_j = x_j - E[x_j | all others], E[s_j r_j] = -1, so that by Cauchy and Schwarz

    -E[h_j] E[r_j^2] = E[s_j^2] E[r_j^2] >= 1,                                              (1)

with equality if and only if s_j is linear in r_j, which means that x_j given the others is
Gaussian of constant variance, as a leaf is. The mean of an estimated h_j is known better than its
variance, but (1) has also the error of the regression. Here the variable comes last for which

    (1) times Var(h_j) E[r_j^2]                                                             (2)

is least: the second factor is 0 for a leaf. That (2) is a product, and with which power of
E[r_j^2], was chosen by these very counts of contradicted edges, so that the last row is somewhat
flattered (10 variables, 1,000 points, of which regressions took 400; seeds 0 to 9):

    criterion              10 edges     40 edges
    Var(h_j), SCORE      1.6 +- .4     .9 +- .4
    (1)                   .6 +- .3    3.6 +- .9
    Var(h_j) E[r_j^2]     .8 +- .3    1.0 +- .3
    (2)                   .6 +- .3    1.0 +- .5

The regressions of E[r_j^2] take the kernel that suits the variable best when all others are there.

Columns are standardised first: how much they vary tells the order of simulated data (Reisach,
Seiler and Weichwald, "Beware of the Simulated DAG!", NeurIPS 2021), and of no others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from hosm.causal.regression import Kernel, best_kernels, left_out_variances
from hosm.estimator.arrays import Table, as_table, seed_of
from hosm.progress import ProgressBar

__all__ = ["Order", "order", "standardised", "stein_hessian_diagonal", "subset"]

RIDGE = 1e-3  # eta of Rolland et al.
KERNEL_ROWS = 1000  # that the kernel's matrix takes, at most
REGRESSION_ROWS = 600  # that a regression takes, at most
LEAST_ROWS = 20


@dataclass(frozen=True)
class Order:
    """A causal order of D variables.

    Attributes:
        columns: indices of the variables, causes first, length D.
        names: their names in this order, where the table has names; else none.
        criteria: value (2) of each variable when it was chosen as a leaf; NaN for the first.
        rivals: the least value of the others at that step; where it is hardly larger, the two
            might as well change places. NaN for the first.
    """

    columns: list[int]
    names: list[str]
    criteria: list[float]
    rivals: list[float]


def stein_hessian_diagonal(x: Tensor) -> Tensor:
    """Estimate d^2 log p / dx_j^2 at points x, both of shape (n, D), by a kernel.

    By Stein's identities with the Gaussian kernel of the median distance s, (K + eta I) G =
    -sum_k grad_k k(x_i, x_k) for the score G and (K + eta I) (H + G^2) = sum_k grad_k^2 k(x_i,
    x_k) for the diagonal H (Rolland et al., 2022, section 3); the sums are products with K.
    """
    distances = torch.cdist(x, x)
    s = torch.pdist(x).median()
    K = (distances.square() / (-2 * s**2)).exp()
    mass, first, second = K.sum(1, keepdim=True), K @ x, K @ x.square()
    gradient = (x * mass - first) / s**2
    curvature = (x.square() * mass - 2 * x * first + second) / s**4 - mass / s**2
    ridge = RIDGE * torch.eye(len(x), dtype=x.dtype)
    score, both = torch.linalg.solve(K + ridge, torch.hstack([-gradient, curvature])).chunk(2, 1)
    return both - score.square()


def standardised(table: Table) -> Tensor:
    """Return the columns of a table with mean 0 and variance 1, shape (n, D).

    Raises:
        ValueError: a column is constant, so that nothing can be said of its place.
    """
    x = table.x - table.x.mean(0)
    scale = x.square().mean(0).sqrt()
    tiny = 10 * torch.finfo(x.dtype).eps * table.x.abs().amax(0)
    constant = (scale <= tiny).nonzero().flatten().tolist()
    if constant:
        raise ValueError(f"each column of X must vary, got a constant column {constant[0]}")
    return x / scale


def subset(x: Tensor, most: int, seed: int) -> Tensor:
    """Return at most so many rows of x, drawn without replacement.

    Args:
        x: points, shape (n, D).
        most: number of rows.
        seed: of the draw.
    """
    if len(x) <= most:
        return x
    return x[torch.randperm(len(x), generator=Generator().manual_seed(seed))[:most]]


def order(
    X: Any,  # noqa: ANN401
    hessian_diagonal: Callable[[Tensor], Tensor] = stein_hessian_diagonal,
    random_state: Any = 0,  # noqa: ANN401
    verbose: bool = False,
) -> Order:
    """Return the causal order of the columns of X, causes first (see the module).

    Args:
        X: points of shape (n, D), n >= 20: an array, a data frame or a tensor.
        hessian_diagonal: estimates the second derivatives of the log-density of standardised
            points (m, d), float64, at these points, shape (m, d); d falls from D to 2. For the
            learned ones: `lambda x: hosm.estimator.choice.choose(x, [0.1]).model
            .hessian_diagonal(x)`, which takes tens of seconds for each d.
        random_state: of the rows that are taken where there are more than 1,000, as in
            `hosm.estimator.arrays.seed_of`.
        verbose: show the progress as a bar on stderr.

    Raises:
        ValueError: X has another shape, fewer than 20 rows, NaN, infinities or a constant column.
    """
    table = as_table("X", X, least=LEAST_ROWS)
    x = subset(standardised(table), KERNEL_ROWS, seed_of(random_state))
    left, last, criteria, rivals = [*range(x.shape[1])], [], [math.nan], [math.nan]
    kernels = best_kernels(x[:REGRESSION_ROWS])
    with ProgressBar(verbose) as bar:
        while len(left) > 1:
            own = [kernels[j] for j in left]
            values, places = _criterion(x[:, left], hessian_diagonal, own).sort()
            last.append(left.pop(int(places[0])))
            criteria.insert(1, float(values[0]))
            rivals.insert(1, float(values[1]))
            bar.move("order", len(last), x.shape[1] - 1)
    columns = left + last[::-1]
    return Order(columns, [table.names[j] for j in columns if table.names], criteria, rivals)


def _criterion(
    x: Tensor, hessian_diagonal: Callable[[Tensor], Tensor], kernels: Sequence[Kernel]
) -> Tensor:
    """Return value (2) of each of the columns of x that are left, shape (d,)."""
    h = hessian_diagonal(x)
    residual = left_out_variances(x[:REGRESSION_ROWS], kernels)
    return -h.mean(0) * h.var(0) * residual.square()
