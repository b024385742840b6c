"""How sure a denoiser is of each pixel, beside how far off it was.

Standard deviations of the posterior of the clean picture (Meng, Song, Li and Ermon, NeurIPS 2021,
section 4.3) and the error, where the clean picture is known, in the same colours.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from hosm.io import Array
from hosm.pictures import DenoisedPicture, PictureDenoiser
from hosm.plot.axes import Display

__all__ = ["VarianceMapDisplay"]

SHARE = 0.995  # of the pixels that the colours tell apart
UNITS = "in units of the picture's values"
OVER = "\n(root mean square over the 3 channels)"


class VarianceMapDisplay(Display):
    """The standard deviation of each pixel, with the picture before it and the error after it.

    Args:
        std: standard deviations, shape (height, width), in the picture's units.
        error: absolute errors, of the same shape; None where the clean picture is not known.
        picture: the denoised picture, shape (height, width) or (height, width, 3), to be shown
            too; None where it is not.
        over: what was done with channels, in words; nothing of a grey picture.
    """

    def __init__(
        self,
        std: Array,
        error: Array | None = None,
        picture: Array | None = None,
        over: str = "",
    ) -> None:
        self.std, self.error, self.picture, self.over = std, error, picture, over

    @classmethod
    def from_estimator(
        cls,
        denoiser: PictureDenoiser,
        noisy: Array,
        clean: Array | None = None,
        *,
        picture: bool = False,
        ax: Any = None,  # noqa: ANN401
        **options: Any,  # noqa: ANN401
    ) -> Self:
        """Denoise a picture and draw how sure the denoiser is.

        Args:
            denoiser: a fitted one.
            noisy: the picture, shape (height, width) or (height, width, 3).
            clean: the picture without noise, of the same shape, if it is known.
            picture: whether the denoised picture is shown too, before the other panels.
            ax: axes to draw into, one for each panel; None for those of a new figure.
            options: of `PictureDenoiser.denoise`, such as `sigma`.

        Raises:
            ValueError: as in `PictureDenoiser.denoise`, or the shapes differ.
            ImportError: matplotlib is not installed.
        """
        found = denoiser.denoise(noisy, **options)
        return cls.from_predictions(found, clean, picture=picture, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        found: DenoisedPicture,
        clean: Array | None = None,
        *,
        picture: bool = False,
        ax: Any = None,  # noqa: ANN401
    ) -> Self:
        """Draw how sure a denoiser was of a picture.

        Args:
            found: the denoised picture.
            clean: the picture without noise, of the same shape, if it is known.
            picture: whether the denoised picture is shown too, before the other panels.
            ax: axes to draw into, one for each panel; None for those of a new figure.

        Raises:
            ValueError: the shapes differ, or found is no denoised picture.
            ImportError: matplotlib is not installed.
        """
        if not isinstance(found, DenoisedPicture):
            raise ValueError(f"found must be a DenoisedPicture, got {type(found).__name__}")
        squares = None
        if clean is not None:
            if np.shape(clean) != found.mean.shape:
                raise ValueError(
                    f"clean must have shape {found.mean.shape}, got {np.shape(clean)}"
                )
            squares = (np.asarray(clean, np.float64) - found.mean) ** 2
        std = _over_channels(found.variance)
        error = None if squares is None else _over_channels(squares)
        over = OVER if found.variance.ndim == 3 else ""
        return cls(std, error, found.mean if picture else None, over).plot(ax)

    def plot(self, ax: Any = None) -> Self:  # noqa: ANN401
        """Draw it.

        Args:
            ax: axes to draw into, one for each panel; None for those of a new figure.

        Raises:
            ValueError: there are more or fewer axes than panels.
            ImportError: matplotlib is not installed.
        """
        panels = {"predicted standard deviation": self.std}
        if self.error is not None:
            panels["absolute error"] = self.error
        axes = self._axes(ax, len(panels) + (self.picture is not None))
        if self.picture is not None:
            own, *axes = axes
            own.imshow(_shown(self.picture), cmap="gray", interpolation="nearest")
            own.set(xticks=[], yticks=[], title="denoised picture")
        top = max(float(np.quantile(each, SHARE)) for each in panels.values())
        for own, (name, values) in zip(axes, panels.items(), strict=True):
            self._map(own, values, UNITS, cmap="magma", vmin=0.0, vmax=top)
            own.set(xticks=[], yticks=[], title=f"{name}{self.over}")
        return self


def _shown(picture: Array) -> Array:
    """Return a picture as matplotlib shows it: of colours between 0 and 1."""
    if picture.ndim == 2:
        return picture
    low, high = min(0.0, float(picture.min())), float(picture.max())
    return (picture - low) / (high - low or 1.0)


def _over_channels(squares: Array) -> Array:
    """Return the root of squares, of colours the root of their mean, shape (height, width)."""
    return np.sqrt(squares.mean(2) if squares.ndim == 3 else squares)
