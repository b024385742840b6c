"""Checks of arguments; each failure says what the argument must be and what it was.

Every message has the form `sigma must be a finite number above 0, got -1`.

A tensor's shape and dtype are known without reading its values. Whether the values are finite,
positive or symmetric is not: such a check waits for the device. The inner loops of training and
sampling therefore make none, and each module says which values it does not check; a training step
runs under `values_unread`, so that what it calls makes none either. Inside `torch.func.vmap` and
`torch.compile` no value can be read, so that checks of values pass there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from types import EllipsisType

import torch
from torch import Generator, Tensor

__all__ = [
    "all_true",
    "check_choice",
    "check_count",
    "check_generator",
    "check_number",
    "check_one_shape",
    "check_positive",
    "check_probabilities",
    "check_symmetric",
    "checked",
    "shape_text",
    "values_unread",
]

RELATIVE_ASYMMETRY = 1e-5  # passes for rounding, as a share of the largest entry of a matrix
ASYMMETRY_IN_ROUNDINGS = 1e3  # passes too: as a multiple of the machine epsilon of the dtype

_read_values: ContextVar[bool] = ContextVar("read_values", default=True)


@contextmanager
def values_unread() -> Iterator[None]:
    """Let checks of values pass unread, so that nothing waits for the device.

    A training step runs so: its points and noise scales were checked before the first step, and a
    loss that is not finite is found at the next validation. Checks of shapes and dtypes stay.
    """
    token = _read_values.set(False)
    try:
        yield
    finally:
        _read_values.reset(token)


def shape_text(shape: Iterable[int | str | EllipsisType]) -> str:
    """Return a shape as messages print it, for example `(n, D)`, `(5,)` or `(n, *)`.

    Args:
        shape: sizes, letters for sizes that are free, and `...` for any further sizes.
    """
    sizes = ["*" if size is ... else str(size) for size in shape]
    return f"({sizes[0]},)" if len(sizes) == 1 and sizes[0] != "*" else f"({', '.join(sizes)})"


def checked(
    name: str, tensor: Tensor, *shape: int | str | EllipsisType, finite: bool = True
) -> Tensor:
    """Return `tensor` if it is floating-point, not empty, finite, and of the right shape.

    Args:
        name: the name of the argument, for the message.
        tensor: the tensor to check, any shape.
        shape: the shape that it must have, with a letter for each size that is free; a final
            `...` stands for any further sizes.
        finite: whether its values must be finite; False leaves them unread.

    Raises:
        ValueError: if it is not.
    """
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{name} must be a tensor, got a {type(tensor).__name__}")
    if not tensor.is_floating_point():
        raise ValueError(f"{name} must have a floating-point dtype, got {tensor.dtype}")
    sizes = shape[:-1] if shape and shape[-1] is ... else shape
    fits = tensor.ndim == len(sizes) if sizes == shape else tensor.ndim >= len(sizes)
    pairs = zip(tensor.shape, sizes, strict=False)
    if (
        not fits
        or tensor.numel() == 0
        or any(isinstance(wanted, int) and size != wanted for size, wanted in pairs)
    ):
        wanted, found = shape_text(shape), tuple(tensor.shape)
        raise ValueError(f"{name} must have shape {wanted} and not be empty, got {found}")
    if finite and not all_true(torch.isfinite(tensor)):
        wrong = tensor[~torch.isfinite(tensor)][0].item()
        raise ValueError(f"{name} must be finite, got {wrong}")
    return tensor


def all_true(mask: Tensor) -> bool:
    """Return whether all of a mask is true; true where its values cannot or shall not be read.

    Args:
        mask: truth values, any shape.
    """
    if torch.compiler.is_compiling() or not _read_values.get():
        return True
    try:
        return bool(mask.all())
    except RuntimeError:  # inside torch.func.vmap
        return True


def check_one_shape(shape: str, **tensors: Tensor) -> None:
    """Raise ValueError unless the tensors have one shape, which is not empty, and float dtypes.

    Args:
        shape: how messages describe the shape, for example "(n, D)".
        tensors: the tensors by name, any shape; their values are not read.
    """
    found = {tuple(tensor.shape) for tensor in tensors.values()}
    if len(found) > 1 or 0 in next(iter(found)):
        names = " and ".join(tensors)
        got = " and ".join(f"{name} {tuple(x.shape)}" for name, x in tensors.items())
        raise ValueError(f"{names} must have one shape {shape} and not be empty, got {got}")
    for name, tensor in tensors.items():
        checked(name, tensor, ..., finite=False)


def check_number(name: str, value: float | Tensor) -> None:
    """Raise ValueError unless `value` is one finite number above 0, or a tensor of shape ()."""
    single = value.ndim == 0 if isinstance(value, Tensor) else isinstance(value, Real)
    if not single or isinstance(value, bool):
        shape = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else None
        raise ValueError(f"{name} must be a finite number above 0, got {shape or repr(value)}")
    check_positive(name, value)


def check_probabilities(name: str, values: Sequence[float]) -> None:
    """Raise ValueError unless each of `values` lies between 0 and 1, both excluded."""
    if wrong := [value for value in values if not 0 < value < 1]:
        raise ValueError(f"{name} must be between 0 and 1, got {wrong[0]}")


def check_positive(name: str, values: Tensor | float) -> None:
    """Raise ValueError unless all `values`, of any shape, are positive and finite."""
    x = torch.as_tensor(values)
    if x.numel() == 0 or x.is_complex() or x.dtype == torch.bool:
        found = f"{x.dtype} of shape {tuple(x.shape)}"
        raise ValueError(f"{name} must be real numbers above 0, got {found}")
    positive = (x > 0) & (x < math.inf)
    if not all_true(positive):
        raise ValueError(f"{name} must be finite and above 0, got {x[~positive][0].item()}")


def check_count(name: str, value: int, least: int = 1, most: float = math.inf) -> None:
    """Raise ValueError unless `value` is an integer from `least` to `most`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        bounds = f"of {least} or more" if most == math.inf else f"from {least} to {most}"
        raise ValueError(f"{name} must be a whole number {bounds}, got {value}")


def check_choice(name: str, value: object, choices: Iterable[object]) -> None:
    """Raise ValueError unless `value` is one of `choices`."""
    names = tuple(choices)
    if value not in names:
        raise ValueError(f"{name} must be one of {', '.join(map(str, names))}, got {value!r}")


def check_generator(generator: Generator | None, device: torch.device) -> None:
    """Raise ValueError unless the generator, if any, draws on the type of device of the data."""
    if generator is not None and generator.device.type != device.type:
        raise ValueError(
            f"generator must be on the device of the data, {device}, got one on {generator.device}"
        )


def check_symmetric(name: str, matrices: Tensor) -> None:
    """Raise ValueError unless matrices, shape (*, D, D), are symmetric up to rounding."""
    scale = matrices.abs().amax((-2, -1), keepdim=True)
    epsilon = torch.finfo(matrices.dtype).eps
    bound = max(RELATIVE_ASYMMETRY, ASYMMETRY_IN_ROUNDINGS * epsilon) * scale
    gap = (matrices - matrices.mT).abs()
    if not all_true(gap <= bound):
        found = f"a matrix that differs from its transpose by {float(gap.max()):g}"
        raise ValueError(f"{name} must be symmetric, got {found}")
