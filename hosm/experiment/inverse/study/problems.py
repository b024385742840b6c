r"""Four linear measurements of curves whose posterior is known.

The law is a mixture of Gaussians in 50 dimensions: a mean curve of a few waves for each term, and
around it random curves of a smoothness of its own. With y = A x + s e the law of x given y is a
mixture of as many Gaussians (see for example Bishop, "Pattern Recognition and Machine Learning",
2006, section 2.3.3).
"""

import math

import torch
from torch import Tensor

from hosm.distributions import GaussianMixture
from hosm.inverse import LinearOperator, blur, inpainting, projections, super_resolution

__all__ = ["DIMENSION", "curves", "exact_posterior", "tasks"]

DIMENSION = 50
LENGTHS = (2.0, 3.0, 4.0, 6.0, 8.0)  # of correlation, in coordinates, of each term
SPREAD, ROUGHNESS = 0.5, 0.05  # standard deviations of the smooth and of the independent part


def curves(seed: int = 0) -> GaussianMixture:
    """Return the law of the curves.

    Args:
        seed: of the terms' means.
    """
    generator = torch.Generator().manual_seed(seed)
    place = torch.arange(DIMENSION, dtype=torch.float64)
    gap = (place.unsqueeze(1) - place).square()
    covariances = torch.stack([SPREAD**2 * torch.exp(-gap / 2 / each**2) for each in LENGTHS])
    covariances = covariances + ROUGHNESS**2 * torch.eye(DIMENSION, dtype=torch.float64)
    angles = [2 * math.pi * k * place / DIMENSION + p for k in (1, 2, 3) for p in (0, math.pi / 2)]
    size = (len(LENGTHS), len(angles))
    means = torch.randn(size, generator=generator, dtype=torch.float64) @ torch.stack(angles).sin()
    weights = torch.full((len(LENGTHS),), 1 / len(LENGTHS), dtype=torch.float64)
    return GaussianMixture(weights, means / 2, covariances)


def tasks(seed: int = 0) -> dict[str, LinearOperator]:
    """Return the measurements by their names.

    Args:
        seed: of the known coordinates and of the projections.
    """
    generator = torch.Generator().manual_seed(seed)
    known = torch.zeros(DIMENSION, dtype=torch.bool)
    known[torch.randperm(DIMENSION, generator=generator)[: DIMENSION // 2]] = True
    reach = torch.arange(-6, 7, dtype=torch.float64)
    kernel = torch.exp(-reach.square() / 8)
    matrix = torch.randn(10, DIMENSION, generator=generator, dtype=torch.float64)
    return {
        "inpainting": inpainting(known),
        "super-resolution": super_resolution((DIMENSION,), 5),
        "blur": blur((DIMENSION,), kernel / kernel.sum()),
        "random projections": projections(matrix / DIMENSION**0.5),
    }


def exact_posterior(
    law: GaussianMixture, operator: LinearOperator, y: Tensor, noise: float
) -> GaussianMixture:
    """Return the law of x given y.

    Args:
        law: of x.
        operator: A.
        y: one measurement, shape (m,), float64.
        noise: s.
    """
    A = operator.forward(torch.eye(operator.dimension, dtype=torch.float64)).mT
    V = A @ law.covariances @ A.mT + noise**2 * torch.eye(len(A), dtype=torch.float64)
    r = y - law.means @ A.mT
    seen = torch.distributions.MultivariateNormal(torch.zeros_like(r), V).log_prob(r)
    gain = torch.linalg.solve(V, A @ law.covariances).mT
    means = law.means + (gain @ r.unsqueeze(-1)).squeeze(-1)
    rest = law.covariances - gain @ A @ law.covariances
    weights = (law.weights.log() + seen).softmax(0)
    return GaussianMixture(weights, means, (rest + rest.mT) / 2)
