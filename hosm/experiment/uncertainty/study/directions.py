"""Figure 4: the directions in which a denoised image is uncertain, and how to find them.

The leading eigenvectors of C = Cov[x | x_noisy] are the directions along which the clean image
may differ from its denoised version (Meng, Song, Li and Ermon, NeurIPS 2021, section 5.2). Three
ways to k of them, judged by the share of the residual energy |x - m|^2 that their span holds:

- `s2`: the model's own C, one evaluation;
- subspace iteration on C = sigma^2 dm/dx_noisy (Manor and Michaeli, "On the Posterior Distribution
  in Denoising: Application to Uncertainty Quantification", ICLR 2024, algorithm 1): V <- qr(C V)
  a number of times, 50 in their code, by forward-mode automatic differentiation, or, as there, by
  differences of the denoiser; from one and the same s1, with k products in each step, by a network
  without the outputs of s2: that s1 shares a trunk with it must not count against the iteration;
- `PCA`: the principal components of the residuals of validation images, the same for all images.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from hosm.experiment.run.machine_load import UNKNOWN
from hosm.experiment.settings import UncertaintyParams
from hosm.experiment.shared.stopwatch import Times, summary, timed_in_turn
from hosm.scores import FixedScale
from hosm.tweedie import posterior_mean
from hosm.uncertainty import leading_directions, posterior

__all__ = ["COUNT", "compare", "explained", "pictures", "subspace_iteration"]

COUNT = 10  # directions that are compared
STEP = 0.1  # length of a difference of the denoiser, over a direction of unit length
TIMED_IMAGES = 4
ITERATED, PCA = "subspace iteration", "PCA of residuals"
EIGENVECTORS = (*range(1, 20), 30, 80, 200)  # of figure 4

Products = Callable[[Tensor], Tensor]


def subspace_iteration(
    product: Products, like: Tensor, k: int, iterations: int, generator: torch.Generator
) -> Tensor:
    """Return an orthonormal basis near the k leading eigenvectors, shape (n, D, k).

    The columns are in the order of the norms of C v, the estimates of the eigenvalues.

    Args:
        product: V -> C V, both (n, D, k).
        like: points, shape (n, D).
        k: number of directions.
        iterations: products with all k.
        generator: source of the first, random directions.
    """
    V = torch.randn(*like.shape, k, generator=generator, dtype=like.dtype)
    V = torch.linalg.qr(V)[0]
    for _ in range(iterations):
        image = product(V)
        V = torch.linalg.qr(image)[0]
    order = image.norm(dim=1).argsort(1, descending=True)
    return V.take_along_dim(order.unsqueeze(1), 2)


def differences(model: FixedScale, x_noisy: Tensor) -> Products:
    """Return V -> C V by differences of the denoiser, an evaluation for each column."""
    x_noisy, sigma = x_noisy.detach(), model.sigma
    mean = posterior_mean(x_noisy, model.score(x_noisy), sigma)

    def product(V: Tensor) -> Tensor:
        count = V.shape[-1]
        moved = (x_noisy.unsqueeze(-1) + STEP * V).movedim(-1, 0).flatten(0, 1)
        means = posterior_mean(moved, model.score(moved), sigma).unflatten(0, (count, -1))
        return sigma**2 / STEP * (means - mean).movedim(0, -1)

    return product


def autodiff(model: FixedScale, x_noisy: Tensor) -> Products:
    """Return V -> C V by forward-mode automatic differentiation, a pass for each column."""
    sigma = model.sigma

    def product(V: Tensor) -> Tensor:
        columns = [torch.func.jvp(model.score, (x_noisy,), (v,))[1] for v in V.unbind(-1)]
        return sigma**4 * torch.stack(columns, -1) + sigma**2 * V

    return product


def explained(directions: Tensor, residual: Tensor) -> Tensor:
    """Return the share of the residual energy within the span of the first k, shape (k,).

    Args:
        directions: orthonormal, shape (n, D, k), or (D, k) for all points.
        residual: x - m, shape (n, D).
    """
    inner = (directions.mT @ residual.unsqueeze(-1)).squeeze(-1).square()
    return inner.sum(0).cumsum(0) / residual.square().sum()


def _by_model(model: FixedScale, x_noisy: Tensor, k: int) -> Tensor:
    return leading_directions(posterior(model, x_noisy, model.sigma).covariance, k)[1]


def _iterated(make: Any, model: FixedScale, x_noisy: Tensor, k: int, iterations: int) -> Tensor:  # noqa: ANN401
    generator = torch.Generator().manual_seed(0)
    return subspace_iteration(make(model, x_noisy), x_noisy, k, iterations, generator)


def _principal(residual: Tensor, k: int) -> Tensor:
    """Return the k principal components of residuals, shape (D, k)."""
    return torch.linalg.svd(residual, full_matrices=False)[2][:k].T


@torch.no_grad()
def compare(
    model: FixedScale, validation: Tensor, test: Tensor, params: UncertaintyParams
) -> pd.DataFrame:
    """Return a row for each way to find the directions and each number k of them.

    Times are of the fewest iterations, and scaled for more.

    Args:
        model: a trained model at one noise scale.
        validation: clean images whose residuals have the principal components, shape (m, D).
        test: clean images, shape (n, D).
        params: images, iterations, repeats of the timings, and the seed.
    """
    generator, sigma = torch.Generator().manual_seed(params.seed + 2), model.sigma
    residuals = []
    for clean in (validation, test[: params.direction_images]):
        noisy = clean + sigma * torch.randn(clean.shape, generator=generator)
        residuals.append(clean - posterior_mean(noisy, model.score(noisy), sigma))
    ways = _ways(model, min(COUNT, test.shape[1]), params.iterations)
    few, least = noisy[:TIMED_IMAGES], min(params.iterations)
    works = {name: partial(way, few) for name, (way, steps) in ways.items() if steps <= least}
    seconds = timed_in_turn(works, params.repeats, torch.device("cpu"))
    ways[PCA] = lambda x: _principal(residuals[0], min(COUNT, test.shape[1])), 0
    rows = []
    for name, (way, steps) in ways.items():
        shares = explained(way(noisy), residuals[1]).tolist()
        timed = name.replace(f"{steps} steps", f"{least} steps")
        factor = steps / least if steps else 1  # the time of longer iterations is scaled
        times = seconds.get(timed, Times([math.nan], [UNKNOWN]))  # PCA is not timed
        times = times._replace(seconds=[factor * each for each in times.seconds])
        cost = {**summary(times), "images": len(few), "timed_steps": min(steps, least)}
        rows += [
            {"method": name, "k": count, "share": share, **cost}
            for count, share in enumerate(shares, 1)
        ]
    return pd.DataFrame(rows).assign(sigma=sigma)


def _ways(
    model: FixedScale, k: int, iterations: tuple[int, ...]
) -> dict[str, tuple[Callable[[Tensor], Tensor], int]]:
    """Return ways from noisy points to k directions by name, with their number of steps."""
    ways: dict[str, tuple[Callable[[Tensor], Tensor], int]]
    ways, alone = {"s2": (partial(_by_model, model, k=k), 0)}, model.first_order()
    tries = [("autodiff", autodiff, steps) for steps in iterations]
    for name, make, steps in (*tries, ("differences", differences, min(iterations))):
        options: dict[str, Any] = {"k": k, "iterations": steps}
        way = partial(_iterated, make, alone, **options)
        ways[f"{ITERATED}, {name}, {steps} steps"] = way, steps
    return ways


@torch.no_grad()
def pictures(model: FixedScale, test: Tensor, seed: int) -> dict[str, Tensor]:
    """Return what figure 4 shows of some images.

    Args:
        model: a trained model at one noise scale.
        test: clean images, shape (n, D).
        seed: of the noise.

    Returns:
        `clean`, `noisy` and `mean`, (n, D); `which` eigenvectors, counted from 1, (k,); their
        `eigenvalues`, (n, k), and `directions`, (n, D, k); `trace` of C, (n,).
    """
    generator = torch.Generator().manual_seed(seed + 3)
    noisy = test + model.sigma * torch.randn(test.shape, generator=generator)
    law = posterior(model, noisy, model.sigma)
    which = torch.tensor([i for i in EIGENVECTORS if i <= test.shape[1]])
    values, vectors = leading_directions(law.covariance, int(which[-1]))
    return {
        "clean": test,
        "noisy": noisy,
        "mean": law.mean,
        "which": which,
        "eigenvalues": values[:, which - 1],
        "directions": vectors[..., which - 1],
        "trace": law.covariance.trace(),
    }
