"""What the displays share: axes to draw into, and matplotlib, which only displays need."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

__all__ = ["Display"]

WIDTH, HEIGHT = 4.8, 4.0  # of a panel, in inches


def _pyplot() -> Any:  # noqa: ANN401
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
            _, ax = _pyplot().subplots(1, count, figsize=size, layout="constrained")
        found = [*np.ravel(np.asarray(ax, dtype=object))]
        if len(found) != count:
            raise ValueError(f"ax must hold {count} axes, got {len(found)}")
        self.ax_, self.figure_ = ax, found[0].figure
        return found

    def _map(self, ax: Any, values: Any, label: str, **options: Any) -> None:  # noqa: ANN401
        """Draw values as colours, with a bar that says what each colour means."""
        drawn = ax.imshow(values, interpolation="nearest", **options)
        flat = np.shape(values)[0] / np.shape(values)[1] * WIDTH / HEIGHT  # below 1: a wide map
        self.figure_.colorbar(drawn, ax=ax, label=label, shrink=0.85 * min(1.0, flat))
