"""Noise: x_noisy = x + sigma z, the scale sigma, and where z comes from.

A noisy point is x_noisy = x + sigma z with z ~ N(0, I), so that x_noisy has the density q_sigma
(Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data Distribution by
Denoising", NeurIPS 2021, section 2).

The noise scale sigma is a number for all points, or a tensor of shape (n,) with one scale for
each of n points. This module alone tells the two apart (`is_per_point`): other modules check a
scale (`check_noise_scale`), multiply points by it (`broadcast_scale`), and repeat or slice it
along with the points (`repeat_scale`, `slice_scale`), and need not know which of the two it is.
A model of a range (low, high) of scales is trained at scales that `noise_scales` spreads evenly
over log sigma.

In training, noise belongs to a sample and not to a process: z is a function of
(seed, epoch, global sample index) alone, so that one worker and eight workers with the same global
batch see the same noise, and a resumed run sees what the uninterrupted run saw. The function is a
counter-based generator: the 64-bit finaliser of Steele, Lea and Flood ("Fast Splittable
Pseudorandom Number Generators", OOPSLA 2014) applied to the counters, then the inverse normal
distribution function. It is integer arithmetic, hence equal on every device.
"""

import math
from numbers import Real
from typing import TypeGuard

import torch
from torch import Tensor

from hosm.checks import check_count, check_generator, check_one_shape, check_positive, checked

__all__ = [
    "Scale",
    "broadcast_scale",
    "check_noise_scale",
    "check_scales",
    "check_sigma",
    "is_per_point",
    "keyed_normal",
    "keyed_permutation",
    "keyed_rademacher",
    "keyed_uniform",
    "noise_scales",
    "orthogonalised",
    "perturb",
    "rademacher",
    "repeat_scale",
    "slice_scale",
    "standard_normal",
]

Scale = float | Tensor  # sigma: one number, or one for each point, shape (n,)

# Constants of the 64-bit finaliser of Steele, Lea and Flood
GOLDEN_INCREMENT = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio, an odd number
FIRST_MULTIPLIER, SECOND_MULTIPLIER = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
LOW_64_BITS = (1 << 64) - 1


def check_sigma(sigma: float) -> float:
    """Return sigma as a float if it is a finite number above 0.

    Args:
        sigma: noise scale, in the units of the data.

    Raises:
        ValueError: sigma is not a finite number above 0.
    """
    number = isinstance(sigma, Real) and not isinstance(sigma, bool)
    if not (number and math.isfinite(sigma) and sigma > 0):
        raise ValueError(f"sigma must be a finite number above 0, got {sigma!r}")
    return float(sigma)


def is_per_point(sigma: Scale) -> TypeGuard[Tensor]:
    """Return whether sigma is a tensor of one scale for each point, shape (n,), not a number."""
    return isinstance(sigma, Tensor) and sigma.ndim > 0


def check_noise_scale(sigma: Scale, points: int) -> Scale:
    """Return sigma if it is a noise scale for so many points.

    Args:
        sigma: noise scale, a number, or one for each point, shape (n,), in the units of the data.
            Reading the values of a tensor waits for its device once.
        points: n, the number of points.

    Returns:
        A float for a number; a tensor as it is.

    Raises:
        ValueError: sigma is not finite and above 0, or a tensor is of integers or of another
            shape.
    """
    if not isinstance(sigma, Tensor):
        return check_sigma(sigma)
    if is_per_point(sigma):
        checked("sigma", sigma, points, finite=False)
    check_positive("sigma", sigma)
    return sigma


def broadcast_scale(sigma: Scale, ndim: int = 2) -> Scale:
    """Return sigma in a shape that multiplies a tensor of shape (n, ...) with `ndim` dimensions.

    Args:
        sigma: noise scale, a number, or one for each point, shape (n,).
        ndim: dimensions of the tensor that it shall multiply; 2 for points of shape (n, D).

    Returns:
        A number as it is; scales of the points in shape (n, 1, .., 1).
    """
    return sigma.reshape(-1, *(1,) * (ndim - 1)) if is_per_point(sigma) else sigma


def repeat_scale(sigma: Scale, times: int) -> Scale:
    """Return sigma for n points that are repeated so many times, one block after another.

    Args:
        sigma: noise scale, a number, or one for each point, shape (n,).
        times: number of blocks, for example of the points of a stencil.

    Returns:
        A number as it is; scales of the points in shape (times * n,).
    """
    return sigma.repeat(times) if is_per_point(sigma) else sigma


