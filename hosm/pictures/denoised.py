r"""A denoised picture and how sure it is: variances, intervals, directions, draws.

The posterior of the clean picture given the noisy one, N(m, C) (see `hosm.pictures.covariance`;
Meng, Song, Li and Ermon, NeurIPS 2021, section 4.3, for pictures of one size).
Mean and variances are of the whole picture. What needs covariances asks for a window, whose
network outputs are computed when they are asked for, so that a picture of any size fits.
"""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Generator, Tensor

from hosm.checks import check_count, check_number, check_probabilities
from hosm.io import Array, thumbnail
from hosm.operators import DiagonalPlusLowRank
from hosm.pictures.covariance import draw, window_covariance
from hosm.pictures.tiles import Tile
from hosm.uncertainty import leading_directions

__all__ = ["DenoisedPicture", "Window"]

Window = tuple[int, int, int, int]
"""A part of a picture: row and column of its first pixel, height and width."""

LARGEST_WINDOW = 96 * 96  # pixels whose leading directions are computed


@dataclass(frozen=True, repr=False)
class DenoisedPicture:
    """The posterior of a clean picture, in the noisy picture's units.

    Attributes:
        mean: the denoised picture, shape (height, width) or (height, width, 3), float32.
        variance: expected squared error of each of its numbers, of the same shape.
        sigma: noise scale that was assumed, a number or one for each pixel, (height, width).
        gain: units of the picture for one count of light; 0 without Poisson noise.
        scale: factor of all variances, from a calibration; 1 without one.
        factors: standard deviations that intervals reach by their level, from a calibration (see
            `hosm.pictures.calibration`); None for those of N(m, C).
    """

    mean: Array
    variance: Array
    sigma: float | Array
    moments: Callable[[Tile], tuple[Tensor, Tensor]]
    gain: float = 0.0
    scale: float = 1.0
    factors: Mapping[float, float] | None = None

    def __repr__(self) -> str:
        sides = " x ".join(map(str, self.mean.shape))
        low, high = self.std.min(), self.std.max()
        about = f"sigma {np.mean(self.sigma):.3g}, standard deviations {low:.3g} to {high:.3g}"
        return f"<denoised picture, {sides}, {about}>"

    def _repr_html_(self) -> str:
        """Return small pictures of the mean and the standard deviations, for notebooks."""
        parts = [f"<p>{html.escape(repr(self))}</p>"]
        for name, values in (("mean", self.mean), ("standard deviation", self.std)):
            low, high = float(values.min()), float(values.max())
            about = f"{name}: black {low:.3g}, white {high:.3g}"
            code = base64.b64encode(thumbnail(values)).decode()
            image = f'<img alt="{name}" src="data:image/png;base64,{code}">'
            caption = f"<figcaption>{about}</figcaption>"
            parts.append(f'<figure style="display: inline-block">{image}{caption}</figure>')
        return "\n".join(parts)

    @property
    def std(self) -> Array:
        """Standard deviations, the square roots of the variances."""
        return np.sqrt(self.variance)

    def scaled(self, scale: float) -> DenoisedPicture:
        """Return the posterior with all covariances times a factor, as a calibration finds it.

        Its intervals are those of N(m, C), not of factors found before.

        Raises:
            ValueError: the factor is not positive and finite.
        """
        check_number("scale", scale)
        variance = (scale * self.variance).astype(self.variance.dtype)
        return replace(self, variance=variance, scale=scale * self.scale, factors=None)

    def through(self, slope: Array) -> DenoisedPicture:
        """Return the posterior with all deviations times the slopes of a map, as tangents do.

        Args:
            slope: positive, of the shape of the mean.
        """
        planes = slope.reshape(*slope.shape[:2], -1)

        def moments(tile: Tile) -> tuple[Tensor, Tensor]:
            own, shared = self.moments(tile)
            part = planes[tile.top : tile.top + tile.height, tile.left : tile.left + tile.width]
            factor = torch.from_numpy(np.ascontiguousarray(np.moveaxis(part, 2, 0)))
            return own * factor.square(), shared * factor

        return replace(self, variance=self.variance * slope**2, moments=moments)

    def interval(self, level: float) -> tuple[Array, Array]:
        """Return the central interval of each number: low and high, shaped as the mean.

        Args:
            level: probability that N(m_i, C_ii) gives the interval, between 0 and 1; with
                `factors`, one of their levels, whose guarantee is that of the calibration.

        Raises:
            ValueError: the level is not between 0 and 1, or was not calibrated.
        """
        half = (self._reach(level) * self.std).astype(self.mean.dtype)
        return self.mean - half, self.mean + half

    def _reach(self, level: float) -> float:
        """Return how many standard deviations an interval reaches."""
        check_probabilities("level", [level])
        if self.factors is None:
            return math.sqrt(2) * float(torch.erfinv(torch.tensor(level, dtype=torch.float64)))
        if level not in self.factors:
            known = ", ".join(f"{each:g}" for each in self.factors)
            raise ValueError(f"level must be among those calibrated, {known}, got {level:g}")
        return self.factors[level]

    def covariance(self, window: Window) -> DiagonalPlusLowRank:
        """Return the covariance of the numbers of a window.

        Args:
            window: row and column of its first pixel, height and width.

        Returns:
            One matrix, shape (D, D), D = height width or height width 3 in the order of the
            picture's flattened window.

        Raises:
            ValueError: the window does not lie within the picture.
        """
        tile = self._tile(window)
        own, shared = (torch.movedim(each, -3, -1) for each in self._moments(tile))
        found = window_covariance(
            own.movedim(-1, 0), shared.movedim(-1, 1), top=tile.top, left=tile.left
        )
        order = torch.arange(own.numel()).view(own.shape[2], *own.shape[:2])
        order = order.movedim(0, -1).reshape(-1)
        return DiagonalPlusLowRank(found.diag[order], found.factor[order])

    def directions(self, window: Window, count: int) -> tuple[Array, Array]:
        """Return the leading eigenvectors of the covariance of a window, and their variances.

        Args:
            window: row and column of its first pixel, height and width; at most 96 x 96 pixels.
            count: how many, 1 or more.

        Returns:
            Variances, shape (count,), in decreasing order, and directions of length 1, shape
            (count, height, width) or (count, height, width, 3).

        Raises:
            ValueError: the window is too large, or does not lie within the picture; the count is
                out of range.
        """
        tile = self._tile(window)
        if tile.height * tile.width > LARGEST_WINDOW:
            raise ValueError(
                f"window must have at most {LARGEST_WINDOW} pixels, "
                f"got {tile.height} x {tile.width}"
            )
        covariance = self.covariance(window)
        batch = DiagonalPlusLowRank(covariance.diag[None], covariance.factor[None])
        check_count("count", count, 1, len(covariance.diag))
        values, vectors = leading_directions(batch, count)
        shape = (count, tile.height, tile.width, *self.mean.shape[2:])
        return values[0].numpy(), vectors[0].mT.reshape(shape).numpy()

    def sample(
        self, count: int, window: Window | None = None, random_state: int | None = None
    ) -> Array:
        """Return draws of the clean picture, or of a window of it.

        Args:
            count: how many, 1 or more.
            window: row and column of its first pixel, height and width; None for all of it.
            random_state: seed; None for fresh numbers.

        Returns:
            Shape (count, height, width) or (count, height, width, 3).

        Raises:
            ValueError: the window does not lie within the picture, or the count is below 1.
        """
        check_count("count", count)
        tile = self._tile(window or (0, 0, *self.mean.shape[:2]))
        own, shared = self._moments(tile)
        generator = Generator()
        generator.seed() if random_state is None else generator.manual_seed(random_state)
        drawn = draw(own, shared, count, generator, tile.top, tile.left)
        mean = self.mean[tile.top : tile.top + tile.height, tile.left : tile.left + tile.width]
        return mean + drawn.movedim(1, -1).numpy().reshape(count, *mean.shape)

    def _tile(self, window: Window) -> Tile:
        """Return a window that lies within the picture."""
        tile = Tile(*window)
        height, width = self.mean.shape[:2]
        inside = min(tile.height, tile.width) >= 1 and min(tile.top, tile.left) >= 0
        if not inside or tile.top + tile.height > height or tile.left + tile.width > width:
            raise ValueError(
                f"window must lie within the picture of {height} x {width} pixels, as (row, "
                f"column, height, width), got {tuple(tile)}"
            )
        return tile

    def _moments(self, tile: Tile) -> tuple[Tensor, Tensor]:
        """Return own variances (channels, height, width) and b_k (r, channels, ...) of a tile."""
        own, shared = self.moments(tile)
        return self.scale * own, math.sqrt(self.scale) * shared
