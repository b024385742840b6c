r"""Pictures as overlapping patches, and maps over a picture from what is known of each patch.

A law of patches of h x w pixels is learned from far fewer pictures than a law of pictures, and a
noisy picture is denoised patch by patch: each pixel is the mean of what the patches say that hold
it (Zoran and Weiss, "From Learning Models of Natural Image Patches to Whole Image Restoration",
ICCV 2011, compare this with better ways). Squares are convex, so that with estimates m_k of one
pixel x, of errors E (m_k - x)^2 = v_k,

$$E\,(\tfrac1K \textstyle\sum_k m_k - x)^2 \le \tfrac1K \sum_k v_k,$$

and the mean of the variances, given by `mapped` in the same way, is an upper bound for the error
of the mean: reached where the patches err alike, up to K times too large where they do not.

Pages are of shape (height, width) or (height, width, colours), of any units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hosm.checks import check_count

__all__ = ["cut", "drawn", "mapped", "places"]

ROWS = 4096  # patches that are held at once
Array = np.ndarray[Any, np.dtype[Any]]


def _check_fits(page: Array, shape: Sequence[int]) -> None:
    """Raise ValueError unless patches of a shape fit into a page."""
    fits = len(shape) == page.ndim and all(
        1 <= size <= whole for size, whole in zip(shape[:2], page.shape, strict=False)
    )
    if not fits or tuple(shape[2:]) != page.shape[2:]:
        raise ValueError(f"patches of {tuple(shape)} do not fit a picture of {page.shape}")


def places(page: Array, shape: Sequence[int], stride: int) -> Array:
    """Return row and column of the corners of patches that cover a page, shape (n, 2).

    Args:
        page: shape (height, width) or (height, width, colours).
        shape: of a patch, with as many axes.
        stride: pixels from one patch to the next, 1 to the patch's smaller side; the last ones
            end at the page's edge.

    Raises:
        ValueError: the patch does not fit into the page, or the stride is out of range.
    """
    _check_fits(page, shape)
    check_count("stride", stride, 1, min(shape[:2]))
    axes = [
        sorted({*range(0, whole - size + 1, stride), whole - size})
        for size, whole in zip(shape[:2], page.shape, strict=False)
    ]
    return np.array([(i, j) for i in axes[0] for j in axes[1]])


def cut(page: Array, shape: Sequence[int], corners: Array) -> Array:
    """Return the patches at corners (n, 2) of a page as flat points, shape (n, D).

    Args:
        page: shape (height, width) or (height, width, colours).
        shape: of a patch, with as many axes.
        corners: rows and columns, shape (n, 2), such as those of `places`.
    """
    windows = np.lib.stride_tricks.sliding_window_view(page, shape)
    return windows[corners[:, 0], corners[:, 1]].reshape(len(corners), math.prod(shape))


def drawn(
    pages: Sequence[Array], shape: Sequence[int], count: int, rng: np.random.Generator
) -> Array:
    """Return patches at places drawn without repetition from all pages, shape (n, D).

    Args:
        pages: pictures of any sizes and the same colours.
        shape: of a patch.
        count: how many, 1 or more; all there are if they are fewer.
        rng: source of the places.

    Raises:
        ValueError: the patch does not fit into a page, or the count is below 1.
    """
    check_count("count", count)
    for page in pages:
        _check_fits(page, shape)
    sizes = [
        (page.shape[0] - shape[0] + 1, page.shape[1] - shape[1] + 1)  # corners of each page
        for page in pages
    ]
    ends = np.cumsum([rows * columns for rows, columns in sizes])
    chosen = np.sort(rng.choice(ends[-1], min(count, int(ends[-1])), replace=False))
    parts = []
    for page, size, end in zip(pages, sizes, ends, strict=True):
        start = end - size[0] * size[1]
        own = chosen[(start <= chosen) & (chosen < end)] - start
        parts.append(cut(page, shape, np.stack(np.divmod(own, size[1]), 1)))
    return np.concatenate(parts)


def mapped(
    page: Array, shape: Sequence[int], stride: int, answer: Callable[[Array], Sequence[Array]]
) -> list[Array]:
    """Return the maps of a page that are the means over the patches that hold each pixel.

    Args:
        page: shape (height, width) or (height, width, colours).
        shape: of a patch, with as many axes.
        stride: pixels from one patch to the next, as in `places`.
        answer: from patches (n, D) to arrays of that shape, one for each map.

    Returns:
        The maps, of the page's shape, in float64.

    Raises:
        ValueError: the patch does not fit into the page, or the stride is out of range.
    """
    corners = places(page, shape, stride)
    height, width = shape[:2]
    held = np.zeros(page.shape)
    totals: list[Array] = []
    for start in range(0, len(corners), ROWS):
        part = corners[start : start + ROWS]
        answers = answer(cut(page, shape, part))
        totals = totals or [np.zeros(page.shape) for _ in answers]
        for number, (i, j) in enumerate(part.tolist()):
            window = slice(i, i + height), slice(j, j + width)
            held[window] += 1
            for total, values in zip(totals, answers, strict=True):
                total[window] += values[number].reshape(shape)
    return [total / held for total in totals]
