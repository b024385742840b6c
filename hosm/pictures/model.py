r"""The model of a picture given a noisy one: mean, variances, and covariances of near pixels.

For y = x + sigma z, z ~ N(0, I), and a picture x of any size,

$$x = m + D^{1/2} e + \sum_k b_k \odot \zeta_k ,$$

with m = E[x | y], a diagonal D, r pictures b_k, and independent standard normal e and zeta_k.
Where a zeta_k is one number for a whole window, the covariance of the window is the diagonal plus
low rank of Meng, Song, Li and Ermon ("Estimating High Order Gradients of the Data Distribution by
Denoising", NeurIPS 2021, section 4.1); `hosm.pictures.covariance` says how windows join. By
Tweedie's formula m gives s1 = (m - y) / sigma^2, and C gives s2 = (C / sigma^2 - I) / sigma^2.

One network gives m (see `hosm.networks.picture_unet`), a small one on its features, which are
frozen for it, the relative covariance S = C / sigma^2. As in `hosm.scores` under `psd`, variances
v are a softplus and S_ij = (u_i u_j)^(1/2) w_i . w_j with u = v / (1 + |w|^2), so that S > 0. The
small network reads features over sigma: m is homogeneous of degree 1 in (y, sigma), S of degree 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hosm.checks import check_count
from hosm.networks.picture_unet import FOLD, PictureUNet
from hosm.noise import check_scales

__all__ = ["PictureModel", "PictureMoments"]

LEAST_RELATIVE_VARIANCE = 1e-4  # of S, at least: an error of a hundredth of sigma
LARGEST_RANK = 64  # pictures b_k
USUAL_RELATIVE_VARIANCE = 0.1  # of S, where the network gives zero


class PictureMoments(NamedTuple):
    """What a model says of n pictures, in units of the pictures.

    Mean and own variances D, shape (n, channels, height, width), and the pictures b_k, shape
    (n, r, channels, height, width).
    """

    mean: Tensor
    own: Tensor
    shared: Tensor

    @property
    def variance(self) -> Tensor:
        """Variances of the pixels, shape (n, channels, height, width)."""
        return self.own + self.shared.square().sum(1)


class _Covariance(nn.Module):
    """From features and the noise found, over sigma, to diagonal and columns of S."""

    def __init__(self, inputs: int, channels: int, rank: int, width: int) -> None:
        super().__init__()
        self.channels, self.rank = channels, rank
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, width, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(width, (1 + rank) * channels * FOLD**2, 3, padding=1),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        maps = nn.functional.pixel_shuffle(self.layers(torch.asinh(x)), FOLD)
        count, _, height, width = maps.shape
        maps = maps.view(count, 1 + self.rank, self.channels, height, width)
        first, columns = maps.split([1, self.rank], 1)
        shift = math.log(math.expm1(USUAL_RELATIVE_VARIANCE))
        variance = nn.functional.softplus(first + shift)
        size = max(self.rank, 1)
        u = variance / (1 + columns.square().sum(1, keepdim=True) / size)
        return LEAST_RELATIVE_VARIANCE + u[:, 0], (u / size).sqrt() * columns


class PictureModel(nn.Module):
    """Mean and covariance of a clean picture given a noisy one.

    Args:
        channels: 1 for grey pictures, 3 for colour.
        sigma: range of the noise scales, (low, high), in the units of the training pictures.
        rank: pictures b_k, 0 for independent pixels, at most 64.
        widths: feature maps of the U-Net at each resolution.
        blocks: its residual blocks at each resolution.
        covariance_width: feature maps of the network of the covariance.

    Raises:
        ValueError: a number out of its range.
    """

    def __init__(
        self,
        channels: int,
        *,
        sigma: tuple[float, float],
        rank: int = 8,
        widths: tuple[int, ...] = (48, 96, 128),
        blocks: int = 2,
        covariance_width: int = 48,
    ) -> None:
        super().__init__()
        check_count("rank", rank, 0, LARGEST_RANK)
        check_count("covariance_width", covariance_width)
        self.channels, self.sigma, self.rank = channels, check_scales(sigma), rank
        self.trunk = PictureUNet(channels, widths, blocks)
        inputs = widths[0] + channels * FOLD**2
        self.covariance = _Covariance(inputs, channels, rank, covariance_width)

    @property
    def reach(self) -> int:
        """How far the outputs of a pixel look in any direction, in pixels, at most."""
        return self.trunk.reach + 3 * FOLD

    def mean(self, y: Tensor, sigma: Tensor) -> Tensor:
        """Return the mean alone, of the shape of y; arguments and errors as in `forward`."""
        return y - self.trunk(y, sigma)[0]

    def forward(self, y: Tensor, sigma: Tensor) -> PictureMoments:
        """Return mean and covariance.

        Args:
            y: noisy pictures, shape (n, channels, height, width), both sides divisible by
                `trunk.multiple`.
            sigma: noise scale of each picture, shape (n,), or of each pixel, shape
                (n, 1, height, width), in the same units.

        Raises:
            ValueError: another shape.
        """
        noise, features = self.trunk(y, sigma)
        scale = sigma.to(y).view(len(y), 1, *(sigma.shape[2:] or (1, 1)))
        own, shared = self.relative(noise, features, scale)
        return PictureMoments(y - noise, own * scale**2, shared * scale.unsqueeze(1))

    def relative(self, noise: Tensor, features: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return diagonal and columns of S = C / sigma^2, shaped as `PictureMoments` has them.

        S depends on the weights of its own network alone, not on those of m.

        Args:
            noise: y - m, shape (n, channels, height, width).
            features: of the trunk, shape (n, widths[0], height/2, width/2).
            scale: sigma of each picture, shape (n, 1, 1, 1), or of each pixel, shape
                (n, 1, height, width).
        """
        folded = nn.functional.avg_pool2d(scale, FOLD) if scale[0].numel() > 1 else scale
        found = torch.cat([features, nn.functional.pixel_unshuffle(noise, FOLD)], 1).detach()
        own, shared = self.covariance(found / folded)
        return own, shared
