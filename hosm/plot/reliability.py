"""Whether variances are right: the variance that was predicted against the error that was made.

Entries are sorted by predicted variance into tenths, and in each tenth the mean predicted variance
stands against the mean squared error (`hosm.uncertainty.calibration.reliability`; the diagrams of
Murphy and Winkler, "Reliability of Subjective Probability Forecasts", 1977, for variances).
"""

from __future__ import annotations

from typing import Any, Self

import torch

from hosm.checks import check_one_shape
from hosm.estimator.score_estimator import ScoreEstimator
from hosm.io import Array
from hosm.plot.axes import Display, numbers
from hosm.uncertainty import Reliability, reliability

__all__ = ["ReliabilityDisplay"]


class ReliabilityDisplay(Display):
    """Predicted variance against measured squared error; on the dashed line they are equal.

    Args:
        table: means of each tenth, with standard errors of the measured ones.
        unit: of both, in words; nothing where it is that of the data, squared.
    """

    def __init__(self, table: Reliability, unit: str = "") -> None:
        self.table, self.unit = table, unit

    @classmethod
    def from_estimator(
        cls,
        estimator: ScoreEstimator,
        X_noisy: Any,  # noqa: ANN401
        X: Any,  # noqa: ANN401
        *,
        bins: int = 10,
        ax: Any = None,  # noqa: ANN401
    ) -> Self:
        """Draw how the variances of a posterior compare with its errors.

        Columns of different units are compared by dividing by the variance of their noise.

        Args:
            estimator: a fitted one.
            X_noisy: noisy points, shape (n, D), with noise of `noise_std_`.
            X: the same points without noise, shape (n, D).
            bins: so many equal shares of all entries.
            ax: axes to draw into; None for those of a new figure.

        Raises:
            NotFittedError: before `fit`.
            ValueError: shapes that do not fit, or too few entries.
            ImportError: matplotlib is not installed.
        """
        law, clean = estimator.posterior(X_noisy).law, estimator._points("X", X).x
        check_one_shape("(n, D)", X_noisy=law.mean, X=clean)
        noise = torch.from_numpy(estimator.noise_std_) ** 2
        table = reliability(law.variance / noise, (clean - law.mean) ** 2 / noise, bins)
        return cls(table, "over the variance of the noise").plot(ax)

    @classmethod
    def from_predictions(
        cls,
        variance: Array,
        squared_error: Array,
        *,
        bins: int = 10,
        ax: Any = None,  # noqa: ANN401
    ) -> Self:
        """Draw how variances compare with errors, for example those of a denoised picture.

        Args:
            variance: predicted, of n points, shape (n, ..).
            squared_error: measured, of the same shape.
            bins: so many equal shares of all entries.
            ax: axes to draw into; None for those of a new figure.

        Raises:
            ValueError: shapes that differ, negative values, or too few entries.
            ImportError: matplotlib is not installed.
        """
        predicted = numbers("variance", variance, ...)
        measured = numbers("squared_error", squared_error, ...)
        table = reliability(torch.from_numpy(predicted), torch.from_numpy(measured), bins)
        return cls(table).plot(ax)

    def plot(self, ax: Any = None) -> Self:  # noqa: ANN401
        """Draw it.

        Args:
            ax: axes to draw into; None for those of a new figure.

        Raises:
            ImportError: matplotlib is not installed.
        """
        (own,) = self._axes(ax)
        predicted, observed, error = (each.numpy() for each in self.table[:3])
        ends = [min(predicted.min(), observed.min()), max(predicted.max(), observed.max())]
        own.plot(ends, ends, "--", color="gray", label="equal")
        share = f"mean of 1 / {len(predicted)} of the entries"
        own.errorbar(predicted, observed, error, fmt="o-", capsize=2, label=share)
        scale = "log" if ends[0] > 0 else "linear"  # which has room for 0
        own.set(xscale=scale, yscale=scale)
        own.set_xlabel(f"predicted variance {self.unit}".strip())
        own.set_ylabel(f"mean squared error {self.unit}".strip())
        own.legend()
        return self
