"""Pictures as overlapping patches: points of a law that is learned from few pictures.

The law of patches of h x w pixels is learned from far fewer pictures than the law of pictures
(Zoran and Weiss, "From Learning Models of Natural Image Patches to Whole Image Restoration", ICCV
2011). Its scores tell which parts of a picture are unlike others (`hosm ood`); `hosm.pictures`
denoises.

Pages are of shape (height, width) or (height, width, colours), of any units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hosm.checks import check_count
from hosm.io.formats import Array
from hosm.io.pictures import page_shapes

__all__ = ["cut_patches", "patch_corners", "random_patches"]


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
