r"""Rivals for the error bars: the spread of answers under dropout, and of an ensemble's members.

- Monte Carlo dropout (Gal and Ghahramani, "Dropout as a Bayesian Approximation", ICML 2016), put
  into a network that was trained without it (Ledda, Fumera and Roli, "Dropout Injection at Test
  Time for Post Hoc Uncertainty Quantification in Neural Networks", 2023): feature maps after each
  group of blocks are dropped, with the rate whose spread correlates best with the squared error
  of other pictures.
- A deep ensemble (Lakshminarayanan, Pritzel and Blundell, NeurIPS 2017): the mean answer of
  several models of different seeds, and the spread of theirs.

A spread says how unsure a network is of its answer, not how far the truth is from it, so that
each is multiplied by one number, the ratio of squared error to spread on other pictures.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from hosm.experiment.photos.study.error_bars import Answer, correlations
from hosm.experiment.photos.study.held_out import Array, noisy
from hosm.pictures import PictureDenoiser

__all__ = ["RATES", "Scaled", "dropout", "ensemble"]

RATES = (0.02, 0.05, 0.1)
LEAST = 1e-6  # variance, where all answers agree
Spread = Callable[[Array, float], tuple[Array, Array]]  # to mean and variance


@dataclass(frozen=True)
class Scaled:
    """A spread times a number."""

    spread: Spread
    factor: float

    def __call__(self, picture: Array, sigma: float) -> tuple[Array, Array]:
        """Return mean and variances of a noisy picture under noise of scale sigma."""
        mean, variance = self.spread(picture, sigma)
        return mean, self.factor * variance


@contextlib.contextmanager
def _dropping(denoiser: PictureDenoiser, rate: float, seed: int) -> Iterator[None]:
    """Drop feature maps of a denoiser's network for a while."""
    trunk = denoiser.model_.trunk
    groups = [*trunk.down, trunk.middle, *trunk.up]

    def drop(module: nn.Module, inputs: object, found: Tensor) -> Tensor:
        return nn.functional.dropout2d(found, rate)

    hooks = [group.register_forward_hook(drop) for group in groups]
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        for hook in hooks:
            hook.remove()


def _dropout_spread(
    denoiser: PictureDenoiser, passes: int, rate: float, seed: int, picture: Array, sigma: float
) -> tuple[Array, Array]:
    """Return the denoiser's own mean, and the variance of its answers under dropout."""
    own = denoiser.denoise(picture, sigma).mean
    with _dropping(denoiser, rate, seed):
        found = np.stack([denoiser.denoise(picture, sigma).mean for _ in range(passes)])
    return own, np.maximum(found.var(0, ddof=1), LEAST)


def _ensemble_spread(
    members: Sequence[PictureDenoiser], picture: Array, sigma: float
) -> tuple[Array, Array]:
    found = np.stack([each.denoise(picture, sigma).mean for each in members])
    return found.mean(0), np.maximum(found.var(0, ddof=1), LEAST)


def _scaled(
    spread: Spread, pictures: Mapping[str, Array], sigma: float, seed: int
) -> tuple[Scaled, float]:
    """Return a spread times what makes its mean right on pictures, and its correlation there."""
    answers = []
    for name, clean in pictures.items():
        answers.append(Answer(*spread(noisy(clean, name, sigma, seed), sigma), clean))
    error = sum(float(each.error.sum()) for each in answers)
    factor = error / sum(float(each.variance.sum()) for each in answers)
    return Scaled(spread, factor), float(np.mean([correlations(each)[0] for each in answers]))


def dropout(
    denoiser: PictureDenoiser, pictures: Mapping[str, Array], sigma: float, passes: int, seed: int
) -> Scaled:
    """Return Monte Carlo dropout of a denoiser, its rate and scale fitted to other pictures.

    Args:
        denoiser: a trained one.
        pictures: clean ones, by their names.
        sigma: noise scale.
        passes: answers under dropout, 2 or more.
        seed: of noise and dropout.
    """
    spreads = [partial(_dropout_spread, denoiser, passes, rate, seed) for rate in RATES]
    found = [_scaled(each, pictures, sigma, seed) for each in spreads]
    return max(found, key=lambda each: each[1])[0]


def ensemble(
    members: Sequence[PictureDenoiser], pictures: Mapping[str, Array], sigma: float, seed: int
) -> Scaled:
    """Return a deep ensemble, its scale fitted to other pictures; arguments as in `dropout`.

    Args:
        members: trained with different seeds, 2 or more.
        pictures: clean ones, by their names.
        sigma: noise scale.
        seed: of the noise.
    """
    return _scaled(partial(_ensemble_spread, members), pictures, sigma, seed)[0]
