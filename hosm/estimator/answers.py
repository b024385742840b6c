r"""What a fitted model of the scores answers: derivatives, posteriors and draws, in torch.

A model of both scores (Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data
Distribution by Denoising", NeurIPS 2021) of standardised points answers for points in the data's
units, by the chain rule of `hosm.estimator.arrays`. Points go through the networks in chunks, so
that the memory beyond the result does not grow with their number.

Draws of q_sigma. Those of a law in closed form are the ends of chains that leave it invariant
(`hosm.estimator.drawing`). Networks of one small sigma cannot lead noise to the data and know no
density, so their chains start at noisy data and move by Langevin dynamics, x <- x + (eps/2) s1 +
eps^(1/2) z with eps = sigma^2 / 2 (in units in which sigma is the noise). A start is an exact draw
of q_sigma, but it lies near one training point. The steps forget which point that was within a
mode of the density; they leave the weights of modes that are far apart as they are in the data.
The step is small beside every variance of q_sigma, none of which is below sigma^2: the law that
the steps leave invariant has variances at most 1 / (1 - 1/8) = 1.14 times those of q_sigma in its
thinnest direction, and v / (v - eps/4) times in a direction of variance v.

Draws of the clean law. Networks have a posterior N(m, C) at the end of each chain, which is drawn
from. In closed form, `hosm.estimator.clean_law` imitates the table. A warning says in which
columns draws of either law are not like the training rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Generator, Tensor

from hosm.estimator.arrays import Scaling
from hosm.estimator.clean_law import CleanLaw
from hosm.estimator.closed_form import ClosedFormModel
from hosm.estimator.column_gain import ColumnGain
from hosm.estimator.drawing import LEARNED_LAW, metropolis_draws, warn_of_differences
from hosm.estimator.features import ORDERS, Usual, features_of
from hosm.estimator.implicit_score_matching import implicit_loss
from hosm.estimator.local_dimension import (
    dimension_by_rows,
    dimension_by_scores,
    standard_error,
)
from hosm.estimator.threads import torch_threads_that_pay
from hosm.operators import DiagonalPlusLowRank
from hosm.progress import ProgressBar
from hosm.samplers import langevin, sample_chain
from hosm.scores import ScoreModel
from hosm.uncertainty import Posterior, posterior

__all__ = ["FittedModel"]

NUMBERS_PER_CHUNK = 2**22  # numbers that the outputs of a network hold at once, about

Losses = list[dict[str, float]]  # at each validation, by name
Rest = ParamSpec("Rest")
Found = TypeVar("Found")
Answer = Callable[Concatenate["FittedModel", Tensor, Rest], Found]


def _in_threads_that_pay(answer: Answer[Rest, Found]) -> Answer[Rest, Found]:
    """Make a law in closed form answer for few points in one thread, and without gradients."""

    @wraps(answer)
    def answered(self: FittedModel, x: Tensor, *args: Rest.args, **options: Rest.kwargs) -> Found:
        closed = isinstance(self.model, ClosedFormModel)
        with torch.no_grad(), torch_threads_that_pay(*x.shape) if closed else nullcontext():
            return answer(self, x, *args, **options)

    return answered


@dataclass
class FittedModel:
    """What `fit` learns and `load` reads, and the answers that follow from it.

    All points x have shape (n, D), are in the data's units, float64, and on the CPU, and so are
    the results.

    Args:
        model: the model of both scores of standardised points: networks, or a law in closed form.
        scaling: the map between the data's units and standardised points.
        sigma: noise scale as the user gave it, in standard deviations of each coordinate or,
            without standardisation, in the data's units.
        names: the names of the columns of the data, shape (D,), or none.
        starts: training points, standardised, that chains start from, shape (m, D), on the
            device of the model.
        search: noise scale -> implicit score at the held-out points, if several were tried.
        history: of each network, `s1` and `s2`, the losses at each validation.
        report: what was chosen and why, in words.
        folds: models that were fitted without a part of the rows each, for standard errors.
        rows: distinct training rows, standardised, in random order, shape (m, D), float32, on the
            device of the model: at most 10,000.
        unseen: deviations of rows for models that have not seen them, by scores of first order
            and of both, shape (m, 2): in closed form of all training rows, in their order; by
            networks of those that were held out.
        clean: what draws of clean rows are made of, in closed form; None for networks.
        gain: over a Gaussian, by column, in closed form; None for networks.
    """

    model: ScoreModel | ClosedFormModel
    scaling: Scaling
    sigma: float
    names: list[str]
    starts: Tensor
    rows: Tensor
    search: dict[float, float] = field(default_factory=dict)
    history: dict[str, Losses] = field(default_factory=dict)
    report: str = ""
    folds: list[ClosedFormModel] = field(default_factory=list)
    unseen: Tensor = field(default_factory=lambda: torch.empty(0, len(ORDERS)).double())
    clean: CleanLaw | None = None
    gain: ColumnGain | None = None

    @property
    def dimension(self) -> int:
        """The number of coordinates, D."""
        return len(self.scaling.mean)

    @property
    def scaled_sigma(self) -> float:
        """The noise scale in the units of standardised points."""
        return float(self.model.sigma)  # type: ignore[arg-type]

    @property
    def noise_std(self) -> Tensor:
        """The standard deviation of the noise in the data's units, shape (D,)."""
        return self.scaled_sigma * self.scaling.scale

    @property
    def device(self) -> torch.device:
        """The device of the networks."""
        return self.starts.device

    def _chunks(self, x: Tensor) -> Iterator[Tensor]:
        """Yield standardised points in chunks, on the model's device."""
        y = self.scaling.into(x)
        rows = max(1, NUMBERS_PER_CHUNK // ((2 + self.model.rank) * y.shape[1]))
        return (part.to(self.device) for part in y.split(rows))

    def _hessians(self, y: Tensor) -> DiagonalPlusLowRank:
        """Return Hessians in the data's units at standardised points y, (n, D)."""
        s2 = self.model.second_order(y)
        assert s2 is not None  # `fit` learns both orders
        return self.scaling.hessian(s2)

    @torch.no_grad()
    def _by_chunks(
        self, x: Tensor, of_hessians: Callable[[DiagonalPlusLowRank], Tensor]
    ) -> Tensor:
        """Return a function of the Hessians at points x, chunk by chunk, shape (n, *)."""
        return torch.cat([of_hessians(self._hessians(y)) for y in self._chunks(x)])

    @_in_threads_that_pay
    def score(self, x: Tensor) -> Tensor:
        """Return s1 = grad log q_sigma at points x, shape (n, D)."""
        return torch.cat([self.scaling.score(self.model.score(y)) for y in self._chunks(x)])

    @_in_threads_that_pay
    def hessian_diagonal(self, x: Tensor) -> Tensor:
        """Return the diagonals of the Hessians of log q_sigma at points x, shape (n, D)."""
        if isinstance(self.model, ClosedFormModel):
            return self._diagonal(self.model, x)
        return self._by_chunks(x, lambda hessians: hessians.diagonal())

    def _diagonal(self, model: ClosedFormModel, x: Tensor) -> Tensor:
        parts = [model.diagonal(y).cpu() for y in self._chunks(x)]
        return torch.cat(parts) / self.scaling.scale.square()

    @_in_threads_that_pay
    def hessian_diagonal_error(self, x: Tensor) -> Tensor:
        """Return standard errors of the Hessians' diagonals at points x, shape (n, D).

        They are those of the jackknife: ((K - 1) / K times the sum of squares about the mean of
        what the K models give that were fitted without one fold of the rows each)^(1/2). What
        these models have in common, their bias, is left out.

        Raises:
            ValueError: there are no such models.
        """
        if not self.folds:
            raise ValueError("standard errors need a law in closed form, got networks")
        found = torch.stack([self._diagonal(model, x) for model in self.folds])
        return (len(self.folds) - 1) ** 0.5 * found.std(0, correction=0)

    @_in_threads_that_pay
    def hessian_column(self, x: Tensor, j: int) -> Tensor:
        """Return column j, from 0 to D - 1, of the Hessians at points x, shape (n, D)."""
        if isinstance(self.model, ClosedFormModel):
            scale = self.scaling.scale
            parts = [self.model.column(y, j).cpu() for y in self._chunks(x)]
            return torch.cat(parts) / (scale * scale[j])
        unit = torch.eye(self.dimension, dtype=torch.float64)[j]
        return self._by_chunks(x, lambda hessians: hessians @ unit.expand(hessians.diag.shape))

    @_in_threads_that_pay
    def hessian_matrices(self, x: Tensor) -> Tensor:
        """Return the Hessians at points x as dense matrices, shape (n, D, D)."""
        if isinstance(self.model, ClosedFormModel):
            scale = self.scaling.scale
            parts = [self.model.matrices(y).cpu() for y in self._chunks(x)]
            return torch.cat(parts) / (scale.unsqueeze(1) * scale)
        return self._by_chunks(x, lambda hessians: hessians.to_dense())

    @_in_threads_that_pay
    def hessian(self, x: Tensor, dtype: torch.dtype = torch.float64) -> DiagonalPlusLowRank:
        """Return the Hessians at points x, (n, D), as one operator of a floating-point type."""
        parts = [self._hessians(y).to(dtype) for y in self._chunks(x)]
        diag, factor = (torch.cat([getattr(p, k) for p in parts]) for k in ("diag", "factor"))
        return DiagonalPlusLowRank(diag, factor, parts[0].signs)

    def _scaled_posterior(self, y: Tensor) -> Posterior:
        """Return the posterior of clean points given noisy ones y, shape (n, D), standardised."""

        def both_scores(points: Tensor) -> tuple[Tensor, DiagonalPlusLowRank]:
            if isinstance(self.model, ClosedFormModel):
                x = points.float()
                return self.model.score(x).double(), self.model.positive_second_order(x)
            s1, s2 = self.model(points.float())
            return s1.double(), s2.to(torch.float64)  # C is a small difference at small sigma

        return posterior(both_scores, y.double(), self.scaled_sigma)

    @_in_threads_that_pay
    def posterior(self, x_noisy: Tensor) -> Posterior:
        """Return the law N(m, C) of the clean point given each noisy one, x_noisy, (n, D)."""
        y = self.scaling.into(x_noisy).to(self.device)
        return self.scaling.posterior(self._scaled_posterior(y))

    @torch.no_grad()
    def sample(
        self, count: int, generator: Generator, steps: int, clean: bool, bar: ProgressBar
    ) -> Tensor:
        """Draw points, and warn of the columns in which they are not like the training rows.

        Args:
            count: number of draws.
            generator: source of randomness, on the device of the model.
            steps: transitions of each chain, 0 or more.
            clean: draw clean points, and not those of q_sigma.
            bar: moves with the transitions.

        Returns:
            The draws, shape (count, D).

        Raises:
            FloatingPointError: a chain diverged.
        """
        if clean and self.clean is not None:
            x = self.clean.draw(count, generator)
        else:
            y = self._noisy_draws(count, generator, steps, bar)
            x = self.scaling.out_of(
                self._scaled_posterior(y).sample(1, generator)[0] if clean else y
            )
        learned = isinstance(self.model, ClosedFormModel) and not clean
        noise, advice = 0.0 if clean else self.scaled_sigma, LEARNED_LAW if learned else ""
        y, rows = self.scaling.exactly(x), self.starts.cpu()
        warn_of_differences(y, rows, noise, self.names, advice)
        return x

    def _noisy_draws(
        self, count: int, generator: Generator, steps: int, bar: ProgressBar
    ) -> Tensor:
        """Return draws of q_sigma, standardised, each the end of a chain of its own."""

        def moved(step: int, info: object) -> None:
            bar.move("chains", step, steps)

        options: dict[str, Any] = {"generator": generator, "device": self.device}
        start = self.starts[torch.randint(len(self.starts), (count,), **options)]
        y = start + self.scaled_sigma * torch.randn(start.shape, **options)
        if isinstance(self.model, ClosedFormModel):
            return metropolis_draws(self.model, y.double(), steps, generator, bar)
        if steps:
            kernel = langevin(self.model.score, self.scaled_sigma**2 / 2)
            y = sample_chain(kernel, y, 1, steps - 1, generator, progress=moved)[:, 0]
        if not bool(y.isfinite().all()):
            raise FloatingPointError("a chain diverged: the learned score is wrong at its points")
        return y

    @_in_threads_that_pay
    def dimension_by_scores(self, x: Tensor) -> Tensor:
        """Return the local dimension at points x, (n, D), by both scores at them, shape (n,)."""
        found = []
        for y in self._chunks(x):
            s1, diagonal = self.model.score_and_diagonal(y)
            trace = diagonal.double().sum(1)
            found.append(dimension_by_scores(s1.double(), trace, self.scaled_sigma).cpu())
        return torch.cat(found)

    def dimension_by_rows(self, x: Tensor, neighbours: int, balls: int) -> Tensor:
        """Return the local dimension of the training rows at points x, (n, D), shape (n,)."""
        y = self.scaling.into(x).to(self.device)
        return dimension_by_rows(self.rows, y, neighbours, balls).cpu()

    def dimension_error(self, x: Tensor, neighbours: int, balls: int) -> Tensor:
        """Return the standard errors of `dimension_by_rows` at points x, (n, D), shape (n,)."""
        y = self.scaling.into(x).to(self.device)
        return standard_error(self.rows, y, neighbours, balls).cpu()

    @_in_threads_that_pay
    def features(self, x: Tensor) -> Tensor:
        """Return the features of the scores at points x, (n, D), shape (n, 3), float64."""
        return features_of(self.model, self.scaling.into(x).to(self.device))

    def usual(self) -> Usual:
        """Return what features the model has at the training points that it holds."""
        return Usual.at(self.model, self.starts)

    @_in_threads_that_pay
    def implicit_score(self, x: Tensor) -> float:
        """Return minus the mean implicit score matching loss of s1 at clean points x, (n, D)."""
        points = self.scaling.into(x).to(self.device)
        return -float(implicit_loss(self.model.score, points).double().mean())
