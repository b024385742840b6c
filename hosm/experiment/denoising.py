"""Figures 3 and 4: uncertainty of a denoiser, and whether it is calibrated.

For clean test images x and noisy ones x_noisy = x + sigma z, the posterior has mean
m = x_noisy + sigma^2 s1 and covariance C = sigma^4 s2 + sigma^2 I (Meng, Song, Li and Ermon,
NeurIPS 2021, equations 5 and 13). Beside the predicted variance diag C stands the measured
squared error (x - m)^2, averaged over several noise draws.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hosm import uncertainty
from hosm.experiment.params import UncertaintyParams
from hosm.scores import FixedScale

__all__ = ["calibration", "one_of_each", "pictures"]

BINS = 10


def _isotropic_nll(squared_error: Tensor, variance: float) -> float:
    """Return the mean negative log-likelihood under N(m, variance I)."""
    dimension = squared_error.shape[1]
    quadratic = float(squared_error.sum(1).mean()) / variance
    return 0.5 * (quadratic + dimension * math.log(2 * math.pi * variance))


def _diagonal_nll(squared_error: Tensor, variance: Tensor) -> float:
    """Return the mean negative log-likelihood under N(m, diag(variance))."""
    terms = squared_error / variance + torch.log(2 * math.pi * variance)
    return 0.5 * float(terms.sum(1).mean())


def _edges(images: Tensor, shape: list[int]) -> Tensor:
    """Return the pixels next to a change of ink: where the Sobel gradient is large."""
    kernel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    kernels = torch.stack([kernel, kernel.T])[:, None]
    maps = images.view(-1, 1, *shape[1:])
    gradient = torch.nn.functional.conv2d(maps, kernels, padding=1).norm(dim=1)
    return (gradient > 1).view(len(images) * shape[0], -1).view_as(images)


def calibration(
    model: FixedScale,
    validation: Tensor,
    test: Tensor,
    shape: list[int],
    params: UncertaintyParams,
) -> tuple[dict[str, float], pd.DataFrame]:
    """Return how well the predicted variance tells the measured squared error.

    Args:
        model: a trained model at one noise scale.
        validation: clean images that fit the isotropic baseline's variance, shape (m, D).
        test: clean images, shape (n, D).
        shape: channels, height and width of an image.
        params: noise draws and seed.

    Returns:
        Numbers, and a table of predicted against measured variance in bins of the prediction.
    """
    generator, sigma = torch.Generator().manual_seed(params.seed), model.sigma
    held_out = validation + sigma * torch.randn(validation.shape, generator=generator)
    fitted = uncertainty.posterior(model, held_out, sigma)
    isotropic = float((validation - fitted.mean).square().mean())
    errors, variances, likelihoods = [], [], []
    for _ in range(params.draws):
        noisy = test + sigma * torch.randn(test.shape, generator=generator)
        posterior = uncertainty.posterior(model, noisy, sigma)
        errors.append((test - posterior.mean).square())
        variances.append(posterior.variance)
        likelihoods.append(-float(posterior.log_prob(test).mean()))
    error, variance = torch.stack(errors), torch.stack(variances)
    pair = torch.stack([variance.mean(0).flatten(), error.mean(0).flatten()])
    edges = _edges(test, shape)
    numbers = {
        "error_per_pixel": float(error.mean()),
        "predicted_variance_per_pixel": float(variance.mean()),
        "correlation": float(torch.corrcoef(pair)[0, 1]),
        "nll_low_rank": sum(likelihoods) / len(likelihoods),
        "nll_diagonal": _diagonal_nll(error.flatten(0, 1), variance.flatten(0, 1)),
        "nll_isotropic": _isotropic_nll(error.flatten(0, 1), isotropic),
        "edge_variance": float(variance.mean(0)[edges].mean()),
        "background_variance": float(variance.mean(0)[~edges].mean()),
    }
    bins = uncertainty.reliability(variance.flatten(), error.flatten(), BINS)
    return numbers, pd.DataFrame({name: part.numpy() for name, part in bins._asdict().items()})


def pictures(model: FixedScale, test: Tensor, params: UncertaintyParams) -> dict[str, Any]:
    """Return arrays for the figures: images, noisy ones, means, variances, errors, directions.

    Args:
        model: a trained model at one noise scale.
        test: clean images to show, shape (n, D).
        params: how many directions and noise draws, and the seed.
    """
    generator, sigma = torch.Generator().manual_seed(params.seed + 1), model.sigma
    noisy = test + sigma * torch.randn(test.shape, generator=generator)
    posterior = uncertainty.posterior(model, noisy, sigma)
    values, directions = uncertainty.leading_directions(posterior.covariance, params.directions)
    squared = torch.zeros_like(test)
    for _ in range(params.draws):
        other = test + sigma * torch.randn(test.shape, generator=generator)
        squared += (test - uncertainty.posterior(model, other, sigma).mean).square()
    arrays = {
        "clean": test,
        "noisy": noisy,
        "mean": posterior.mean,
        "variance": posterior.variance,
        "squared_error": squared / params.draws,
        "eigenvalues": values,
        "directions": directions,
    }
    return {name: value.detach().numpy() for name, value in arrays.items()}


def one_of_each(labels: np.ndarray, count: int) -> list[int]:
    """Return indices of the first image of each class in turn, then of the second, and so on."""
    order = np.argsort(labels, kind="stable")
    nth = np.concatenate([np.arange(size) for size in np.bincount(labels) if size])
    return [int(i) for i in order[np.argsort(nth, kind="stable")][:count]]
