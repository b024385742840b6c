"""What a table says of itself before anything is learned from it: doubts that a user should know.

None of these stops a fit. Each is a `UserWarning` of one sentence, which names the columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

__all__ = ["doubts", "named", "robust_scale", "takes_steps", "warn_of_doubts"]

FEWEST_ROWS = 10  # for each column, below which little can be told from a Gaussian
HEAVY = 3.0  # standard deviations over those by the middle half of the rows, of heavy tails
DETERMINED = 1e-8  # least eigenvalue of the correlations, over the largest, that is no accident
LEVELS = 0.1  # different values over rows, below which a column takes steps
RESOLUTION = 1e4  # standard deviation over the step of the number type, at least
QUARTILES = 1.3489795  # interquartile range of a Gaussian, in standard deviations
MOST_NAMED = 6


def robust_scale(x: Tensor) -> Tensor:
    """Return standard deviations by the middle half of the rows x, shape (n, D): shape (D,)."""
    low, high = torch.quantile(x[:: max(1, len(x) // 100_000)], x.new_tensor([0.25, 0.75]), dim=0)
    return (high - low) / QUARTILES


def named(columns: Sequence[int], names: Sequence[str], most: int | None = MOST_NAMED) -> str:
    """Return columns by their names, or by their numbers from 0, with the noun before them.

    Args:
        columns: numbers of columns, at least one.
        names: of all columns, shape (D,), or none.
        most: so many are named, and the others counted; None to name all.
    """
    told = [repr(names[j]) if names else str(j) for j in columns[:most]]
    more = len(columns) - len(told)
    noun = "column" if len(columns) == 1 else "columns"
    return f"{noun} {', '.join(told)}" + (f" and {more} more" if more else "")


def _few_rows(x: Tensor, names: Sequence[str]) -> Iterator[str]:
    size, dimension = x.shape
    if size < FEWEST_ROWS * dimension:
        yield (
            f"{size} rows of {dimension} columns are few: Hessians that differ between points "
            f"need {FEWEST_ROWS * dimension} rows or more"
        )


def _unresolved(x: Tensor, names: Sequence[str]) -> Iterator[str]:
    step = torch.finfo(x.dtype).eps * x.abs().amax(0)
    varies = x.amax(0) > x.amin(0)
    found = torch.nonzero(varies & (x.std(0) < RESOLUTION * step)).flatten().tolist()
    if found:
        yield (
            f"the rows differ by little more than float64 resolves in "
            f"{named(found, names)}: subtract a constant before these numbers become floats"
        )


def _constant(x: Tensor, names: Sequence[str]) -> Iterator[str]:
    found = torch.nonzero(x.amax(0) == x.amin(0)).flatten().tolist()
    if found and len(x) > 1:
        yield f"there is one value alone in {named(found, names)}: leave out what does not vary"


def takes_steps(x: Tensor) -> Tensor:
    """Return whether each column of x (n, D) takes few values among its rows, shape (D,)."""
    counts = torch.tensor([len(column.unique()) for column in x.unbind(1)])
    return (counts > 1) & (counts < LEVELS * len(x))


def _steps(x: Tensor, names: Sequence[str]) -> Iterator[str]:
    found = torch.nonzero(takes_steps(x)).flatten().tolist()
    if found:
        yield (
            f"there are few different values in {named(found, names)}: they have no density, "
            "and derivatives at a small sigma are those of the steps between them"
        )


def _determined(x: Tensor, names: Sequence[str]) -> Iterator[str]:
    """Name the columns of the directions in which the rows do not vary."""
    varies = torch.nonzero(x.std(0) > 0).flatten()  # 0 also where squares underflow
    if len(varies) < 2 or len(x) <= len(varies):
        return
    y = x[:, varies] - x[:, varies].mean(0)
    y = y / y.std(0)
    values, vectors = torch.linalg.eigh(y.mT @ y / len(y))
    flat = vectors[:, values < DETERMINED * values[-1]]
    if flat.shape[1]:
        found = varies[flat.square().sum(1) > 1e-3].tolist()
        yield (
            f"{named(found, names)} determine each other: the rows fill no volume, and "
            "derivatives across it are those of the noise alone; leave one of them out"
        )


def _heavy_tails(x: Tensor, names: Sequence[str]) -> Iterator[str]:
    robust = robust_scale(x)
    heavy = (robust > 0) & (x.std(0) > HEAVY * robust)
    found = torch.nonzero(heavy).flatten().tolist()
    if found:
        yield (
            f"a few rows are far from all others in {named(found, names)}: its scale is "
            "that of the middle half of the rows"
        )


CHECKS = (_few_rows, _unresolved, _constant, _steps, _determined, _heavy_tails)


def doubts(x: Tensor, names: Sequence[str] = ()) -> list[str]:
    """Return what is doubtful about a table, a sentence each.

    Args:
        x: points, shape (n, D), float64, finite.
        names: of the columns, shape (D,), or none.
    """
    return [words for check in CHECKS for words in check(x, names)]


def warn_of_doubts(x: Tensor, names: Sequence[str] = ()) -> None:
    """Warn of what is doubtful about a table; arguments as in `doubts`."""
    for words in doubts(x, names):
        warnings.warn(words, UserWarning, stacklevel=3)
