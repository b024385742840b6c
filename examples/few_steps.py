"""Diffusion in few steps: what the covariance of a step is worth, and an exact likelihood.

The data are a mixture of three Gaussians in ten dimensions, whose density is known. One network
learns both scores over every noise scale. Printed are, for each number of steps and covariance,
the gap of the variational bound to the exact -log p in nats for each dimension, and the sliced
Wasserstein distance of draws; then the error of the likelihood by the probability flow.

Takes about a minute on one CPU thread: python examples/few_steps.py
"""

import argparse

import torch

from hosm.diffusion import (
    EDM,
    Beta,
    BetaTilde,
    Covariance,
    Diagonal,
    LowRank,
    OptimalIsotropic,
    ancestral,
    flow_log_likelihood,
    start,
    variational_bound,
)
from hosm.distributions import GaussianMixture
from hosm.metrics import sliced_wasserstein
from hosm.networks import ConditionalMLP
from hosm.scores import ScoreModel
from hosm.training import Settings, fit

DIMENSION, RANK, SIGMAS = 10, 4, (0.1, 20.0)


def seeded(seed: int) -> torch.Generator:
    """Return a generator."""
    return torch.Generator().manual_seed(seed)


def mixture() -> GaussianMixture:
    """Return an equal mixture of Gaussians with two strong directions each."""
    generator = seeded(0)
    means = torch.randn(3, DIMENSION, generator=generator)
    factors = torch.randn(3, DIMENSION, 2, generator=generator)
    covariances = factors @ factors.mT + 0.05 * torch.eye(DIMENSION)
    return GaussianMixture(torch.full((3,), 1 / 3), means, covariances)


def train(law: GaussianMixture, steps: int) -> ScoreModel:
    """Return a network of both scores over the range of noise."""
    torch.manual_seed(0)
    network = ConditionalMLP(DIMENSION, 2 + RANK, 128)
    options = {
        "parametrisation": "denoiser",
        "psd": True,
        "data_std": float(law.variance.mean()) ** 0.5,
    }
    model = ScoreModel(network, sigma=SIGMAS, rank=RANK, **options)
    settings = Settings(
        sigma=SIGMAS,
        target="likelihood",
        variance_reduction=None,
        gamma=300.0,
        max_steps=steps,
        validate_every=steps,
    )
    found = fit(model, settings, lambda epoch: law.sample(20_000, seeded(epoch)), law.sample(500))
    model.load_state_dict(found.weights)
    return model.eval().requires_grad_(False)


def main() -> None:
    """Train the network, and print a line for each number of steps and covariance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3000, help="of the training")
    parser.add_argument("--points", type=int, default=2000, help="that are drawn and judged")
    parser.add_argument("--quick", action="store_true", help="seconds; numbers mean nothing")
    options = parser.parse_args()
    if options.quick:
        print("--quick: a run this small shows that the script works; its numbers mean nothing")
        options.steps, options.points = 20, 50
    law, n = mixture(), options.points
    model, std = train(law, options.steps), float(law.variance.mean()) ** 0.5
    x, target = law.sample(n, seeded(1)), law.sample(n, seeded(2))
    prior = start(law.mean, law.variance, SIGMAS[1], n)
    for steps in (3, 5, 10):
        sigmas = EDM(*SIGMAS).grid(steps)
        kinds: dict[str, Covariance] = {
            "beta-tilde": BetaTilde(std),
            "beta": Beta(std),
            "optimal isotropic": OptimalIsotropic.fit(model, x, sigmas, seeded(3)),
            "diagonal": Diagonal(),
            "diagonal plus low rank": LowRank(),
        }
        for name, kind in kinds.items():
            bound = variational_bound(model, x, sigmas, kind, prior, seeded(4)).total
            gap = float((bound + law.log_prob(x)).mean()) / DIMENSION
            begin = prior.sample(seeded(5))
            draws = ancestral(model, begin, sigmas, kind, seeded(6), last_noise=True).x
            distance = sliced_wasserstein(draws, target, seeded(7))
            print(f"{steps:2} steps, {name:22}: gap {gap:6.3f}, distance {distance:.3f}")
    flow = flow_log_likelihood(model, x, SIGMAS, 40, prior).log_prob
    error = float((flow - law.log_prob(x)).abs().mean()) / DIMENSION
    print(f"likelihood by the flow: error {error:.4f} nats a dimension")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
