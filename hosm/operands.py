"""What an operator diag(d) + U diag(c) U^T is built from and applied to: shapes, never broadcast.

The operators are those of `hosm.operators` (Meng, Song, Li and Ermon, NeurIPS 2021, section 4.1).
A vector beside d of shape (*, D) has the shape (*, D), and m vectors the shape (*, D, m).
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["as_given", "check_beside", "check_parts", "columns"]


def check_parts(diag: Tensor, factor: Tensor, signs: Tensor | None) -> None:
    """Check the parts of an operator.

    Args:
        diag: d, shape (*, D).
        factor: U, shape (*, D, k); k may be 0.
        signs: c, shape (k,), each +1 or -1, or None. Their values are read on a CPU only.

    Raises:
        ValueError: if they do not fit each other, are empty or not of one floating-point dtype,
            or a sign is another number.
    """
    fits = signs is None or signs.shape == factor.shape[-1:]
    if diag.ndim < 1 or diag.numel() == 0 or factor.shape[:-1] != diag.shape or not fits:
        parts = (diag, factor) if signs is None else (diag, factor, signs)
        shapes = ", ".join(str(tuple(part.shape)) for part in parts)
        raise ValueError(
            f"diag, factor, signs are {shapes}; legal: (*, D), (*, D, k), (k,), not empty"
        )
    if diag.dtype != factor.dtype or not diag.is_floating_point():
        dtypes = f"{diag.dtype}, {factor.dtype}"
        raise ValueError(f"diag, factor are {dtypes}; legal is one floating-point dtype")
    if signs is not None and (signs.dtype == torch.bool or not _unit(signs)):
        raise ValueError(f"signs are {signs.tolist()}; legal are +1 and -1")


def _unit(signs: Tensor) -> bool:
    """Return whether signs on a CPU are +1 or -1; true where it takes a wait to know."""
    if signs.device.type != "cpu":
        return True
    try:
        return bool((signs.abs() == 1).all())
    except RuntimeError:  # inside torch.func.vmap
        return True


def check_beside(first: Tensor, second: Tensor) -> None:
    """Refuse operators that do not fit beside each other.

    Args:
        first: d of one of them, shape (*, D).
        second: d of the other, shape (*, D).

    Raises:
        ValueError: unless the shapes agree in all dimensions that both have.
    """
    common = min(first.ndim, second.ndim)
    if first.shape[-common:] != second.shape[-common:]:
        found = f"{tuple(first.shape)} and {tuple(second.shape)}"
        raise ValueError(f"the operators have diag of {found}; legal is one (*, D) for both")


def columns(diag: Tensor, v: Tensor) -> Tensor:
    """Return v as columns beside d.

    Args:
        diag: d, shape (*, D).
        v: a vector (*, D), or m of them (*, D, m), of floating-point numbers.

    Returns:
        Shape (*, D, 1) or (*, D, m).

    Raises:
        ValueError: if v has another shape or is of integers.
    """
    vector = v.shape == diag.shape
    if not (vector or v.shape[:-1] == diag.shape) or not v.is_floating_point():
        found = f"{v.dtype} {tuple(v.shape)} beside diag {tuple(diag.shape)}"
        raise ValueError(f"v is {found}; legal for (*, D) are floating (*, D), (*, D, m)")
    return v.unsqueeze(-1) if vector else v


def as_given(diag: Tensor, out: Tensor, v: Tensor) -> Tensor:
    """Return columns `out`, (*, D, m), as one vector (*, D) if v was one beside `diag`, (*, D)."""
    return out.squeeze(-1) if v.ndim == diag.ndim else out
