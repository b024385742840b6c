r"""What a model of pictures is trained by where no clean picture is known.

A picture is seen as y = x + s n alone, n ~ N(0, I), with a known noise scale s. With w ~ N(0, I)
of one's own and a > 0,

$$y_1 = y + a s w, \qquad y_2 = y - s w / a ,$$

the noises s (n + a w) and s (n - w / a) are uncorrelated, hence independent given x, and have the
variances t^2 = s^2 (1 + a^2) and s^2 (1 + a^-2) = t^2 / a^2 (Pang, Zheng, Quan and Ji,
"Recorrupted-to-Recorrupted: Unsupervised Deep Learning for Image Denoising", CVPR 2021). So y_2
is a target for the posterior of x given y_1, at the noise scale t:

$$E|y_2 - m(y_1)|^2 = E|x - m(y_1)|^2 + D t^2 / a^2 ,$$

and y_2 - m has the covariance C + (t^2 / a^2) I given y_1. The likelihood of windows with t^2 /
a^2 added to the diagonal therefore gives C itself, positive, where a subtraction from squared
residuals might fall below zero.

The first term is the squared error less t^2 / a^2, in units of t^2: an unbiased estimate of the
denoising score matching loss of clean pictures. It is divided by 1 + 1 / a^2, the variance of the
target in the same units, as least squares weighs observations. So weighed, it is the loss of y
from a noisier y_1 by the formula of Tweedie (Kim and Ye, "Noise2Score", NeurIPS 2021; Daras,
Dimakis and Daskalakis, "Consistent Diffusion Meets Tweedie", ICML 2024): with h = y_1 + (1 -
s^2 / t^2) (m - y_1), the mean of y given y_1,

$$|y - h|^2 = (1 - s^2 / t^2)^2\, |y_2 - m|^2 .$$

For a small a the estimate, averaged over w and -w, becomes Stein's unbiased risk (Ramani, Blu and
Unser, "Monte-Carlo SURE", IEEE TIP 2008; Soltanayev and Chun, NeurIPS 2018).

Two noisy versions y and y' of a picture, of independent noise, are one of the noise scale
s / 2^(1/2), their mean. With a = 1 it gives y_1 and y_2 of the noise scale s each, independent:
the pair that Noise2Noise takes (Lehtinen and others, ICML 2018), at each step another one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
from torch import Tensor, nn

from hosm.io import Array
from hosm.noise import check_sigma
from hosm.pictures.objective import PictureObjective
from hosm.training import Settings

__all__ = ["A_OF_PAIRS", "A_OF_SINGLE", "NoisyOnlyObjective", "means_of_pairs", "range_above"]

A_OF_SINGLE = (0.45, 0.55)  # range of a: below, targets too noisy, above, t too far from s
A_OF_PAIRS = (0.4, 1.0)  # with the means of pairs, so that t ends at the noise of one picture


class NoisyOnlyObjective(PictureObjective):
    """Both terms of a batch of square crops of noisy pictures, for `hosm.training.fit`.

    Args:
        model: a `hosm.pictures.model.PictureModel`, whose noise scales t all exceed `noise`.
        settings: sigma must be the model's.
        noise: scale s of the noise in the crops, in their units.

    Raises:
        ValueError: another sigma than the model's, or noise that is no less than all of it.
    """

    def __init__(self, model: nn.Module, settings: Settings, noise: float) -> None:
        super().__init__(model, settings)
        self.noise = check_sigma(noise)
        low = cast("tuple[float, float]", settings.sigma)[0]
        if not low > self.noise:
            raise ValueError(f"sigma must be above the noise {noise} of the pictures, got {low}")

    def pair(self, picture: Tensor, unit: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return y_1, y_2 and the variance 1 / a^2 of the noise in y_2, in units of t^2.

        Args:
            picture: noisy crops y, shape (n, channels, side, side).
            unit: standard normal numbers w, of the same shape.
            scale: noise scales t, shape (n, 1, 1, 1).
        """
        a = (scale.square() / self.noise**2 - 1).sqrt()
        return picture + a * self.noise * unit, picture - self.noise / a * unit, a**-2


def range_above(noise: float, a: tuple[float, float] = A_OF_SINGLE) -> tuple[float, float]:
    """Return the noise scales t that a model learns from pictures of the noise scale s alone.

    Args:
        noise: s, above 0.
        a: range of a, above 0.

    Raises:
        ValueError: s is not a finite number above 0.
    """
    low, high = (check_sigma(noise) * math.sqrt(1 + each * each) for each in a)
    return low, high


def means_of_pairs(pictures: Sequence[Array], pairs: Sequence[Array]) -> list[Array]:
    """Return the mean of each picture and its second version, float32.

    Args:
        pictures: noisy pictures, arrays of any shapes.
        pairs: a second noisy picture of each, of independent noise.

    Raises:
        ValueError: another number of pictures, or another shape.
    """
    if len(pairs) != len(pictures):
        raise ValueError(f"pairs must hold {len(pictures)} pictures, got {len(pairs)}")
    means = []
    for number, (one, other) in enumerate(zip(pictures, pairs, strict=True), 1):
        if np.shape(one) != np.shape(other):
            raise ValueError(
                f"pairs must have the shapes of the pictures, got {np.shape(other)} for picture "
                f"{number} of {np.shape(one)}"
            )
        means.append((np.asarray(one, np.float32) + np.asarray(other, np.float32)) / 2)
    return means
