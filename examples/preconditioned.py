"""Langevin chains preconditioned by the learned second-order score, on a badly scaled law.

Two modes of one shape: standard deviations from 1 to .01 along directions that no axis shows, and
the modes apart along the thinnest of them, by twenty of its own. A step that fits the thinnest
direction hardly moves along the others. With a matrix M the step

    x <- x + (eps/2) M s1(x) + (eps M)^(1/2) z

moves along all of them alike if M is the covariance within a mode. The covariance of a pilot
sample is that of both modes together, and far too wide in the thin direction. The mean of the
Hessian of log p is not: from it M = (-mean s2)^-1 - sigma^2 I, exact for a Gaussian, which the
noise of scale sigma widened. It is learned from the pilot sample made white (Meng, Song, Li and
Ermon, NeurIPS 2021, section 5, use s2 at each point; Girolami and Calderhead, "Riemann manifold
Langevin and Hamiltonian Monte Carlo methods", 2011, a metric that is a mean of -s2). All chains
are adjusted by Metropolis and Hastings with the exact log p, so that none is biased, and start at
exact draws; each step size is the one of most effective samples. These are of each coordinate
within a mode, and the least counts; no chain crosses to the other mode.

    python examples/preconditioned.py --out build/preconditioned.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

import hosm
from hosm.distributions import GaussianMixture
from hosm.metrics import ess_nice
from hosm.samplers import langevin, sample_chain

DIMENSION, THIN, APART = 10, 0.01, 10.0  # APART: half the distance of the modes, over THIN
SIGMA = 0.1  # noise scale, over the standard deviation of points made white
STEPS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.4)  # eps over that of the thinnest direction


def bad_law(seed: int) -> tuple[GaussianMixture, Tensor, Tensor]:
    """Return the law, the directions (D, D) and standard deviations (D,) of its modes."""
    generator = torch.Generator().manual_seed(seed)
    square = torch.randn(DIMENSION, DIMENSION, generator=generator, dtype=torch.float64)
    axes = torch.linalg.qr(square)[0]
    stds = torch.logspace(0, float(np.log10(THIN)), DIMENSION, dtype=torch.float64)
    means = APART * THIN * torch.stack([axes[:, -1], -axes[:, -1]])
    covariance = axes @ torch.diag(stds**2) @ axes.T
    weights = torch.full((2,), 0.5, dtype=torch.float64)
    return GaussianMixture(weights, means, covariance.expand(2, -1, -1)), axes, stds


def matrix_of(pilot: Tensor, options: argparse.Namespace) -> Tensor:
    """Return (-mean s2)^-1 - sigma^2 I, shape (D, D), learned from points (n, D) made white."""
    root = torch.linalg.cholesky(torch.cov(pilot.T))
    white = torch.linalg.solve_triangular(root, (pilot - pilot.mean(0)).T, upper=False).T
    estimator = hosm.ScoreEstimator(
        SIGMA,
        rank=DIMENSION,
        standardise=False,
        max_steps=options.fit_steps,
        random_state=options.seed,
    ).fit(white)
    curvature = torch.from_numpy(-estimator.hessian(white[:1000], dense=True).mean(0))
    values, vectors = torch.linalg.eigh(curvature)
    within = (1 / values.clamp_min(1e-3) - SIGMA**2).clamp_min(SIGMA**2 / 10)
    return root @ (vectors * within) @ vectors.T @ root.T


def effective(
    truth: tuple[GaussianMixture, Tensor, Tensor],
    M: Tensor,
    eps: float,
    options: argparse.Namespace,
) -> tuple[Tensor, float, np.ndarray]:
    """Run adjusted chains preconditioned by M: ESS (D,) a chain, acceptance, one chain (T, D)."""
    (law, axes, stds), generator = truth, torch.Generator().manual_seed(options.seed)
    root = torch.linalg.cholesky(M)

    def score(u: Tensor) -> Tensor:  # in coordinates u = root^-1 x the step is plain Langevin's
        return law.score(u @ root.T) @ root

    kernel = langevin(score, eps, lambda u: law.log_prob(u @ root.T))
    accepted: list[float] = []
    start = torch.linalg.solve_triangular(
        root, law.sample(options.chains, generator).T, upper=False
    )
    draws = sample_chain(
        kernel,
        start.T.contiguous(),
        options.steps,
        generator=generator,
        progress=lambda i, info: accepted.append(float(info.acceptance.mean())),
    )
    along = draws @ root.T @ axes  # coordinates along the directions of the modes
    own = along[..., -1:]
    within = torch.cat([along[..., :-1], own - own.sign() * APART * THIN], -1)
    ess = ess_nice(within / stds, torch.zeros(DIMENSION).double(), torch.ones(DIMENSION).double())
    return ess, float(np.mean(accepted)), (along / stds)[0].numpy()


def picture(results: dict[str, tuple[Tensor, float, np.ndarray]], steps: int) -> Figure:
    """Draw effective samples by direction, and a chain along the widest and the thinnest."""
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    left, *others = figure.subplots(1, 1 + len(results), width_ratios=[1.6] + [1] * len(results))
    for (name, (ess, _, chain)), ax in zip(results.items(), others, strict=True):
        left.plot(range(1, len(ess) + 1), ess, "o-", label=name)
        ax.plot(*chain[:500, [0, -1]].T, lw=0.5)
        ax.set(xlim=(-3.5, 3.5), ylim=(-APART - 4, APART + 4), title=name)
        ax.set(xlabel="widest direction")
    left.set(yscale="log", xlabel="direction, widest to thinnest")
    left.set(ylabel=f"effective samples of {steps} steps")
    others[0].set_ylabel("thinnest direction")
    left.legend(loc="center left")
    return figure


def main() -> None:
    """Learn s2 from pilot points, tune each sampler, print effective samples, draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=int, default=4000, help="of the pilot sample")
    parser.add_argument("--fit-steps", type=int, default=3000, help="of the learned scores")
    parser.add_argument("--chains", type=int, default=20)
    parser.add_argument("--steps", type=int, default=4000, help="of each chain")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/preconditioned.png"))
    parser.add_argument("--quick", action="store_true", help="seconds; numbers mean nothing")
    options = parser.parse_args()
    if options.quick:
        print("--quick: a run this small shows that the script works; its numbers mean nothing")
        options.points, options.chains, options.steps, options.fit_steps = 150, 4, 100, 50
    law, *_ = truth = bad_law(options.seed)
    pilot = law.sample(options.points, torch.Generator().manual_seed(options.seed + 1))
    eye = torch.eye(DIMENSION, dtype=torch.float64)
    matrices = {
        "plain": eye,
        "covariance": torch.cov(pilot.T),
        "mean s2": matrix_of(pilot, options),
    }
    exact = torch.linalg.inv(law.covariances[0])
    results = {}
    for name, M in matrices.items():
        root = torch.linalg.cholesky(M)
        stiff = float(torch.linalg.eigvalsh(root.T @ exact @ root)[-1])  # 1 / least variance
        spread = stiff * float(torch.linalg.eigvalsh(torch.linalg.inv(root.T @ exact @ root))[-1])
        runs = [
            (eps, effective(truth, M, eps / stiff, options))
            for eps in (STEPS[::3] if options.quick else STEPS)
        ]
        eps, results[name] = max(runs, key=lambda run: float(run[1][0].min()))
        ess, acceptance, _ = results[name]
        text = f"{name:12} least ESS a chain {ess.min():8.2f} of {options.steps:,} steps"
        print(
            f"{text}, mean {ess.mean():8.2f}, acceptance {acceptance:.2f}, condition {spread:.3g}"
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    picture(results, options.steps).savefig(options.out, dpi=110)
    print(options.out)


if __name__ == "__main__":
    main()
