r"""Pictures as overlapping patches, and maps of a picture that average over its patches.

The law of patches of h x w pixels is learned from far fewer pictures than the law of pictures. A
noisy picture is then denoised patch by patch, and each pixel is the mean of the estimates of the
patches that contain it (Zoran and Weiss, "From Learning Models of Natural Image Patches to Whole
Image Restoration", ICCV 2011, compare this with better ways). Squares are convex, so that for K
estimates m_k of one pixel x, with errors E (m_k - x)^2 = v_k,

$$E\,(\tfrac1K \textstyle\sum_k m_k - x)^2 \le \tfrac1K \sum_k v_k,$$

and the mean of the variances, which `map_over_patches` gives in the same way, is an upper bound
for the error of the mean: it is reached where the patches have equal errors, and up to K times
too large where their errors are independent.

Pages are of shape (height, width) or (height, width, colours), of any units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from hosm.checks import check_count
from hosm.io.formats import Array
from hosm.io.pictures import page_shapes

__all__ = ["cut_patches", "map_over_patches", "patch_corners", "random_patches"]

PATCHES_PER_CHUNK = 4096  # patches that are held at once


def _check_fits(page: tuple[int, ...], shape: Sequence[int]) -> None:
    """Raise ValueError unless patches of a shape fit into a page of a shape."""
    fits = len(shape) == len(page) and all(
        1 <= size <= whole for size, whole in zip(shape[:2], page, strict=False)
    )
    if not fits or tuple(shape[2:]) != page[2:]:
        raise ValueError(f"patches must fit into a picture of {page}, got {tuple(shape)}")


def patch_corners(page: Array, shape: Sequence[int], stride: int) -> Array:
    """Return row and column of the first pixels of patches that cover a page, shape (n, 2).

    Args:
        page: shape (height, width) or (height, width, colours).
        shape: shape of a patch, with as many axes as the page.
        stride: pixels from one patch to the next, from 1 to the smaller side of a patch; the
            last patches end at the edge of the page.

    Raises:
        ValueError: the patch does not fit into the page, or the stride is out of range.
    """
    _check_fits(page.shape, shape)
    check_count("stride", stride, 1, min(shape[:2]))
    axes = [
        sorted({*range(0, whole - size + 1, stride), whole - size})
        for size, whole in zip(shape[:2], page.shape, strict=False)
    ]
    return np.array([(i, j) for i in axes[0] for j in axes[1]])


def cut_patches(page: Array, shape: Sequence[int], corners: Array) -> Array:
    """Return the patches at corners (n, 2) of a page as flat points, shape (n, D).

    Args:
        page: shape (height, width) or (height, width, colours).
        shape: shape of a patch, with as many axes as the page.
        corners: rows and columns, shape (n, 2), such as those of `patch_corners`.
    """
    windows = np.lib.stride_tricks.sliding_window_view(page, shape)
    return windows[corners[:, 0], corners[:, 1]].reshape(len(corners), math.prod(shape))


def random_patches(
    pages: Sequence[Array], shape: Sequence[int], count: int, rng: np.random.Generator
) -> Array:
    """Return patches at random corners of all pages, none twice, shape (n, D).

    Args:
        pages: pictures of any sizes and the same colours; of a `PictureFolder`, those are read,
            one at a time, from which a patch is drawn.
        shape: shape of a patch.
        count: number of patches, 1 or more; if there are fewer, all are returned.
        rng: source of the random corners.

    Raises:
        ValueError: the patch does not fit into a page, or the count is below 1.
    """
    check_count("count", count)
    whole = page_shapes(pages)
    for page in whole:
        _check_fits(page, shape)
    sizes = [(page[0] - shape[0] + 1, page[1] - shape[1] + 1) for page in whole]  # corners
    ends = np.cumsum([rows * columns for rows, columns in sizes])
    chosen = np.sort(rng.choice(ends[-1], min(count, int(ends[-1])), replace=False))
    owners = np.searchsorted(ends, chosen, side="right")
    parts = []
    for number in np.unique(owners).tolist():
        rows, columns = sizes[number]
        own = chosen[owners == number] - (ends[number] - rows * columns)
        corners = np.stack(np.divmod(own, columns), 1)
        parts.append(cut_patches(pages[number], shape, corners))
    return np.concatenate(parts)


def map_over_patches(
    page: Array, shape: Sequence[int], stride: int, function: Callable[[Array], Sequence[Array]]
) -> list[Array]:
    """Return maps of a page: each pixel is a mean over the patches that contain it.

    Args:
        page: shape (height, width) or (height, width, colours).
        shape: shape of a patch, with as many axes as the page.
        stride: pixels from one patch to the next, as in `patch_corners`.
        function: from patches (n, D) to arrays of that shape, one for each map.

    Returns:
        The maps, of the page's shape, in float64.

    Raises:
        ValueError: the patch does not fit into the page, or the stride is out of range.
    """
    corners = patch_corners(page, shape, stride)
    height, width = shape[:2]
    held = np.zeros(page.shape)
    totals: list[Array] = []
    for start in range(0, len(corners), PATCHES_PER_CHUNK):
        part = corners[start : start + PATCHES_PER_CHUNK]
        results = function(cut_patches(page, shape, part))
        totals = totals or [np.zeros(page.shape) for _ in results]
        for number, (i, j) in enumerate(part.tolist()):
            window = slice(i, i + height), slice(j, j + width)
            held[window] += 1
            for total, values in zip(totals, results, strict=True):
                total[window] += values[number].reshape(shape)
    return [total / held for total in totals]
