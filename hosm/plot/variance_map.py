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


class VarianceMapDisplay(Display):
    """The standard deviation of each pixel, and the error beside it; of colours, over channels.

    Args:
        std: standard deviations, shape (height, width), in the picture's units.
        error: absolute errors, of the same shape; None where the clean picture is not known.
    """

    def __init__(self, std: Array, error: Array | None = None) -> None:
        self.std, self.error = std, error

    @classmethod
    def from_estimator(
        cls,
        denoiser: PictureDenoiser,
        noisy: Array,
        clean: Array | None = None,
        *,
        ax: Any = None,  # noqa: ANN401
        **options: Any,  # noqa: ANN401
    ) -> Self:
        """Denoise a picture and draw how sure the denoiser is.

        Args:
            denoiser: a fitted one.
            noisy: the picture, shape (height, width) or (height, width, 3).
            clean: the picture without noise, of the same shape, if it is known.
            ax: axes to draw into, two with a clean picture; None for those of a new figure.
            options: of `PictureDenoiser.denoise`, such as `sigma`.

        Raises:
            ValueError: as in `PictureDenoiser.denoise`, or the shapes differ.
            ImportError: matplotlib is not installed.
        """
        return cls.from_predictions(denoiser.denoise(noisy, **options), clean, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        found: DenoisedPicture,
        clean: Array | None = None,
        *,
        ax: Any = None,  # noqa: ANN401
    ) -> Self:
        """Draw how sure a denoiser was of a picture.

        Args:
            found: the denoised picture.
            clean: the picture without noise, of the same shape, if it is known.
            ax: axes to draw into, two with a clean picture; None for those of a new figure.

        Raises:
            ValueError: the shapes differ, or found is no denoised picture.
            ImportError: matplotlib is not installed.
        """
        if not isinstance(found, DenoisedPicture):
            raise ValueError(f"found must be a DenoisedPicture, got {type(found).__name__}")
        if clean is None:
            return cls(_over_channels(found.variance)).plot(ax)
        if np.shape(clean) != found.mean.shape:
            raise ValueError(f"clean must have shape {found.mean.shape}, got {np.shape(clean)}")
        squares = (np.asarray(clean, np.float64) - found.mean) ** 2
        return cls(_over_channels(found.variance), _over_channels(squares)).plot(ax)

    def plot(self, ax: Any = None) -> Self:  # noqa: ANN401
        """Draw it.

        Args:
            ax: axes to draw into, two with errors; None for those of a new figure.

        Raises:
            ValueError: there are more or fewer axes than pictures.
            ImportError: matplotlib is not installed.
        """
        panels = {"predicted standard deviation": self.std}
        if self.error is not None:
            panels["absolute error"] = self.error
        axes = self._axes(ax, len(panels))
        top = max(float(np.quantile(each, SHARE)) for each in panels.values())
        for own, (name, values) in zip(axes, panels.items(), strict=True):
            self._map(own, values, name, cmap="magma", vmin=0.0, vmax=top)
            own.set(xticks=[], yticks=[])
        return self


def _over_channels(squares: Array) -> Array:
    """Return the root of squares, of colours the root of their mean, shape (height, width)."""
    return np.sqrt(squares.mean(2) if squares.ndim == 3 else squares)
