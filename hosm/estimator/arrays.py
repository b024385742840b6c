"""Conversions between the arrays of users (NumPy, data frames, tensors) and tensors of points.

Points arrive as anything that NumPy reads as numbers of shape (n, D): an array, a data frame (of
which only `columns` and the conversion to an array are used), a tensor, a list of lists. Results
are NumPy arrays of the input's float type, float32 or float64; what is neither gives float64.

Of a pandas data frame, results with one number for each of its cells are data frames with its
index and columns; all others, such as one number for each row, are arrays. scikit-learn returns
frames by `set_output(transform="pandas")`, from `transform` alone. An estimator of scores is no
transformer, and a frame that comes in says already that one is wanted, so that nothing has to be
set here.

A network sees standardised points y = (x - mean) / scale. By the chain rule a score of x is that
of y over the scale, and a Hessian that of y over scale_i scale_j; a covariance is multiplied.
"""

from __future__ import annotations

import html
import importlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from hosm.checks import check_count
from hosm.estimator.data_checks import HEAVY, robust_scale
from hosm.io import Array
from hosm.operators import DiagonalPlusLowRank
from hosm.uncertainty import Posterior, leading_directions

__all__ = [
    "ArrayOrFrame",
    "Labels",
    "PosteriorArrays",
    "Scaling",
    "Table",
    "as_table",
    "seed_of",
    "seeded",
]

SHOWN, SHOWN_COLUMNS = 5, 8  # points and columns of the table in a notebook

ArrayOrFrame = Any
"""A NumPy array, or a pandas data frame where the points came as one."""


class Labels(NamedTuple):
    """What a pandas data frame has besides its values."""

    kind: type
    index: Any
    columns: Any


@dataclass(frozen=True)
class Table:
    """Points that a user gave.

    Attributes:
        x: the points in float64 on the CPU, shape (n, D).
        dtype: float type of results, float32 or float64.
        names: names of the columns, where all are texts; else none.
        labels: index and columns, if the points came as a pandas data frame.
    """

    x: Tensor
    dtype: np.dtype[Any]
    names: list[str]
    labels: Labels | None = None

    def array(self, result: Tensor) -> Array:
        """Return a result, of any shape, as a NumPy array of the input's float type."""
        return result.numpy().astype(self.dtype)

    def like_input(self, result: Tensor) -> ArrayOrFrame:
        """Return a result of shape (n, D) as an array, or as a data frame if that came in."""
        array = self.array(result)
        if self.labels is None:
            return array
        return self.labels.kind(array, index=self.labels.index, columns=self.labels.columns)

    def between_columns(self, values: Array) -> ArrayOrFrame:
        """Return values of shape (D, D) as they are, or framed by the columns of a data frame."""
        if self.labels is None:
            return values
        return self.labels.kind(values, index=self.labels.columns, columns=self.labels.columns)


def as_table(name: str, values: Any, least: int = 1) -> Table:  # noqa: ANN401
    """Return points in float64, with what results must know of how they came in.

    Args:
        name: the name that errors use.
        values: n points of D coordinates, of whatever NumPy reads as real numbers.
        least: the smallest n that is allowed; 1 by default.

    Raises:
        ValueError: they are sparse, complex, texts, not of shape (n, D), too few, or not finite.
        TypeError: an entry is no number.
    """
    if hasattr(values, "tocsr"):
        raise ValueError(f"{name} must be dense, got a sparse {type(values).__name__}")
    names = [*getattr(values, "columns", [])]
    framed = names and hasattr(values, "iloc")
    labels = Labels(type(values), values.index, values.columns) if framed else None
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must hold finite numbers, got masked values")
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    array = np.asarray(values)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}")
    if array.dtype.kind in "SUVMm":
        raise ValueError(f"{name} must hold real numbers, got {array.dtype}")
    single = array.dtype in (np.float16, np.float32)
    try:
        x = torch.from_numpy(np.array(array, dtype=np.float64, order="C"))
    except ValueError as error:
        where = _no_number(values) if framed else ""
        raise ValueError(f"{name} must hold real numbers: {error}{where}") from error
    if x.ndim != 2:
        raise ValueError(
            f"{name} must have shape (n, D), got {tuple(x.shape)}. Reshape your data: "
            "reshape(-1, 1) makes points of one coordinate, reshape(1, -1) one point"
        )
    for axis, (what, bound) in enumerate((("sample", least), ("feature", 1))):
        if x.shape[axis] < bound:
            found = f"{x.shape[axis]} {what}(s) (shape={tuple(x.shape)})"
            raise ValueError(f"{name} has {found} while a minimum of {bound} is required.")
    if not bool(x.isfinite().all()):
        gaps = bool(x.isnan().any())
        found, wrong = ("NaN", x.isnan()) if gaps else ("infinity", x.isinf())
        where = _in_frame(wrong, values) if framed else ""
        way = f"; {name}.dropna() leaves such rows out" if framed and gaps else ""
        raise ValueError(f"{name} must hold finite numbers, got {found}{where}{way}")
    texts = names if all(isinstance(each, str) for each in names) else []
    return Table(x, np.dtype(np.float32 if single else np.float64), texts, labels)


