"""Pictures of any size through a network, tile by tile, as if they had gone through it whole.

A tile is read with a margin as wide as the network looks (`reach`), and begins at a multiple of
what the network folds, so that the results of tiles are those of the whole picture, up to
rounding: there are no seams. A picture whose sides are no such multiples is continued by its
mirror image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hosm.io import Array

__all__ = ["Tile", "margin", "part", "tiles"]


class Tile(NamedTuple):
    """A part of a picture: row and column of its first pixel, height and width."""

    top: int
    left: int
    height: int
    width: int


def margin(reach: int, multiple: int) -> int:
    """Return the least multiple of `multiple` that is no less than `reach`."""
    return -(-reach // multiple) * multiple


def tiles(height: int, width: int, side: int) -> Iterator[Tile]:
    """Yield the tiles of a picture, of `side` pixels, the last ones smaller.

    Args:
        height: rows of the picture.
        width: columns.
        side: of a tile.
    """
    for top in range(0, height, side):
        for left in range(0, width, side):
            yield Tile(top, left, min(side, height - top), min(side, width - left))


def part(
    maps: Sequence[Array],
    tile: Tile,
    edge: int,
    multiple: int,
    network: Callable[[list[Array]], list[Array]],
) -> list[Array]:
    """Return what a network says of a tile, given the maps of a picture around it.

    Args:
        maps: arrays of shape (height, width, ...): the picture, and what else the network reads.
        tile: what part of it.
        edge: margin, in pixels, a multiple of `multiple` (see `margin`).
        multiple: what the sides of the network's pictures must be divisible by.
        network: from such maps of a part to arrays of shape (height, width, ...).

    Returns:
        Arrays of shape (tile.height, tile.width, ...).
    """
    starts, ends = [], []
    for first, size, whole in zip(tile[:2], tile[2:], maps[0].shape, strict=False):
        starts.append(max(0, first // multiple * multiple - edge))
        ends.append(min(margin(first + size, multiple) + edge, margin(whole, multiple)))
    rows, columns = (
        _mirrored(np.arange(start, end), size)
        for start, end, size in zip(starts, ends, maps[0].shape, strict=False)
    )
    found = network([each[rows[:, None], columns] for each in maps])
    down, across = (
        slice(first - start, first - start + size)
        for first, size, start in zip(tile[:2], tile[2:], starts, strict=False)
    )
    return [each[down, across] for each in found]


def _mirrored(index: Array, size: int) -> Array:
    """Return positions on an axis, those beyond its ends reflected at the first or last pixel."""
    if size == 1:
        return np.zeros_like(index)
    folded = np.abs(index) % (2 * size - 2)
    return np.where(folded < size, folded, 2 * size - 2 - folded)
