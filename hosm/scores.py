"""Score models: s1 and s2 from one network.

The model of Meng, Song, Li and Ermon ("Estimating High Order Gradients of the Data Distribution
by Denoising", NeurIPS 2021, section 4.1) is s2 = diag(alpha) + beta beta^T with alpha (D,) and
beta (D, r); a diagonal model has r = 0. Two parametrisations of the outputs F of a backbone:

- `score`: s1 = F_0, alpha = F_1, beta = F_2.. . Right for small sigma, where the scores of
  q_sigma tend to those of the data and stay O(1).
- `denoiser`: the network predicts the posterior mean m = E[x | x_noisy] through the
  preconditioning of Karras et al. ("Elucidating the Design Space of Diffusion-Based Generative
  Models", 2022, table 1) and the relative posterior covariance S = C / sigma^2, both O(1) at
  any sigma. By Tweedie's formula s1 = (m - x_noisy) / sigma^2 and s2 = (S - I) / sigma^2.
  S = diag(F_1 + p) + B B^T with B = F_2.. / sqrt(D), so that columns of B have norms O(1), and
  p = data_std^2 / (sigma^2 + data_std^2): outputs of zero mean the posterior of a Gaussian.

With `psd` a denoiser's S is a covariance by construction: variances v = softplus of the first
output (p at zero) and correlations of a single factor model. With w = F_2.. / sqrt(r) of each
coordinate, shape (r,), S_ij = (u_i u_j)^(1/2) w_i . w_j for i != j and S_ii = v_i plus the
constant `LEAST_RELATIVE_VARIANCE`, where u = v / (1 + |w|^2) is the part of v that a coordinate
does not share. So a small variance is one number near zero, and not a difference of two; and S
stays positive after the rounding of float32 on the way to s2 and back to C.

A model of a range of noise scales takes sigma as well as the points and is a `denoiser`, whose
outputs stay O(1) at every scale; its backbone reads a clock (see `hosm.networks.mlp`).
"""

import copy
import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hosm.autodiff import autodiff_hessian, hutchinson_diagonal
from hosm.checks import all_true
from hosm.noise import Scale, broadcast_scale, check_scales, check_sigma, is_per_point
from hosm.operators import DiagonalPlusLowRank

__all__ = [
    "FixedScale",
    "ScoreModel",
    "autodiff_hessian",
    "hutchinson_diagonal",
    "outputs_per_coordinate",
]

LEAST_RELATIVE_VARIANCE = (
    1e-5  # diagonal of S under `psd`, at least; 80 times the rounding of 1 in float32
)

Parametrisation = Literal["score", "denoiser"]


def outputs_per_coordinate(rank: int) -> int:
    """Return how many numbers for each coordinate the second-order head takes: alpha and beta."""
    return 1 + rank


