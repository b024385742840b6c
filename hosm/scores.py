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
  With `psd` the diagonal passes through softplus and S is a covariance by construction.
"""

import math
from typing import Literal

from torch import Tensor, nn

from hosm.autodiff import autodiff_hessian, hutchinson_diagonal
from hosm.noise import check_sigma
from hosm.operators import DiagonalPlusLowRank

__all__ = [
    "ScoreModel",
    "autodiff_hessian",
    "hutchinson_diagonal",
    "outputs_per_coordinate",
]

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
        sigma: noise scale that the model is trained at.
        rank: columns r of beta; 0 for a diagonal model.
        parametrisation: `score` or `denoiser`.
        psd: make s2 + I / sigma^2 positive semi-definite; needs `denoiser`.
        data_std: standard deviation of the clean data, for `denoiser`.

    Raises:
        ValueError: sigma, rank or data_std out of range, or options that exclude each other.
    """

    def __init__(
        self,
        trunk: nn.Module,
        second: nn.Module | None = None,
        *,
        sigma: float,
        rank: int = 0,
        parametrisation: Parametrisation = "score",
        psd: bool = False,
        data_std: float = 1.0,
    ) -> None:
        super().__init__()
        self.dimension = int(trunk.dimension)  # type: ignore[arg-type]
        if not 0 <= rank <= self.dimension:
            raise ValueError(f"rank must lie in 0..{self.dimension}, got {rank}")
        if parametrisation not in ("score", "denoiser"):
            raise ValueError(f"parametrisation must be score or denoiser, got {parametrisation!r}")
        if psd and parametrisation != "denoiser":
            raise ValueError("psd=True needs parametrisation='denoiser', got 'score'")
        if not (math.isfinite(data_std) and data_std > 0):
            raise ValueError(f"data_std must be a finite number above 0, got {data_std}")
        self.trunk, self.second = trunk, second
        self.sigma, self.rank, self.psd = check_sigma(sigma), rank, psd
        self.parametrisation, self.data_std = parametrisation, data_std

    def _check(self, x_noisy: Tensor, sigma: float | None) -> None:
        if x_noisy.ndim != 2 or x_noisy.shape[1] != self.dimension:
            expected = f"(n, {self.dimension})"
            raise ValueError(f"x_noisy must have shape {expected}, got {tuple(x_noisy.shape)}")
        if sigma is not None and not math.isclose(sigma, self.sigma, rel_tol=1e-6):
            raise ValueError(f"this model was trained at sigma {self.sigma}, got {sigma}")

    def _scaled_input(self, x_noisy: Tensor) -> Tensor:
        if self.parametrisation == "score":
            return x_noisy
        return x_noisy / math.hypot(self.sigma, self.data_std)

    def _first(self, x_noisy: Tensor, output: Tensor) -> Tensor:
        if self.parametrisation == "score":
            return output
        total = self.sigma**2 + self.data_std**2
        return output * (self.data_std / (self.sigma * math.sqrt(total))) - x_noisy / total

    def _second(self, output: Tensor) -> DiagonalPlusLowRank:
        alpha, beta = output[:, 0], output[:, 1:].transpose(1, 2)
        if self.parametrisation == "denoiser":
            prior = self.data_std**2 / (self.sigma**2 + self.data_std**2)
            if self.psd:
                relative = nn.functional.softplus(alpha + math.log(math.expm1(prior)))
            else:
                relative = alpha + prior
            alpha = (relative - 1) / self.sigma**2
            beta = beta / (self.sigma * math.sqrt(self.dimension))
        return DiagonalPlusLowRank(alpha, beta)

    def score(self, x_noisy: Tensor, sigma: float | None = None) -> Tensor:
        """Return s1 alone.

        Args:
            x_noisy: noisy points, shape (n, D).
            sigma: noise scale; must be the model's own when given.

        Raises:
            ValueError: another shape, or another sigma.
        """
        self._check(x_noisy, sigma)
        return self._first(x_noisy, self.trunk(self._scaled_input(x_noisy))[:, 0])

    def forward(
        self, x_noisy: Tensor, sigma: float | None = None
    ) -> tuple[Tensor, DiagonalPlusLowRank | None]:
        """Return s1, shape (n, D), and s2 as an operator (None for a first-order model).

        Args:
            x_noisy: noisy points, shape (n, D).
            sigma: noise scale; must be the model's own when given.

        Raises:
            ValueError: another shape, or another sigma.
        """
        self._check(x_noisy, sigma)
        x_scaled = self._scaled_input(x_noisy)
        trunk = self.trunk(x_scaled)
        if self.second is not None:
            head = self.second(x_scaled)
        elif trunk.shape[1] > 1:
            head = trunk[:, 1:]
        else:
            return self._first(x_noisy, trunk[:, 0]), None
        return self._first(x_noisy, trunk[:, 0]), self._second(head)
