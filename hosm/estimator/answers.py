r"""What a fitted estimator answers: scores, Hessians, posteriors and draws, in NumPy.

A model of both scores (Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data
Distribution by Denoising", NeurIPS 2021) of standardised points answers for points in the data's
units: see `hosm.estimator` for the chain rule. Points go through the networks in chunks, so that
what is held beyond the result does not grow with their number.

Draws. A model of one small sigma cannot lead noise to the data, so chains start at noisy data and
move by Langevin dynamics, x <- x + (eps/2) s1 + eps^(1/2) z with eps = sigma^2 / 2 (in units in
which sigma is the noise). Where they start is an exact draw of q_sigma, but of a training point's
surroundings; the steps forget which point within a mode, and leave the weights of modes far apart
as they are in the data. eps is small beside every variance of q_sigma, none of which is below
sigma^2: the law that the steps leave invariant has variances at most 1 / (1 - 1/8) = 1.14 times
those of q_sigma where it is thinnest, and v / (v - eps/4) times in a direction of variance v.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hosm.checks import check_count
from hosm.estimator.arrays import PosteriorArrays, Scaling, Table, as_table, seeded
from hosm.estimator.conventions import Conventions
from hosm.estimator.implicit_score_matching import implicit_loss
from hosm.operators import DiagonalPlusLowRank
from hosm.samplers import langevin, sample_chain
from hosm.scores import ScoreModel
from hosm.uncertainty import Posterior, posterior

__all__ = ["Fitted"]

CHUNK = 2**22  # numbers that a network's outputs hold at once, about
LAWS = ("noisy", "clean")
Array = np.ndarray[Any, np.dtype[Any]]


class Fitted(Conventions):
    """The answers of an estimator that holds the attributes below.

    Attributes:
        model_: the model of both scores of standardised points.
        scaling_: between the data's units and those points.
        sigma_: noise scale, in the data's units or, if standardised, in standard deviations.
        noise_std_: standard deviation of the noise in the data's units, shape (D,).
        search_: sigma -> `score` at the held-out points, of each that was tried, if several.
        history_: of each network, `s1` and `s2`, the losses at each validation.
        starts_: training points, standardised, that chains start from, shape (m, D).
        n_features_in_: D.
        feature_names_in_: names of the columns, shape (D,); only if fitted to a data frame.
    """

    model_: ScoreModel
    scaling_: Scaling
    sigma_: float
    noise_std_: Array
    search_: dict[float, float]
    history_: dict[str, list[dict[str, float]]]
    starts_: Tensor
    n_features_in_: int
    feature_names_in_: Array

    def _take(
        self, model: ScoreModel, scaling: Scaling, starts: Tensor, sigma: float, names: list[str]
    ) -> None:
        """Hold what answers need."""
        self.model_, self.scaling_, self.starts_, self.sigma_ = model, scaling, starts, sigma
        self.noise_std_ = (self._scale() * scaling.scale).numpy()
        self.n_features_in_ = len(scaling.mean)
        vars(self).pop("feature_names_in_", None)
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _scale(self) -> float:
        """Return the noise scale in the units of standardised points."""
        return float(self.model_.sigma)  # type: ignore[arg-type]

    def _table(self, name: str, X: Any) -> Table:  # noqa: ANN401
        """Return points that fit the fitted ones, as a table."""
        self._check_fitted()
        table, own = as_table(name, X), type(self).__name__
        if table.x.shape[1] != self.n_features_in_:
            found = f"{name} has {table.x.shape[1]} features"
            raise ValueError(
                f"{found}, but {own} is expecting {self.n_features_in_} features as input"
            )
        expected = [*getattr(self, "feature_names_in_", [])]
        if expected and table.names and table.names != expected:
            raise ValueError(f"{name} has the columns {table.names}; legal are {expected}")
        return table

    def _device(self) -> torch.device:
        return self.starts_.device

    def _chunks(self, y: Tensor) -> Iterator[Tensor]:
        """Yield standardised points in chunks, on the model's device."""
        rows = max(1, CHUNK // ((2 + self.model_.rank) * y.shape[1]))
        return (part.to(self._device()) for part in y.split(rows))

    @torch.no_grad()
    def _each(self, X: Any, answer: Callable[[Any, Tensor], Tensor]) -> Array:  # noqa: ANN401
        """Return in NumPy what the model answers at points, in float64 and the data's units."""
        table = self._table("X", X)
        chunks = self._chunks(self.scaling_.into(table.x))
        return torch.cat([answer(self.model_, y) for y in chunks]).numpy().astype(table.dtype)

    def _hessians(self, model: ScoreModel, y: Tensor) -> DiagonalPlusLowRank:
        """Return Hessians in float64 and the data's units, at standardised points y, (n, D)."""
        s2 = model.second_order(y)
        assert s2 is not None  # an estimator learns both orders
        return self.scaling_.hessian(s2)

    def score_function(self, X: Any) -> Array:  # noqa: ANN401
        """Return s1 = grad log q_sigma at each point, shape (n, D).

        Args:
            X: points, shape (n, D).

        Raises:
            ValueError: before `fit`, or points of another shape, not numbers or not finite.
        """
        return self._each(X, lambda model, y: self.scaling_.score(model.score(y)))

    def hessian_diag(self, X: Any) -> Array:  # noqa: ANN401
        """Return the second derivatives d^2 log q_sigma / dx_i^2 at each point, shape (n, D).

        Arguments and errors as in `score_function`.
        """
        return self._each(X, lambda model, y: self._hessians(model, y).diagonal())

    def hessian_column(self, X: Any, j: int) -> Array:  # noqa: ANN401
        """Return d^2 log q_sigma / dx_i dx_j for one j and all i at each point, shape (n, D).

        Off the diagonal it is that of the learned low-rank part: exact only as far as `rank` goes.

        Args:
            X: points, shape (n, D).
            j: the coordinate, from 0 to D - 1.

        Raises:
            ValueError: j out of range; otherwise as in `score_function`.
        """
        self._check_fitted()
        check_count("j", j, 0, self.n_features_in_ - 1)
        unit = torch.eye(self.n_features_in_, dtype=torch.float64)[j]
        return self._each(X, lambda model, y: self._hessians(model, y) @ unit.expand(y.shape))

    @torch.no_grad()
    def hessian(self, X: Any, dense: bool = False) -> DiagonalPlusLowRank | Array:  # noqa: ANN401
        """Return the Hessians of log q_sigma, as one operator for all points or as matrices.

        Args:
            X: points, shape (n, D).
            dense: return NumPy matrices, shape (n, D, D), in place of the operator, which holds
                n D (r + 1) numbers in torch and multiplies, solves and finds eigenpairs.

        Raises:
            ValueError: as in `score_function`.
        """
        if dense:
            return self._each(X, lambda model, y: self._hessians(model, y).to_dense())
        table = self._table("X", X)
        dtype = torch.from_numpy(np.empty(0, table.dtype)).dtype
        chunks = self._chunks(self.scaling_.into(table.x))
        parts = [self._hessians(self.model_, y).to(dtype) for y in chunks]
        return DiagonalPlusLowRank(
            torch.cat([part.diag for part in parts]), torch.cat([part.factor for part in parts])
        )

    def _posterior(self, y: Tensor) -> Posterior:
        """Return the posterior of clean points given noisy ones y, shape (n, D), standardised."""

        def both(points: Tensor) -> tuple[Tensor, DiagonalPlusLowRank]:
            s1, s2 = self.model_(points.float())
            return s1.double(), s2.to(torch.float64)  # C is a small difference at small sigma

        return posterior(both, y.double(), self._scale())

    @torch.no_grad()
    def posterior(self, X_noisy: Any) -> PosteriorArrays:  # noqa: ANN401
        """Return the law N(m, C) of the clean point given each noisy one, in the data's units.

        Args:
            X_noisy: points x + noise, the noise being of standard deviation `noise_std_` in
                each coordinate. Shape (n, D).

        Raises:
            ValueError: as in `score_function`.
        """
        table = self._table("X_noisy", X_noisy)
        y = self.scaling_.into(table.x).to(self._device())
        return PosteriorArrays(self.scaling_.posterior(self._posterior(y)), table.dtype)

    @torch.no_grad()
    def sample(
        self,
        n_samples: int = 1,
        random_state: Any = None,  # noqa: ANN401
        *,
        law: str = "noisy",
        steps: int = 500,
    ) -> Array:
        """Draw points by Langevin chains that start at noisy training points: see the module.

        Args:
            n_samples: number of draws, each of a chain of its own.
            random_state: None, an integer, or a NumPy source of randomness.
            law: `noisy` draws are of q_sigma, the law of x + noise; a `clean` one is then drawn
                from N(m, C) at the noisy one, which would make it a draw of the data's law if
                posteriors were Gaussian.
            steps: transitions of each chain, 0 or more; in units of sigma a chain moves as a
                random walk of steps 1/2 ^ (1/2) would.

        Returns:
            The draws, shape (n_samples, D), float64.

        Raises:
            ValueError: before `fit`, a count out of range, an unknown law, or random_state not
                legal.
            FloatingPointError: a chain diverged.
        """
        self._check_fitted()
        check_count("n_samples", n_samples)
        check_count("steps", steps, 0)
        if law not in LAWS:
            raise ValueError(f"law is {law!r}; legal are {', '.join(LAWS)}")
        generator = seeded(random_state, self._device())
        options: dict[str, Any] = {"generator": generator, "device": self._device()}
        start = self.starts_[torch.randint(len(self.starts_), (n_samples,), **options)]
        y = start + self._scale() * torch.randn(start.shape, **options)
        if steps:
            kernel = langevin(self.model_.score, self._scale() ** 2 / 2)
            y = sample_chain(kernel, y, 1, steps - 1, generator)[:, 0]
        if not bool(y.isfinite().all()):
            raise FloatingPointError("a chain diverged: s1 is wrong where it went")
        if law == "clean":
            y = self._posterior(y).sample(1, generator)[0]
        return self.scaling_.out_of(y).numpy()

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ANN401
        """Return how near s1 is to the score of the clean law: higher is better.

        It is minus the mean of tr J + |s1|^2 / 2 over the points, J being the Jacobian of s1, in
        standardised units: minus half the mean squared error of s1 against grad log p, plus a
        constant of p. So it compares estimators of any sigma at the same held-out points.

        Args:
            X: clean points that were not fitted to, shape (n, D).
            y: ignored.

        Raises:
            ValueError: as in `score_function`.
        """
        points = self.scaling_.into(self._table("X", X).x).to(self._device())
        return -float(implicit_loss(self.model_.score, points).double().mean())