class ScoreModel(nn.Module):
    """First- and second-order scores of q_sigma.

    Args:
        trunk: backbone (n, D) -> (n, k, D). With k = 1 it gives s1 alone; with
            k = 2 + rank it is shared, and gives alpha and beta too.
        second: backbone (n, D) -> (n, 1 + rank, D) for alpha and beta where they are not
            shared. With neither, the model is first-order and its s2 is None.
        sigma: noise scale that the model is trained at, or the range (low, high) of them.
        rank: columns r of beta; 0 for a diagonal model.
        parametrisation: `score` or `denoiser`; a range of sigma needs `denoiser`.
        psd: make s2 + I / sigma^2 positive semi-definite; needs `denoiser`.
        data_std: standard deviation of the clean data, for `denoiser`.
        autocast: evaluate the backbones in bfloat16, about three digits; what follows them,
            scores and losses, keeps the precision of x_noisy.

    Raises:
        ValueError: sigma, rank or data_std out of range, or options that exclude each other.
    """

    def __init__(
        self,
        trunk: nn.Module,
        second: nn.Module | None = None,
        *,
        sigma: float | tuple[float, float],
        rank: int = 0,
        parametrisation: Parametrisation = "score",
        psd: bool = False,
        data_std: float = 1.0,
        autocast: bool = False,
    ) -> None:
        super().__init__()
        self.dimension = int(trunk.dimension)  # type: ignore[arg-type]
        if not 0 <= rank <= self.dimension:
            raise ValueError(f"rank must be a whole number from 0 to {self.dimension}, got {rank}")
        if parametrisation not in ("score", "denoiser"):
            raise ValueError(f"parametrisation must be score or denoiser, got {parametrisation!r}")
        if psd and parametrisation != "denoiser":
            raise ValueError("parametrisation must be denoiser for psd=True, got score")
        if isinstance(sigma, tuple) and parametrisation != "denoiser":
            raise ValueError("parametrisation must be denoiser for a range of sigma, got score")
        for backbone in filter(None, (trunk, second)):
            if getattr(backbone, "conditional", False) != isinstance(sigma, tuple):
                name = type(backbone).__name__
                raise ValueError(
                    f"a backbone must be conditional for a range of sigma, and for that alone, "
                    f"got {name} for sigma {sigma}"
                )
        if not (math.isfinite(data_std) and data_std > 0):
            raise ValueError(f"data_std must be a finite number above 0, got {data_std}")
        self.trunk, self.second = trunk, second
        self.sigma, self.rank, self.psd = check_scales(sigma), rank, psd
        self.parametrisation, self.data_std = parametrisation, data_std
        self.autocast = autocast

    def _scale(self, x_noisy: Tensor, sigma: Scale | None) -> Scale:
        """Return the noise scale of the points: a number, or one for each, shape (n,)."""
        fits = x_noisy.ndim == 2 and x_noisy.shape[1] == self.dimension
        if not (fits and x_noisy.is_floating_point()):
            found = f"{tuple(x_noisy.shape)} of {x_noisy.dtype}"
            raise ValueError(f"x_noisy must be floating (n, {self.dimension}), got {found}")
        low, high = self.sigma if isinstance(self.sigma, tuple) else (self.sigma, self.sigma)
        if sigma is None:
            if low < high:
                raise ValueError(f"sigma must be given, from {low} to {high}, got None")
            return low
        scales = sigma if isinstance(sigma, float) else torch.as_tensor(sigma)
        if is_per_point(scales) and scales.shape != x_noisy.shape[:1]:
            shapes = f"{tuple(scales.shape)} for x_noisy {tuple(x_noisy.shape)}"
            raise ValueError(f"sigma must be a number or have shape (n,), got {shapes}")
        inside = (scales >= low * (1 - 1e-6)) & (scales <= high * (1 + 1e-6))
        if not (inside if isinstance(inside, bool) else all_true(inside)):
            trained = f"{low}" if low == high else f"{low} to {high}"
            raise ValueError(f"sigma must be {trained}, as in training, got {sigma}")
        scales = torch.as_tensor(scales).to(x_noisy).expand(len(x_noisy))
        return low if low == high else scales

    def _run(self, network: nn.Module, x_noisy: Tensor, sigma: Scale) -> Tensor:
        """Return a backbone's outputs, shape (n, k, D)."""
        given = self._inputs(x_noisy, sigma)
        if not self.autocast:
            return network(*given)
        with torch.autocast(x_noisy.device.type, torch.bfloat16):
            return network(*given).to(x_noisy.dtype)

    def _inputs(self, x_noisy: Tensor, sigma: Scale) -> tuple[Tensor, ...]:
        """Return what a backbone reads: points, scaled to unit variance, and their clock."""
        if self.parametrisation == "score":
            return (x_noisy,)
        x_scaled = x_noisy / (self.data_std**2 + broadcast_scale(sigma) ** 2) ** 0.5
        if not isinstance(self.sigma, tuple) or not is_per_point(sigma):
            return (x_scaled,)
        low, high = self.sigma
        return x_scaled, 2 * (sigma / low).log() / math.log(high / low) - 1

    def _first(self, x_noisy: Tensor, output: Tensor, sigma: Scale) -> Tensor:
        if self.parametrisation == "score":
            return output
        scale = broadcast_scale(sigma)
        total = scale**2 + self.data_std**2
        return output * (self.data_std / (scale * total**0.5)) - x_noisy / total

    def _second(self, output: Tensor, sigma: Scale) -> DiagonalPlusLowRank:
        return DiagonalPlusLowRank(*self._alpha_and_beta(output, sigma))

    def _alpha_and_beta(self, output: Tensor, sigma: Scale) -> tuple[Tensor, Tensor]:
        """Return alpha, shape (n, D), and beta, (n, D, r), of the network's outputs."""
        if output.shape[1] != outputs_per_coordinate(self.rank):
            wanted = f"{outputs_per_coordinate(self.rank)} at rank {self.rank}"
            raise ValueError(
                f"the outputs of the second order must be {wanted}, got {output.shape[1]}"
            )
        first, rest = output.split([1, self.rank], 1)  # whose gradient needs no zero fill
        alpha, beta = first.squeeze(1), rest.transpose(1, 2)
        if self.parametrisation == "denoiser":
            scale = broadcast_scale(sigma)
            prior = self.data_std**2 / (torch.as_tensor(scale).to(alpha) ** 2 + self.data_std**2)
            own, columns = self._relative(alpha, beta, prior)
            alpha = (own - 1) / scale**2
            beta = columns / broadcast_scale(sigma, 3)
        return alpha, beta

    def _relative(self, first: Tensor, rest: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
        """Return the diagonal (n, D) and the factor (n, D, r) of S, from the network's outputs."""
        if not self.psd:
            return first + prior, rest / math.sqrt(self.dimension)
        above = (prior - LEAST_RELATIVE_VARIANCE).clamp_min(LEAST_RELATIVE_VARIANCE).expm1().log()
        variance = nn.functional.softplus(first + above)
        size = max(self.rank, 1)
        own = variance / (1 + rest.square().sum(2) / size)
        return LEAST_RELATIVE_VARIANCE + own, (own / size).sqrt().unsqueeze(2) * rest

    def score(self, x_noisy: Tensor, sigma: Scale | None = None) -> Tensor:
        """Return s1 alone, shape (n, D); arguments and errors as in `forward`."""
        scale = self._scale(x_noisy, sigma)
        return self._first(x_noisy, self._run(self.trunk, x_noisy, scale)[:, 0], scale)

    def forward(
        self, x_noisy: Tensor, sigma: Scale | None = None
    ) -> tuple[Tensor, DiagonalPlusLowRank | None]:
        """Return s1, shape (n, D), and s2 as an operator (None for a first-order model).

        Args:
            x_noisy: noisy points, shape (n, D).
            sigma: noise scale, a number or one for each point, shape (n,), within what the
                model covers; may be omitted by a model of one scale.

        Raises:
            ValueError: another shape, a sigma that the model does not cover, or none given
                to a model of a range.
        """
        scale = self._scale(x_noisy, sigma)
        trunk = self._run(self.trunk, x_noisy, scale)
        first = self._first(x_noisy, trunk[:, 0], scale)
        if self.second is not None:
            return first, self.second_order(x_noisy, sigma)
        if trunk.shape[1] > 1:
            return first, self._second(trunk[:, 1:], scale)
        return first, None

    def score_and_diagonal(
        self, x_noisy: Tensor, sigma: Scale | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return s1 and the diagonal of s2, both (n, D), without the operator; as in `forward`."""
        scale = self._scale(x_noisy, sigma)
        output = self._run(self.trunk, x_noisy, scale)
        second = output[:, 1:] if self.second is None else self._run(self.second, x_noisy, scale)
        alpha, beta = self._alpha_and_beta(second, scale)
        diagonal = alpha + beta.square().sum(2) if self.rank else alpha
        return self._first(x_noisy, output[:, 0], scale), diagonal

    def second_order(
        self, x_noisy: Tensor, sigma: Scale | None = None
    ) -> DiagonalPlusLowRank | None:
        """Return s2 alone, as in `forward`, without running a trunk that s2 does not need."""
        if self.second is None:
            return self(x_noisy, sigma)[1]
        scale = self._scale(x_noisy, sigma)
        return self._second(self._run(self.second, x_noisy, scale), scale)

    def first_order(self) -> "ScoreModel":
        """Return a model of s1 alone, of copied weights, which spends nothing on s2.

        Raises:
            ValueError: s2 shares a trunk that cannot be told to leave out its outputs.
        """
        if self.second is None and not hasattr(self.trunk, "first"):
            name = type(self.trunk).__name__
            raise ValueError(f"trunk must have a method `first`, got a {name} without one")
        trunk: Any = self.trunk
        return self._of(copy.deepcopy(trunk) if self.second is not None else trunk.first(1), None)

    def diagonal_only(self) -> "ScoreModel":
        """Return a model of the same s1 and the same diagonal of s2, of copied weights.

        With `psd` the diagonal of S is an output of its own, so that the outputs of the factor are
        left out; `samplers` need no more than the diagonal. Where the diagonal takes the factor
        too, or a trunk cannot leave out outputs, all outputs stay.
        """
        last: Any = self.trunk if self.second is None else self.second
        if not (self.psd and self.rank and hasattr(last, "first")):
            return copy.deepcopy(self)
        if self.second is None:
            return self._of(last.first(2), None, psd=True)
        return self._of(copy.deepcopy(self.trunk), last.first(1), psd=True)

    def _of(
        self, trunk: nn.Module, second: nn.Module | None, *, psd: bool = False
    ) -> "ScoreModel":
        """Return a model of rank 0 with these backbones and otherwise the settings of this one."""
        model = ScoreModel(
            trunk,
            second,
            sigma=self.sigma,
            parametrisation=self.parametrisation,
            psd=psd,
            data_std=self.data_std,
            autocast=self.autocast,
        )
        return model.train(self.training)

    def at(self, sigma: float) -> "FixedScale":
        """Return the model at one noise scale, a callable of x_noisy alone.

        Args:
            sigma: noise scale within what the model covers.
        """
        return FixedScale(self, check_sigma(sigma))


class FixedScale:
    """A score model at one noise scale, for functions that take callables of x_noisy alone."""

    def __init__(self, model: ScoreModel, sigma: float) -> None:
        self.model, self.sigma = model, sigma

    def __call__(self, x_noisy: Tensor) -> tuple[Tensor, DiagonalPlusLowRank | None]:
        """Return s1, shape (n, D), and s2 (see `ScoreModel.forward`)."""
        return self.model(x_noisy, self.sigma)

    def score_and_diagonal(self, x_noisy: Tensor) -> tuple[Tensor, Tensor]:
        """Return s1 and the diagonal of s2 at x_noisy, all of shape (n, D)."""
        return self.model.score_and_diagonal(x_noisy, self.sigma)

    def first_order(self) -> "FixedScale":
        """Return the model of s1 alone at this scale (see `ScoreModel.first_order`)."""
        return FixedScale(self.model.first_order(), self.sigma)

    def diagonal_only(self) -> "FixedScale":
        """Return the model of s1 and the diagonal of s2 alone (`ScoreModel.diagonal_only`)."""
        return FixedScale(self.model.diagonal_only(), self.sigma)

    def score(self, x_noisy: Tensor) -> Tensor:
        """Return s1 alone at x_noisy, both of shape (n, D)."""
        return self.model.score(x_noisy, self.sigma)
