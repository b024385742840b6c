"""What the displays share: axes, checked numbers, and matplotlib, which only they need."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import numpy as np
import torch

from hosm.checks import checked
from hosm.io import Array

__all__ = ["Display", "check_names", "numbers", "pyplot"]

WIDTH, HEIGHT = 4.8, 4.0  # of a panel, in inches


def numbers(name: str, values: Any, *shape: int | str | EllipsisType) -> Array:  # noqa: ANN401
    """Return values as float64.

    Args:
        name: of the argument, for the error.
        values: an array, a tensor or a list.
        shape: as in `hosm.checks.checked`.

    Raises:
        ValueError: they are not finite numbers of that shape, or there are none.
    """
    return checked(name, torch.from_numpy(np.array(values, np.float64)), *shape).numpy()


def check_names(names: Sequence[str] | None, dimension: int) -> None:
    """Raise ValueError unless there is a name for each of D columns, or None."""
    if names is not None and len(names) != dimension:
        raise ValueError(f"names must hold {dimension} names, got {len(names)}")


def pyplot() -> Any:  # noqa: ANN401
    """Return matplotlib.pyplot.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        return importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        need = "displays need the package matplotlib"
        raise ImportError(f"{need}: pip install 'hosm[plot]'") from error


class Display:
    """What was drawn.

    Attributes:
        ax_: the axes, one or an array of several; after `plot`.
        figure_: the figure that they belong to; after `plot`.
    """

    ax_: Any
    figure_: Any

    def _axes(self, ax: Any, count: int = 1) -> list[Any]:  # noqa: ANN401
        """Return axes to draw into, and keep them.

        Args:
            ax: one or several of yours; None for those of a new figure.
            count: how many are needed.

        Raises:
            ValueError: there are more or fewer axes than panels.
            ImportError: matplotlib is not installed.
        """
        if ax is None:
            size = (WIDTH * count, HEIGHT)
            _, ax = pyplot().subplots(1, count, figsize=size, layout="constrained")
        found = [*np.ravel(np.asarray(ax, dtype=object))]
        if len(found) != count:
            raise ValueError(f"ax must hold {count} axes, got {len(found)}")
        self.ax_, self.figure_ = ax, found[0].figure
        return found

    def _map(self, ax: Any, values: Any, label: str, **options: Any) -> None:  # noqa: ANN401
        """Draw values as colours, with a bar that says what each colour means."""
        drawn = ax.imshow(values, interpolation="nearest", **options)
        beyond = bool(np.max(values) > drawn.norm.vmax)  # its colours end below the largest value
        flat = np.shape(values)[0] / np.shape(values)[1] * WIDTH / HEIGHT  # below 1: a wide map
        extend = "max" if beyond else "neither"
        shrink = 0.85 * min(1.0, flat)
        self.figure_.colorbar(drawn, ax=ax, label=label, shrink=shrink, extend=extend)
