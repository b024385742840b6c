r"""The front door: scores, Hessians and posteriors from a table of points, in NumPy.

    estimator = hosm.ScoreEstimator().fit(X)      # X: NumPy, pandas or torch, shape (n, D)
    estimator.hessian_diag(X)                     # NumPy, (n, D)

The derivatives are those of log q_sigma, the log-density of x + noise (Meng, Song, Li and Ermon,
"Estimating High Order Gradients of the Data Distribution by Denoising", NeurIPS 2021). It tends
to that of x as sigma -> 0, so that a small sigma means little bias: for a Gaussian of variance 1
the second derivative is -1 / (1 + sigma^2) in place of -1.

Units. With `standardise` the noise in each coordinate has sigma times the standard deviation of
that coordinate: sigma is a number without unit, and the noise is larger where x varies more.
Without it the noise is the same in all directions and sigma is in the data's units; the networks
then see points that are divided by one number, which brings them near unit variance. Results are
in the data's units either way.

Two methods. In closed form, log q_sigma is that of a simple law, a Gaussian or a mixture of a few,
and a sum of kernels that corrects it (`hosm.estimator.closed_form`); which law, which kernels and
how much of them, rows that are held out decide, so that nothing is learned that they do not
confirm (`hosm.estimator.choice`). By networks, s1 is learned by denoising
score matching, and s2 is a network of its own (`hosm.estimator.recipe`): for data so many and so
structured that kernels do not follow them, such as images, and for modules of one's own.

Choice of sigma. In closed form, of several the smallest is taken that no larger one is certainly
better than, by the score at held-out rows. By networks, the one
whose s1 is nearest to the score of the clean law at held-out points, by implicit score matching
(Hyvarinen, 2005: see `hosm.estimator.implicit_score_matching`). `score` is that measure, which
does not need the true score and has one constant for all, so that `GridSearchCV` may choose sigma
or any other parameter.

Arrays in, arrays out, and of their float type; a pandas data frame in, data frames out, with its
index and columns, where there is one number for each of its cells (`hosm.estimator.arrays`).

Memory grows as n D, and as n D r for Hessians. The D x D matrices that are formed are the
covariances of the simple laws, and Hessians in chunks in closed form and by `hessian(dense=True)`.

Conventions of scikit-learn, kept without importing it: the constructor only stores its arguments,
under their names; `get_params` and `set_params` read and change them; `fit` returns the estimator
and what it learns is held by attributes whose names end in an underscore. Thus
`sklearn.base.clone`, `GridSearchCV` and pipelines take an estimator. scikit-learn's base class is
not used: importing scikit-learn takes a second or more, which a network does not need.
"""

from __future__ import annotations

import html
import importlib
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from hosm.checks import check_count, check_probabilities
from hosm.estimator.answers import FittedModel, Losses
from hosm.estimator.archive import load_model, save_model
from hosm.estimator.arrays import (
    ArrayOrFrame,
    PosteriorArrays,
    Scaling,
    Table,
    as_table,
    seed_of,
    seeded,
)
from hosm.estimator.choice import choose, warn_of_choice
from hosm.estimator.clean_law import fitted_clean_law
from hosm.estimator.closed_form import ClosedFormModel
from hosm.estimator.column_gain import ColumnGain
from hosm.estimator.data_checks import warn_of_doubts
from hosm.estimator.features import Usual, features_of, unseen_deviations
from hosm.estimator.frozen_denoiser import Denoiser, frozen_model, spread
from hosm.estimator.implicit_score_matching import implicit_loss
from hosm.estimator.local_dimension import BALLS, NEIGHBOURS, kept_rows
from hosm.estimator.noise_scales import scales_to_try
from hosm.estimator.recipe import (
    DEFAULT_TRAINING,
    SECOND_SHARE,
    Recipe,
    learn_first,
    learn_second,
)
from hosm.estimator.threads import threads_that_pay
from hosm.io import Array, of_a_saved_model
from hosm.noise import check_sigma
from hosm.objectives import TARGETS
from hosm.operators import DiagonalPlusLowRank
from hosm.parameters import defaults, shown
from hosm.progress import ProgressBar
from hosm.scores import ScoreModel
from hosm.training import Progress

