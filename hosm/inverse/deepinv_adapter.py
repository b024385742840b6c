r"""Both scores in a sampler of `deepinv`: moment matching without a product of the Jacobian.

`deepinv.sampling.MomentMatchingDataFidelity` (extra `deepinv`; Tachella et al., "DeepInverse: A
Python Package for Solving Imaging Inverse Problems with Deep Learning", 2025) guides a sampler by

$$-\nabla \log p(y \mid \tilde x) \approx
  C A^T (A C A^T + s^2 I)^{-1} (A m - y) / \sigma^2, \quad C = \sigma^2 J,$$

the method of Rozet et al., "Learning Diffusion Priors from Observations by Expectation
Maximization", NeurIPS 2024. There each product with C is a vector-Jacobian product of the network,
so that the conjugate gradients stop after three. Here C = sigma^4 s2 + sigma^2 I
(`hosm.inverse.conditioning`) is read once from the outputs of the network, and they run on until
they have converged.

    denoiser, guide = ScoreDenoiser(model), CovarianceDataFidelity()
    sampler = PosteriorDiffusion(data_fidelity=guide, denoiser=denoiser, sde=sde, solver=solver)
    pictures = sampler(y, physics)
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from deepinv.models import Denoiser
from deepinv.physics import GaussianNoise, LinearPhysics
from deepinv.sampling import MomentMatchingDataFidelity
from torch import Tensor

from hosm.checks import check_number
from hosm.inverse.conditioning import denoised
from hosm.inverse.solver import conjugate_gradients
from hosm.uncertainty import Posterior

__all__ = ["CovarianceDataFidelity", "ScoreDenoiser"]

ITERATIONS = 300  # of conjugate gradients, each with one product of A and of its transpose


class ScoreDenoiser(Denoiser):
    """The denoiser of a model of both scores, over pictures of shape (n, *).

    Args:
        model: (x_noisy, sigma) -> s1 (n, D), s2, for flat points in float32; where it has a range
            `sigma` of noise scales, it is asked at its least one for those below.
    """

    def __init__(self, model: Any) -> None:  # noqa: ANN401
        super().__init__()
        self.model = model

    def moments(self, x: Tensor, sigma: Tensor | float) -> Posterior:
        """Return N(m, C) of the clean points, flat, by one evaluation of the model.

        Args:
            x: noisy pictures, float32, shape (n, *).
            sigma: their noise scale, one for all.

        Raises:
            ValueError: several noise scales.
        """
        scales = torch.as_tensor(sigma, dtype=torch.float64).flatten()
        scale = float(scales[0])
        if not bool((scales == scale).all()):
            found = f"{float(scales.min())} to {float(scales.max())}"
            raise ValueError(f"sigma must be one for all pictures, got {found}")
        known = getattr(self.model, "sigma", None)
        scale = max(scale, known[0]) if isinstance(known, tuple) else scale
        flat = x.flatten(1)
        s1, s2 = self.model(flat, scale)
        return denoised(flat, s1, s2, scale)

    def forward(self, x: Tensor, sigma: Tensor | float, **ignored: Any) -> Tensor:  # noqa: ANN401
        """Return the mean of the clean pictures, in the shape of x.

        Args:
            x: noisy pictures, float32, shape (n, *).
            sigma: their noise scale, one for all.
            ignored: without effect.
        """
        return self.moments(x, sigma).mean.view_as(x)


class CovarianceDataFidelity(MomentMatchingDataFidelity):
    """Guidance of a sampler of `deepinv` by the covariance that both scores give.

    Args:
        denoiser: None where `deepinv.sampling.PosteriorDiffusion` supplies its own.
        weight: factor of the gradient, above 0.
    """

    def __init__(self, denoiser: ScoreDenoiser | None = None, weight: float = 1.0) -> None:
        check_number("weight", weight)
        super().__init__(denoiser, weight)

    @torch.no_grad()
    def grad(  # type: ignore[override]
        self,
        x: Tensor,
        y: Tensor,
        physics: Any,  # noqa: ANN401
        sigma: Tensor | float,
        *args: Any,  # noqa: ANN401
        get_model_outputs: bool = False,
        **kwargs: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Return the gradient of -log p(y | x~), and m too where `get_model_outputs`.

        Args:
            x: noisy pictures, shape (n, *).
            y: measurements of the physics.
            physics: a linear one of `deepinv`, with Gaussian noise.
            sigma: noise scale of x, one for all.
            args: without effect, as `kwargs`.
            get_model_outputs: whether to return m, shape (n, *), besides.
            kwargs: without effect.

        Raises:
            ValueError: a physics that is not linear or whose noise is not Gaussian, a denoiser
                that is no `ScoreDenoiser`, or several noise scales.
        """
        _check(physics, self.denoiser)
        law = self.denoiser.moments(x.float(), sigma)  # type: ignore[union-attr]
        mean = law.mean.view_as(x)
        residual = physics.A(mean) - y.float()
        noise = physics.noise_model.sigma
        spread = self._handle(noise, residual) ** 2

        def back(u: Tensor) -> Tensor:
            return law.covariance @ physics.A_adjoint(u.view_as(residual)).flatten(1)

        def product(u: Tensor) -> Tensor:
            return physics.A(back(u).view_as(mean)).flatten(1) + spread * u

        found = conjugate_gradients(product, residual.flatten(1), iterations=ITERATIONS)
        if not found.converged:
            left = f"{found.residual:.2g} after {found.iterations} iterations"
            warnings.warn(
                f"conjugate gradients must converge, got a residual of {left}", stacklevel=2
            )
        variance = self._handle(sigma, mean) ** 2
        gradient = (self.weight * back(found.values) / variance).view_as(x).to(x.dtype)
        return (gradient, mean) if get_model_outputs else gradient

    @staticmethod
    def _handle(scale: Tensor | float, like: Tensor) -> Tensor:
        """Return a scale, or one for each picture, as a column."""
        return torch.as_tensor(scale).to(like).reshape(-1, 1)


def _check(physics: Any, denoiser: Any) -> None:  # noqa: ANN401
    """Raise ValueError unless a covariance can be matched to the measurement."""
    if not isinstance(physics, LinearPhysics):
        raise ValueError(f"physics must be linear, got {type(physics).__name__}")
    if not isinstance(physics.noise_model, GaussianNoise):
        found = type(physics.noise_model).__name__
        raise ValueError(f"the noise of the physics must be Gaussian, got {found}")
    if not isinstance(denoiser, ScoreDenoiser):
        raise ValueError(f"denoiser must be a ScoreDenoiser, got {type(denoiser).__name__}")
