"""Figure 2: points in the plane, denoised, against the exact posterior of a finite data set.

Clean points x are those of a finite set, x_noisy = x + sigma z with sigma = .15 (Meng, Song, Li
and Ermon, "Estimating High Order Gradients of the Data Distribution by Denoising", NeurIPS 2021,
section 5.1, figure 2, appendix C.1). A model of s1 and s2 gives the posterior N(m, C) of each
noisy point; the exact one is known, for x given x_noisy is one of the set's points, with weights
softmax(-|x_noisy - x_i|^2 / 2 sigma^2) (`hosm.distributions`). Where the posterior is no Gaussian,
even N of the exact moments has a coverage of its own, which stands beside the learned one.
"""

import math
import time
from typing import Any

import torch
from torch import Tensor

from hosm.distributions import FiniteData
from hosm.experiment.data.datasets import DataSet, prepare
from hosm.experiment.data.planar import PLANAR
from hosm.experiment.settings import DenoisingParams
from hosm.experiment.shared.rows import Row
from hosm.experiment.train.training_task import TrainingTask, train_here
from hosm.operators import DiagonalPlusLowRank
from hosm.scores import FixedScale
from hosm.uncertainty import Posterior, coverage, posterior

__all__ = ["LEVELS", "exact_posterior", "headline", "study"]

LEVELS = (0.5, 0.8, 0.95)
SHOWN = 2000  # points in the pictures, at most
CHUNK = 1000  # noisy points whose exact weights are held at once


def exact_posterior(data: FiniteData, x_noisy: Tensor, sigma: float) -> tuple[Posterior, Tensor]:
    """Return N(m, C) of the exact moments, and a draw of the exact posterior, shape (n, D).

    Args:
        data: the clean points, in float64.
        x_noisy: noisy points, shape (n, D), in float64.
        sigma: standard deviation of the noise.
    """
    generator, draws = torch.Generator().manual_seed(0), []
    for part in x_noisy.split(CHUNK):
        chosen = torch.multinomial(data.posterior_weights(part, sigma), 1, generator=generator)
        draws.append(data.points[chosen.squeeze(1)])
    values, vectors = torch.linalg.eigh(data.posterior_covariance(x_noisy, sigma))
    least = values[:, :1].clamp_min(1e-12 * sigma**2)
    factor = vectors * (values - least).clamp_min(0).sqrt().unsqueeze(1)
    C = DiagonalPlusLowRank(least.expand(values.shape), factor)
    law = Posterior(data.posterior_mean(x_noisy, sigma), C, values.new_zeros(len(values)))
    return law, torch.cat(draws)


def _trained(data: DataSet, params: DenoisingParams) -> tuple[FixedScale, float]:
    """Return the trained model, and the seconds that its training took."""
    begun = time.perf_counter()
    task = TrainingTask.of(data, params.spec, data.card["shape"], data.card["std"])
    model: Any = task.build()
    model.load_state_dict(train_here(task).weights)
    return model.eval().at(params.sigma), time.perf_counter() - begun


def _relative_errors(law: Posterior, exact: Posterior, sigma: float) -> dict[str, Tensor]:
    """Return |m - m*| / sigma and |C - C*| / |C*| (Frobenius) at each noisy point, shape (n,)."""
    truth = exact.covariance.to_dense()
    error = law.covariance.to_dense().double() - truth
    ratio = torch.linalg.matrix_norm(error) / torch.linalg.matrix_norm(truth)
    return {"mean_error": (law.mean - exact.mean).norm(dim=1) / sigma, "covariance_error": ratio}


def _row(name: str, law: Posterior, exact: Posterior, x: Tensor, sigma: float) -> Row:
    """Return what is known of one data set: errors with standard errors, coverage, clipping."""
    row: Row = {"dataset": name, "sigma": sigma, "points": len(x)}
    for measure, values in _relative_errors(law, exact, sigma).items():
        row[measure] = float(values.mean())
        row[f"{measure}_standard_error"] = float(values.std() / math.sqrt(len(values)))
    found = coverage(law, x, LEVELS), coverage(exact, x.double(), LEVELS)
    for level, learned, ideal in zip(LEVELS, *map(Tensor.tolist, found), strict=True):
        row |= {f"coverage_{level:g}": learned, f"exact_coverage_{level:g}": ideal}
    return {**row, "clipped_share": float(law.clipped_share.mean())}


def study(name: str, params: DenoisingParams) -> tuple[Row, dict[str, Tensor]]:
    """Train a model on one set of points and judge its posterior at noisy test points.

    Args:
        name: of the points, one of `planar.PLANAR`.
        params: sizes, the model and seeds.

    Returns:
        The row of the table, and points for the picture by the names of its columns, (n, 2).

    Raises:
        ValueError: the points are not of the plane.
    """
    if name not in PLANAR:
        raise ValueError(f"denoising.datasets must be among {', '.join(PLANAR)}, got {name!r}")
    test_points, sigma = params.test_points, params.sigma
    data = prepare(
        name,
        train_points=params.train_points,
        validation_points=test_points,
        test_points=test_points,
        seed=params.seed,
    )
    model, seconds = _trained(data, params)
    generator, x = torch.Generator().manual_seed(params.seed + 1), torch.as_tensor(data.test)
    x_noisy = x + sigma * torch.randn(x.shape, generator=generator)
    law = posterior(model, x_noisy, sigma)
    finite = FiniteData(torch.as_tensor(data.train).double())
    exact, draw = exact_posterior(finite, x_noisy.double(), sigma)
    arrays = {
        "clean x": x,
        "noisy x~": x_noisy,
        "mean m": law.mean,
        "draws of N(m, C)": law.sample(1, generator)[0],
        "exact posterior": draw.float(),
    }
    row = {**_row(name, law, exact, x, sigma), "seconds": seconds}
    return row, {key: points[:SHOWN] for key, points in arrays.items()}


def headline(rows: list[Row]) -> dict[str, float]:
    """Return the errors of mean and covariance of each data set."""
    measures = ("mean_error", "covariance_error")
    return {f"{row['dataset']}.{name}": row[name] for row in rows for name in measures}
