r"""What a simple law misses of a log-density, as a sum of bumps learned in closed form.

Let q_0 be a simple law, such as a Gaussian or a mixture of a few, and

    log q(x) = log q_0(x) + sum_j w_j k(x, c_j) + sum_i sum_b v_ib k_i(x_i, a_ib) + const,

where k is a Gaussian kernel of one width h around points c_j of the data, and k_i one of the
coordinate x_i alone around knots a_ib. This is a kernel exponential family (Sriperumbudur,
Fukumizu, Gretton, Hyvarinen and Kumar, "Density Estimation in Infinite Dimensional Exponential
Families", JMLR 2017) on a subset of the points (Sutherland, Strathmann, Arbel and Gretton,
"Efficient and Principled Score Estimation with Nystrom Kernel Exponential Families", AISTATS
2018), with the kernels of single coordinates beside it. The loss of score matching,

    E[ |grad log q|^2 / 2 + tr grad^2 log q ],

is a quadratic in the weights, u^T A u / 2 + b^T u + const, so that the weights of the ridge
penalty lambda |u|^2 / 2 solve one linear system, and its value on points that were held out
follows from the A and b of those points. The mean is over noisy points x + sigma z: for them the
loss is that of denoising score matching up to a constant (Vincent, "A Connection Between Score
Matching and Denoising Autoencoders", 2011), without its noise.

All points have shape (n, D) and dtype float64. No array of n x D x (number of kernels) is formed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

__all__ = ["Bumps", "Quadratic", "bumps_at", "quadratic"]

MOST_CENTRES = 400
MOST_KNOTS = 600  # in all coordinates together
ROWS = 2048  # points whose kernels are held at once


@dataclass(frozen=True)
class Bumps:
    """A weighted sum of kernels around points and of kernels of single coordinates.

    Attributes:
        centres: c, shape (M, D).
        width: h, above 0.
        knots: a, shape (D, m); m may be 0.
        widths: widths of the kernels of single coordinates, shape (D,).
        scale: factor on the kernels of single coordinates, which sets how much of the penalty
            they bear.
        weights: w and then v coordinate by coordinate, shape (M + D m,).
    """

    centres: Tensor
    width: float
    knots: Tensor
    widths: Tensor
    scale: float
    weights: Tensor

    @property
    def size(self) -> int:
        """The number of weights, M + D m."""
        return len(self.centres) + (self.knots.numel() if self.scale else 0)

    def with_weights(self, weights: Tensor) -> Bumps:
        """Return the same kernels with other weights, shape (M + D m,)."""
        return replace(self, weights=weights)

    def _kernels(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return |x - c|^2 and k(x, c), both of shape (n, M)."""
        c = self.centres
        squares = x.square().sum(1, keepdim=True) - 2 * x @ c.mT + c.square().sum(1)
        squares = squares.clamp_min(0)
        return squares, (squares / (-2 * self.width**2)).exp()

    def _of_coordinates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return first and second derivatives of the kernels of coordinates, (n, D, m) each."""
        h = self.widths.unsqueeze(1)
        u = (x.unsqueeze(2) - self.knots) / h
        k = self.scale * (-u.square() / 2).exp()
        return -u * k / h, (u.square() - 1) * k / h.square()

    def _split(self) -> tuple[Tensor, Tensor]:
        """Return w, shape (M,), and v, shape (D, m)."""
        count = len(self.centres)
        return self.weights[:count], self.weights[count:].view(self.knots.shape[0], -1)

    def score(self, x: Tensor) -> Tensor:
        """Return the gradient of the sum at points x, both of shape (n, D)."""
        return torch.cat([self._score(part) for part in x.split(ROWS)])

    def _score(self, x: Tensor) -> Tensor:
        w, v = self._split()
        _, k = self._kernels(x)
        s = (k @ (w.unsqueeze(1) * self.centres) - (k @ w).unsqueeze(1) * x) / self.width**2
        return s + (self._of_coordinates(x)[0] * v).sum(2) if self.scale else s

    def hessian_diagonal(self, x: Tensor) -> Tensor:
        """Return the second derivatives d^2 / dx_i^2 of the sum at points x, both (n, D)."""
        return torch.cat([self._hessian_diagonal(part) for part in x.split(ROWS)])

    def _hessian_diagonal(self, x: Tensor) -> Tensor:
        (w, v), c = self._split(), self.centres
        _, k = self._kernels(x)
        mass = (k @ w).unsqueeze(1)
        square = x.square() * mass - 2 * x * (k @ (w.unsqueeze(1) * c))
        square = square + k @ (w.unsqueeze(1) * c.square())
        diagonal = square / self.width**4 - mass / self.width**2
        return diagonal + (self._of_coordinates(x)[1] * v).sum(2) if self.scale else diagonal

    def hessian(self, x: Tensor) -> Tensor:
        """Return the Hessians of the sum at points x, (n, D), shape (n, D, D)."""
        return torch.stack([self._hessian(point) for point in x])

    def _hessian(self, point: Tensor) -> Tensor:
        """Return the Hessian at one point, shape (D,)."""
        w, v = self._split()
        x = point.unsqueeze(0)
        weighted = self._kernels(x)[1][0] * w
        u = point - self.centres
        diagonal = (-weighted.sum() / self.width**2).expand(len(point))
        if self.scale:
            diagonal = diagonal + (self._of_coordinates(x)[1] * v).sum(2)[0]
        return (weighted.unsqueeze(1) * u).mT @ u / self.width**4 + diagonal.diag()


def bumps_at(
    x: Tensor, width: float, scale: float, most: int = MOST_CENTRES, seed: int = 0
) -> Bumps:
    """Return kernels around some of the points, of weights zero.

    Args:
        x: clean points, shape (n, D).
        width: width of the kernels over the median distance of points.
        scale: factor on the kernels of single coordinates; 0 for none.
        most: largest number of centres.
        seed: of the choice of centres.
    """
    order = torch.randperm(len(x), generator=Generator().manual_seed(seed))
    centres = x[order[:most].to(x.device)]
    distance = float(torch.pdist(centres).median())
    count = max(3, min(12, MOST_KNOTS // x.shape[1]))
    ends = torch.quantile(x[order[:10000].to(x.device)], x.new_tensor([0.005, 0.995]), dim=0)
    share = torch.linspace(0, 1, count, dtype=x.dtype, device=x.device)
    knots = ends[0].unsqueeze(1) + (ends[1] - ends[0]).unsqueeze(1) * share
    widths = (1.3 * (ends[1] - ends[0]) / (count - 1)).clamp_min(1e-3)
    bumps = Bumps(centres, width * max(distance, 1e-3), knots, widths, scale, centres.new_zeros(0))
    return bumps.with_weights(x.new_zeros(bumps.size))


@dataclass(frozen=True)
class Quadratic:
    """The loss u^T A u / 2 + b^T u of weights u, a mean over points.

    Attributes:
        A: shape (F, F).
        b: shape (F,).
    """

    A: Tensor
    b: Tensor


def _accumulated(bumps: Bumps, x: Tensor) -> Tensor:
    """Return the sum over points x of the inner products of the kernels' gradients, (F, F)."""
    c, h = bumps.centres, bumps.width
    _, k = bumps._kernels(x)
    cross = (k * (x @ c.mT)).mT @ k
    near = (k.mT @ (x.square().sum(1, keepdim=True) * k) - cross - cross.mT) / h**4
    near = near + (k.mT @ k) * (c @ c.mT) / h**4
    if not bumps.scale:
        return near
    total = x.new_zeros(bumps.size, bumps.size)
    count, m = len(c), bumps.knots.shape[1]
    total[:count, :count] = near
    first, _ = bumps._of_coordinates(x)
    for i, own in enumerate(first.unbind(1)):  # kernels of two coordinates have no common term
        part = slice(count + i * m, count + (i + 1) * m)
        total[part, part] = own.mT @ own
        other = (k.mT @ (own * -x[:, i : i + 1]) + c[:, i : i + 1] * (k.mT @ own)) / h**2
        total[:count, part], total[part, :count] = other, other.mT
    return total


