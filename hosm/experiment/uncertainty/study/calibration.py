"""Figure 3: variance maps of a denoiser, and whether they are calibrated.

For clean test images x and noisy ones x_noisy = x + sigma z, the posterior has mean
m = x_noisy + sigma^2 s1 and covariance C = sigma^4 s2 + sigma^2 I (Meng, Song, Li and Ermon,
"Estimating High Order Gradients of the Data Distribution by Denoising", NeurIPS 2021, section
5.2). Beside the predicted variance diag C stands the measured squared error (x - m)^2, averaged
over noise draws. Two baselines have no s2: one variance for all pixels, fitted on validation
images, and the diagonal of C alone. A post-hoc scale of C, fitted there too, is reported apart.
"""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hosm import uncertainty
from hosm.experiment.data.datasets import DataSet
from hosm.experiment.settings import UncertaintyParams
from hosm.experiment.shared.rows import Row
from hosm.scores import FixedScale
from hosm.uncertainty import Posterior, calibration

__all__ = [
    "LEVELS",
    "edges",
    "fit_baselines",
    "headline",
    "judge",
    "one_of_each",
    "study",
    "variance_maps",
]

BINS = 10
LEVELS = (0.5, 0.8, 0.95)
BLOCK = 250  # images whose covariances are held at once


class _Judged:
    """Sums over noisy images of what the posteriors of one model say and what is true."""

    def __init__(self, like: Tensor, isotropic: float, scale: float) -> None:
        self.isotropic, self.scale = isotropic, scale
        self.variance, self.error = torch.zeros_like(like), torch.zeros_like(like)
        self.pairs: list[Tensor] = []
        self.totals: dict[str, list[float]] = {}

    def add(self, name: str, value: Tensor) -> None:
        """Add what each noisy image has of a measure, shape (n,)."""
        self.totals.setdefault(name, []).append(float(value.mean()))

    def maps(self, law: Posterior, x: Tensor, start: int) -> None:
        """Add variances and errors of the images x from the place `start` on, n or fewer."""
        part = slice(start, start + len(x))
        self.variance[part] += law.variance[: len(x)]
        self.error[part] += (x - law.mean[: len(x)]).square()

    def likelihoods(self, law: Posterior, x: Tensor) -> None:
        """Add negative log-likelihoods in nats, coverage, and the pairs behind reliability."""
        error, variance, scaled = (x - law.mean).square(), law.variance, law.scaled(self.scale)
        one = torch.full_like(variance, self.isotropic)
        for name, values in (("diagonal", variance), ("isotropic", one)):
            terms = error / values + torch.log(2 * math.pi * values)
            self.add(f"nll_{name}", terms.sum(1) / 2)
        self.add("nll_low_rank", -law.log_prob(x))
        self.add("nll_scaled", -scaled.log_prob(x))
        self.add("clipped_share", law.clipped_share)
        self.add("squared_distance_per_pixel", law.squared_distance(x) / x.shape[1])
        for level, found in zip(
            LEVELS, calibration.interval_coverage(scaled, x, LEVELS), strict=True
        ):
            self.add(f"coverage_{level:g}", found)
        self.pairs.append(torch.stack([variance, error], 1))

    def by_image(self, count: int) -> tuple[Tensor, Tensor]:
        """Return variances and errors of all draws of each image, both (count, draws D)."""
        draws = torch.cat(self.pairs).unflatten(0, (-1, count))  # (draws, count, 2, D)
        variance, error = draws.permute(2, 1, 0, 3).flatten(2)
        return variance, error


def _noisy(
    clean: Tensor, sigma: float, generator: torch.Generator
) -> Iterator[tuple[int, Tensor]]:
    """Yield a noise draw of the images block by block, with the place of each block."""
    for start in range(0, len(clean), BLOCK):
        block = clean[start : start + BLOCK]
        yield start, block + sigma * torch.randn(block.shape, generator=generator)


def fit_baselines(
    model: FixedScale, validation: Tensor, generator: torch.Generator
) -> tuple[float, float]:
    """Return the variance of the isotropic baseline and the scale of C, from held-out images.

    Args:
        model: a trained model at one noise scale.
        validation: clean images, shape (n, D).
        generator: source of the noise.
    """
    errors, scales, sizes = [], [], []
    for start, noisy in _noisy(validation, model.sigma, generator):
        clean = validation[start : start + len(noisy)]
        law = uncertainty.posterior(model, noisy, model.sigma)
        errors.append(float((clean - law.mean).square().mean()))
        scales.append(calibration.fitted_scale(law, clean))
        sizes.append(len(noisy))
    return float(np.average(errors, weights=sizes)), float(np.average(scales, weights=sizes))


def edges(images: Tensor, shape: list[int]) -> Tensor:
    """Return the pixels next to a change of ink: where the Sobel gradient is large.

    Args:
        images: clean images, shape (n, D).
        shape: channels, height and width of an image.
    """
    kernel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    kernels = torch.stack([kernel, kernel.T])[:, None]
    maps = images.view(-1, 1, *shape[1:])
    gradient = torch.nn.functional.conv2d(maps, kernels, padding=1).norm(dim=1)
    return (gradient > 1).view_as(images)


def _correlation(first: Tensor, second: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1])


