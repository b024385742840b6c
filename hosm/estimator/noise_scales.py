r"""Which noise scales a fit in closed form chooses from: small ones where a table is thin.

Noise of scale sigma adds sigma^2 to the variance of a table in every direction, so that second
derivatives of the noisy law (Meng, Song, Li and Ermon, "Estimating High Order Gradients of the
Data Distribution by Denoising", NeurIPS 2021) are those of the clean one times 1 / (1 + r^2) where
the table is Gaussian, r being sigma over the standard deviation of the direction. Columns that
determine each other but for a little have a direction in which it is far below that of any column;
there, a sigma that is small beside the columns' standard deviations may yet be a large one.
"""

from __future__ import annotations

from torch import Tensor
from torch.linalg import eigvalsh

__all__ = ["SCALES", "scales_to_try", "thinnest"]

SCALES = (0.01, 0.02, 0.05, 0.1, 0.2)  # of any table, in standard deviations
FINER = (0.005, 0.002, 0.001)  # of thin ones
LEAST = FINER[-1]  # variances of mixtures are not below its square
SMALL = 0.1  # times the least standard deviation of a direction: biases derivatives by 1 %


def thinnest(x: Tensor) -> float:
    """Return the least standard deviation of points x, shape (n, D), over all directions."""
    mean = x.mean(0)
    covariance = x.mT @ x / len(x) - mean.unsqueeze(1) * mean
    return float(eigvalsh(covariance)[0].clamp_min(0).sqrt())


def scales_to_try(x: Tensor) -> tuple[float, ...]:
    """Return noise scales for standardised points x, shape (n, D), float64, ascending.

    They are `SCALES`, and so many finer ones that the least is small beside the points' thinnest
    direction. Points that have none of a width above `LEAST` fill no volume: derivatives across
    it would be those of the noise, whatever its scale, and no finer ones are tried.
    """
    width = thinnest(x)
    finer: list[float] = []
    if width >= LEAST:
        for scale in FINER:
            if min([*finer, SCALES[0]]) <= SMALL * width:
                break
            finer.insert(0, scale)
    return (*finer, *SCALES)
