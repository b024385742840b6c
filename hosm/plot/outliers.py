"""The scores of rows and the bound below which a row is called an outlier.

The bound is that of `hosm.OutlierDetector`: the promised share of rows of the same law lies below
it (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005).
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from hosm.estimator.outlier_detector import OutlierDetector
from hosm.io import Array
from hosm.plot.axes import Display, numbers

__all__ = ["OutlierDisplay"]


class OutlierDisplay(Display):
    """A histogram of scores, those below the bound in another colour.

    Args:
        scores: of rows, higher for more typical ones, shape (n,).
        bound: score below which a row is an outlier.
        contamination: share of rows of the same law that lies below it.
    """

    def __init__(self, scores: Array, bound: float, contamination: float = 0.05) -> None:
        self.scores, self.bound = numbers("scores", scores, "n"), bound
        self.contamination = contamination

    @classmethod
    def from_estimator(
        cls,
        detector: OutlierDetector,
        X: Any,  # noqa: ANN401
        *,
        bins: int = 40,
        ax: Any = None,  # noqa: ANN401
    ) -> Self:
        """Draw the scores of rows.

        Args:
            detector: a fitted one.
            X: rows, shape (n, D).
            bins: bars of the histogram.
            ax: axes to draw into; None for those of a new figure.

        Raises:
            NotFittedError: before `fit`.
            ValueError: X has another shape, or holds anything but finite numbers.
            ImportError: matplotlib is not installed.
        """
        scores, share = detector.score_samples(X), detector.contamination
        return cls(scores, detector.offset_, share).plot(ax, bins=bins)

    @classmethod
    def from_predictions(
        cls,
        scores: Array,
        bound: float,
        contamination: float = 0.05,
        *,
        bins: int = 40,
        ax: Any = None,  # noqa: ANN401
    ) -> Self:
        """Draw scores.

        Args:
            scores: of rows, higher for more typical ones, shape (n,).
            bound: score below which a row is an outlier.
            contamination: share of rows of the same law that lies below it.
            bins: bars of the histogram.
            ax: axes to draw into; None for those of a new figure.

        Raises:
            ValueError: another shape, or anything but finite numbers.
            ImportError: matplotlib is not installed.
        """
        return cls(scores, bound, contamination).plot(ax, bins=bins)

    def plot(self, ax: Any = None, bins: int = 40) -> Self:  # noqa: ANN401
        """Draw them.

        Args:
            ax: axes to draw into; None for those of a new figure.
            bins: bars of the histogram.

        Raises:
            ImportError: matplotlib is not installed.
        """
        (own,) = self._axes(ax)
        edges = np.histogram_bin_edges(np.append(self.scores, self.bound), bins)
        beyond = self.scores < self.bound
        counts = {"outliers": self.scores[beyond], "other rows": self.scores[~beyond]}
        labels = [f"{name}: {len(each)}" for name, each in counts.items()]
        own.hist([*counts.values()], edges, stacked=True, color=["C3", "C0"], label=labels)
        line = f"{1 - self.contamination:.0%} of rows of the same law lie to the right"
        own.axvline(self.bound, color="black", ls="--", lw=1, label=line)
        own.set(xlabel="score: minus the deviation from the training rows", ylabel="rows")
        own.legend(fontsize=8)
        return self
