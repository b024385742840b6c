"""A linear inverse problem with the learned posterior covariance, by products and CG alone.

A picture x is known twice: all of it with much noise, x_noisy = x + sigma z, and some pixels of it
with little, y = A x + s e. What the denoiser says of x given x_noisy is N(m, C), C = diag + low
rank (Meng, Song, Li and Ermon, NeurIPS 2021, theorem 1). Given y as well it becomes

    mean  m + C A^T (A C A^T + s^2 I)^-1 (y - A m),

where C v is a product with an operator, A and A^T are functions, and the inverse is conjugate
gradients: nothing of D x D (`hosm.inverse.measured`; as in Rozet, Andry, Lanusse and Louppe,
"Learning Diffusion Priors from Observations by Expectation Maximization", NeurIPS 2024). Draws of
the same law come from draws (x', y') of N(m, C) and its measurement, corrected in the same way by
y - y' (Papandreou and Yuille, "Gaussian Sampling by Local Perturbations", NeurIPS 2010); their
variance is the map.

The law is a mixture of three textures of 12 x 12 pixels, so that the exact posterior, a mixture of
as many Gaussians, stands beside what was learned from 4,000 pictures. About a minute of one core:

    python examples/inpainting.py --out build/inpainting.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

import hosm
from hosm.distributions import GaussianMixture
from hosm.inverse import inpainting, measured

SIDE, KINDS = 12, ((6.0, 1.5, 0.0), (6.0, 1.5, np.pi / 2), (2.5, 2.5, 0.0))  # lengths, angle
SIGMA, LITTLE, KNOWN = 0.7, 0.05, 0.15  # noise of all pixels, of the known ones, their share


def textures() -> GaussianMixture:
    """Return three Gaussian fields: stripes across, stripes along, and blobs."""
    grid = np.stack(np.meshgrid(*[np.arange(SIDE)] * 2, indexing="ij"), -1).reshape(-1, 2)
    offset = grid[:, None] - grid
    covariances = []
    for along, across, angle in KINDS:
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        scaled = offset @ turn.T / (across, along)
        covariances.append(np.exp(-(scaled**2).sum(-1) / 2) + 1e-3 * np.eye(SIDE**2))
    stack = torch.tensor(np.stack(covariances))
    means = torch.zeros(len(KINDS), SIDE**2, dtype=torch.float64)
    return GaussianMixture(means.new_full((len(KINDS),), 1 / len(KINDS)), means, stack)


def exact(
    law: GaussianMixture, x_noisy: Tensor, y: Tensor, known: Tensor
) -> tuple[Tensor, Tensor]:
    """Return mean and variances of x given both, shape (n, D) each, for a mixture law."""
    size = x_noisy.shape[1]
    rows = torch.eye(size, dtype=torch.float64)[known]
    A = torch.cat([torch.eye(size, dtype=torch.float64), rows])
    noise = torch.cat([torch.full((size,), SIGMA**2), torch.full((len(rows),), LITTLE**2)])
    seen, logs, means, variances = torch.cat([x_noisy, y], 1), [], [], []
    for S in law.covariances:  # all of mean 0
        total = A @ S @ A.T + torch.diag(noise.double())
        gain = torch.linalg.solve(total, A @ S).T
        means.append(seen @ gain.T)
        variances.append((S - gain @ A @ S).diagonal().expand_as(means[-1]))
        both = torch.distributions.MultivariateNormal(torch.zeros(len(A)).double(), total)
        logs.append(both.log_prob(seen))
    weight = torch.softmax(torch.stack(logs), 0).unsqueeze(-1)
    m, v = torch.stack(means), torch.stack(variances)
    mean = (weight * m).sum(0)
    return mean, (weight * (v + (m - mean) ** 2)).sum(0)


def picture(columns: dict[str, np.ndarray], known: np.ndarray) -> Figure:
    """Draw what is in the columns, (n, D) each, a line for each of n pictures."""
    count = len(next(iter(columns.values())))
    figure = Figure(figsize=(1.35 * len(columns), 1.45 * count), layout="constrained")
    axes = figure.subplots(count, len(columns), squeeze=False)
    maps: dict[bool, Any] = {}  # one of pixels, and one of standard deviations
    top = max(values.max() for name, values in columns.items() if name.startswith("std"))
    for line, number in zip(axes, range(count), strict=True):
        for ax, (name, values) in zip(line, columns.items(), strict=True):
            shown, std = values[number].reshape(SIDE, SIDE), name.startswith("std")
            limits = {"vmin": 0, "vmax": top} if std else {"vmin": -2.5, "vmax": 2.5}
            if name == "known pixels":
                shown = np.where(known.reshape(SIDE, SIDE), shown, np.nan)
            maps[std] = ax.imshow(shown, cmap="viridis" if std else "RdBu_r", **limits)
            ax.set(xticks=[], yticks=[])
            if not number:
                ax.set_title(name, fontsize=9)
    figure.colorbar(maps[False], ax=axes, shrink=0.5, label="pixels")
    figure.colorbar(maps[True], ax=axes, shrink=0.5, label="standard deviations")
    return figure


def main() -> None:
    """Learn the law, solve the problem, print errors beside the exact answer's, draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rank", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/inpainting.png"))
    parser.add_argument("--quick", action="store_true", help="seconds; numbers mean nothing")
    options = parser.parse_args()
    if options.quick:
        print("--quick: a run this small shows that the script works; its numbers mean nothing")
        options.steps, options.rank = 60, 8
    generator = torch.Generator().manual_seed(options.seed)
    law = textures()
    train, test = law.sample(4000, generator), law.sample(20 if options.quick else 200, generator)
    estimator = hosm.ScoreEstimator(
        SIGMA,
        method="network",
        rank=options.rank,
        standardise=False,
        max_steps=options.steps,
        random_state=options.seed,
    ).fit(train)
    known = torch.rand(SIDE**2, generator=generator) < KNOWN
    x_noisy = test + SIGMA * torch.randn(test.shape, generator=generator, dtype=torch.float64)
    y = test[:, known]
    y = y + LITTLE * torch.randn(y.shape, generator=generator, dtype=torch.float64)

    denoised = estimator.posterior(x_noisy).law
    given = measured(denoised, inpainting(known), y, LITTLE)
    mean = given.mean()
    draws = torch.stack([given.draw(generator) for _ in range(10 if options.quick else 100)])
    variance = (draws - mean).square().mean(0)
    true_mean, true_variance = exact(law, x_noisy, y, known)
    for name, m, v in (
        ("noisy picture alone, learned", denoised.mean, denoised.variance),
        ("with the known pixels, learned", mean, variance),
        ("with the known pixels, exact", true_mean, true_variance),
    ):
        error = (m - test).square()
        print(f"{name:32} squared error {error.mean():.4f}, predicted {v.mean():.4f}")
    gap = (mean - true_mean).square().mean() / (true_mean - test).square().mean()
    relation = np.corrcoef(variance.flatten().numpy(), true_variance.flatten().numpy())[0, 1]
    print(f"squared distance of the means, over the exact mean's error: {gap:.3f}")
    print(f"correlation of the learned variances with the exact ones: {relation:.3f}")
    columns = {"x": test, "noisy": x_noisy, "known pixels": test, "denoised": denoised.mean}
    columns |= {"with known pixels": mean, "exact mean": true_mean}
    columns |= {"std": variance.sqrt(), "std, exact": true_variance.sqrt()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    shown = {name: values[:4].numpy() for name, values in columns.items()}
    picture(shown, known.numpy()).savefig(options.out, dpi=110)
    print(options.out)


if __name__ == "__main__":
    main()
