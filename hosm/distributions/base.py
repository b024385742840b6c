r"""The interface of distributions with exact log-densities, scores and higher derivatives.

A `Law` is a probability distribution that knows log p and its derivatives, s1 = grad log p,
s2 = grad^2 log p and s3 = grad^3 log p. All that is learned is judged against such distributions,
so they share no code with what they judge.

Mixtures. Let p = sum_k w_k p_k and l_k = log p_k, with gradients g_k. With the responsibilities
r_k(x) = w_k p_k(x) / p(x) and the deviations d_k = g_k - s1, the derivatives of log p are the
joint cumulants, under r, of those of the l_k:

    s1 = sum_k r_k g_k
    s2 = sum_k r_k (d_k d_k^T + grad^2 l_k)
    s3 = sum_k r_k (d_k d_k d_k + d_k . grad^2 l_k + grad^3 l_k),

where (d . H)_abc = d_a H_bc + d_b H_ac + d_c H_ab. The r_k are a softmax and the sums are centred,
so nothing overflows or cancels far from the modes. The scores are those of order 1, 2 and 3 of
Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data Distribution by
Denoising", NeurIPS 2021, section 2.1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from typing import Self

import torch
from torch import Generator, Tensor

from hosm.checks import check_count, check_generator, checked

__all__ = ["LARGEST_TEMPORARY", "Law", "Mixture", "placements", "probabilities"]

LARGEST_TEMPORARY = (
    2**21
)  # numbers in the largest temporary tensor; small enough to stay near the cache


def probabilities(weights: Tensor, terms: int) -> Tensor:
    """Return weights scaled to sum 1.

    Args:
        weights: w, not negative, of sum 1 within 1e-4, shape (K,).
        terms: K.

    Raises:
        ValueError: if they are not.
    """
    checked("weights", weights, terms)
    total, lowest = float(weights.sum()), float(weights.min())
    if lowest < 0 or abs(total - 1) > 1e-4:
        raise ValueError(
            f"weights must be at least 0 and sum to 1, got {lowest} among them, sum {total}"
        )
    return weights / weights.sum()


def placements(matrix: Tensor) -> Tensor:
    """Return the sum A_abc + A_bac + A_cab of the placements of an index, as in d . H above.

    Args:
        matrix: A, symmetric in its last two indices, shape (n, D, D, D).

    Returns:
        A tensor that is symmetric in all three, shape (n, D, D, D).
    """
    return matrix + matrix.permute(0, 2, 1, 3) + matrix.permute(0, 2, 3, 1)


class Law(ABC):
    """A law on R^D. Points x have shape (n, D) with n >= 1, and the dtype of the law.

    Units: x is in those of the data, log p in nats, s_k in nats over the data's unit to the k.

    Args:
        dimension: D.
        parameters: what the constructor of the subclass takes.

    Raises:
        ValueError: if the parameters differ in dtype or device; from its methods, if points are
            not finite, of another dtype or of another shape, or none.

    Attributes:
        dimension: D.
        mean: expectation of the law, shape (D,).
        variance: variance of each coordinate, shape (D,).
    """

    mean: Tensor
    variance: Tensor
    terms = 0  # components that a point is compared with; sets the size of chunks
    strict = True  # whether points that are not finite are refused

    def __init__(self, dimension: int, *parameters: Tensor | float) -> None:
        self.dimension, self.parameters = dimension, parameters
        tensors = [p for p in parameters if isinstance(p, Tensor)]
        self.dtype, self.device = tensors[0].dtype, tensors[0].device
        if any(p.dtype != self.dtype for p in tensors):
            raise ValueError(f"parameters must share a dtype, got {[p.dtype for p in tensors]}")
        if any(p.device != self.device for p in tensors):
            raise ValueError(f"parameters must share a device, got {[p.device for p in tensors]}")

    def to(self, *targets: torch.dtype | torch.device | str) -> Self:
        """Return the same law with its parameters moved to `targets`.

        Args:
            targets: floating-point dtypes, devices, or both.

        Raises:
            ValueError: if a dtype is not floating-point.
        """
        parameters = list(self.parameters)
        for target in targets:
            parameters = [p.to(target) if isinstance(p, Tensor) else p for p in parameters]
        build: Callable[..., Self] = type(self)
        return build(*parameters)

    def tolerant(self) -> Self:
        """Return the same law, which takes points that are not finite: for chains that diverge.

        What it returns at them has no meaning; at other points nothing changes. The laws that
        `to` and `smoothed` return are strict again.
        """
        law = copy(self)
        law.strict = False
        return law

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return independent draws, shape (n, D).

        Args:
            n: number of draws, 1 or more.
            generator: source of randomness, on the device of the law; torch's own if None.

        Raises:
            ValueError: if n < 1, or the generator belongs to another device.
        """
        check_count("n", n)
        check_generator(generator, self.device)
        return self._sample(n, generator)

    def log_prob(self, x: Tensor) -> Tensor:
        """Return log p(x), shape (n,), at the points x, shape (n, D)."""
        return self.at(x, self._log_prob)

    def score(self, x: Tensor) -> Tensor:
        """Return s1 = grad log p(x), shape (n, D), at the points x, shape (n, D)."""
        return self.at(x, self._score)

    def hessian(self, x: Tensor) -> Tensor:
        """Return s2 = grad^2 log p(x), shape (n, D, D), at the points x, shape (n, D)."""
        return self.at(x, self._hessian)

    def hessian_diag(self, x: Tensor) -> Tensor:
        """Return the diagonal of s2, shape (n, D), at the points x, shape (n, D)."""
        return self.at(x, self._hessian_diag)

    def score_and_diagonal(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return s1 and the diagonal of s2, both (n, D), at once, at the points x, (n, D)."""
        s1, diagonal = self.at(x, self._score_and_diagonal).unbind(1)
        return s1, diagonal

    def third_derivative(self, x: Tensor) -> Tensor:
        """Return s3 = grad^3 log p(x), shape (n, D, D, D), at the points x, shape (n, D)."""
        return self.at(x, self._third_derivative, self.dimension)

    def smoothed(self, sigma: float) -> Law:
        """Return the law of x + sigma z, z ~ N(0, I).

        Args:
            sigma: standard deviation of the noise, positive.

        Returns:
            A law of the same dimension and dtype (the paper's q_sigma, section 2).

        Raises:
            ValueError: if sigma is not one positive, finite number.
            NotImplementedError: if that law has no closed form.
        """
        name = type(self).__name__
        raise NotImplementedError(
            f"{name} has no closed form when smoothed (sigma={sigma}); Gaussian, "
            "GaussianMixture and FiniteData have one"
        )

    def at(self, x: Tensor, function: Callable[[Tensor], Tensor], width: int = 1) -> Tensor:
        """Return function(x) for checked points, in chunks that bound the memory.

        Args:
            x: points, shape (n, D).
            function: maps points, shape (m, D), to a tensor of shape (m, *).
            width: what it needs at a point, in multiples of terms * D numbers.

        Raises:
            ValueError: if x has another shape or dtype, is empty, or (if strict) not finite.
        """
        checked("x", x, "n", self.dimension, finite=self.strict)
        if x.dtype != self.dtype:
            raise ValueError(f"x must have dtype {self.dtype}, got {x.dtype}")
        rows = max(1, LARGEST_TEMPORARY // max(1, self.terms * self.dimension * width))
        if x.shape[0] <= rows:
            return function(x)
        return torch.cat([function(part) for part in x.split(rows)])

    def _normal(self, n: int, generator: Generator | None) -> Tensor:
        """Return draws of N(0, I), shape (n, D)."""
        size = (n, self.dimension)
        return torch.randn(size, generator=generator, dtype=self.dtype, device=self.device)

    @abstractmethod
    def _sample(self, n: int, generator: Generator | None) -> Tensor: ...

    @abstractmethod
    def _log_prob(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def _score(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def _hessian(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def _third_derivative(self, x: Tensor) -> Tensor: ...

    def _hessian_diag(self, x: Tensor) -> Tensor:
        return self._hessian(x).diagonal(dim1=1, dim2=2)

    def _score_and_diagonal(self, x: Tensor) -> Tensor:
        """Return s1 and the diagonal of s2, shape (n, 2, D)."""
        return torch.stack([self._score(x), self._hessian_diag(x)], 1)


class Mixture(Law):
    """The calculus of mixtures, for K components given by l_k and its derivatives."""

    @abstractmethod
    def _components(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return log w_k p_k(x), shape (n, K), and g_k(x), shape (n, K, D)."""

    @abstractmethod
    def _curvature(self, x: Tensor, r: Tensor) -> Tensor:
        """Return sum_k r_k grad^2 l_k(x), shape (n, D, D), for r of shape (n, K)."""

    @abstractmethod
    def _second(self, x: Tensor) -> Tensor:
        """Return the diagonals of grad^2 l_k(x), (n, K, D) or a shape that broadcasts to it."""

    @abstractmethod
    def _coupling(self, x: Tensor, r: Tensor, d: Tensor) -> Tensor:
        """Return sum_k r_k (d_k . grad^2 l_k + grad^3 l_k), shape (n, D, D, D)."""

    def responsibilities(self, x: Tensor) -> Tensor:
        """Return r, shape (n, K), at the points x, shape (n, D), whose values are not checked."""
        checked("x", x, "n", self.dimension, finite=False)
        return self._components(x)[0].softmax(-1)

    def deviations(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return r, shape (n, K), and d, shape (n, K, D), at x, shape (n, D), likewise."""
        checked("x", x, "n", self.dimension, finite=False)
        log_joint, g = self._components(x)
        r = log_joint.softmax(-1)
        return r, g - r.unsqueeze(1) @ g

    def _log_prob(self, x: Tensor) -> Tensor:
        return self._components(x)[0].logsumexp(-1)

    def _score(self, x: Tensor) -> Tensor:
        log_joint, g = self._components(x)
        return (log_joint.softmax(-1).unsqueeze(1) @ g).squeeze(1)

    def _hessian(self, x: Tensor) -> Tensor:
        r, d = self.deviations(x)
        return (r.unsqueeze(-1) * d).mT @ d + self._curvature(x, r)

    def _hessian_diag(self, x: Tensor) -> Tensor:
        r, d = self.deviations(x)
        return (r.unsqueeze(1) @ (d.square() + self._second(x))).squeeze(1)

    def _score_and_diagonal(self, x: Tensor) -> Tensor:
        log_joint, g = self._components(x)
        r = log_joint.softmax(-1).unsqueeze(1)
        s1 = r @ g
        return torch.cat([s1, r @ ((g - s1).square() + self._second(x))], 1)

    def _third_derivative(self, x: Tensor) -> Tensor:
        r, d = self.deviations(x)
        cumulant = torch.einsum("nk,nka,nkb,nkc->nabc", r, d, d, d)
        return cumulant + self._coupling(x, r, d)