def _in_frame(wrong: Tensor, frame: Any) -> str:  # noqa: ANN401
    """Say in which rows of a data frame cells are wrong, shape (n, D), and where the first is."""
    rows = wrong.any(1)
    i = int(rows.int().argmax())
    j = int(wrong[i].int().argmax())
    where = f"in column {frame.columns[j]!r} of the row with the index {frame.index[i]!s}"
    return f" in {int(rows.sum())} of {len(rows)} rows, first {where}"


def _no_number(frame: Any) -> str:  # noqa: ANN401
    """Say where the first cell of a data frame stands that is no number."""
    for j, name in enumerate(frame.columns):
        for i, cell in enumerate(frame.iloc[:, j].tolist()):
            try:
                float(cell)
            except (ValueError, TypeError):
                where = f" in column {name!r}, first in the row with the index {frame.index[i]!s}"
                return f"{where}; leave the column out, or make it numbers"
    return ""


def seed_of(random_state: Any) -> int:  # noqa: ANN401
    """Return a seed: the integer itself, or one drawn from what `random_state` is.

    Args:
        random_state: None for a fresh seed at each call, an integer from 0 to 2^32 - 1, a
            `numpy.random.RandomState` or a `numpy.random.Generator`.

    Raises:
        ValueError: it is anything else.
    """
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    check_count("random_state", random_state, 0, 2**32 - 1)
    return int(random_state)


def seeded(random_state: Any, device: torch.device | str = "cpu") -> Generator:  # noqa: ANN401
    """Return a source of randomness on a device; arguments and errors as in `seed_of`."""
    return Generator(device).manual_seed(seed_of(random_state))


def _congruent(matrix: DiagonalPlusLowRank, d: Tensor) -> DiagonalPlusLowRank:
    """Return diag(d) A diag(d), for d of shape (D,)."""
    d = d.to(matrix.diag)
    return DiagonalPlusLowRank(
        matrix.diag * d.square(), matrix.factor * d.unsqueeze(-1), matrix.signs
    )


@dataclass(frozen=True)
class Scaling:
    """The map x = mean + scale y between data x and what networks see, y.

    Attributes:
        mean: shape (D,), in the data's units.
        scale: positive, shape (D,), in the data's units.
    """

    mean: Tensor
    scale: Tensor

    @classmethod
    def fitted(cls, x: Tensor, each: bool) -> Scaling:
        """Return the scaling that standardises points.

        Args:
            x: points, shape (n, D), float64.
            each: divide each coordinate by its own standard deviation, not all by one number,
                the root of their mean variance. What does not vary is divided by 1, and
                where a few rows set the standard deviation, that of the middle half counts.
        """
        variance = x.var(0, correction=0)
        middle = robust_scale(x)
        heavy = (middle > 0) & (variance.sqrt() > HEAVY * middle)
        variance = torch.where(heavy, middle.square(), variance)
        if not each:
            variance = variance.mean().expand_as(variance)
        floor = (10 * torch.finfo(x.dtype).eps * x.abs().amax(0)).square()
        mean = torch.where(heavy, x.median(0).values, x.mean(0))
        return cls(mean, torch.where(variance > floor, variance, 1.0).sqrt())

    def into(self, x: Tensor) -> Tensor:
        """Return y in float32, as networks take it, for points x, both of shape (n, D)."""
        return self.exactly(x).float()

    def exactly(self, x: Tensor) -> Tensor:
        """Return y in float64 for points x, both of shape (n, D)."""
        return (x - self.mean) / self.scale

    def out_of(self, y: Tensor) -> Tensor:
        """Return x in float64 for standardised points y, both of shape (*, n, D)."""
        return self.mean + self.scale * y.double().cpu()

    def score(self, s1: Tensor) -> Tensor:
        """Return the score of x in float64, from s1, that of y; both of shape (n, D)."""
        return s1.double().cpu() / self.scale

    def hessian(self, s2: DiagonalPlusLowRank) -> DiagonalPlusLowRank:
        """Return the Hessians of x in float64, from those of y."""
        return _congruent(s2.to("cpu", torch.float64), 1 / self.scale)

    def posterior(self, law: Posterior) -> Posterior:
        """Return the posterior of x in float64, from that of y."""
        covariance = _congruent(law.covariance.to("cpu", torch.float64), self.scale)
        return Posterior(self.out_of(law.mean), covariance, law.clipped_share.cpu())


