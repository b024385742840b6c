"""The way of chains: the value of a coordinate after each transition, one line for each chain.

Chains that have forgotten their start cross each other all the time (Gelman and Rubin, "Inference
from Iterative Simulation Using Multiple Sequences", 1992).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from hosm.checks import check_count
from hosm.estimator.arrays import seeded
from hosm.estimator.closed_form import ClosedFormModel
from hosm.estimator.score_estimator import ScoreEstimator
from hosm.io import Array
from hosm.plot.axes import Display, check_names
from hosm.samplers import langevin, sample_chain

__all__ = ["ChainsDisplay"]

MOST_PANELS = 4


class ChainsDisplay(Display):
    """The values of coordinates along chains.

    Args:
        draws: shape (chains, steps, D).
        names: of the coordinates, length D; None for their numbers.
        columns: the numbers of those that are drawn; None for the first four at most.
    """

    def __init__(
        self,
        draws: Array,
        names: Sequence[str] | None = None,
        columns: Sequence[int] | None = None,
    ) -> None:
        self.draws, dimension = draws, draws.shape[2]
        check_names(names, dimension)
        for j in columns or ():
            check_count("columns", j, 0, dimension - 1)
        self.names = names or [f"coordinate {j}" for j in range(dimension)]
        self.columns = columns or range(min(dimension, MOST_PANELS))

    @classmethod
    def from_estimator(
        cls,
        estimator: ScoreEstimator,
        n_chains: int = 4,
        steps: int = 500,
        *,
        random_state: Any = None,  # noqa: ANN401
        columns: Sequence[int] | None = None,
        ax: Any = None,  # noqa: ANN401
    ) -> Self:
        """Run Langevin chains by the learned score from rows of the fit, and draw their way.

        The step is half of sigma squared, as in `ScoreEstimator.sample` of networks; of a law in
        closed form steps are accepted by the rule of Metropolis and Hastings.

        Args:
            estimator: a fitted one.
            n_chains: number of chains.
            steps: transitions of each.
            random_state: None, an integer, or a NumPy source of randomness.
            columns: numbers of the columns that are drawn; None for the first four at most.
            ax: axes to draw into, one for each of them; None for those of a new figure.

        Raises:
            NotFittedError: before `fit`.
            ValueError: a count out of range, or no such column.
            ImportError: matplotlib is not installed.
        """
        model, starts = estimator.model_, estimator.starts_
        check_count("n_chains", n_chains, 1, len(starts))
        generator = seeded(random_state, starts.device)
        density = None
        if isinstance(model, ClosedFormModel):
            density, starts = model.log_density, starts.double()
        kernel = langevin(model.score, float(model.sigma) ** 2 / 2, density)  # type: ignore[arg-type]
        draws = sample_chain(kernel, starts[:n_chains], steps, generator=generator)
        names = [*getattr(estimator, "feature_names_in_", [])] or None
        return cls(estimator.scaling_.out_of(draws).numpy(), names, columns).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        draws: Any,  # noqa: ANN401
        names: Sequence[str] | None = None,
        *,
        columns: Sequence[int] | None = None,
        ax: Any = None,  # noqa: ANN401
    ) -> Self:
        """Draw the way of chains, such as `hosm.samplers.sample_chain` returns.

        Args:
            draws: an array or a tensor, shape (chains, steps, D).
            names: of the coordinates, length D; None for their numbers.
            columns: the numbers of those that are drawn; None for the first four at most.
            ax: axes to draw into, one for each of them; None for those of a new figure.

        Raises:
            ValueError: another shape, or no such column.
            ImportError: matplotlib is not installed.
        """
        array = np.asarray(draws)
        if array.ndim != 3:
            raise ValueError(f"draws must have shape (chains, steps, D), got {array.shape}")
        return cls(array, names, columns).plot(ax)

    def plot(self, ax: Any = None) -> Self:  # noqa: ANN401
        """Draw them.

        Args:
            ax: axes to draw into, one for each coordinate; None for those of a new figure.

        Raises:
            ValueError: there are more or fewer axes than coordinates.
            ImportError: matplotlib is not installed.
        """
        for own, j in zip(self._axes(ax, len(self.columns)), self.columns, strict=True):
            own.plot(self.draws[:, :, j].T, lw=0.8, alpha=0.8)
            own.set(xlabel="transition", title=self.names[j])
        return self
