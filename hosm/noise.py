"""Noise: x_noisy = x + sigma z, and where z comes from.

A noisy point is x_noisy = x + sigma z with z ~ N(0, I), so that x_noisy has density q_sigma
(Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data Distribution by
Denoising", NeurIPS 2021, section 2). Variance reduction (ibid., section 4.2) evaluates the
model at the antithetic pair x + sigma z, x - sigma z.

In training, noise belongs to a sample and not to a process: z is a pure function of
(seed, epoch, global sample index), so one worker and eight workers that share a global batch
see the same noise, and a resumed run sees what the uninterrupted run saw. The function is a
counter-based generator: the 64-bit finaliser of Steele, Lea and Flood ("Fast Splittable
Pseudorandom Number Generators", OOPSLA 2014) applied to the counters, then the inverse normal
distribution function. It is integer arithmetic, hence equal on every device.
"""

import math
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from hosm.checks import check_count, check_generator, check_one_shape, checked

__all__ = [
    "antithetic_pair",
    "check_scales",
    "check_sigma",
    "keyed_normal",
    "keyed_permutation",
    "keyed_rademacher",
    "keyed_uniform",
    "noise_scales",
    "orthogonalised",
    "perturb",
    "rademacher",
    "standard_normal",
]

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def check_sigma(sigma: float) -> float:
    """Return sigma if it is a legal noise scale.

    Args:
        sigma: noise scale, in the data's units.

    Raises:
        ValueError: sigma is not a finite number above 0.
    """
    number = isinstance(sigma, Real) and not isinstance(sigma, bool)
    if not (number and math.isfinite(sigma) and sigma > 0):
        raise ValueError(f"sigma must be a finite number above 0, got {sigma!r}")
    return float(sigma)


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


def antithetic_pair(x: Tensor, sigma: float, z: Tensor) -> tuple[Tensor, Tensor]:
    """Return the antithetic pair (x + sigma z, x - sigma z) of section 4.2.

    Args:
        x: clean points, shape (n, D).
        sigma: noise scale, above 0, in the units of x.
        z: standard normal noise, shape (n, D).

    Returns:
        Two tensors of shape (n, D).

    Raises:
        ValueError: as in `perturb`.
    """
    return perturb(x, sigma, z), perturb(x, sigma, -z)


def standard_normal(like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw z ~ N(0, I) in the shape, type and device of `like`.

    Args:
        like: floating-point tensor of any shape that is not empty; its values are not read.
        generator: source of randomness, on the device of `like`.

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

    Arguments and errors as in `standard_normal`.
    """
    checked("like", like, ..., finite=False)
    check_generator(generator, like.device)
    bits = torch.randint(0, 2, like.shape, generator=generator, device=like.device)
    return bits.to(like.dtype) * 2 - 1


def _signed(value: int) -> int:
    """Return the 64-bit pattern as the signed integer that torch.int64 holds."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def _mix_int(value: int) -> int:
    """Apply the finaliser to one Python integer."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * _MULTIPLIERS[0]) & _MASK
    value = ((value ^ (value >> 27)) * _MULTIPLIERS[1]) & _MASK
    return value ^ (value >> 31)


def _mix(value: Tensor) -> Tensor:
    """Apply the finaliser to int64 tensors; shifts are made logical by a mask."""
    for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        value = (value ^ ((value >> shift) & ((1 << (64 - shift)) - 1))) * _signed(multiplier)
    return value ^ ((value >> 31) & ((1 << 33) - 1))


def _keyed_bits(index: Tensor, dimension: int, seed: int, epoch: int, stream: int) -> Tensor:
    """Return 64 hashed bits for each (sample, coordinate), shape (n, dimension)."""
    integers = not (index.is_floating_point() or index.is_complex() or index.dtype == torch.bool)
    if index.ndim != 1 or len(index) == 0 or not integers:
        found = f"{index.dtype} {tuple(index.shape)}"
        raise ValueError(f"index has {found}; legal are integers of shape (n,), not empty")
    check_count("dimension", dimension)
    key = 0
    for part in (seed, epoch, stream):
        key = _mix_int(key + _GOLDEN + part)
    sample = _mix(index.to(torch.int64) * _signed(_GOLDEN) + _signed(key))
    coordinate = torch.arange(1, dimension + 1, device=index.device) * _signed(_GOLDEN)
    return _mix(sample[:, None] + coordinate)


def _as(dtype: torch.dtype, values: Tensor) -> Tensor:
    """Return values of any shape in a floating-point dtype."""
    if not dtype.is_floating_point:
        raise ValueError(f"dtype is {dtype}; legal are floating-point dtypes")
    return values.to(dtype)


def check_scales(sigma: float | tuple[float, float]) -> float | tuple[float, float]:
    """Return a noise scale, or a range (low, high) of them, if it is legal.

    Raises:
        ValueError: a scale is not a finite number above 0, or the range is empty.
    """
    if not isinstance(sigma, tuple):
        return check_sigma(sigma)
    if len(sigma) != 2 or not check_sigma(sigma[0]) < check_sigma(sigma[1]):
        raise ValueError(f"a range of sigma must be (low, high) with low < high, got {sigma}")
    return float(sigma[0]), float(sigma[1])


def noise_scales(t: Tensor, sigma_range: tuple[float, float]) -> Tensor:
    """Return the scales at quantiles t of the log-uniform law on a range, shape (n,).

    Args:
        t: quantiles in [0, 1], shape (n,).
        sigma_range: least and largest noise scale, 0 < low < high.

    Raises:
        ValueError: t is not of floating-point numbers, or the range is empty.
    """
    checked("t", t, "n", finite=False)
    check_scales(sigma_range)
    low, high = sigma_range
    return low * (high / low) ** t


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

    Arguments as in `keyed_normal`.
    """
    bits = _keyed_bits(index, dimension, seed, epoch, stream)
    return _as(dtype, (((bits >> 11) & ((1 << 53) - 1)).to(torch.float64) + 0.5) * 2.0**-53)


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
        stream: tells apart several draws for one sample.
        dtype: floating type of the result.

    Raises:
        ValueError: the index is not one of integers, shape (n,), dimension is below 1, or the
            dtype is not a floating-point one.
    """
    keys: dict[str, Any] = {"seed": seed, "epoch": epoch, "stream": stream}
    uniform = keyed_uniform(index, dimension, **keys, dtype=torch.float64)
    return _as(dtype, torch.special.ndtri(uniform))


def orthogonalised(z: Tensor) -> Tensor:
    """Return standard normal noise whose rows are orthogonal within blocks of D, shape (n, D).

    Each row is still N(0, I), but a block looks in every direction once, which takes the noise of
    chance overlaps out of the mean of z^T J z that DSM fits (the coupling of Yu et al.,
    "Orthogonal Random Features", NeurIPS 2016). The frame comes from the first block by
    Gram-Schmidt; later blocks use it again with signs of their own; lengths are each row's.

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
    return _as(dtype, (bits >> 63) * 2 + 1)


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
    generator = torch.Generator().manual_seed(_mix_int(_mix_int(seed) + epoch) >> 1)
    return torch.randperm(size, generator=generator)
