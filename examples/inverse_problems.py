"""Which curves fit a few averages of one? Posterior samples by several methods, beside the truth.

A curve x of 40 values is measured as averages over blocks of 5, with noise; its law, a mixture of
three kinds of curves, is known, and with it both scores at every noise scale and the exact
posterior. Each method draws 100 curves with 15 evaluations of the scores. Printed are the distance
of their mean to the exact one, over the exact standard deviation, and how often intervals of 80 %
hold exact draws. With a learned model, `hosm.scores.ScoreModel` of a range of noise scales takes
the place of `ExactScores` (examples/noise_conditional.py trains one).

Takes a few seconds: python examples/inverse_problems.py
"""

import argparse

import torch

from hosm.distributions import GaussianMixture
from hosm.exact_scores import ExactScores
from hosm.inverse import METHODS, posterior_samples, super_resolution

SIZE, BLOCK, NOISE = 40, 5, 0.1
STRENGTHS = {"dps": 1.0}  # of the guidance; 1 for the others


def curves() -> GaussianMixture:
    """Return a mixture of curves of three smoothnesses around three waves."""
    place = torch.arange(SIZE, dtype=torch.float64)
    gap = (place.unsqueeze(1) - place).square()
    covariances = torch.stack([torch.exp(-gap / 2 / length**2) / 4 for length in (2, 4, 8)])
    means = torch.stack([torch.sin(6.28 * k * place / SIZE) for k in (1, 2, 3)])
    weights = torch.full((3,), 1 / 3, dtype=torch.float64)
    return GaussianMixture(weights, means, covariances + 1e-3 * torch.eye(SIZE).double())


def exact(law: GaussianMixture, A: torch.Tensor, y: torch.Tensor) -> GaussianMixture:
    """Return the law of x given y = A x + s e, a mixture of as many Gaussians."""
    V = A @ law.covariances @ A.T + NOISE**2 * torch.eye(len(A)).double()
    r = y - law.means @ A.T
    seen = torch.distributions.MultivariateNormal(torch.zeros_like(r), V).log_prob(r)
    gain = torch.linalg.solve(V, A @ law.covariances).mT
    rest = law.covariances - gain @ A @ law.covariances
    means = law.means + (gain @ r.unsqueeze(-1)).squeeze(-1)
    return GaussianMixture((law.weights.log() + seen).softmax(0), means, (rest + rest.mT) / 2)


def main() -> None:
    """Print a line for each method."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="seconds; numbers mean nothing")
    options = parser.parse_args()
    if options.quick:
        print("--quick: a run this small shows that the script works; its numbers mean nothing")
        options.steps, options.draws = 3, 10
    law, operator = curves(), super_resolution((SIZE,), BLOCK)
    generator = torch.Generator().manual_seed(0)
    y = operator.forward(law.sample(1, generator))
    y = y + NOISE * torch.randn(y.shape, generator=generator, dtype=y.dtype)
    truth = exact(law, operator.forward(torch.eye(SIZE).double()).mT, y[0])
    judges = truth.sample(2000, generator)
    for method in METHODS:
        found = posterior_samples(
            ExactScores(law),
            operator,
            y,
            noise=NOISE,
            method=method,
            steps=options.steps,
            n=options.draws,
            sigma=(0.02, 20.0),
            generator=generator,
            data_std=float(law.variance.mean().sqrt()),
            strength=STRENGTHS.get(method, 1.0),
        )
        error = (found.mean[0] - truth.mean).square().sum() / truth.variance.sum()
        low, high = found.interval(0.8)
        held = ((judges >= low[0]) & (judges <= high[0])).double().mean()
        asked = f"{found.evaluations} evaluations, {found.products} products"
        print(f"{method:10} {asked:30} error {error**0.5:.2f}, 80 % hold {100 * held:.0f} %")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
