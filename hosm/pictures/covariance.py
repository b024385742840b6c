r"""The covariance of a whole picture: windows of diagonal plus low rank, joined without seams.

In the model x = m + D^(1/2) e + sum_k b_k zeta_k (see `hosm.pictures.model`), zeta_k is a field
that changes slowly over the picture. With standard normal numbers a_kw on a grid of R pixels, the
reach of column k, and along each axis the windows g_w(i) = cos(pi |i - c_w| / (2 R)), half a
cosine,

$$\zeta_k(i) = \sum_w g_w(i)\, a_{kw}, \qquad \sum_w g_w(i)^2 = \cos^2 + \sin^2 = 1,$$

so that its variance is 1 at every pixel, C_ii = D_i + |b(i)|^2, and pixels further apart than
2 R along an axis share nothing of column k given m. Errors are related over few pixels along a
fine texture and over many in a smooth part, so the columns take the reaches of `REACHES` in turn.
The same C is the sum over windows of low-rank matrices, C = D + sum_kw (g_w b_k)(g_w b_k)^T,
positive by construction, and the law of a part of the picture is that of the whole, marginalised.
Windows that share a squared sum of one are those of lapped transforms (Malvar, "Lapped Transforms
for Efficient Transform/Subband Coding", 1990).
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from hosm.operators import DiagonalPlusLowRank

__all__ = ["REACHES", "draw", "tapers", "window_columns", "window_covariance"]

REACHES = (2, 4, 8)  # pixels from one window to the next, of column 0, 1, 2, and again from 3 on


def tapers(start: int, length: int, reach: int) -> Tensor:
    """Return the windows of an axis at the pixels start, .., start + length - 1 of a picture.

    Args:
        start: first pixel, 0 or more.
        length: number of pixels, 1 or more.
        reach: pixels from one window to the next.

    Returns:
        g_w of every window that reaches one of the pixels, shape (windows, length).
    """
    pixels = torch.arange(start, start + length, dtype=torch.float64)
    first, last = start // reach, (start + length - 1) // reach + 1
    centres = reach * torch.arange(first, last + 1, dtype=torch.float64).unsqueeze(1)
    apart = (pixels - centres).abs() / reach
    return torch.where(apart < 1, torch.cos(math.pi / 2 * apart), torch.zeros(()).double())


def _by_reach(shared: Tensor, top: int, left: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return, for each reach that columns have, these columns and the windows of both axes.

    Args:
        shared: pictures b_k of a part, shape (*, r, channels, height, width).
        top: row of the part's first pixel in the picture.
        left: its column.
    """
    height, width = shared.shape[-2:]
    return [
        (
            shared[..., first :: len(REACHES), :, :, :],
            tapers(top, height, reach).to(shared),
            tapers(left, width, reach).to(shared),
        )
        for first, reach in enumerate(REACHES[: shared.shape[-4]])
    ]


def window_columns(shared: Tensor, top: int = 0, left: int = 0) -> Tensor:
    """Return the columns g_w b_k of the covariance of a part of a picture.

    Args:
        shared: pictures b_k of the part, shape (*, r, channels, height, width).
        top: row of the part's first pixel in the picture.
        left: its column.

    Returns:
        Shape (*, channels height width, columns): one for each b_k and window that reaches it.
    """
    found = [shared.new_zeros(*shared.shape[:-4], math.prod(shared.shape[-3:]), 0)]
    for columns, down, across in _by_reach(shared, top, left):
        each = torch.einsum("...kchw,ah,bw->...chwkab", columns, down, across)
        found.append(each.flatten(-3).flatten(-4, -2))
    return torch.cat(found, -1)


def window_covariance(
    own: Tensor, shared: Tensor, top: int = 0, left: int = 0
) -> DiagonalPlusLowRank:
    """Return the covariance of a part of a picture, of D = channels height width numbers.

    Args:
        own: variances D of the part, shape (channels, height, width).
        shared: pictures b_k of the part, shape (r, channels, height, width).
        top: row of the part's first pixel in the picture.
        left: its column.

    Returns:
        One matrix, shape (D, D), with a column for each b_k and window that reaches the part.
    """
    return DiagonalPlusLowRank(own.reshape(-1), window_columns(shared, top, left))


def draw(
    own: Tensor,
    shared: Tensor,
    count: int,
    generator: Generator | None = None,
    top: int = 0,
    left: int = 0,
) -> Tensor:
    """Return draws of x - m of a part of a picture, shape (count, channels, height, width).

    Args:
        own: variances D of the part, shape (channels, height, width).
        shared: pictures b_k of the part, shape (r, channels, height, width).
        count: number of draws.
        generator: source of random numbers; None for torch's own.
        top: row of the part's first pixel in the picture.
        left: its column.
    """
    parts, draws = _by_reach(shared, top, left), []
    for _ in range(count):
        drawn = own.sqrt() * torch.randn(own.shape, generator=generator, dtype=own.dtype)
        for columns, down, across in parts:
            shape = (len(columns), len(down), len(across))
            numbers = torch.randn(shape, generator=generator, dtype=own.dtype)
            fields = torch.einsum("kab,ah,bw->khw", numbers, down, across)
            drawn = drawn + (columns * fields.unsqueeze(1)).sum(0)
        draws.append(drawn)
    return torch.stack(draws)
