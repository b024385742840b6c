r"""A diagonal s2 of few data, shrunk towards a constant.

What one row says of the Hessian's diagonal is the target of `residual` (Lu et al., "Maximum
Likelihood Training for Score-Based Diffusion ODEs by High-Order Denoising Score Matching", ICML
2022, theorem 3.2),

    T = (s1 + z / sigma)^2 - 1 / sigma^2  at  x + sigma z,    E[T | x + sigma z] = s2* + e^2,

where s2* is the true diagonal and e the error of s1. A head that was fitted to few rows is wrong
in two ways, and

    s2 -> c + share (s2 - mean(s2))                                                        (1)

mends both. Its variation follows the rows that it has seen: the share that is least wrong on
held-out rows, by the squared error from T, is

    share = E<T, s2 - mean(s2)> / E|s2 - mean(s2)|^2,  kept within [0, 1].                 (2)

Its mean is too near to 0, since by Fisher's identity E[s2*] = -E[s*^2] and a regular s1 is too
small: the mean of the derivatives of s1 misses it by about e^2. So does the mean of T over rows
held out, exactly; over the training rows, to which s1 is fitted too closely, it is smaller by
twice what s1 has overfitted. Where training stopped early, at a balance of what s1 lacks and what
it has overfitted, the latter is near the truth, and is c here. It is exact for no law.

On held-out rows alone c would be too near to 0 by e^2, and (2) about another centre than
mean(s2) mistakes that for variation: it exceeded 1 for `logistic80`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from hosm.objectives.targets import residual, stencil
from hosm.operators import DiagonalPlusLowRank

__all__ = ["Shrunk", "shrunk"]

DRAWS = 8  # of noise for each row
BLOCK = 1000  # rows at once


@dataclass(frozen=True)
class Shrunk:
    """A diagonal s2 by (1).

    Attributes:
        model: the score model whose s2 is shrunk.
        mean: of its s2, shape (D,).
        centre: c, shape (D,).
        share: between 0 and 1.
    """

    model: Any
    mean: Tensor
    centre: Tensor
    share: float

    def second_order(self, x: Tensor) -> DiagonalPlusLowRank:
        """Return s2 at points x, shape (n, D)."""
        own = self.model.second_order(x).diagonal()
        return DiagonalPlusLowRank.from_diagonal(self.centre + self.share * (own - self.mean))


def _noisy(x: Tensor, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield blocks of rows x, (n, D), with standard normal noise of the same shape."""
    generator = Generator().manual_seed(seed)
    for _ in range(DRAWS):
        for block in x.split(BLOCK):
            yield block, torch.randn(block.shape, generator=generator, dtype=x.dtype).to(x.device)


def _mean_target(model: Any, x: Tensor, sigma: float, seed: int) -> Tensor:  # noqa: ANN401
    """Return the mean of T over rows x (n, D) and noise, shape (D,), noise of both signs."""
    total = x.new_zeros(x.shape[1])
    for block, z in _noisy(x, seed):
        plus, minus = (model.score(block + sign * sigma * z) for sign in (1, -1))
        target = (plus.square() + minus.square()) / 2 + z * (plus - minus) / sigma
        total += target.sum(0)
    return total / (DRAWS * len(x))


def _share(model: Any, mean: Tensor, x: Tensor, sigma: float, seed: int) -> float:  # noqa: ANN401
    """Return (2) over rows x, (n, D), before it is kept within [0, 1]."""
    product = square = 0.0
    for block, z in _noisy(x, seed):
        points = torch.cat(stencil(block, sigma, z, "antithetic"))
        own = model.second_order(points).diagonal() - mean
        s2, s1 = DiagonalPlusLowRank.from_diagonal(own), model.score(points)
        loss = residual(s1, s2, z, sigma, "antithetic", diagonal=True)  # |s2|^2 - 2 <T, s2>
        size = own[: 2 * len(block)].square().sum(1).view(2, -1).mean(0)
        product += float((size - loss).sum()) / 2
        square += float(size.sum())
    return product / square if square else 0.0


@torch.no_grad()
def shrunk(
    model: Any,  # noqa: ANN401
    train: Tensor,
    validation: Tensor,
    sigma: float,
    seed: int = 0,
) -> Shrunk:
    """Return the diagonal s2 of a model, shrunk.

    Args:
        model: a diagonal score model.
        train: rows that it was fitted to, shape (N, D).
        validation: rows that it was not fitted to, shape (M, D).
        sigma: its noise scale.
        seed: of the noise.
    """
    parts = [
        model.second_order(block + sigma * z).diagonal() for block, z in _noisy(validation, seed)
    ]
    mean = torch.cat(parts).mean(0)
    share = _share(model, mean, validation, sigma, seed + 1)
    centre = _mean_target(model, train, sigma, seed + 2)
    return Shrunk(model, mean, centre, min(max(share, 0.0), 1.0))
