"""Training pictures as square crops at random places, turned and mirrored at random.

Pictures may have any sizes, and may lie on disk: a sequence is asked for a picture only when
crops of it are due. What an epoch's crops are depends on (seed, epoch) alone, as `hosm.training`
needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hosm.io import Array, page_shapes

__all__ = ["Crops", "crop_points"]

CROPS_OF_A_PICTURE = 4  # that an epoch takes at a time, since a picture on disk costs a reading


def crop_points(picture: Array, top: int, left: int, side: int, turn: int = 0) -> Array:
    """Return a crop as a flat point, shape (channels side side), float32.

    Args:
        picture: shape (height, width) or (height, width, 3).
        top: row of its first pixel.
        left: column of its first pixel.
        side: rows and columns.
        turn: which of the eight symmetries of the square, 0 to 7.
    """
    crop = picture[top : top + side, left : left + side]
    crop = np.rot90(crop, turn % 4)
    crop = crop[:, ::-1] if turn >= 4 else crop
    planes = crop[None] if crop.ndim == 2 else np.moveaxis(crop, 2, 0)
    return np.ascontiguousarray(planes, np.float32).reshape(-1)


@dataclass(frozen=True)
class Crops:
    """Epoch -> that epoch's crops, for `hosm.training.fit`.

    Args:
        pictures: arrays of shape (height, width), or of (height, width, 3).
        side: of a crop, in pixels; no picture is smaller.
        count: crops of an epoch.
        unit: what values are divided by.
        seed: fixes all choices.
    """

    pictures: Sequence[Array]
    side: int
    count: int
    unit: float
    seed: int

    def __call__(self, epoch: int) -> Tensor:
        """Return the crops of an epoch as points, shape (count, channels side side), float32.

        Args:
            epoch: -1 or above.
        """
        rng: Any = np.random.default_rng([self.seed % 2**64, epoch + 1])
        shapes = getattr(self.pictures, "shapes", None) or page_shapes(self.pictures)
        places = np.array([(h - self.side + 1) * (w - self.side + 1) for h, w, *_ in shapes])
        readings = -(-self.count // CROPS_OF_A_PICTURE)
        chosen = rng.choice(len(places), readings, p=places / places.sum())
        points: list[Array] = []
        for number in chosen.tolist():
            picture = self.pictures[number]
            height, width = shapes[number][:2]
            for _ in range(min(CROPS_OF_A_PICTURE, self.count - len(points))):
                top = rng.integers(height - self.side + 1)
                left = rng.integers(width - self.side + 1)
                turn = rng.integers(8)
                points.append(crop_points(picture, top, left, self.side, turn) / self.unit)
        return torch.from_numpy(np.stack(points))
