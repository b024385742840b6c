r"""The covariance of a whole picture: windows of diagonal plus low rank, joined without seams.

In the model x = m + D^(1/2) e + sum_k b_k zeta_k (see `hosm.pictures.model`), zeta_k is a field
that changes slowly over the picture. With standard normal numbers a_kw on a grid of `WINDOW`
pixels, and along each axis the windows g_w(i) = cos(pi |i - c_w| / (2 WINDOW)), half a cosine,

$$\zeta_k(i) = \sum_w g_w(i)\, a_{kw}, \qquad \sum_w g_w(i)^2 = \cos^2 + \sin^2 = 1,$$

so that its variance is 1 at every pixel, C_ii = D_i + |b(i)|^2, and pixels further apart than
2 WINDOW along an axis are independent given m. The same C is the sum over windows of low-rank
matrices, C = D + sum_w (g_w b)(g_w b)^T, positive by construction, and the law of a part of the
picture is that of the whole, marginalised. Windows that share a squared sum of one are those of
lapped transforms (Malvar, "Lapped Transforms for Efficient Transform/Subband Coding", 1990).
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from hosm.operators import DiagonalPlusLowRank

__all__ = ["WINDOW", "draw", "tapers", "window_covariance"]

WINDOW = 8  # pixels from one window to the next; errors are related over about so many


def tapers(start: int, length: int) -> Tensor:
    """Return the windows of an axis at the pixels start, .., start + length - 1 of a picture.

    Args:
        start: first pixel, 0 or more.
        length: number of pixels, 1 or more.

    Returns:
        g_w of every window that reaches one of the pixels, shape (windows, length).
    """
    pixels = torch.arange(start, start + length, dtype=torch.float64)
    first, last = start // WINDOW, (start + length - 1) // WINDOW + 1
    centres = WINDOW * torch.arange(first, last + 1, dtype=torch.float64).unsqueeze(1)
    apart = (pixels - centres).abs() / WINDOW
    return torch.where(apart < 1, torch.cos(math.pi / 2 * apart), torch.zeros(()).double())


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
        One matrix, shape (D, D), with r columns for each window that reaches the part.
    """
    rows, columns = tapers(top, own.shape[1]).to(own), tapers(left, own.shape[2]).to(own)
    factor = torch.einsum("kchw,ah,bw->chwkab", shared, rows, columns)
    return DiagonalPlusLowRank(own.reshape(-1), factor.reshape(own.numel(), -1))


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
    rows, columns = tapers(top, own.shape[1]).to(own), tapers(left, own.shape[2]).to(own)
    draws = []
    for _ in range(count):
        numbers = torch.randn(
            (len(shared), len(rows), len(columns)), generator=generator, dtype=own.dtype
        )
        fields = torch.einsum("kab,ah,bw->khw", numbers, rows, columns)
        noise = torch.randn(own.shape, generator=generator, dtype=own.dtype)
        draws.append(own.sqrt() * noise + (shared * fields.unsqueeze(1)).sum(0))
    return torch.stack(draws)
