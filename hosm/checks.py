"""Checks of what a caller hands in; each failure names what is wrong and what is legal.

Shapes and dtypes are known without a look at the device. Whether values are finite, positive or
symmetric is not: such a check waits for the device, so the inner loops of training and sampling
make none, and the modules say where values go unchecked. Inside `torch.func.vmap` no value can
be read, and none is checked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from types import EllipsisType

import torch
from torch import Generator, Tensor

__all__ = [
    "check_count",
    "check_generator",
    "check_number",
    "check_one_shape",
    "check_probabilities",
    "check_positive",
    "check_symmetric",
    "checked",
]

ASYMMETRY = 1e-5  # of a matrix in its largest entry, that passes for rounding; more in float32


def checked(
    name: str, tensor: Tensor, *shape: int | str | EllipsisType, finite: bool = True
) -> Tensor:
    """Return `tensor` if it is floating-point, not empty, finite, and of the right shape.

    Args:
        name: what messages call it.
        tensor: the tensor in question, any shape.
        shape: its legal shape, with a letter for each size that is free; a final `...` stands
            for any further sizes.
        finite: whether its values must be finite; False leaves them unread.

    Raises:
        ValueError: if it is not.
    """
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{name} is a {type(tensor).__name__}; legal is a tensor")
    if not tensor.is_floating_point():
        raise ValueError(f"{name} has dtype {tensor.dtype}; legal are floating-point dtypes")
    sizes = shape[:-1] if shape and shape[-1] is ... else shape
    fits = tensor.ndim == len(sizes) if sizes == shape else tensor.ndim >= len(sizes)
    pairs = zip(tensor.shape, sizes, strict=False)
    if (
        not fits
        or tensor.numel() == 0
        or any(isinstance(legal, int) and size != legal for size, legal in pairs)
    ):
        legal = ", ".join("*" if size is ... else str(size) for size in shape)
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; legal is ({legal}), not empty")
    if finite and not _all(torch.isfinite(tensor)):
        wrong = tensor[~torch.isfinite(tensor)][0].item()
        raise ValueError(f"{name} holds {wrong}; legal values are finite")
    return tensor


def _all(mask: Tensor) -> bool:
    """Return whether all of a mask, any shape, is true; true where it cannot be read."""
    if torch.compiler.is_compiling():
        return True
    try:
        return bool(mask.all())
    except RuntimeError:  # inside torch.func.vmap
        return True


def check_one_shape(legal: str, **tensors: Tensor) -> None:
    """Raise ValueError unless the tensors have one shape, which is not empty, and float dtypes.

    Args:
        legal: how messages describe the shape, for example "(n, D)".
        tensors: the tensors by name, any shape; their values are not read.
    """
    shapes = {tuple(tensor.shape) for tensor in tensors.values()}
    if len(shapes) > 1 or 0 in next(iter(shapes)):
        found = " and ".join(f"{name} {tuple(x.shape)}" for name, x in tensors.items())
        raise ValueError(f"the shapes are {found}; legal is one shape {legal}, not empty")
    for name, tensor in tensors.items():
        checked(name, tensor, ..., finite=False)


def check_number(name: str, value: float | Tensor) -> None:
    """Raise ValueError unless `value` is one finite number above 0, or a tensor of shape ()."""
    single = value.ndim == 0 if isinstance(value, Tensor) else isinstance(value, Real)
    if not single or isinstance(value, bool):
        what = tuple(value.shape) if isinstance(value, Tensor) else repr(value)
        raise ValueError(f"{name} is {what}; legal is one finite number above 0")
    check_positive(name, value)


def check_probabilities(name: str, values: Sequence[float]) -> None:
    """Raise ValueError unless each of `values` lies between 0 and 1, both excluded."""
    if wrong := [value for value in values if not 0 < value < 1]:
        raise ValueError(f"{name} is {wrong[0]}; legal values lie between 0 and 1")


def check_positive(name: str, values: Tensor | float) -> None:
    """Raise ValueError unless all `values`, of any shape, are positive and finite."""
    x = torch.as_tensor(values)
    if x.numel() == 0 or x.is_complex() or x.dtype == torch.bool:
        raise ValueError(f"{name} has {x.dtype} {tuple(x.shape)}; legal are real numbers above 0")
    legal = (x > 0) & (x < math.inf)
    if not _all(legal):
        wrong = x[~legal][0].item()
        raise ValueError(f"{name} holds {wrong}; legal values are positive and finite")


def check_count(name: str, value: int, least: int = 1, most: float = math.inf) -> None:
    """Raise ValueError unless `value` is an integer from `least` to `most`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        bound = f"{least} or more" if most == math.inf else f"{least} to {most}"
        raise ValueError(f"{name} is {value}; legal values are {bound}, whole numbers")


def check_generator(generator: Generator | None, device: torch.device) -> None:
    """Raise ValueError unless the generator, if any, draws on the type of device of the data."""
    if generator is not None and generator.device.type != device.type:
        raise ValueError(f"generator draws on {generator.device}; legal is the data's, {device}")


def check_symmetric(name: str, matrices: Tensor) -> None:
    """Raise ValueError unless matrices, shape (*, D, D), are symmetric up to rounding."""
    scale = matrices.abs().amax((-2, -1), keepdim=True)
    bound = max(ASYMMETRY, 1e3 * torch.finfo(matrices.dtype).eps) * scale
    gap = (matrices - matrices.mT).abs()
    if not _all(gap <= bound):
        raise ValueError(
            f"{name} is not symmetric: it differs from its transpose by {float(gap.max()):g}; "
            "legal ones are symmetric"
        )