def gradient_products(bumps: Bumps, x: Tensor) -> Tensor:
    """Return A of points x, (n, D): the mean inner products of gradients, shape (F, F)."""
    return sum(_accumulated(bumps, part) for part in x.split(ROWS)) / len(x)  # type: ignore[return-value]


def _linear(bumps: Bumps, x: Tensor, s: Tensor) -> Tensor:
    c, h = bumps.centres, bumps.width
    squares, k = bumps._kernels(x)
    along = (x * s).sum(1, keepdim=True) - s @ c.mT  # (x - c) . s
    b = (k * (squares / h**4 - along / h**2 - x.shape[1] / h**2)).sum(0)
    if not bumps.scale:
        return b
    first, second = bumps._of_coordinates(x)
    return torch.cat([b, (first * s.unsqueeze(2) + second).sum(0).flatten()])


def linear_term(bumps: Bumps, x: Tensor, s: Tensor) -> Tensor:
    """Return b of points x where the simple law's score is s, both (n, D): shape (F,)."""
    parts = zip(x.split(ROWS), s.split(ROWS), strict=True)
    return sum(_linear(bumps, *part) for part in parts) / len(x)  # type: ignore[return-value]


def quadratic(bumps: Bumps, x: Tensor, s: Tensor) -> Quadratic:
    """Return the loss of weights at points x where the simple law's score is s, both (n, D)."""
    return Quadratic(gradient_products(bumps, x), linear_term(bumps, x, s))