def slice_scale(sigma: Scale, part: slice) -> Scale:
    """Return sigma for a part of the points.

    Args:
        sigma: noise scale, a number, or one for each point, shape (n,).
        part: the part, as a slice of 0 .. n.
    """
    return sigma[part] if is_per_point(sigma) else sigma


def check_scales(sigma: float | tuple[float, float]) -> float | tuple[float, float]:
    """Return a noise scale, or a range (low, high) of them, as floats if it is one.

    Args:
        sigma: noise scale, or the least and the largest of a range, in the units of the data.

    Raises:
        ValueError: a scale is not a finite number above 0, or low is not below high.
    """
    if not isinstance(sigma, tuple):
        return check_sigma(sigma)
    if len(sigma) != 2 or not check_sigma(sigma[0]) < check_sigma(sigma[1]):
        raise ValueError(f"a range of sigma must be (low, high) with low < high, got {sigma}")
    return float(sigma[0]), float(sigma[1])


def noise_scales(t: Tensor, sigma_range: tuple[float, float]) -> Tensor:
    """Return the quantiles t of the distribution that is log-uniform on a range, shape (n,).

    Args:
        t: quantiles in [0, 1], shape (n,); whether they lie there is not checked.
        sigma_range: least and largest noise scale, 0 < low < high, in the units of the data.

    Raises:
        ValueError: t is not a vector of floating-point numbers, or low is not below high.
    """
    checked("t", t, "n", finite=False)
    check_scales(sigma_range)
    low, high = sigma_range
    return low * (high / low) ** t


def perturb(x: Tensor, sigma: float, z: Tensor) -> Tensor:
    """Return the noisy points x + sigma z, whose density is q_sigma (section 2).

    Args:
        x: clean points, shape (n, D); whether they are finite is not checked.
        sigma: noise scale, above 0, in the units of x.
        z: standard normal noise, shape (n, D).

    Returns:
        x_noisy, shape (n, D).

    Raises:
        ValueError: the shapes differ, are empty or not of floating-point numbers, or sigma is
            not above 0.
    """
    check_one_shape("(n, D)", x=x, z=z)
    return x + check_sigma(sigma) * z


