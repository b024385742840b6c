r"""How honest error bars of pictures are: errors over predictions, coverage, and where they lie.

All is of a denoised picture m with predicted variances v, against its truth x:

- squared error over predicted variance, in tenths of the numbers in the order of v, of all
  pictures together;
- how often m +- c v^(1/2), c the Gaussian's quantile, holds the truth;
- the correlation over squares of 8 x 8 pixels of mean predicted variance and mean squared error,
  and as its rival that of the variance within the square of m: noise is removed least well where
  there is texture, which anyone can see.
"""

from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from hosm.experiment.photos.study.held_out import Array
from hosm.experiment.shared.rows import Row

__all__ = [
    "LEVELS",
    "Answer",
    "correlations",
    "covered",
    "error_bars",
    "gaussian_reaches",
    "tenths",
]

LEVELS = (0.5, 0.8, 0.95)
SQUARE = 8  # pixels along a side
BINS = 10


class Answer(NamedTuple):
    """A denoised picture, its predicted variances, and the truth, of one shape."""

    mean: Array
    variance: Array
    clean: Array

    @property
    def error(self) -> Array:
        """Squared errors."""
        return (self.mean - self.clean) ** 2


def _squares(picture: Array) -> Array:
    """Return the numbers of each whole square, shape (squares, 64 or 192)."""
    high, wide = (size // SQUARE for size in picture.shape[:2])
    part = picture[: high * SQUARE, : wide * SQUARE].reshape(high, SQUARE, wide, SQUARE, -1)
    return part.transpose(0, 2, 1, 3, 4).reshape(high * wide, -1)


def _local_variance(mean: Array) -> Array:
    """Return the variance within each square, mean over colours."""
    channels = mean.reshape(*mean.shape[:2], -1)
    return np.mean([_squares(channels[..., c]).var(1) for c in range(channels.shape[2])], axis=0)


def correlations(answer: Answer) -> tuple[float, float]:
    """Return the correlation of squared error with predicted, and with local variance."""
    error = _squares(answer.error).mean(1)
    rivals = _squares(answer.variance).mean(1), _local_variance(answer.mean)
    with np.errstate(invalid="ignore"):  # of a flat picture there is none: not a number
        predicted, local = (float(np.corrcoef(each, error)[0, 1]) for each in rivals)
    return predicted, local


def covered(answer: Answer, reaches: Mapping[float, float]) -> dict[float, float]:
    """Return the share of numbers that m +- reach v^(1/2) holds, by level.

    Args:
        answer: what is judged.
        reaches: standard deviations by level.
    """
    off = np.abs(answer.mean - answer.clean) / np.sqrt(answer.variance)
    return {level: float(np.mean(off <= reach)) for level, reach in reaches.items()}


def gaussian_reaches() -> dict[float, float]:
    """Return how far the intervals of a Gaussian reach, by level."""
    return {level: NormalDist().inv_cdf((1 + level) / 2) for level in LEVELS}


def error_bars(answer: Answer) -> Row:
    """Return what is measured of one picture: `ratio` is squared error over predicted variance."""
    predicted, local = correlations(answer)
    return {
        "ratio": float(answer.error.mean() / answer.variance.mean()),
        **{f"coverage_{k:g}": v for k, v in covered(answer, gaussian_reaches()).items()},
        "correlation": predicted,
        "local_correlation": local,
    }


def tenths(answers: Sequence[Answer]) -> list[Row]:
    """Return mean predicted variance and mean squared error of each tenth of all numbers.

    Args:
        answers: of pictures, taken together.

    Returns:
        Rows with `tenth`, 1 to 10, `predicted`, `measured` and their `ratio`, measured first.
    """
    variance = np.concatenate([each.variance.ravel() for each in answers])
    error = np.concatenate([each.error.ravel() for each in answers])
    order, rows = np.argsort(variance, kind="stable"), []
    for tenth, chosen in enumerate(np.array_split(order, BINS), start=1):
        means = {
            "predicted": float(variance[chosen].mean(dtype=float)),
            "measured": float(error[chosen].mean(dtype=float)),
        }
        rows.append({"tenth": tenth, **means, "ratio": means["measured"] / means["predicted"]})
    return rows
