"""A Hessian of the log-density as a map of colours: which columns depend on each other.

Off the diagonal, an entry that is 0 at every point means that two columns are independent given
all others (Spantini, Bigoni and Marzouk, "Inference via Low-Dimensional Couplings", JMLR 2018,
lemma 1). On it, minus the inverse of an entry is about the variance of a column given all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from hosm.checks import check_count
from hosm.estimator.score_estimator import ScoreEstimator
from hosm.io import Array
from hosm.plot.axes import Display, check_names, numbers

__all__ = ["HessianDisplay"]

ROWS = 256  # whose matrices are held at once
MOST_NAMES = 40  # that fit beside a map


class HessianDisplay(Display):
    """A Hessian as a map of colours, white where it is 0.

    Args:
        hessian: shape (D, D).
        names: of the columns, length D; None for their numbers.
        label: what the colours mean.
        title: where the Hessian is that of; nothing by default.
    """

    def __init__(
        self,
        hessian: Array,
        names: Sequence[str] | None = None,
        label: str = "second derivative",
        title: str = "",
    ) -> None:
        self.hessian, self.names = numbers("hessian", hessian, "D", "D"), names
        check_names(names, len(self.hessian))
        self.label, self.title = label, title

    @classmethod
    def from_estimator(
        cls,
        estimator: ScoreEstimator,
        X: Any,  # noqa: ANN401
        *,
        row: int | None = None,
        scaled: bool = True,
        ax: Any = None,  # noqa: ANN401
    ) -> Self:
        """Draw the mean of the Hessians at points, or that at one of them.

        Args:
            estimator: a fitted one.
            X: points, shape (n, D).
            row: the number of one point, from 0; None for the mean over all.
            scaled: whether entry (i, j) is multiplied by the standard deviations of columns i and
                j, so that columns of different units can be compared.
            ax: axes to draw into; None for those of a new figure.

        Raises:
            NotFittedError: before `fit`.
            ValueError: X has another shape, or there is no such row.
            ImportError: matplotlib is not installed.
        """
        x = estimator._points("X", X).x.numpy()
        if row is not None:
            check_count("row", row, 0, len(x) - 1)
            x = x[row : row + 1]
        parts = [x[i : i + ROWS] for i in range(0, len(x), ROWS)]
        total = sum(np.asarray(estimator.hessian(part, dense=True)).sum(0) for part in parts)
        label = "second derivative" + (", scaled" if scaled else "")
        scale = estimator.scaling_.scale.numpy() if scaled else np.ones(x.shape[1])
        names = [*getattr(estimator, "feature_names_in_", [])] or None
        title = f"mean of {len(x)} rows" if row is None else f"row {row}"
        return cls(total / len(x) * np.outer(scale, scale), names, label, title).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        hessian: Array,
        names: Sequence[str] | None = None,
        *,
        ax: Any = None,  # noqa: ANN401
    ) -> Self:
        """Draw a Hessian, or the mean of several.

        Args:
            hessian: shape (D, D), or (n, D, D) for the mean of n.
            names: of the columns, length D; None for their numbers.
            ax: axes to draw into; None for those of a new figure.

        Raises:
            ValueError: another shape, or anything but finite numbers.
            ImportError: matplotlib is not installed.
        """
        matrix = np.asarray(hessian)
        matrix = matrix.mean(0) if matrix.ndim == 3 else matrix
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"hessian must have shape (D, D) or (n, D, D), got {matrix.shape}")
        return cls(matrix, names).plot(ax)

    def plot(self, ax: Any = None) -> Self:  # noqa: ANN401
        """Draw it.

        Args:
            ax: axes to draw into; None for those of a new figure.

        Raises:
            ImportError: matplotlib is not installed.
        """
        (own,) = self._axes(ax)
        largest = float(np.abs(self.hessian).max()) or 1.0
        self._map(own, self.hessian, self.label, cmap="RdBu_r", vmin=-largest, vmax=largest)
        own.set_title(self.title)
        if self.names is not None and len(self.names) <= MOST_NAMES:
            places = range(len(self.names))
            own.set_xticks(places, self.names, rotation=90, fontsize=8)
            own.set_yticks(places, self.names, fontsize=8)
        return self