__all__ = ["NotFittedError", "ScoreEstimator"]

NETWORK_SIGMAS = (0.05, 0.1, 0.2, 0.4)  # tried by default, in standard deviations
METHODS = ("auto", "closed-form", "network")
LARGEST_DEFAULT_RANK = 20  # that rank=None takes, at most
FEWEST_POINTS = 4  # that can be fitted
MOST_STARTS = 1000  # training points that chains may start from
LAWS = ("noisy", "clean")
DIMENSIONS = ("rows", "scores")


class NotFittedError(ValueError, AttributeError):
    """An estimator was asked for results before `fit` or `load`."""


def _too_many(name: str, found: Sequence[str], known: Sequence[str]) -> str:
    """Return which columns of a data frame are too many, if that is all there is to it."""
    extra = [each for each in found if each not in known]
    if not extra or not known or not {*known} <= {*found}:
        return ""
    told = ", ".join(map(repr, extra))
    return f"; leave out {told}, as {name}[estimator.feature_names_in_] does"


def _first_order(losses: dict[str, float]) -> dict[str, float]:
    """Leave out the second-order term, which is 0 where s1 is learned alone."""
    return {name: value for name, value in losses.items() if not name.endswith("_second")}


class ScoreEstimator:
    """Scores of first and second order of the law that points come from.

    Args:
        sigma: noise scale (see the module), above 0; or several, of which the best is chosen;
            `auto` for .05 to .4 standard deviations by networks and .01 to .2 in closed form,
            there down to .001 where the table is thin in some direction. A sigma of .1 biases the
            derivatives of a Gaussian by 1 %. Name that of your noise to denoise.
        method: `closed-form` or `network` (see the module); `auto` for networks where a
            backbone, a head or a denoiser is given, and else the closed form. The arguments
            from `target` to `validation_fraction` but `standardise` are those of networks.
        rank: columns r of the low-rank part of s2, from 0 (enough where only diagonals are
            needed) to D (which can represent any Hessian); None for D, but 20 at most.
        backbone: the network of s1, any torch module from standardised points (n, D) to (n, D);
            None for three layers of 128 units (256 beyond D = 64) and a linear skip, which start
            as the Gaussian that fits the data.
        head: the network of s2, any torch module from (n, D) to (n, 1 + rank, D), of which the
            first are alpha; None for three such layers. A module that is given is copied, not
            changed.
        denoiser: (x_noisy, sigma) -> E[x | x_noisy], both tensors of shape (n, D) in the data's
            units, in place of an s1 that is learned. It stays as it is (see
            `hosm.estimator.frozen_denoiser`); it needs standardise=False.
        target: what s2 is trained on: `jacobian`, `residual`, `moment`, or with a denoiser also
            `likelihood` (see `hosm.objectives.denoising_score_matching`). The default has the
            least noise.
        standardise: whether each coordinate is divided by its standard deviation.
        learning_rate: learning rate of s1; that of s2 is 2.5 times as large.
        weight_decay: weight decay of both networks, except of the linear skip; fewer data need
            more.
        batch_size: largest number of points of a training step.
        max_steps: largest number of training steps of s1; s2 takes half as many.
        patience: a network stops after this many validations, 100 steps apart, without
            improvement.
        validation_fraction: share of the points, between 0 and 1, that is held out to stop early
            and to choose sigma, and is never trained on.
        device: torch device of the networks.
        random_state: None for other random numbers at each fit, an integer for the same ones
            (on one machine), or a NumPy source of randomness.
        callback: called at each validation with a dictionary: network, sigma, step and losses.
            `print` will do. None for no call.
        verbose: show the progress of `fit` and `sample` as a bar on stderr.

    Attributes:
        fitted_: what was learned, as one object (see `hosm.estimator.answers`); the attributes
            below read it.
        model_: the model of both scores of standardised points.
        scaling_: the map between the data's units and standardised points.
        sigma_: noise scale, in the data's units or, if standardised, in standard deviations.
        noise_std_: standard deviation of the noise in the data's units, shape (D,).
        report_: what was chosen and why, in words, and the columns in which no gain over a
            Gaussian could be shown.
        column_gain_: half of the squared error of a Gaussian's score less that of what was
            chosen, by column, at rows that were held out, shape (D,), in units of 1 / variance:
            above 0 where the choice is better. In closed form.
        column_gain_error_: its standard errors, shape (D,). Where the gain is not above them, do
            not read differences of the Hessian between rows.
        search_: by networks, sigma -> `score` at the held-out points, of each that was tried, if
            several were.
        history_: of each network, if any, `s1` and `s2`, the losses at each validation.
        starts_: up to 1,000 training points, standardised, that chains start from, shape (m, D).
            The files that `save` writes hold them too, and up to 10,000 rows for
            `local_dimension`.
        n_features_in_: D.
        feature_names_in_: names of the columns, shape (D,); only after a fit to a data frame.
    """

    fitted_: FittedModel

    def __init__(
        self,
        sigma: float | str | Sequence[float] = "auto",
        *,
        method: str = "auto",
        rank: int | None = None,
        backbone: nn.Module | None = None,
        head: nn.Module | None = None,
        denoiser: Denoiser | None = None,
        target: str = "jacobian",
        standardise: bool = True,
        learning_rate: float = DEFAULT_TRAINING.learning_rate,
        weight_decay: float = DEFAULT_TRAINING.weight_decay,
        batch_size: int = DEFAULT_TRAINING.batch_size,
        max_steps: int = DEFAULT_TRAINING.max_steps,
        patience: int = 10,
        validation_fraction: float = 0.1,
        device: str = "cpu",
        random_state: Any = None,  # noqa: ANN401
        callback: Callable[[dict[str, Any]], Any] | None = None,
        verbose: bool = False,
    ) -> None:
        self.sigma = sigma
        self.method = method
        self.rank = rank
        self.backbone = backbone
        self.head = head
        self.denoiser = denoiser
        self.target = target
        self.standardise = standardise
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.device = device
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ANN401
        """Learn s1 and s2 from clean points.

        Args:
            X: points, at least 4, shape (n, D): an array, a data frame or a tensor.
            y: ignored; scikit-learn passes it.

        Raises:
            ValueError: X has another shape, or holds anything but finite numbers; or a parameter
                is out of its range.
            FloatingPointError: training diverged.
        """
        table = as_table("X", X, FEWEST_POINTS)
        self._check(len(table.x), table.x.shape[1])
        warn_of_doubts(table.x, table.names)
        scaling = self._scaling(table.x)
        seed = seed_of(self.random_state)
        learn = self._train if self._by_networks() else self._choose
        with ProgressBar(self.verbose) as bar:
            self.fitted_ = learn(table, scaling, self._scales(table, scaling), seed, bar)
        if self.fitted_.gain is not None:
            self.fitted_.gain.warn_of_a_label(table.x, table.names)
        return self

    def _by_networks(self) -> bool:
        """Return whether networks learn, and not a law in closed form."""
        given = (self.backbone, self.head, self.denoiser)
        return self.method == "network" or any(each is not None for each in given)

    def _rank(self, dimension: int) -> int:
        return min(dimension, LARGEST_DEFAULT_RANK) if self.rank is None else int(self.rank)

    def _choose(
        self,
        table: Table,
        scaling: Scaling,
        scales: dict[float, float],
        seed: int,
        bar: ProgressBar,
    ) -> FittedModel:
        """Return the law in closed form that fits best."""

        def say(words: str) -> None:
            bar.count("fit", words)
            if self.callback is not None:
                self.callback({"progress": words})

        points = scaling.exactly(table.x).to(self.device)
        with threads_that_pay(*points.shape):
            choice = choose(points, [*scales.values()], seed, say)
            warn_of_choice(choice, [*scales.values()], table.names)
            rank = self._rank(points.shape[1])
            sigma = next(each for each in scales if scales[each] == choice.chosen.sigma)
            order = torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))
            tried = [each.law for each in choice.judged if not each.law.prior]
            say("draws of the clean law")
            return FittedModel(
                model=replace(choice.model, rank=rank),
                scaling=scaling,
                sigma=sigma,
                names=table.names,
                starts=points[order[:MOST_STARTS].to(points.device)].float(),
                rows=kept_rows(points, seed),
                report=choice.words(table.names),
                folds=choice.folds,
                unseen=unseen_deviations(choice.folds, choice.fold, points.float()),
                clean=fitted_clean_law(table.x, points, choice.fold, tried, seed),
                gain=choice.gain,
            )

    def _train(
        self,
        table: Table,
        scaling: Scaling,
        scales: dict[float, float],
        seed: int,
        bar: ProgressBar,
    ) -> FittedModel:
        """Return networks that are trained."""
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(table.x), generator=generator)
        points = scaling.into(table.x[order]).to(self.device)
        count = min(max(1, round(self.validation_fraction * len(points))), len(points) - 1)
        held, train = points[:count], points[count:]
        models = self._learn_first(train, held, scales, seed, bar)
        search = self._search(models, held)
        sigma = max(models, key=lambda each: search.get(each, 0.0))
        first, losses = models[sigma]
        recipe, rank = self._recipe(seed, sigma, bar), self._rank(len(scaling.mean))
        model, second = learn_second(first, train, held, self.head, rank, self.target, recipe)
        starts = train[:MOST_STARTS].clone()
        return FittedModel(
            model=model,
            scaling=scaling,
            sigma=sigma,
            names=table.names,
            starts=starts,
            rows=kept_rows(points, seed),
            search=search,
            history={"s1": [*map(_first_order, losses)], "s2": second},
            report=f"networks of both scores at sigma = {sigma:g}, of rank {rank}",
            unseen=Usual.at(model, starts).deviations(features_of(model, held)),
        )

    def _learn_first(
        self,
        train: Tensor,
        held: Tensor,
        scales: dict[float, float],
        seed: int,
        bar: ProgressBar,
    ) -> dict[float, tuple[ScoreModel, Losses]]:
        """Return s1 at each of the noise scales, and the losses on the way."""
        if self.denoiser is not None:
            shape, std = train.shape[1:], spread(train)
            models = {
                sigma: frozen_model(self.denoiser, shape, scale, std)
                for sigma, scale in scales.items()
            }
            return {sigma: (model, []) for sigma, model in models.items()}
        return {
            sigma: learn_first(train, held, scale, self.backbone, self._recipe(seed, sigma, bar))
            for sigma, scale in scales.items()
        }

    def _search(
        self, models: dict[float, tuple[ScoreModel, Losses]], held: Tensor
    ) -> dict[float, float]:
        """Return the implicit score of each s1 at held-out points (m, D), if there are several."""
        if len(models) == 1:
            return {}
        losses = {sigma: implicit_loss(each[0].score, held) for sigma, each in models.items()}
        return {sigma: -float(each.double().mean()) for sigma, each in losses.items()}

    def _scaling(self, x: Tensor) -> Scaling:
        """Return what brings points x (n, D) near unit variance; a denoiser sees them as is."""
        if self.denoiser is not None:
            return Scaling(torch.zeros_like(x[0]), torch.ones_like(x[0]))
        return Scaling.fitted(x, self.standardise)

    def _scales(self, table: Table, scaling: Scaling) -> dict[float, float]:
        """Return sigma, as the user counts it -> in units of the scaled points, of each to try."""
        unit = 1.0 if self.standardise else float(scaling.scale[0])
        given: Any = self.sigma
        if isinstance(given, str):
            if given != "auto":
                raise ValueError(f"sigma must be above 0, or 'auto', got {given!r}")
            if self._by_networks():
                return {scale * unit: scale for scale in NETWORK_SIGMAS}
            return {scale * unit: scale for scale in scales_to_try(scaling.exactly(table.x))}
        several: list[Any] = [given] if isinstance(given, Real) else [*given]
        if not several:
            raise ValueError("sigma must hold at least one number, got none")
        return {check_sigma(sigma): float(sigma) / unit for sigma in several}

    def _recipe(self, seed: int, sigma: float, bar: ProgressBar) -> Recipe:
        def report(network: str, progress: Progress) -> None:
            losses, step = _first_order(progress.metrics), progress.step
            steps = recipe.steps(1.0 if network == "s1" else SECOND_SHARE)
            held = next((v for k, v in losses.items() if k.startswith("validation")), math.nan)
            words = f"held-out loss {held:.4g}"
            bar.move(f"{network} at sigma {sigma:g}", step, steps, words)
            if self.callback is not None:
                self.callback({"network": network, "sigma": sigma, "step": step, **losses})

        training = replace(
            DEFAULT_TRAINING,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            batch_size=self.batch_size,
            max_steps=self.max_steps,
            patience=self.patience,
            seed=seed,
        )
        recipe = Recipe(training=training, report=report)
        return recipe

    def _check(self, size: int, dimension: int) -> None:
        """Raise ValueError for a parameter out of its range, before minutes of work."""
        if self.rank is not None:
            check_count("rank", self.rank, 0, dimension)
        for name in ("batch_size", "max_steps", "patience"):
            check_count(name, getattr(self, name))
        check_probabilities("validation_fraction", [self.validation_fraction])
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {self.method!r}")
        if self.method == "closed-form" and self._by_networks():
            raise ValueError("method must be network with a backbone, a head or a denoiser")
        learned = self.denoiser is None  # then s1 is no denoiser, and the model not positive
        targets = [name for name, target in TARGETS.items() if not (learned and target.psd)]
        if self.target not in targets:
            raise ValueError(f"target must be one of {', '.join(targets)}, got {self.target!r}")
        if self.denoiser is not None and self.standardise:
            raise ValueError("standardise must be False with a denoiser, got True")
        if self.denoiser is not None and self.backbone is not None:
            raise ValueError("backbone must be None with a denoiser, got both")
        self._recipe(0, 1.0, ProgressBar(False)).settings(self.target, 1.0, size)

    def _points(self, name: str, X: Any) -> Table:  # noqa: ANN401
        """Return points whose columns are those of the points that were fitted."""
        fitted = self._fitted()
        table, own = as_table(name, X), type(self).__name__
        if table.x.shape[1] != fitted.dimension:
            found = f"{name} has {table.x.shape[1]} features"
            raise ValueError(
                f"{found}, but {own} is expecting {fitted.dimension} features as input"
                f"{_too_many(name, table.names, fitted.names)}"
            )
        if fitted.names and table.names and table.names != fitted.names:
            raise ValueError(f"{name} must have the columns {fitted.names}, got {table.names}")
        return table

    def score_function(self, X: Any) -> ArrayOrFrame:  # noqa: ANN401
        """Return s1 = grad log q_sigma at each point, shape (n, D); of a data frame, a data frame.

        Args:
            X: points, shape (n, D).

        Raises:
            NotFittedError: before `fit`.
            ValueError: X has another shape, or holds anything but finite numbers.
        """
        points = self._points("X", X)
        return points.like_input(self._fitted().score(points.x))

    def hessian_diag(
        self,
        X: Any,  # noqa: ANN401
        *,
        return_std: bool = False,
    ) -> ArrayOrFrame | tuple[ArrayOrFrame, ArrayOrFrame]:
        """Return the second derivatives d^2 log q_sigma / dx_i^2 at each point, shape (n, D).

        Of a data frame they are a data frame, with its index and columns.

        Args:
            X: points, shape (n, D).
            return_std: return their standard errors too, of the same shape, in closed form (the
                jackknife of five folds). They tell how much a number would change with other
                rows, and leave bias out: an estimate may be further from the truth than they
                say, as in columns whose `column_gain_` is not above its standard error.

        Raises:
            NotFittedError: before `fit`.
            ValueError: standard errors of networks; otherwise as in `score_function`.
        """
        points, fitted = self._points("X", X), self._fitted()
        diagonal = points.like_input(fitted.hessian_diagonal(points.x))
        if not return_std:
            return diagonal
        return diagonal, points.like_input(fitted.hessian_diagonal_error(points.x))

    def hessian_column(self, X: Any, j: int | str) -> ArrayOrFrame:  # noqa: ANN401
        """Return d^2 log q_sigma / dx_i dx_j for one j and all i at each point, shape (n, D).

        Of networks, its entries off the diagonal are those of the learned low-rank part, which
        is exact only if the true Hessian has that rank off its diagonal. Of a data frame they are
        a data frame, whose column i has the derivatives by x_i and x_j.

        Args:
            X: points, shape (n, D).
            j: the coordinate, from 0 to D - 1, or the name of its column, after a fit to a data
                frame.

        Raises:
            NotFittedError: before `fit`.
            ValueError: j is out of range, or no column has this name; otherwise as in
                `score_function`.
        """
        fitted = self._fitted()
        if isinstance(j, str):
            names = [*getattr(self, "feature_names_in_", [])]
            if j not in names:
                known = ", ".join(names) or "no names: the fit was to an array"
                raise ValueError(f"j must be a column of the fit, {known}, got {j!r}")
            j = names.index(j)
        check_count("j", j, 0, fitted.dimension - 1)
        points = self._points("X", X)
        return points.like_input(fitted.hessian_column(points.x, j))

    def hessian(self, X: Any, dense: bool = False) -> DiagonalPlusLowRank | Array:  # noqa: ANN401
        """Return the Hessians of log q_sigma, as one operator for all points or as matrices.

        Args:
            X: points, shape (n, D).
            dense: whether to return NumPy matrices, shape (n, D, D), in place of the operator,
                which holds n D (r + 1) numbers in torch and multiplies, solves and finds
                eigenpairs.

        Raises:
            NotFittedError: before `fit`.
            ValueError: as in `score_function`.
        """
        points = self._points("X", X)
        if dense:
            return points.array(self._fitted().hessian_matrices(points.x))
        dtype = torch.from_numpy(np.empty(0, points.dtype)).dtype
        return self._fitted().hessian(points.x, dtype)

    def local_dimension(
        self,
        X: Any,  # noqa: ANN401
        *,
        method: str = "rows",
        neighbours: int = NEIGHBOURS,
        balls: int = BALLS,
        return_std: bool = False,
    ) -> Array | tuple[Array, Array]:
        """Return in how many directions the data vary around each point, shape (n,).

        `rows`, which had the smallest errors of all that were compared, takes the participation
        ratio of the training rows in balls around the point; `hosm.local_dimension` gives the
        same without a fit. `scores` takes D + sigma^2 (tr s2 + |s1|^2) from one pass of the
        model, the dimension at the scale of its sigma: a model whose scores are smoother than
        the surface finds all D. Both are derived in `hosm.estimator.local_dimension`.

        Args:
            X: points, shape (n, D).
            method: `rows` or `scores`.
            neighbours: by rows, rows in a ball, from 4 to one less than there are. Several
                values, one call each, show the dimension at several scales.
            balls: by rows, balls around the point over which means are.
            return_std: return standard errors too, by rows, of the same shape (see
                `hosm.estimator.local_dimension.standard_error`).

        Raises:
            NotFittedError: before `fit`.
            ValueError: an unknown method, a count out of range, standard errors by scores;
                otherwise as in `score_function`.
        """
        points, fitted = self._points("X", X), self._fitted()
        if method not in DIMENSIONS:
            raise ValueError(f"method must be one of {', '.join(DIMENSIONS)}, got {method!r}")
        if method == "scores":
            if return_std:
                raise ValueError("method must be rows for standard errors, got 'scores'")
            return points.array(fitted.dimension_by_scores(points.x))
        found = points.array(fitted.dimension_by_rows(points.x, neighbours, balls))
        if not return_std:
            return found
        return found, points.array(fitted.dimension_error(points.x, neighbours, balls))

    def posterior(self, X_noisy: Any) -> PosteriorArrays:  # noqa: ANN401
        """Return the law N(m, C) of the clean point given each noisy one, in the data's units.

        Args:
            X_noisy: points x + noise, shape (n, D), the noise being Gaussian, of standard
                deviation `noise_std_` in each coordinate.

        Raises:
            NotFittedError: before `fit`.
            ValueError: as in `score_function`.
        """
        points = self._points("X_noisy", X_noisy)
        return PosteriorArrays(self._fitted().posterior(points.x), points)

    def sample(
        self,
        n_samples: int = 1,
        random_state: Any = None,  # noqa: ANN401
        *,
        law: str = "noisy",
        steps: int = 500,
    ) -> ArrayOrFrame:
        """Draw points: of the law that was learned, or such as imitate the table.

        `noisy`: draws of q_sigma, the law of x + noise whose derivatives the estimator gives. In
        closed form they have this law after steps enough, by the rule of Metropolis and
        Hastings (see `hosm.estimator.drawing`); but derivatives may be right where the rows are
        although the probabilities of regions are not. Those of networks are ends of Langevin
        chains that start at noisy training points (see `hosm.estimator.answers`).

        `clean`: by networks, draws from N(m, C) at such noisy points, which are draws of the
        data's law if posteriors are Gaussian. In closed form they imitate the table and are not
        draws of the law whose derivatives are given: a mixture of Gaussians that fits held-out
        rows gives the dependence, a linear map brings their correlations to those of the
        training rows, and each column's values are replaced, by rank, by quantiles of that
        column in the training rows. So no value lies outside the range of the training rows, a
        column of whole numbers stays one, and a single value is mostly one that occurs in its
        column, while their combination is new, but for chance. The draws of one call depend on
        each other: their means, standard deviations and correlations are nearer to those of the
        rows than chance would have it (see `hosm.estimator.clean_law`).

        A warning names columns whose mean, standard deviation or correlations are not like those
        of the training rows.

        Args:
            n_samples: number of draws.
            random_state: None, an integer, or a NumPy source of randomness.
            law: `noisy` or `clean`.
            steps: transitions of each chain, 0 or more; `clean` in closed form has none. Of
                networks, in units of sigma, a transition moves a chain about as far as a step of
                size 1/2 ^ (1/2) of a random walk.

        Returns:
            The draws, shape (n_samples, D), float64; a pandas data frame if the columns of the
            fit had names.

        Raises:
            NotFittedError: before `fit`.
            ValueError: a count out of range, an unknown law, or an invalid random_state.
            FloatingPointError: a chain diverged.
        """
        fitted = self._fitted()
        check_count("n_samples", n_samples)
        check_count("steps", steps, 0)
        if law not in LAWS:
            raise ValueError(f"law must be one of {', '.join(LAWS)}, got {law!r}")
        generator = seeded(random_state, fitted.device)
        with ProgressBar(self.verbose) as bar:
            draws = fitted.sample(n_samples, generator, steps, law == "clean", bar).numpy()
        if not fitted.names:
            return draws
        return importlib.import_module("pandas").DataFrame(draws, columns=fitted.names)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ANN401
        """Return how near s1 is to the score of the clean law: higher is better.

        It is minus the mean of tr J + |s1|^2 / 2 over the points, J being the Jacobian of s1, in
        standardised units: minus half the mean squared error of s1 against grad log p, plus a
        constant of p. So it compares estimators of any sigma at the same held-out points.

        Args:
            X: clean points that were not fitted to, shape (n, D).
            y: ignored; scikit-learn passes it.

        Raises:
            NotFittedError: before `fit`.
            ValueError: as in `score_function`.
        """
        return self._fitted().implicit_score(self._points("X", X).x)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator into one file, which is written whole or not at all.

        The file does not hold modules and a denoiser that were given, the callback, the device,
        whether progress is shown, and a random_state that is not an integer.

        Args:
            path: the file; an earlier one is replaced.

        Raises:
            NotFittedError: before `fit`.
            OSError: the folder is missing or cannot be written to.
        """
        save_model(path, self._fitted(), self.get_params())

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        device: str = "cpu",
        **modules: Any,  # noqa: ANN401
    ) -> Self:
        """Return an estimator that `save` wrote; nothing in the file is executed.

        Args:
            path: the file.
            device: torch device that the networks are put on.
            modules: `backbone`, `head` and `denoiser`, each if and as it was given to the
                constructor; the file holds the weights of the first two.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is damaged or of another kind, or does not fit the modules.
        """
        fitted, parameters = load_model(path, device, modules)
        with of_a_saved_model(path):
            estimator = cls(**parameters)
        estimator.fitted_ = fitted
        return estimator

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor by name.

        Args:
            deep: ignored; scikit-learn passes it, but no parameter has parameters of its own.
        """
        return {name: getattr(self, name) for name in defaults(type(self))}

    def set_params(self, **parameters: Any) -> Self:  # noqa: ANN401
        """Change parameters; return the estimator itself.

        Args:
            parameters: new values by name.

        Raises:
            ValueError: a name is not that of a parameter.
        """
        names = defaults(type(self))
        for name, value in parameters.items():
            if name not in names:
                raise ValueError(f"parameters must be among {', '.join(names)}, got {name!r}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return shown(self)

    def _repr_html_(self) -> str:
        """Return scikit-learn's picture of the estimator, and what was chosen, for notebooks."""
        page = str(importlib.import_module("sklearn.utils").estimator_html_repr(self))
        report = self.fitted_.report if "fitted_" in vars(self) else ""
        return page + (f"<p>{html.escape(report)}</p>" if report else "")

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        """Return scikit-learn's description of the estimator; only scikit-learn calls this."""
        utils = importlib.import_module("sklearn.utils")
        return utils.Tags(estimator_type=None, target_tags=utils.TargetTags(required=False))

    def _fitted(self) -> FittedModel:
        """Return what was learned.

        Raises:
            NotFittedError: nothing was.
        """
        if "fitted_" not in vars(self):
            name = type(self).__name__
            raise NotFittedError(f"this {name} is not fitted; call fit(X) or load(path) first")
        return self.fitted_

    @property
    def model_(self) -> ScoreModel | ClosedFormModel:
        """The model of both scores of standardised points."""
        return self._fitted().model

    @property
    def scaling_(self) -> Scaling:
        """The map between the data's units and standardised points."""
        return self._fitted().scaling

    @property
    def sigma_(self) -> float:
        """The noise scale, in the units of the parameter `sigma`."""
        return self._fitted().sigma

    @property
    def noise_std_(self) -> Array:
        """The standard deviation of the noise in the data's units, shape (D,)."""
        return self._fitted().noise_std.numpy()

    @property
    def report_(self) -> str:
        """What was chosen and why, in words."""
        return self._fitted().report

    @property
    def column_gain_(self) -> Array:
        """Half of a Gaussian's squared error less that of the choice, by column, shape (D,).

        AttributeError of networks, which are not compared with a Gaussian.
        """
        return self._gain().mean.numpy()

    @property
    def column_gain_error_(self) -> Array:
        """The standard errors of `column_gain_`, shape (D,); AttributeError of networks."""
        return self._gain().error.numpy()

    def _gain(self) -> ColumnGain:
        gain = self._fitted().gain
        if gain is None:
            raise AttributeError("the gain by column needs a law in closed form, got networks")
        return gain

    @property
    def search_(self) -> dict[float, float]:
        """Sigma -> `score` at the held-out points, if several were tried."""
        return self._fitted().search

    @property
    def history_(self) -> dict[str, Losses]:
        """Of each network, `s1` and `s2`, the losses at each validation."""
        return self._fitted().history

    @property
    def starts_(self) -> Tensor:
        """The training points, standardised, that chains start from, shape (m, D)."""
        return self._fitted().starts

    @property
    def n_features_in_(self) -> int:
        """The number of coordinates, D."""
        return self._fitted().dimension

    @property
    def feature_names_in_(self) -> Array:
        """The names of the columns, shape (D,); AttributeError if the data had none."""
        if not self._fitted().names:
            raise AttributeError("the data had no column names")
        return np.array(self._fitted().names, dtype=object)