class PosteriorArrays:
    """A posterior N(m, C) at n noisy points, in NumPy and in the data's units.

    Means, variances and intervals of a pandas data frame are data frames with its index and
    columns.

    Args:
        law: the posterior in torch; it stays reachable under this name for all that
            `hosm.uncertainty.gaussian_posterior` and `hosm.uncertainty.calibration` offer.
        table: the noisy points, whose float type and labels the results have.
    """

    def __init__(self, law: Posterior, table: Table) -> None:
        self.law, self.table = law, table

    def __repr__(self) -> str:
        count, dimension = self.law.mean.shape
        low, high = (float(each.sqrt()) for each in self.law.variance.aminmax())
        what = f"posterior of {count} points of {dimension} coordinates"
        return f"<{what}, standard deviations {low:.3g} to {high:.3g}>"

    def _repr_html_(self) -> str:
        """Return means and standard deviations of the first points as a table, for notebooks."""
        pandas = importlib.import_module("pandas")
        parts = (self.law.mean[:SHOWN].numpy(), self.law.variance[:SHOWN].sqrt().numpy())
        rows = [
            [f"{mean:.4g} ± {std:.2g}" for mean, std in zip(*row, strict=True)]
            for row in zip(*parts, strict=True)
        ]
        frame = pandas.DataFrame(rows, columns=self.table.names or None)
        if self.table.labels is not None:
            frame.index = self.table.labels.index[:SHOWN]
        return f"<p>{html.escape(repr(self))}</p>{frame.to_html(max_cols=SHOWN_COLUMNS)}"

    @property
    def mean(self) -> ArrayOrFrame:
        """E[x | x_noisy], shape (n, D)."""
        return self.table.like_input(self.law.mean)

    @property
    def variance(self) -> ArrayOrFrame:
        """Marginal variances, shape (n, D)."""
        return self.table.like_input(self.law.variance)

    @property
    def std(self) -> ArrayOrFrame:
        """Marginal standard deviations, the square roots of the variances, shape (n, D)."""
        return self.table.like_input(self.law.variance.sqrt())

    @property
    def clipped_share(self) -> Array:
        """Share of C that was added to make it positive, shape (n,): see `hosm.uncertainty`."""
        return self.table.array(self.law.clipped_share)

    def interval(self, level: float) -> tuple[ArrayOrFrame, ArrayOrFrame]:
        """Return central credible intervals, low and high, both (n, D).

        Args:
            level: their probability.

        Raises:
            ValueError: the level does not lie between 0 and 1.
        """
        low, high = self.law.interval(level)
        return self.table.like_input(low), self.table.like_input(high)

    def sample(self, n_samples: int, random_state: Any = None) -> Array:  # noqa: ANN401
        """Draw from N(m, C): shape (n_samples, n, D).

        Args:
            n_samples: draws for each noisy point.
            random_state: as in `seed_of`.

        Raises:
            ValueError: n_samples is below 1, or random_state is invalid.
        """
        return self.table.array(self.law.sample(n_samples, seeded(random_state)))

    def directions(self, k: int) -> tuple[Array, Array]:
        """Return the k leading eigenvalues of C, shape (n, k), and directions, shape (n, D, k).

        Args:
            k: number of directions, 1 to D.

        Raises:
            ValueError: k is out of range.
        """
        values, vectors = leading_directions(self.law.covariance, k)
        return self.table.array(values), self.table.array(vectors)
