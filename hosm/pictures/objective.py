r"""What a model of pictures is trained by: denoising score matching, and likelihood of windows.

Means by the squared error over sigma^2, which is the denoising score matching loss of s1 = (m - y)
/ sigma^2 in units of sigma (Vincent, "A Connection Between Score Matching and Denoising
Autoencoders", 2011), so that every noise scale counts alike. Covariances by the target
`likelihood` of `hosm.objectives.targets`, m without gradient: the sum of -log N(x; m, C) of each
pixel alone and the same of square windows, which a quarter as many crops are cut into.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from hosm import noise
from hosm.operators.inverses import positive_inverse
from hosm.pictures.covariance import REACHES, window_columns
from hosm.training import Settings

__all__ = ["PictureObjective", "pixel_likelihood", "window_likelihood", "windows"]

WINDOW = max(REACHES)  # pixels along a side of a window
CROPS_OF_WINDOW = 4  # of so many crops whose pixels count alone, one is cut into windows


def windows(maps: Tensor, side: int) -> Tensor:
    """Cut maps into square windows, shape (n windows, k, channels, side, side).

    Args:
        maps: shape (n, k, channels, height, width); both sides divisible by `side`.
        side: of a window, in pixels.
    """
    count, k, channels, height, width = maps.shape
    cut = maps.view(count, k, channels, height // side, side, width // side, side)
    number = count * (height // side) * (width // side)
    return cut.permute(0, 3, 5, 1, 2, 4, 6).reshape(number, k, channels, side, side)


def pixel_likelihood(error: Tensor, variance: Tensor) -> Tensor:
    """Return -log N(error; 0, variance) of each number, in nats, without its constant.

    Args:
        error: (x - m) / sigma, of any shape.
        variance: of S = C / sigma^2, of the same shape.
    """
    return (error.square() / variance + variance.log()) / 2


def window_likelihood(error: Tensor, own: Tensor, shared: Tensor, side: int) -> Tensor:
    """Return -log N(error; 0, S) of square windows, over their numbers of pixels and channels.

    Args:
        error: (x - m) / sigma, shape (n, channels, height, width).
        own: diagonal D of S = C / sigma^2, of the same shape.
        shared: pictures b_k of S, shape (n, r, channels, height, width).
        side: of a window, in pixels; it divides height and width, and is a multiple of the
            largest of `REACHES`, or below it; then windows are those of a picture's corner.

    Returns:
        Shape (windows,), in nats, without its constant.
    """
    e, d = (windows(each.unsqueeze(1), side).flatten(1) for each in (error, own))
    inverse = positive_inverse(d, window_columns(windows(shared, side)))
    whole = inverse.forms(e.unsqueeze(1)).squeeze(1) + inverse.log_determinant()
    return whole / 2 / e.shape[1]


class PictureObjective(nn.Module):
    """Both terms of a batch of square crops, for `hosm.training.fit`.

    Args:
        model: a `PictureModel`.
        settings: sigma must be the model's.

    Raises:
        ValueError: it is not.
    """

    names = ("dsm", "likelihood")
    weights = (1.0, 0.1)

    def __init__(self, model: nn.Module, settings: Settings) -> None:
        super().__init__()
        own: Any = model.sigma
        if own != settings.sigma:
            raise ValueError(f"sigma must be the model's, {own}, got {settings.sigma}")
        self.model, self.settings = model, settings
        self.watched = {"dsm": "trunk.", "likelihood": "covariance."}

    def forward(self, x: Tensor, z: Tensor, v: Tensor, t: Tensor) -> Tensor:
        """Return both terms, shape (2,), of crops as flat points (see `hosm.training.Batch`)."""
        model: Any = self.model
        side = math.isqrt(x.shape[1] // model.channels)
        picture, unit = (each.view(len(x), model.channels, side, side) for each in (x, z))
        sigma = noise.noise_scales(t, model.sigma)
        scale = sigma.view(-1, 1, 1, 1)
        noisy, target, variance = self.pair(picture, unit, scale)
        noisy = noisy.contiguous(memory_format=torch.channels_last)
        added, features = model.trunk(noisy, sigma)
        error = (target - noisy + added) / scale
        part = slice(math.ceil(self.settings.second_order_share * len(x)))
        own, shared = model.relative(added[part], features[part], scale[part])
        score = self.likelihood(error[part].detach(), own + variance[part], shared)
        squared = (error.square() - variance) / (1 + variance)
        return torch.stack([squared.mean(), score])

    def likelihood(self, error: Tensor, own: Tensor, shared: Tensor) -> Tensor:
        """Return the mean score of pixels alone plus that of windows, shape ().

        Args:
            error: (x - m) / sigma, shape (n, channels, side, side).
            own: diagonal of S = C / sigma^2, of the same shape.
            shared: pictures b_k of S, shape (n, r, channels, side, side).
        """
        alone = pixel_likelihood(error, own + shared.square().sum(1)).mean()
        few = slice(math.ceil(len(error) / CROPS_OF_WINDOW))
        side = math.gcd(WINDOW, error.shape[-1])
        return alone + window_likelihood(error[few], own[few], shared[few], side).mean()

    def pair(self, picture: Tensor, unit: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the model reads, its target, and the variance of noise in the target.

        Args:
            picture: clean crops, shape (n, channels, side, side).
            unit: standard normal numbers, of the same shape.
            scale: noise scales, shape (n, 1, 1, 1).

        Returns:
            Noisy crops, clean ones, and zeros, shape (n, 1, 1, 1): a variance over scale^2.
        """
        return picture + scale * unit, picture, torch.zeros_like(scale)
