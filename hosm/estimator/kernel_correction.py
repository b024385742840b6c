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

__all__ = ["KNOTS", "Bumps", "Quadratic", "bumps_at", "quadratic"]

MOST_CENTRES = 400
KNOTS = 12  # in a coordinate
MOST_KNOTS = 600  # in all coordinates together
ROWS = 2048  # points whose kernels are held at once
NUMBERS = 2**22  # of Hessians held at once


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

    def _split(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return w, shape (M, L), and v, shape (D, m, L), of L vectors of weights, (F, L)."""
        count = len(self.centres)
        v = weights[count:].view(self.knots.shape[0], -1, weights.shape[1])
        return weights[:count], v

    def value(self, x: Tensor) -> Tensor:
        """Return the sum at points x, (n, D), shape (n,)."""
        return torch.cat([self._value(part) for part in x.split(ROWS)])

    def _value(self, x: Tensor) -> Tensor:
        w, v = self._split(self.weights.unsqueeze(1))
        near = (self._kernels(x)[1] @ w).squeeze(1)
        if not self.scale:
            return near
        u = (x.unsqueeze(2) - self.knots) / self.widths.unsqueeze(1)
        k = self.scale * (-u.square() / 2).exp()
        return near + torch.einsum("ndm,dm->n", k, v.squeeze(2))

    def score(self, x: Tensor) -> Tensor:
        """Return the gradient of the sum at points x, both of shape (n, D)."""
        return self.derivatives(x, self.weights.unsqueeze(1))[0].squeeze(2)

    def hessian_diagonal(self, x: Tensor) -> Tensor:
        """Return the second derivatives d^2 / dx_i^2 of the sum at points x, both (n, D)."""
        return self.derivatives(x, self.weights.unsqueeze(1))[1].squeeze(2)

    def derivatives(self, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return gradients and second derivatives d^2 / dx_i^2 for several vectors of weights.

        Args:
            x: points, shape (n, D).
            weights: shape (F, L).

        Returns:
            Both of shape (n, D, L).
        """
        first, second = zip(
            *(self._derivatives(part, weights) for part in x.split(ROWS)), strict=True
        )
        return torch.cat(first), torch.cat(second)

    def _derivatives(self, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        (w, v), c, h = self._split(weights), self.centres, self.width
        _, k = self._kernels(x)
        mass, y = (k @ w).unsqueeze(1), x.unsqueeze(2)
        means = torch.stack([k @ (w * each) for each in c.mT.unsqueeze(2)], 1)
        squares = torch.stack([k @ (w * each) for each in c.mT.square().unsqueeze(2)], 1)
        first = (means - mass * y) / h**2
        second = (y.square() * mass - 2 * y * means + squares) / h**4 - mass / h**2
        if self.scale:
            slopes, bends = self._of_coordinates(x)
            first = first + torch.einsum("ndm,dml->ndl", slopes, v)
            second = second + torch.einsum("ndm,dml->ndl", bends, v)
        return first, second

    def hessian(self, x: Tensor) -> Tensor:
        """Return the Hessians of the sum at points x, (n, D), shape (n, D, D)."""
        rows = max(1, NUMBERS // x.shape[1] ** 2)
        return torch.cat([self._hessian(part) for part in x.split(rows)])

    def _hessian(self, x: Tensor) -> Tensor:
        (w, v), c = self._split(self.weights.unsqueeze(1)), self.centres
        weighted = self._kernels(x)[1] * w.squeeze(1)
        mass = weighted.sum(1)
        products = (c.unsqueeze(2) * c.unsqueeze(1)).flatten(1)
        cross = x.unsqueeze(2) * (weighted @ c).unsqueeze(1)
        squares = mass.view(-1, 1, 1) * x.unsqueeze(2) * x.unsqueeze(1) - cross - cross.mT
        h = (squares + (weighted @ products).view_as(squares)) / self.width**4
        diagonal = (-mass / self.width**2).unsqueeze(1).expand_as(x)
        if self.scale:
            diagonal = diagonal + (self._of_coordinates(x)[1] * v.squeeze(2)).sum(2)
        return h + torch.diag_embed(diagonal)


def bumps_at(
    x: Tensor,
    width: float,
    scale: float,
    knots: int = KNOTS,
    most: int = MOST_CENTRES,
    seed: int = 0,
) -> Bumps:
    """Return kernels around some of the points, of weights zero.

    Args:
        x: clean points, shape (n, D).
        width: width of the kernels over the median distance of points.
        scale: factor on the kernels of single coordinates; 0 for none.
        knots: kernels of each coordinate, at most; the fewer, the wider they are.
        most: largest number of centres.
        seed: of the choice of centres.
    """
    order = torch.randperm(len(x), generator=Generator().manual_seed(seed))
    centres = x[order[:most].to(x.device)]
    distance = float(torch.pdist(centres).median())
    count = max(3, min(knots, MOST_KNOTS // x.shape[1]))
    ends = torch.quantile(x[order[:10000].to(x.device)], x.new_tensor([0.005, 0.995]), dim=0)
    share = torch.linspace(0, 1, count, dtype=x.dtype, device=x.device)
    places = ends[0].unsqueeze(1) + (ends[1] - ends[0]).unsqueeze(1) * share
    widths = (1.3 * (ends[1] - ends[0]) / (count - 1)).clamp_min(1e-3)
    bumps = Bumps(centres, width * max(distance, 1e-3), places, widths, scale, x.new_zeros(0))
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
    moved = (first * -x.unsqueeze(2)).flatten(1)
    other = (k.mT @ moved + c.repeat_interleave(m, 1) * (k.mT @ first.flatten(1))) / h**2
    total[:count, count:], total[count:, :count] = other, other.mT
    return total


def gradient_products(bumps: Bumps, x: Tensor) -> Tensor:
    """Return A of points x, (n, D): the mean inner products of gradients, shape (F, F)."""
    return sum(_accumulated(bumps, part) for part in x.split(ROWS)) / len(x)  # type: ignore[return-value]


def _linear(bumps: Bumps, x: Tensor, scores: Tensor) -> Tensor:
    """Return the sum over points of `linear_terms`, shape (B, F)."""
    c, h = bumps.centres, bumps.width
    squares, k = bumps._kernels(x)
    own = (k * (squares / h**4 - x.shape[1] / h**2)).sum(0)
    along = (scores * x).sum(2) @ k - torch.einsum("bmd,md->bm", k.mT @ scores, c)
    near = own - along / h**2
    if not bumps.scale:
        return near
    first, second = bumps._of_coordinates(x)
    single = torch.einsum("bnd,ndm->bdm", scores, first) + second.sum(0)
    return torch.cat([near, single.flatten(1)], 1)


def linear_terms(bumps: Bumps, x: Tensor, scores: Tensor) -> Tensor:
    """Return b of points x, (n, D), for several simple laws, shape (B, F).

    Args:
        bumps: the kernels.
        x: points, shape (n, D).
        scores: of the laws at the points, shape (B, n, D).
    """
    parts = zip(x.split(ROWS), scores.split(ROWS, 1), strict=True)
    return torch.stack([_linear(bumps, *part) for part in parts]).sum(0) / len(x)


def quadratic(bumps: Bumps, x: Tensor, s: Tensor) -> Quadratic:
    """Return the loss of weights at points x where the simple law's score is s, both (n, D)."""
    return Quadratic(gradient_products(bumps, x), linear_terms(bumps, x, s[None])[0])