def _row(judged: _Judged, test: Tensor, shape: list[int], draws: int) -> Row:
    """Return the numbers of one model at one noise scale."""
    variance, error = judged.variance / draws, judged.error / draws
    near = edges(test, shape)
    return {
        "draws": draws,
        "mapped": len(test),
        "error_per_pixel": float(error.mean()),
        "predicted_variance_per_pixel": float(variance.mean()),
        "correlation": _correlation(variance, error),
        "correlation_of_roots": _correlation(variance.sqrt(), error.sqrt()),
        "edge_variance": float(variance[near].mean()),
        "background_variance": float(variance[~near].mean()),
        "scale": judged.scale,
        "isotropic_variance": judged.isotropic,
        "least_variance": min(float(pair[:, 0].min()) for pair in judged.pairs),
        **{name: float(np.mean(values)) for name, values in judged.totals.items()},
    }


@torch.no_grad()
def judge(
    model: FixedScale,
    validation: Tensor,
    test: Tensor,
    shape: list[int],
    draws: int,
    params: UncertaintyParams,
) -> tuple[Row, pd.DataFrame]:
    """Return how well the predicted covariance tells the measured error, at one noise scale.

    Args:
        model: a trained model at one noise scale.
        validation: clean images that fit the scale and the isotropic variance, shape (m, D).
        test: clean images, shape (n, D); likelihoods and reliability are of all of them.
        shape: channels, height and width of an image.
        draws: noise draws of the measured error, of the first few images.
        params: how many images those are, noise draws of all images, and the seed.

    Returns:
        Numbers, and a table of predicted against measured variance in bins of the prediction.
    """
    generator = torch.Generator().manual_seed(params.seed)
    few = test[: params.mapped]
    judged = _Judged(few, *fit_baselines(model, validation, generator))
    for draw in range(draws):
        images = test if draw < params.likelihood_draws else few
        for start, noisy in _noisy(images, model.sigma, generator):
            law = uncertainty.posterior(model, noisy, model.sigma)
            judged.maps(law, few[start : start + len(noisy)], start)
            if draw < params.likelihood_draws:
                judged.likelihoods(law, test[start : start + len(noisy)])
    row = {**_row(judged, few, shape, draws), "images": len(test)}
    bins = calibration.reliability(*judged.by_image(len(test)), BINS)
    frame = pd.DataFrame({name: part.numpy() for name, part in bins._asdict().items()})
    return row, frame.assign(scale=judged.scale, bin=range(1, BINS + 1))


def study(
    models: dict[tuple[str, float], FixedScale],
    validation: Tensor,
    test: Tensor,
    shape: list[int],
    params: UncertaintyParams,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Judge several models; those of a range of scales by many noise draws.

    Args:
        models: by their kind (range, one scale, unconstrained) and noise scale.
        validation: clean images, shape (m, D).
        test: clean images, shape (n, D); the first few are used.
        shape: channels, height and width of an image.
        params: sizes and the seed.

    Returns:
        A row of numbers for each model, and their tables of reliability.
    """
    rows, tables = [], []
    for (kind, sigma), model in models.items():
        draws = params.draws if kind == "range" else params.likelihood_draws
        row, table = judge(model, validation, test[: params.images], shape, draws, params)
        rows.append({"model": kind, "sigma": sigma, **row})
        tables.append(table.assign(model=kind, sigma=sigma))
        found = f"NLL {row['nll_low_rank']:.0f}, diagonal {row['nll_diagonal']:.0f}"
        print(f"{kind}, sigma {sigma:g}: {found}, scale {row['scale']:.2f}", flush=True)
    return pd.DataFrame(rows), pd.concat(tables, ignore_index=True)


@torch.no_grad()
def variance_maps(model: FixedScale, test: Tensor, params: UncertaintyParams) -> dict[str, Tensor]:
    """Return the images of figure 3 at one noise scale, each of shape (n, D).

    Args:
        model: a trained model at one noise scale.
        test: clean images to show, shape (n, D).
        params: how many noise draws, and the seed.

    Returns:
        `noisy`, `mean` and `variance` of one draw; `expected` variance and `squared_error`,
        averages over the draws.
    """
    generator, sigma = torch.Generator().manual_seed(params.seed + 1), model.sigma
    expected, squared = torch.zeros_like(test), torch.zeros_like(test)
    for _ in range(params.draws):
        noisy = test + sigma * torch.randn(test.shape, generator=generator)
        law = uncertainty.posterior(model, noisy, sigma)
        expected += law.variance / params.draws
        squared += (test - law.mean).square() / params.draws
    shown = {"noisy": noisy, "mean": law.mean, "variance": law.variance}
    return {**shown, "expected": expected, "squared_error": squared}


def one_of_each(data: DataSet, count: int) -> list[int]:
    """Return indices of test images: the first of each class in turn, then the second, and so on.

    Args:
        data: images, with or without classes.
        count: how many, at most.
    """
    if data.labels is None:
        return list(range(min(count, len(data.test))))
    labels = data.labels["test"]
    order = np.argsort(labels, kind="stable")
    nth = np.concatenate([np.arange(size) for size in np.bincount(labels) if size])
    return [int(i) for i in order[np.argsort(nth, kind="stable")][:count]]


def headline(rows: pd.DataFrame) -> dict[str, float]:
    """Return errors, correlation and likelihoods of the model of the range, by noise scale."""
    names = ("error_per_pixel", "correlation", "scale", "nll_low_rank", "nll_diagonal")
    whole = rows[rows["model"] == "range"]
    return {
        f"{row['sigma']:g}.{name}": row[name] for row in whole.to_dict("records") for name in names
    }
