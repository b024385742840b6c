r"""In which columns what was chosen is better than a Gaussian, on rows that were held out.

The loss of score matching is a sum over columns, and so is what it measures: for each column i,

    E[ s_i^2 / 2 + d s_i / d x_i ]

is half of the squared error of the i-th coordinate of the score up to a constant of the data
(Hyvarinen, "Estimation of Non-Normalized Statistical Models by Score Matching", JMLR 2005: his
integration by parts is one column at a time). A law is chosen by the sum, which one column that is
far from Gaussian may decide alone; in the others the same law may then be worse than a Gaussian,
and vary where the truth is constant.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hosm.estimator.closed_form import ClosedFormModel
from hosm.estimator.data_checks import named, takes_steps

__all__ = ["ColumnGain", "column_gain"]

CHANCE = 1.0  # standard errors within which a column's gain is not told from 0
CLEAR = 2.0  # standard errors beyond which a fit warns
ADVICE = "do not read differences of the Hessian between rows there"


@dataclass(frozen=True)
class ColumnGain:
    """Half of the squared error of a Gaussian's score less that of what was chosen, by column.

    Attributes:
        mean: over held-out rows, in units of 1 / variance, above 0 where the choice is better,
            shape (D,), float64, CPU.
        error: its standard error, of the same shape.
    """

    mean: Tensor
    error: Tensor

    def below(self, errors: float) -> list[int]:
        """Return the columns whose gain is below so many standard errors."""
        return torch.nonzero(self.mean < errors * self.error).flatten().tolist()

    def doubt(self, names: Sequence[str] = ()) -> str:
        """Return in which columns no gain over a Gaussian could be shown; nothing if in none.

        Args:
            names: of the columns, shape (D,), or none.
        """
        unshown = self.below(CHANCE)
        if not unshown:
            return ""
        columns = named(unshown, names, most=None)
        return f"In {columns} no gain over a plain Gaussian could be shown: {ADVICE}."

    def words(self, names: Sequence[str] = ()) -> str:
        """Return in which columns no gain could be shown, or that there is none such.

        Args:
            names: as in `doubt`.
        """
        return self.doubt(names) or "It is smaller in each column, beyond one standard error."

    def warn(self, names: Sequence[str] = ()) -> None:
        """Warn of the columns in which the Gaussian is clearly better; names as in `doubt`."""
        worse = self.below(-CLEAR)
        if worse:
            warnings.warn(
                f"a Gaussian has a better score than what was chosen in "
                f"{named(worse, names, most=None)}, by more than two standard errors: {ADVICE}",
                UserWarning,
                stacklevel=5,
            )

    def warn_of_a_label(self, x: Tensor, names: Sequence[str] = ()) -> None:
        """Warn of a column of few different values that is gained more in than in all others.

        Args:
            x: the rows, shape (n, D).
            names: as in `doubt`.
        """
        gained = self.mean.clamp_min(0)
        most = int(gained.argmax())
        if 2 * gained[most] > gained.sum() and bool(takes_steps(x)[most]):
            name = names[most] if names else str(most)
            warnings.warn(
                "more than half of the gain over a Gaussian is that of "
                f"{named([most], names)}, which has few different values. A label or a count has "
                "no density, and what was learned for the other columns suffers: leave it out, "
                f"in the command line with --drop {name}",
                UserWarning,
                stacklevel=4,
            )


def _losses(model: ClosedFormModel, y: Tensor, draws: int) -> Tensor:
    """Return the loss of each column at each row, a mean over its draws, (m, D)."""
    loss = model.score(y).square() / 2 + model.diagonal(y)
    return loss.view(draws, -1, loss.shape[1]).mean(0)


def column_gain(
    models: Sequence[ClosedFormModel],
    gaussians: Sequence[ClosedFormModel],
    held: Sequence[Tensor],
    draws: int,
) -> ColumnGain:
    """Return what models gain over Gaussians in each column, at points that neither has seen.

    Args:
        models: fitted without one fold of the rows each.
        gaussians: likewise.
        held: noisy points of the rows of each fold, standardised, one draw after another,
            shape (draws m, D) each.
        draws: noisy points of a row.
    """
    parts = [
        _losses(gaussian, y, draws) - _losses(model, y, draws)
        for model, gaussian, y in zip(models, gaussians, held, strict=True)
    ]
    gain = torch.cat(parts).cpu()
    return ColumnGain(gain.mean(0), gain.std(0) / len(gain) ** 0.5)