def standard_normal(like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw z ~ N(0, I) in the shape, type and device of `like`.

    Args:
        like: floating-point tensor of any shape that is not empty; its values are not read.
        generator: source of randomness, on the device of `like`; torch's own if None.

    Returns:
        z, of the shape of `like`.

    Raises:
        ValueError: `like` is empty or of integers, or the generator is of another device.
    """
    checked("like", like, ..., finite=False)
    check_generator(generator, like.device)
    return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)


def rademacher(like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw fair signs, -1 or +1, in the shape, type and device of `like`.

    Args:
        like: floating-point tensor of any shape that is not empty; its values are not read.
        generator: source of randomness, on the device of `like`; torch's own if None.

    Returns:
        The signs, of the shape of `like`.

    Raises:
        ValueError: as in `standard_normal`.
    """
    checked("like", like, ..., finite=False)
    check_generator(generator, like.device)
    bits = torch.randint(0, 2, like.shape, generator=generator, device=like.device)
    return bits.to(like.dtype) * 2 - 1


def orthogonalised(z: Tensor) -> Tensor:
    """Return standard normal noise whose rows are orthogonal within blocks of D, shape (n, D).

    Each row is still N(0, I), but the rows of a block look in every direction once. This takes
    the noise of chance overlaps out of the mean of z^T J z that DSM fits (the coupling of Yu et
    al., "Orthogonal Random Features", NeurIPS 2016). The orthonormal frame comes from the first
    block by Gram-Schmidt; later blocks use it again with signs of their own; each row keeps its
    length.

    Args:
        z: independent standard normal rows, shape (n, D); values are not checked.

    Raises:
        ValueError: z has another shape, is empty or of integers.
    """
    n, dimension = checked("z", z, "n", "D", finite=False).shape
    block = min(n, dimension)
    frame, upper = torch.linalg.qr(z[:block].mT)
    frame = (frame * upper.diagonal().sign()).mT  # row 0 keeps its direction
    order = torch.arange(n, device=z.device) % block
    signs = torch.where(torch.arange(n, device=z.device) < block, 1.0, z[:, 0].sign())
    return frame[order] * (signs.to(z.dtype) * z.norm(dim=1)).unsqueeze(1)


def _as_signed(value: int) -> int:
    """Return the 64-bit pattern as the signed integer that torch.int64 holds."""
    value &= LOW_64_BITS
    return value - (1 << 64) if value >> 63 else value


def _hash_integer(value: int) -> int:
    """Apply the 64-bit finaliser to one Python integer."""
    value &= LOW_64_BITS
    value = ((value ^ (value >> 30)) * FIRST_MULTIPLIER) & LOW_64_BITS
    value = ((value ^ (value >> 27)) * SECOND_MULTIPLIER) & LOW_64_BITS
    return value ^ (value >> 31)


def _hash_tensor(value: Tensor) -> Tensor:
    """Apply the 64-bit finaliser to int64 tensors; masks make the shifts logical."""
    for shift, multiplier in ((30, FIRST_MULTIPLIER), (27, SECOND_MULTIPLIER)):
        shifted = (value >> shift) & ((1 << (64 - shift)) - 1)
        value = (value ^ shifted) * _as_signed(multiplier)
    return value ^ ((value >> 31) & ((1 << 33) - 1))


def _keyed_bits(index: Tensor, dimension: int, seed: int, epoch: int, stream: int) -> Tensor:
    """Return 64 hashed bits for each sample and coordinate, shape (n, dimension)."""
    integers = not (index.is_floating_point() or index.is_complex() or index.dtype == torch.bool)
    if index.ndim != 1 or len(index) == 0 or not integers:
        found = f"{index.dtype} of shape {tuple(index.shape)}"
        raise ValueError(f"index must be integers of shape (n,) and not be empty, got {found}")
    check_count("dimension", dimension)
    key = 0
    for part in (seed, epoch, stream):
        key = _hash_integer(key + GOLDEN_INCREMENT + part)
    golden = _as_signed(GOLDEN_INCREMENT)
    sample = _hash_tensor(index.to(torch.int64) * golden + _as_signed(key))
    coordinate = torch.arange(1, dimension + 1, device=index.device) * golden
    return _hash_tensor(sample[:, None] + coordinate)


def _to_floating(dtype: torch.dtype, values: Tensor) -> Tensor:
    """Return values of any shape in a floating-point dtype."""
    if not dtype.is_floating_point:
        raise ValueError(f"dtype must be a floating-point dtype, got {dtype}")
    return values.to(dtype)


def keyed_uniform(
    index: Tensor,
    dimension: int,
    *,
    seed: int,
    epoch: int,
    stream: int = 2,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return uniform numbers in (0, 1) that depend on the keys alone, shape (n, dimension).

    Arguments and errors as in `keyed_normal`.
    """
    bits = _keyed_bits(index, dimension, seed, epoch, stream)
    uniform = (((bits >> 11) & ((1 << 53) - 1)).to(torch.float64) + 0.5) * 2.0**-53
    return _to_floating(dtype, uniform)


def keyed_normal(
    index: Tensor,
    dimension: int,
    *,
    seed: int,
    epoch: int,
    stream: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return standard normal noise that depends on the keys alone, shape (n, dimension).

    Args:
        index: global sample indices, integers, shape (n,).
        dimension: coordinates D of a sample.
        seed: the run's seed.
        epoch: the pass over the data; another epoch gives fresh noise.
        stream: tells apart several draws for one sample; by default normal noise, signs and
            uniform numbers have streams of their own.
        dtype: floating type of the result; float32 by default, as models are trained in it.

    Raises:
        ValueError: the index is not a vector of integers, dimension is below 1, or the dtype is
            not a floating-point one.
    """
    uniform = keyed_uniform(
        index, dimension, seed=seed, epoch=epoch, stream=stream, dtype=torch.float64
    )
    return _to_floating(dtype, torch.special.ndtri(uniform))


def keyed_rademacher(
    index: Tensor,
    dimension: int,
    *,
    seed: int,
    epoch: int,
    stream: int = 1,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return fair signs in {-1, +1} that depend on the keys alone, shape (n, dimension).

    Arguments and errors as in `keyed_normal`.
    """
    bits = _keyed_bits(index, dimension, seed, epoch, stream)
    return _to_floating(dtype, (bits >> 63) * 2 + 1)


def keyed_permutation(size: int, *, seed: int, epoch: int) -> Tensor:
    """Return the order in which an epoch visits `size` samples, shape (size,).

    Args:
        size: number of samples, 1 or more.
        seed: the run's seed.
        epoch: the pass over the data.

    Raises:
        ValueError: size is below 1.
    """
    check_count("size", size)
    generator = torch.Generator().manual_seed(_hash_integer(_hash_integer(seed) + epoch) >> 1)
    return torch.randperm(size, generator=generator)
