r"""Regression by a Gaussian process, whose evidence says which variables matter.

y = f(x) + noise, where f is a draw of a Gaussian process of covariance c k and

    k(x, x') = exp(-sum_i theta_i (x_i - x'_i)^2 / 2),  theta_i >= 0:

a variable of theta_i = 0 does not matter ("automatic relevance determination"; Rasmussen and
Williams, "Gaussian Processes for Machine Learning", 2006, section 5.1). With C = K + rho I, alpha
= C^-1 y and the scale c at its best value, the negative logarithm of the evidence is, up to a
constant (by their equation 5.8),

    L = n log(y^T alpha) / 2 + log det(C) / 2,
    dL = tr((C^-1 - n alpha alpha^T / y^T alpha) dC) / 2,

and the prediction of one row by all others misses it by alpha_a / (C^-1)_aa (their equation
5.12). Unlike an additive model, k has all interactions of the variables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from hosm.io import Array

__all__ = ["Kernel", "best_kernels", "left_out_variances", "relevant"]

START = 0.5  # of rho, and of theta times the root of the number of variables
LOG_RHO = (math.log(1e-3), math.log(1e3))  # its bounds
LARGEST = 100.0  # theta, of standardised variables
IRRELEVANT = 1e-4  # theta below which a variable is left out at once
STEPS, FEWER_STEPS = 40, 15  # of L-BFGS-B, from equal theta and from the theta before
LENGTHS = (1.0, 3.0, 9.0)  # squared length scales of `left_out_variances`, over sqrt(d)
NOISE = (0.2, 1.0)  # rho of `left_out_variances`


class Kernel(NamedTuple):
    """Squared length scale over sqrt(d), and rho, of a regression whose theta are equal."""

    length: float
    rho: float


def _squares(x: Tensor, theta: Tensor) -> Tensor:
    """Return sum_i theta_i (x_i - x'_i)^2 of all pairs of points, shape (n, n)."""
    weighted = x * theta
    own = (weighted * x).sum(1)
    return (own.unsqueeze(1) + own - 2 * weighted @ x.mT).clamp_min(0)


class _Evidence:
    """L as a function of theta and log rho, for the regression of y, (n,), on x, (n, d)."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y - y.mean()
        self.eye = torch.eye(len(x), dtype=x.dtype)

    def loss(self, parameters: Array) -> tuple[float, Array]:
        """Return L and its gradient, shape (d + 1,)."""
        values = torch.from_numpy(parameters)
        theta, rho = values[:-1], values[-1].exp()
        K = (_squares(self.x, theta) / -2).exp()
        factor = torch.linalg.cholesky(K + rho * self.eye)
        inverse = torch.cholesky_inverse(factor)
        alpha = inverse @ self.y
        fit, n = self.y @ alpha, len(self.y)
        W = inverse - n / fit * torch.outer(alpha, alpha)
        M = W * K
        slope = ((self.x * (M @ self.x)).sum(0) - M.sum(1) @ self.x.square()) / 2
        gradient = torch.cat([slope, (rho * W.trace() / 2).unsqueeze(0)])
        return float(n * fit.log() / 2 + factor.diagonal().log().sum()), gradient.numpy()

    def without(self, parameters: Array, i: int) -> float:
        """Return L where theta_i = 0 and the others stay."""
        changed = parameters.copy()
        changed[i] = 0
        return self.loss(changed)[0]

    def least(self, start: Array, steps: int) -> tuple[float, Array]:
        """Return the least L that is found from a start, and where."""
        bounds = [(0.0, LARGEST)] * (len(start) - 1) + [LOG_RHO]
        options = {"maxiter": steps, "ftol": 1e-5 / len(self.y)}
        found = minimize(
            self.loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
        return float(found.fun), found.x


def relevant(x: Tensor, y: Tensor, price: float) -> list[int]:
    """Return the columns of x that matter to y: least in L + price times their number.

    All theta are fitted from equal ones. Then, again and again, the column that is missed least is
    left out and the others are fitted again, down to none; the best of these sets is returned. A
    price is needed because L is the best over theta, not a mean over a law of theta.

    Args:
        x: standardised points, shape (n, d), float64.
        y: what is regressed on them, shape (n,), float64.
        price: natural log-evidence that each column must bring.
    """
    d = x.shape[1]
    start = np.append(np.full(d, START / math.sqrt(max(1, d))), math.log(START))
    loss, parameters = _Evidence(x, y).least(start, STEPS)
    left = [i for i in range(d) if parameters[i] > IRRELEVANT]
    parameters = parameters[[*left, d]]
    sets = [(loss + price * len(left), left)]
    while left:
        evidence = _Evidence(x[:, left], y)
        i = int(np.argmin([evidence.without(parameters, i) for i in range(len(left))]))
        left, parameters = [*left[:i], *left[i + 1 :]], np.delete(parameters, i)
        if not left:
            parameters[-1] = LOG_RHO[1]  # noise alone
        loss, parameters = _Evidence(x[:, left], y).least(parameters, FEWER_STEPS)
        sets.append((loss + price * len(left), left))
    return min(sets)[1]


def left_out_variances(x: Tensor, kernels: Sequence[Kernel] | None = None) -> Tensor:
    """Return the mean squared error of each column of x predicted by the others, shape (D,).

    Each row is predicted by all other rows. The theta of a column are equal.

    Args:
        x: standardised points, shape (n, D), float64.
        kernels: of each column; by default those of `best_kernels`.
    """
    chosen = kernels or best_kernels(x)
    errors = [_left_out(q, y, k) for (q, y), k in zip(_regressions(x), chosen, strict=True)]
    return torch.stack(errors)


def best_kernels(x: Tensor) -> list[Kernel]:
    """Return, for each column of x (n, D), the kernel of a small grid that predicts it best."""
    grid = [Kernel(length, rho) for length in LENGTHS for rho in NOISE]
    return [min(grid, key=partial(_left_out, q, y)) for q, y in _regressions(x)]


def _regressions(x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield each column of x (n, D), and the squared distances by the other columns (n, n)."""
    squares = _squares(x, x.new_ones(x.shape[1]))
    for column in x.unbind(1):
        yield squares - (column.unsqueeze(1) - column).square(), column


def _left_out(squares: Tensor, y: Tensor, kernel: Kernel) -> Tensor:
    """Return the mean squared error of y predicted from points of given distances."""
    scale = math.sqrt(max(1.0, float(squares.mean()) / 2))
    K = (squares / (-2 * kernel.length * scale)).exp()
    C = K + kernel.rho * torch.eye(len(y), dtype=y.dtype)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(C))
    return ((inverse @ (y - y.mean())) / inverse.diagonal()).square().mean()
