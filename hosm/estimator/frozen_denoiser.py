r"""A denoiser of one's own as a frozen s1, and s2 learned on top of it.

Any callable (x_noisy, sigma) -> E[x | x_noisy] will do, a network trained elsewhere among them.
By Tweedie's formula it is a score, s1 = (m - x_noisy) / sigma^2, and its error or its Jacobian
teaches the second order: C = Cov[x | x_noisy] = sigma^4 s2 + sigma^2 I (Meng, Song, Li and Ermon,
"Estimating High Order Gradients of the Data Distribution by Denoising", NeurIPS 2021, theorem 1).
The targets (see `hosm.objectives.denoising_score_matching`) need different things of it:

- `jacobian` differentiates it: it must be of torch throughout. Nearly free of noise, but it takes
  over the error of the denoiser's Jacobian.
- `residual` needs only its values, and regresses C on the squared error (x - m)(x - m)^T: any
  callable will do. Noisier; an error of the denoiser counts as variance, which it is.
- `likelihood` needs both, and weighs small variances as much as large ones.

For diagonals of C on a frozen network this is the method of Bao et al., "Estimating the Optimal
Covariance with Imperfect Mean in Diffusion Probabilistic Models", ICML 2022.

Units: the data's, for x, x_noisy, m and sigma. A network that predicts the noise of a diffusion
x_t = a_t x + b_t z is one of x_noisy = x_t / a_t at sigma = b_t / a_t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

from torch import Tensor, nn

from hosm.checks import checked
from hosm.estimator.recipe import Recipe, learn_second
from hosm.noise import check_sigma
from hosm.scores import ScoreModel

__all__ = ["Denoiser", "FrozenDenoiser", "frozen_model", "learn_covariance", "spread"]

PREDICTIONS = ("mean", "score", "noise")
Denoiser = Callable[[Tensor, float], Tensor]


class FrozenDenoiser(nn.Module):
    """A callable as the trunk of a `ScoreModel` with `parametrisation="denoiser"`.

    That model scales its input to unit variance and mixes the trunk's output with it (Karras et
    al., 2022, table 1); what is returned here makes the mixture the denoiser's own mean. The
    callable is held and not owned: its weights are no parameters, and copies of this share it.

    Args:
        denoiser: (x_noisy, sigma) -> what it predicts, both of shape (n, *shape).
        shape: of a point, as the denoiser takes it.
        sigma: noise scale, in the data's units.
        data_std: standard deviation of the clean data, as the model has it.
        predicts: `mean` E[x | x_noisy], `score` s1, or `noise` E[z | x_noisy].

    Raises:
        ValueError: `predicts` is another word, or sigma is not a finite number above 0.
    """

    conditional = False

    def __init__(
        self,
        denoiser: Denoiser,
        shape: Sequence[int],
        sigma: float,
        data_std: float,
        predicts: str = "mean",
    ) -> None:
        super().__init__()
        if predicts not in PREDICTIONS:
            raise ValueError(f"predicts must be one of {', '.join(PREDICTIONS)}, got {predicts!r}")
        self.shape, self.dimension = tuple(shape), math.prod(shape)
        self.sigma, self.data_std, self.predicts = check_sigma(sigma), data_std, predicts
        self._held = (denoiser,)  # within a tuple it is not registered as a module of this one

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def mean(self, x_noisy: Tensor) -> Tensor:
        """Return E[x | x_noisy], both of shape (n, D).

        Raises:
            ValueError: the denoiser returns another shape, or integers.
        """
        y = self._held[0](x_noisy.view(len(x_noisy), *self.shape), self.sigma)
        shape = (len(x_noisy), *self.shape)
        y = checked("what the denoiser returns", y, *shape, finite=False).reshape(x_noisy.shape)
        if self.predicts == "mean":
            return y
        step = self.sigma**2 if self.predicts == "score" else -self.sigma
        return x_noisy + step * y

    def forward(self, x_scaled: Tensor) -> Tensor:
        """Return the output that gives the denoiser's mean, shape (n, 1, D).

        Args:
            x_scaled: noisy points over (sigma^2 + data_std^2)^(1/2), shape (n, D).
        """
        total = self.sigma**2 + self.data_std**2
        x_noisy = total**0.5 * x_scaled
        rest = self.mean(x_noisy) - self.data_std**2 / total * x_noisy
        return (rest * (total**0.5 / (self.sigma * self.data_std))).unsqueeze(1)


def frozen_model(
    denoiser: Denoiser,
    shape: Sequence[int],
    sigma: float,
    data_std: float,
    predicts: str = "mean",
    psd: bool = True,
) -> ScoreModel:
    """Return a denoiser as a model of s1 alone, whose points are flat, (n, D).

    Args:
        denoiser: (x_noisy, sigma) -> what it predicts, both of shape (n, *shape).
        shape: of a point, as the denoiser takes it.
        sigma: noise scale, above 0, in the data's units.
        data_std: standard deviation of the clean data.
        predicts: `mean`, `score` or `noise`.
        psd: make the s2 that is learned on it that of a covariance.

    Raises:
        ValueError: a value out of its range.
    """
    trunk = FrozenDenoiser(denoiser, shape, sigma, data_std, predicts)
    options: dict[str, Any] = {"parametrisation": "denoiser", "psd": psd, "data_std": data_std}
    return ScoreModel(trunk, sigma=trunk.sigma, **options).eval()


def spread(x: Tensor) -> float:
    """Return the standard deviation of points x, shape (n, *): the root of the mean variance.

    Raises:
        ValueError: x is not floating-point, is empty or not finite, or does not vary.
    """
    std = checked("x", x, "n", ...).double().var(0, correction=0).mean().sqrt()
    if not std > 0:
        raise ValueError("the standard deviation of x must be above 0, got 0")
    return float(std)


def learn_covariance(
    denoiser: Denoiser,
    x: Tensor,
    held: Tensor,
    sigma: float,
    *,
    rank: int,
    predicts: str = "mean",
    target: str = "jacobian",
    head: nn.Module | None = None,
    psd: bool = True,
    recipe: Recipe | None = None,
) -> ScoreModel:
    """Learn s2, and so the posterior covariance, of a denoiser that stays as it is.

    Args:
        denoiser: (x_noisy, sigma) -> what it predicts, both of shape (n, *).
        x: clean points as the denoiser takes them, float32, shape (n, *).
        held: held-out clean points, for early stopping, shape (m, *).
        sigma: noise scale, above 0, in the units of x.
        rank: columns of the low-rank part; 0 for variances alone.
        predicts: `mean`, `score` or `noise`.
        target: `jacobian`, `residual`, `moment` or `likelihood` (which needs psd).
        head: any module from flat points (n, D), of unit variance, to (n, 1 + rank, D), which is
            copied; None for a network of three layers.
        psd: no variance is negative, by construction.
        recipe: how it is trained; None for the defaults.

    Returns:
        A model of both scores at flat points (n, D), for `hosm.uncertainty.posterior`.

    Raises:
        ValueError: shapes that do not fit, or a value out of its range.
        FloatingPointError: the loss is not finite.
    """
    first = frozen_model(denoiser, x.shape[1:], sigma, spread(x), predicts, psd)
    train, held = x.flatten(1), checked("held", held, "m", *x.shape[1:]).flatten(1)
    return learn_second(first, train, held, head, rank, target, recipe or Recipe())[0]
