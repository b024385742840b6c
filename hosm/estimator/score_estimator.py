r"""The front door: scores, Hessians and posteriors from a table of points, in NumPy.

    estimator = hosm.ScoreEstimator().fit(X)      # X: NumPy, pandas or torch, shape (n, D)
    estimator.hessian_diag(X)                     # NumPy, (n, D)

What is estimated are derivatives of log q_sigma, the density of x + noise (Meng, Song, Li and
Ermon, "Estimating High Order Gradients of the Data Distribution by Denoising", NeurIPS 2021). It
tends to that of x as sigma -> 0, so that a small sigma means little bias: for a Gaussian of
variance 1 the second derivative is -1 / (1 + sigma^2) in place of -1.

Units. With `standardise` the noise in each coordinate has sigma times that one's own standard
deviation: sigma is a number without unit, and the noise is larger where x varies more. Without
it the noise is the same in all directions and sigma in the data's units; one number then brings
the points near unit variance for the networks' sake. Results are in the data's units either way.

Choice of sigma. Of several, `fit` takes the one whose s1 is nearest to the score of the clean law
at held-out points, by implicit score matching (Hyvarinen, 2005: see `hosm.estimator`), which needs
no truth and has one constant for all. It weighs bias against variance of s1, not of s2. `score` is
the same measure, so `GridSearchCV` may choose sigma or anything else. Data that fill no volume, as
integers or columns that determine each other, have no density: ever smaller sigma then look
better, and the least is taken.

Memory grows as n D, and as n D r where Hessians are asked for. No D x D matrix is formed but by
`hessian(dense=True)`, and one for the Gaussian that training starts from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Self

import torch
from torch import Tensor, nn

from hosm.checks import check_count, check_probabilities
from hosm.estimator.archive import Stored
from hosm.estimator.arrays import Scaling, as_table, seed_of
from hosm.estimator.frozen_denoiser import Denoiser, frozen_model, spread
from hosm.estimator.implicit_score_matching import implicit_loss
from hosm.estimator.recipe import Recipe, learn_first, learn_second
from hosm.noise import check_sigma
from hosm.scores import ScoreModel
from hosm.training import Progress

__all__ = ["ScoreEstimator"]

SIGMAS = (0.05, 0.1, 0.2, 0.4)  # that sigma="auto" tries, in standard deviations
RANK = 20  # that rank=None takes, at most
LEAST = 4  # points that can be fitted
STARTS = 1000  # training points that chains may start from
TARGETS = ("jacobian", "residual", "moment", "likelihood")


def _own(losses: dict[str, float]) -> dict[str, float]:
    """Leave out the second-order term, which is 0 where s1 is learned alone."""
    return {name: value for name, value in losses.items() if not name.endswith("_second")}


class ScoreEstimator(Stored):
    """Scores of first and second order of the law that points come from.

    Args:
        sigma: noise scale (see the module); several, or `auto` for .05, .1, .2 and .4 standard
            deviations, to choose from. s1 is learned for each.
        rank: columns r of the low-rank part of s2; 0 where diagonals alone are asked for; None
            for min(D, 20). Rank D can hold any Hessian.
        backbone: the network of s1, any torch module from standardised points (n, D) to (n, D);
            None for three layers of 128 units (256 beyond D = 64) and a linear skip, which start
            as the Gaussian that fits the data.
        head: the network of s2, any torch module from (n, D) to (n, 1 + rank, D), of which the
            first are alpha; None for three such layers. Modules given are copied, not changed.
        denoiser: (x_noisy, sigma) -> E[x | x_noisy], both tensors of shape (n, D) in the data's
            units, in place of an s1 that is learned. It is kept as it is (see `hosm.estimator`);
            needs standardise=False.
        target: what s2 is trained on: `jacobian`, `residual`, `moment`, or with a denoiser also
            `likelihood` (see `hosm.objectives.denoising_score_matching`).
        standardise: divide each coordinate by its standard deviation.
        learning_rate: of s1; s2 takes 2.5 times as much.
        weight_decay: of both networks, linear skip apart; more for fewer data.
        batch_size: points of a training step, at most.
        max_steps: of s1, at most; s2 takes half as many.
        patience: validations, 100 steps apart, without improvement before a network stops.
        validation_fraction: share of the points that is held out, to stop early and to choose
            sigma, and never trained on.
        device: where the networks are.
        random_state: None, an integer, or a NumPy source of randomness; an integer makes fits
            repeatable on one machine.
        callback: called at each validation with a dictionary: network, sigma, step and losses.
            `print` will do.

    Attributes are those of `hosm.estimator.Fitted`. One of them, starts_, holds up to 1,000 of the
    training points, and so do files that `save` writes.
    """

    def __init__(
        self,
        sigma: float | str | Sequence[float] = 0.1,
        *,
        rank: int | None = None,
        backbone: nn.Module | None = None,
        head: nn.Module | None = None,
        denoiser: Denoiser | None = None,
        target: str = "jacobian",
        standardise: bool = True,
        learning_rate: float = 2e-3,
        weight_decay: float = 0.1,
        batch_size: int = 256,
        max_steps: int = 3000,
        patience: int = 10,
        validation_fraction: float = 0.1,
        device: str = "cpu",
        random_state: Any = None,  # noqa: ANN401
        callback: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        self.sigma = sigma
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

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ANN401
        """Learn s1 and s2 from clean points.

        Args:
            X: points, at least 4, shape (n, D): an array, a data frame or a tensor.
            y: ignored.

        Raises:
            ValueError: points of another shape, not numbers or not finite, or a parameter that
                is not legal.
            FloatingPointError: training diverged.
        """
        table = as_table("X", X, LEAST)
        self._check(len(table.x), table.x.shape[1])
        scaling = self._scaling(table.x)
        scales, seed = self._scales(scaling), seed_of(self.random_state)
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(table.x), generator=generator)
        points = scaling.into(table.x[order]).to(self.device)
        count = min(max(1, round(self.validation_fraction * len(points))), len(points) - 1)
        held, train = points[:count], points[count:]
        models = self._learn_first(train, held, scales, seed)
        search = {}
        if len(models) > 1:
            losses_of = {
                sigma: implicit_loss(each[0].score, held) for sigma, each in models.items()
            }
            search = {sigma: -float(each.double().mean()) for sigma, each in losses_of.items()}
        sigma = max(models, key=lambda each: search.get(each, 0.0))
        first, losses = models[sigma]
        rank = min(len(scaling.mean), RANK) if self.rank is None else int(self.rank)
        recipe = self._recipe(seed, sigma)
        model, second = learn_second(first, train, held, self.head, rank, self.target, recipe)
        self._take(model, scaling, train[:STARTS].clone(), sigma, table.names)
        self.search_, self.history_ = search, {"s1": [*map(_own, losses)], "s2": second}
        return self

    def _learn_first(
        self, train: Tensor, held: Tensor, scales: dict[float, float], seed: int
    ) -> dict[float, tuple[ScoreModel, list[dict[str, float]]]]:
        """Return s1 at each of the noise scales, and the losses on the way."""
        if self.denoiser is not None:
            shape, std = train.shape[1:], spread(train)
            models = {
                sigma: frozen_model(self.denoiser, shape, scale, std)
                for sigma, scale in scales.items()
            }
            return {sigma: (model, []) for sigma, model in models.items()}
        return {
            sigma: learn_first(train, held, scale, self.backbone, self._recipe(seed, sigma))
            for sigma, scale in scales.items()
        }

    def _scaling(self, x: Tensor) -> Scaling:
        """Return what brings points x (n, D) near unit variance; a denoiser sees them as is."""
        if self.denoiser is not None:
            return Scaling(torch.zeros_like(x[0]), torch.ones_like(x[0]))
        return Scaling.fitted(x, self.standardise)

    def _scales(self, scaling: Scaling) -> dict[float, float]:
        """Return sigma, as the user counts it -> in units of the scaled points, of each to try."""
        unit = 1.0 if self.standardise else float(scaling.scale[0])
        given: Any = self.sigma
        if isinstance(given, str):
            if given != "auto":
                raise ValueError(f"sigma is {given!r}; legal are numbers above 0 and 'auto'")
            return {scale * unit: scale for scale in SIGMAS}
        several: list[Any] = [given] if isinstance(given, Real) else [*given]
        if not several:
            raise ValueError("sigma is empty; legal are one number above 0 or more")
        return {check_sigma(sigma): float(sigma) / unit for sigma in several}

    def _recipe(self, seed: int, sigma: float) -> Recipe:
        def report(network: str, progress: Progress) -> None:
            if self.callback is not None:
                facts = {"network": network, "sigma": sigma, "step": progress.step}
                self.callback({**facts, **_own(progress.metrics)})

        return Recipe(
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            batch_size=self.batch_size,
            max_steps=self.max_steps,
            patience=self.patience,
            seed=seed,
            report=report,
        )

    def _check(self, size: int, dimension: int) -> None:
        """Raise ValueError for a parameter that is not legal, before minutes of work."""
        if self.rank is not None:
            check_count("rank", self.rank, 0, dimension)
        for name in ("batch_size", "max_steps", "patience"):
            check_count(name, getattr(self, name))
        check_probabilities("validation_fraction", [self.validation_fraction])
        legal = TARGETS if self.denoiser is not None else TARGETS[:-1]
        if self.target not in legal:
            raise ValueError(f"target is {self.target!r}; legal here are {', '.join(legal)}")
        if self.denoiser is not None and self.standardise:
            raise ValueError("standardise is True; legal with a denoiser is False")
        if self.denoiser is not None and self.backbone is not None:
            raise ValueError("backbone and denoiser are both given; legal is one of them")
        self._recipe(0, 1.0).settings(self.target, 1.0, size)
