r"""Noise that was cut off at the ends of a picture's scale, and how to put it back.

A file of 8 bits holds no value below 0 or above 255. Where the clean picture is black, half of the
noise is therefore missing: the noisy values are too bright on average, and vary less than a
denoiser is told, so that its mean is too bright as well and its variances are too small. For a
clean value x, noise of scale sigma and an end at 0 the mean of what is left is

$$E[\max(x + \sigma z, 0)] = \sigma\, g(x / \sigma), \qquad g(t) = t\, \Phi(t) + \phi(t)$$

(Foi, "Clipped noisy images: heteroskedastic modeling and practical denoising", Signal Processing
2009, section 3). A denoised clipped picture is near this mean, and the inverse of g turns it into
a first estimate of x, as in section 5 there. Given x, a value that was cut off is one of
x + sigma z under the condition that it lies beyond the end. Drawn from this law, which is a
Gaussian that is truncated, it makes a picture whose noise is whole: if the estimate is x, the
noise has the law that the denoiser was trained on, and mean, variances and covariances hold as for
any other picture. This is one step of the augmentation of data by Tanner and Wong ("The
Calculation of Posterior Distributions by Data Augmentation", Journal of the American Statistical
Association 1987); a second one changed nothing that could be measured.

A clean value lies between the ends itself, so that a mean beyond them is put at the end. Where all
values around a pixel are at an end, no noise is to be seen, as in a border that was painted black
or a lamp that is far too bright; such pixels stay as they are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from hosm.io import Array

__all__ = ["Ends", "clipped_ends", "ends_of_scale", "with_whole_noise"]

SATURATED = 1e-4  # least share of the pixels at the end of a scale that tells of saturation
MUCH = 1e-3  # share at an end, beyond that at the next value, from which on noise is put back,
CHANCE = 4.0  # and standard errors of their difference
AROUND = 7  # pixels, side of the square in which some value must not be at the end
FARTHEST = 6.0  # standard deviations from an end, beyond which it cuts nothing off
STEPS = 2000  # of the table of g
OWN_NUMBERS = 20091  # keys draws, so that they are not those of noise made with the same seed
TINY = np.finfo(np.float64).tiny


class Ends(NamedTuple):
    """The ends of a scale at which noise is cut off.

    Attributes:
        low: the lower one, in the units of the picture; minus infinity if it cuts nothing off.
        high: the upper one; infinity likewise.
        shares: which share of the values lies at each.
    """

    low: float
    high: float
    shares: tuple[float, float]

    def __str__(self) -> str:
        told = [
            f"{100 * share:.1f} % are {end:g}"
            for end, share in zip((self.low, self.high), self.shares, strict=True)
            if math.isfinite(end)
        ]
        return f"of the values {' and '.join(told)}"


def _at_the_ends(values: Array) -> list[tuple[float, int, int]]:
    """Return both ends of the values, how many lie there, and how many at the value next to it."""
    levels, counts = np.unique(values, return_counts=True)
    if len(levels) == 1:
        return [(float(levels[0]), 0, 0)] * 2
    ends = [(float(levels[i]), int(counts[i]), int(counts[j])) for i, j in ((0, 1), (-1, -2))]
    return ends


def ends_of_scale(values: Array) -> tuple[float, float]:
    """Return the ends of the scale at which pixels pile up, infinite where they do not.

    Args:
        values: of a picture, any shape.
    """
    least = SATURATED * values.size
    (low, dark, darker), (high, bright, brighter) = _at_the_ends(values)
    return (
        low if dark > max(darker, least) else -math.inf,
        high if bright > max(brighter, least) else math.inf,
    )


def clipped_ends(picture: Array) -> Ends | None:
    """Return the ends at which the noise of a picture is cut off; None where it is at neither.

    An end counts if a thousandth of the values or more lie there beyond those at the next value,
    which tell how many there would be without clipping, and more than by chance.

    Args:
        picture: noisy, any shape.
    """
    found = _at_the_ends(picture)
    much = [
        here - near > max(MUCH * picture.size, CHANCE * math.sqrt(here + near))
        for _, here, near in found
    ]
    if not any(much):
        return None
    low, high = (
        end if is_clipped else outside
        for (end, _, _), is_clipped, outside in zip(
            found, much, (-math.inf, math.inf), strict=True
        )
    )
    return Ends(low, high, (found[0][1] / picture.size, found[1][1] / picture.size))


def _g(t: Array) -> Array:
    """Return the mean of max(t + z, 0), z ~ N(0, 1), at each t."""
    below = torch.special.ndtr(torch.from_numpy(t)).numpy()
    found: Array = t * below + np.exp(-np.square(t) / 2) / math.sqrt(2 * math.pi)
    return found


DISTANCES = np.linspace(0, FARTHEST, STEPS)
MEANS = _g(DISTANCES)


def _distance(mean: Array) -> Array:
    """Return t >= 0 at which g is a mean, both in standard deviations of the noise."""
    found = np.interp(mean, MEANS, DISTANCES)
    return np.where(mean > FARTHEST, mean, found)


def _first_estimate(mean: Array, sigma: Array, ends: Ends) -> Array:
    """Return the clean values of which `mean` is the mean after clipping, between the ends."""
    found = mean
    if math.isfinite(ends.low):
        found = ends.low + sigma * _distance((found - ends.low) / sigma)
    if math.isfinite(ends.high):
        found = ends.high - sigma * _distance((ends.high - found) / sigma)
    return found


def _noise_is_seen(at_end: Array) -> Array:
    """Return where some value around is not at the end, shape (height, width, channels)."""
    others = torch.from_numpy(~at_end).movedim(2, 0)[None].float()
    near: Tensor = nn.functional.max_pool2d(others, AROUND, 1, AROUND // 2)
    found: Array = near[0].movedim(0, 2).numpy() > 0
    return found


def with_whole_noise(picture: Array, mean: Array, sigma: Array, ends: Ends) -> Array:
    """Return a picture with noise in place of what was cut off, the same in each call.

    Args:
        picture: noisy and clipped, shape (height, width) or (height, width, 3).
        mean: the same denoised as it is, of its shape.
        sigma: noise scale, a number or one for each pixel, (height, width), in its units.
        ends: where it was clipped.

    Returns:
        The picture in float64, of its shape; values that were not cut off are as they were.
    """
    pixels = picture.reshape(*picture.shape[:2], -1)
    whole = pixels.astype(np.float64)
    scale = np.asarray(sigma, np.float64)
    scale = np.broadcast_to(scale[..., None] if scale.ndim else scale, whole.shape)
    x = _first_estimate(mean.reshape(whole.shape).astype(np.float64), scale, ends)
    rng = np.random.default_rng(OWN_NUMBERS)
    for end, sign in ((ends.low, 1.0), (ends.high, -1.0)):
        beyond = sign * whole <= sign * end
        beyond &= _noise_is_seen(beyond)
        distance = sign * (x[beyond] - end) / scale[beyond]
        share = torch.special.ndtr(torch.from_numpy(-distance)).numpy()
        drawn = np.maximum(share * rng.random(share.shape), TINY)
        noise = torch.special.ndtri(torch.from_numpy(drawn)).numpy()
        whole[beyond] = x[beyond] + sign * scale[beyond] * noise
    return whole.reshape(picture.shape)
