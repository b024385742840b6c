r"""How much noise a picture holds, from it alone, and how to make it the same everywhere.

Both estimates look at blocks of 8 x 8 pixels and at their cosine transform, after Ponomarenko,
Lukin, Zriakhov, Kaarna and Astola, "An automatic approach to lossy compression of AVIRIS images",
IGARSS 2007, and Colom and Buades, "Analysis and extension of the Ponomarenko et al. method",
Image Processing On Line 2013. White noise has the same variance in each coefficient and what it
has in one tells nothing of another, whereas a picture fills the low frequencies first. So the
blocks whose low frequencies hold least are the flat ones, and since their high frequencies had no
say in this choice, the mean squares of these are the variance of the noise. Colours are turned
first by an orthogonal matrix into grey and two differences of colours, which are flatter.

`estimate_sigma` takes white Gaussian noise to be as strong everywhere. `estimate_poisson_gaussian`
takes the noise of a detector that counts,

$$y = g\,n + \sigma z, \qquad n \sim \mathrm{Poisson}(x / g), \qquad
\mathrm{Var}(y \mid x) = g x + \sigma^2,$$

(Foi, Trimeche, Katkovnik and Egiazarian, "Practical Poissonian-Gaussian noise modeling and fitting
for single-image raw-data", IEEE Transactions on Image Processing 2008) and fits this line to the
blocks of each brightness. x is 0 where there is no light: subtract the offset of a camera first.

The generalised Anscombe transformation (Starck, Murtagh and Bijaoui, "Image Processing and Data
Analysis", 1998) makes the variance of such noise 1. Less the constant 2 sigma/g it is

$$u(y) = \frac{2}{g} \left( \sqrt{g y + \tfrac38 g^2 + \sigma^2} - \sigma \right),$$

which tends to y/sigma as g tends to 0. The mean of u(y) is not u(x); what turns it into x is the
exact unbiased inverse. `unstabilised` has its closed form (Makitalo and Foi, "Optimal inversion of
the generalized Anscombe transformation for Poisson-Gaussian noise", IEEE Transactions on Image
Processing 2013): with D = u + 2 sigma/g,

$$\frac{x}{g} = \frac{D^2}{4} - \frac18 - \frac{\sigma^2}{g^2} + \frac14 \sqrt{\tfrac32}\, D^{-1}
- \frac{11}{8} D^{-2} + \frac58 \sqrt{\tfrac32}\, D^{-3}.$$

Which noise is not white. What smoothing, compression to JPEG or the interpolation of colours left
behind is weaker at high frequencies, so that both estimates are then too small.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from hosm.io import Array
from hosm.pictures.clipping import ends_of_scale

__all__ = ["estimate_poisson_gaussian", "estimate_sigma", "stabilised", "unstabilised"]

SIDE = 8  # pixels, of a block
LEAST_SIDE = 16  # pixels, of a picture whose noise is estimated
LEAST_SIDE_OF_A_LINE = 32  # the same, where blocks of many brightnesses are needed
MOST_POSITIONS = 2**16  # blocks of a picture that are looked at; 32 MiB for each of its colours
FLATTEST = 0.01  # share of the blocks that `estimate_sigma` takes for flat,
FEWEST_BLOCKS = 200  # and their least number
FLATTEST_OF_A_BRIGHTNESS = 0.1  # share of the blocks of each brightness,
FEWEST_OF_A_BRIGHTNESS = 10  # their least number,
STEEPNESS = 8  # power of the texture by which a brightness counts less,
BRIGHTNESSES = 24  # and how many brightnesses there are, with as many blocks each
ROUNDS = 3  # of a fit whose result decides which blocks it sees
REFITS = 50  # of least squares, until they are least absolute deviations
MARGIN = 2.5  # standard deviations of noise from there to blocks that it does not touch
ROOMIEST = 0.1  # share of the blocks that are used where none are as far

TINY = np.finfo(np.float64).tiny  # in place of a divisor of 0

OPPONENT = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]]) / np.sqrt([[3], [2], [6]])

LEAST_ROOT = 2 * math.sqrt(3 / 8)  # of D, where x = -sigma^2/gain: no noise
INVERSE = (math.sqrt(3 / 2) / 4, -11 / 8, math.sqrt(3 / 2) * 5 / 8)  # of D^-1, D^-2, D^-3


def estimate_sigma(picture: ArrayLike) -> float:
    """Return the standard deviation of the white Gaussian noise of a picture.

    On photographs, with noise of 5 to 75 where white is 255, it is right to a few per cent; where
    the whole picture is texture, as grass is, it is too large at weak noise. Noise that was in the
    picture before counts too.

    Args:
        picture: shape (height, width) or (height, width, 3), both sides 16 pixels or more, any
            units; the noise of the colours is as strong in each and independent. Many pixels at
            the ends of its scale are taken for saturated, and what lies near them is left out;
            a warning tells if hardly anything else is left.

    Returns:
        sigma, in the units of the picture; about 0 of a picture without noise.

    Raises:
        ValueError: the picture has another shape, is too small, constant, saturated everywhere,
            or not of finite real numbers.
    """
    values = _checked(picture, LEAST_SIDE)
    stride = _stride(values)
    room = _room(values, stride)
    colours = values @ OPPONENT.T if values.shape[2] == 3 else values
    spectra = [_spectrum(colours[..., each], stride) for each in range(colours.shape[2])]
    energy = np.stack([np.square(spectrum[:, LOW]).sum(1) for spectrum in spectra])
    sigma, kept = math.inf, np.zeros_like(room, dtype=bool)
    for _ in range(ROUNDS):
        before, kept = kept, _unsaturated(room, np.float64(sigma))
        if (before == kept).all():
            break
        sigma = _sigma_of_flattest(spectra, np.where(kept, energy, math.inf), kept.sum())
    if (room > MARGIN * sigma).mean() < ROOMIEST:
        _warn_of_saturation()
    return sigma


def estimate_poisson_gaussian(picture: ArrayLike) -> tuple[float, float]:
    """Return gain and sigma of noise of the variance gain * x + sigma^2 at brightness x.

    The line is fitted by least absolute deviations, in which a brightness counts less the more
    texture its flattest blocks hold; gain and sigma are 0 or more. A picture of one brightness
    tells the variance there alone, and one without flat dark parts little of sigma.

    Args:
        picture: shape (height, width) or (height, width, 3), both sides 32 pixels or more, any
            units, 0 where there is no light; gain and sigma are the same for each colour. What
            lies near the upper end of its scale is left out if that is saturated. The lower end
            is not: many zeros are what few counts look like. A camera that clips its dark noise
            there therefore has less of it than sigma.

    Returns:
        gain, in the units of the picture, and sigma, in the same.

    Raises:
        ValueError: as in `estimate_sigma`.
    """
    values = _checked(picture, LEAST_SIDE_OF_A_LINE)
    stride = _stride(values)
    planes = [values[..., each] for each in range(values.shape[2])]
    parts = [_moments(_spectrum(plane, stride)) for plane in planes]
    mean, low, high = (np.concatenate(each) for each in zip(*parts, strict=True))
    room = ends_of_scale(values)[1] - mean
    line = np.array([0.0, np.quantile(high, FLATTEST)])
    for _ in range(ROUNDS):
        variance = np.maximum(line[0] * mean + line[1], 0)
        kept = np.flatnonzero(_unsaturated(room, np.sqrt(variance)))
        order = kept[np.argsort(mean[kept])]
        scale = np.where(variance > 0, variance, 1)
        line = _line(
            *_flattest_of_each(np.array_split(order, BRIGHTNESSES), mean, low, high, scale)
        )
    if (room > MARGIN * np.sqrt(variance)).mean() < ROOMIEST:
        _warn_of_saturation()
    return float(line[0]), math.sqrt(line[1])


def stabilised(picture: ArrayLike, gain: float, sigma: float) -> Array:
    """Return a picture whose noise has a standard deviation of about 1 everywhere.

    At 4 counts and more it is within 3 % of 1 whatever sigma is. At fewer counts it is up to 1.10
    if sigma is a count or more, and falls to 0 with the counts if sigma is 0, since there is no
    noise without light.

    Args:
        picture: noisy picture, any shape, whose noise has the variance gain * x + sigma^2.
        gain: units of the picture for one count, 0 or more; 0 divides by sigma.
        sigma: standard deviation of the noise where there is no light, 0 or more, in the units of
            the picture.

    Returns:
        The picture, of the same shape. Values below the least that the noise allows, where
        gain * x + 3/8 gain^2 + sigma^2 is below 0, count as that least one.

    Raises:
        ValueError: gain or sigma is not a finite number of 0 or more, or both are 0.
    """
    _check_noise(gain, sigma)
    y = np.asarray(picture, dtype=np.float64)
    shifted = y + 3 / 8 * gain
    root = np.sqrt(np.maximum(gain * shifted + sigma**2, 0))
    # 2 (root - sigma) / gain without dividing by gain
    floor = -(sigma**2) / gain if gain > 0 else -math.inf
    return 2 * np.maximum(shifted, floor) / np.maximum(root + sigma, TINY)


def unstabilised(
    mean: ArrayLike, variance: ArrayLike, gain: float, sigma: float
) -> tuple[Array, Array]:
    """Return mean and variance in the units of the picture, of those in `stabilised` units.

    The mean is the exact unbiased inverse in closed form: if `mean` is that of `stabilised`
    noisy values at one x, the result is x, up to 0.05 gain at any x and sigma, and up to
    0.02 gain if sigma is 0. The variance is that of the line tangent to the inverse. If the
    posterior is Gaussian with the variance v, the curvature adds gain^2 v^2 / 8, a share of
    v / (2 D^2), where D^2 is about 4 (x / gain + 3/8 + sigma^2 / gain^2): 3 % at v = 1, 4 counts
    and no sigma. Below a count or two, a posterior is skew and its variance a rough guide.

    Args:
        mean: denoised picture in stabilised units, any shape.
        variance: its variance in stabilised units, of the same shape, 0 or more.
        gain: as in `stabilised`.
        sigma: as in `stabilised`.

    Returns:
        Mean and variance, of that shape. The mean is -sigma^2 / gain or more, where the noise
        would vanish, hence below 0 where a denoiser says so; counts themselves are 0 or more.

    Raises:
        ValueError: as in `stabilised`, or mean and variance differ in shape, or a variance is
            below 0.
    """
    _check_noise(gain, sigma)
    u, v = np.asarray(mean, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    if u.shape != v.shape:
        raise ValueError(f"mean and variance must have one shape, got {u.shape} and {v.shape}")
    if (v < 0).any():
        raise ValueError(f"variance must be 0 or more, got {v.min()}")
    u = np.maximum(u, LEAST_ROOT - 2 * sigma / gain) if gain > 0 else u
    inverse = gain / (gain * u + 2 * sigma)  # 1 / D
    first, second, third = INVERSE
    series = inverse * (first + inverse * (second + inverse * third))
    slope = -(inverse**2) * (first + inverse * (2 * second + inverse * 3 * third))
    x = gain * u**2 / 4 + sigma * u - gain / 8 + gain * series
    return x, v * (gain * u / 2 + sigma + gain * slope) ** 2


def _cosines() -> Array:
    """Return the orthonormal cosine transform of a block, shape (SIDE^2, SIDE^2)."""
    place = np.arange(SIDE)
    line = np.cos(np.pi * np.outer(place, 2 * place + 1) / (2 * SIDE)) * math.sqrt(2 / SIDE)
    line[0] /= math.sqrt(2)
    return np.kron(line, line)


COSINES = _cosines()
FREQUENCY = np.add.outer(np.arange(SIDE), np.arange(SIDE)).ravel()
LOW = (FREQUENCY > 0) & (FREQUENCY <= SIDE)  # what tells of texture: 42 coefficients
HIGH = FREQUENCY > SIDE  # what tells of noise: 21


def _checked(picture: ArrayLike, least: int) -> Array:
    """Return a picture in float64, of shape (height, width, colours), if it can be judged."""
    values = np.asarray(picture)
    if values.dtype.kind not in "uif":
        raise ValueError(f"picture must be of real numbers, got {values.dtype}")
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] != 3):
        shapes = "(height, width) or (height, width, 3)"
        raise ValueError(f"picture must have shape {shapes}, got {values.shape}")
    if min(values.shape[:2]) < least:
        raise ValueError(f"picture must have sides of {least} pixels or more, got {values.shape}")
    if not np.isfinite(values).all():
        wrong = values[~np.isfinite(values)][0]
        raise ValueError(f"picture must be finite, got {wrong}")
    if values.min() == values.max():
        raise ValueError(f"picture must not be constant, got {values.flat[0]} everywhere")
    return values.astype(np.float64).reshape(*values.shape[:2], -1)


def _check_noise(gain: float, sigma: float) -> None:
    """Raise ValueError unless gain and sigma are those of a noise."""
    for name, value in (("gain", gain), ("sigma", sigma)):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a finite number of 0 or more, got {value}")
    if gain == 0 and sigma == 0:
        raise ValueError("gain or sigma must be above 0, got 0 and 0")


def _stride(values: Array) -> int:
    """Return the pixels from block to block; not a multiple of the blocks of a JPEG file."""
    stride = math.ceil(math.sqrt(values[..., 0].size / MOST_POSITIONS))
    return stride + (stride % SIDE == 0)


def _blocks(plane: Array, stride: int) -> Array:
    """Return the blocks of a plane (height, width), shape (blocks, SIDE^2)."""
    windows = sliding_window_view(plane, (SIDE, SIDE))[::stride, ::stride]
    return windows.reshape(-1, SIDE**2)


def _spectrum(plane: Array, stride: int) -> Array:
    """Return the cosine transforms of the blocks of a plane, shape (blocks, SIDE^2)."""
    return _blocks(plane, stride) @ COSINES.T


def _moments(spectrum: Array) -> tuple[Array, Array, Array]:
    """Return mean and variances at low and high frequencies of each block, shape (blocks,)."""
    low, high = (np.square(spectrum[:, part]).mean(1) for part in (LOW, HIGH))
    return spectrum[:, 0] / SIDE, low, high


def _room(values: Array, stride: int) -> Array:
    """Return how far each block is from saturation, shape (blocks,).

    The nearest mean of a quarter of the block counts, of any colour: half a block in the dark
    has half its noise.
    """
    low, high = ends_of_scale(values)
    half = SIDE // 2
    nearest = []
    for each in range(values.shape[2]):
        quarters = _blocks(values[..., each], stride).reshape(-1, 2, half, 2, half).mean((2, 4))
        nearest.append(np.minimum(quarters - low, high - quarters).min((1, 2)))
    room: Array = np.min(nearest, axis=0)
    return room


def _unsaturated(room: Array, sigma: Any) -> Array:  # noqa: ANN401
    """Return which blocks noise of such sigma does not saturate, or does so least."""
    enough: Array = room > MARGIN * sigma
    if enough.mean() < ROOMIEST:
        enough = room >= np.quantile(room, 1 - ROOMIEST, method="lower")
    if not (room[enough] > 0).any():
        raise ValueError("picture must have blocks that are not saturated, got none")
    return enough & (room > 0)


def _warn_of_saturation() -> None:
    """Say that too little is left without saturation."""
    words = (
        "noise saturates nearly every part of the picture, which makes the estimate too small; "
        "give the picture before it is clipped, or the noise by its sigma if it is known"
    )
    warnings.warn(words, UserWarning, stacklevel=3)


def _sigma_of_flattest(spectra: list[Array], energy: Array, positions: int) -> float:
    """Return sigma of the blocks, of any colour, whose low frequencies hold least energy.

    The median over frequencies forgives a texture that reaches some of the high ones.
    """
    blocks = positions * len(spectra)
    count = min(max(math.ceil(FLATTEST * blocks), FEWEST_BLOCKS), blocks)
    colour, place = np.divmod(np.argpartition(energy, count - 1, None)[:count], energy.shape[1])
    flat = [spectrum[place[colour == each]][:, HIGH] for each, spectrum in enumerate(spectra)]
    return math.sqrt(np.median(np.square(np.concatenate(flat)).mean(0)))


def _flattest_of_each(
    groups: list[Array], mean: Array, low: Array, high: Array, scale: Array
) -> tuple[Array, Array, Array]:
    """Return mean, variance and weight of the flattest blocks of each brightness.

    Where the low frequencies hold more than the high ones, it is not noise alone, and the weight
    falls steeply.
    """
    picked = []
    for group in groups:
        count = max(round(FLATTEST_OF_A_BRIGHTNESS * len(group)), FEWEST_OF_A_BRIGHTNESS)
        count = min(count, len(group))
        flat = group[np.argpartition(low[group] / scale[group], count - 1)[:count]]
        picked.append([mean[flat].mean(), low[flat].mean(), high[flat].mean()])
    means, lows, variances = np.array(picked).T
    texture = np.maximum(lows / np.maximum(variances, TINY), 1)
    return means, variances, texture**-STEEPNESS


def _line(mean: Array, variance: Array, weight: Array) -> Array:
    """Return (gain, sigma^2), 0 or more, of least absolute relative deviations.

    Least squares with weights, again and again (Schlossmacher, "An iterative technique for
    absolute deviations curve fitting", Journal of the American Statistical Association 1973).
    """
    line = np.array([0.0, np.median(variance)])
    floor = max(variance.mean() / 100, TINY)  # where all is dark, noise may be none
    for _ in range(REFITS):
        fitted = np.maximum(line[0] * mean + line[1], floor)
        deviation = np.abs(variance / fitted - 1)
        root = np.sqrt(weight / np.maximum(deviation, 1e-3)) / fitted
        line = _least_squares(mean, variance, root)
    return line


def _least_squares(mean: Array, variance: Array, root: Array) -> Array:
    """Return (gain, sigma^2), 0 or more, of least squares with the squared weights `root`."""
    design = np.stack([mean * root, root], axis=1)
    gain, offset = np.linalg.lstsq(design, variance * root)[0]
    if gain >= 0 and offset >= 0:
        return np.array([gain, offset])
    alone = [each @ (variance * root) / (each @ each) for each in design.T]
    return np.array([0, alone[1]]) if gain < 0 else np.array([max(alone[0], 0), 0])
