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

import torch
from torch import Tensor

__all__ = [
    "antithetic_pair",
    "check_sigma",
    "keyed_normal",
    "keyed_permutation",
    "keyed_rademacher",
    "perturb",
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
    if not (isinstance(sigma, int | float) and math.isfinite(sigma) and sigma > 0):
        raise ValueError(f"sigma must be a finite number above 0, got {sigma!r}")
    return float(sigma)


def perturb(x: Tensor, sigma: float, z: Tensor) -> Tensor:
    """Return the noisy points x + sigma z.

    Args:
        x: clean points, shape (n, D).
        sigma: noise scale, above 0.
        z: standard normal noise, shape (n, D).

    Raises:
        ValueError: the shapes differ, or sigma is not above 0.
    """
    if x.shape != z.shape:
        raise ValueError(f"noise of shape {tuple(z.shape)} for points of shape {tuple(x.shape)}")
    return x + check_sigma(sigma) * z


def antithetic_pair(x: Tensor, sigma: float, z: Tensor) -> tuple[Tensor, Tensor]:
    """Return the antithetic pair (x + sigma z, x - sigma z), each of shape (n, D)."""
    return perturb(x, sigma, z), perturb(x, sigma, -z)


def standard_normal(like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw z ~ N(0, I) in the shape, type and device of `like`."""
    return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)


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
    key = 0
    for part in (seed, epoch, stream):
        key = _mix_int(key + _GOLDEN + part)
    sample = _mix(index.to(torch.int64) * _signed(_GOLDEN) + _signed(key))
    coordinate = torch.arange(1, dimension + 1, device=index.device) * _signed(_GOLDEN)
    return _mix(sample[:, None] + coordinate)


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
    """
    bits = _keyed_bits(index, dimension, seed, epoch, stream)
    uniform = (((bits >> 11) & ((1 << 53) - 1)).to(torch.float64) + 0.5) * 2.0**-53
    return torch.special.ndtri(uniform).to(dtype)


def keyed_rademacher(
    index: Tensor,
    dimension: int,
    *,
    seed: int,
    epoch: int,
    stream: int = 1,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return fair signs in {-1, +1} that depend on the keys alone, shape (n, dimension)."""
    bits = _keyed_bits(index, dimension, seed, epoch, stream)
    return ((bits >> 63) * 2 + 1).to(dtype)


def keyed_permutation(size: int, *, seed: int, epoch: int) -> Tensor:
    """Return the order in which an epoch visits `size` samples, shape (size,)."""
    generator = torch.Generator().manual_seed(_mix_int(_mix_int(seed) + epoch) >> 1)
    return torch.randperm(size, generator=generator)
