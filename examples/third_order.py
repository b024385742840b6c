"""Learn the third-order score of a Gaussian mixture, and what it says of the posterior.

Under noise x_noisy = x + sigma z, the scores s_k of the noisy density are, up to powers of sigma,
the cumulants of the clean point x given x_noisy: its mean, its covariance and, for s3, how
lopsided it is. Learn s1 and s2 together; learn s3 on top of them, frozen; compare all three with
the exact tensors. About three minutes on one CPU thread:

    python examples/third_order.py --steps 4000
"""

import argparse
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from hosm.distributions import GaussianMixture
from hosm.networks import MLP
from hosm.objectives import HighOrderModel, HighOrderObjective
from hosm.scores import ScoreModel
from hosm.training import Progress, Settings, fit
from hosm.tweedie import posterior_covariance

SIGMA = 0.5
LAW = GaussianMixture(
    weights=torch.tensor([0.4, 0.35, 0.25]),
    means=torch.tensor([[-1.2, -0.4], [1.0, -0.8], [0.2, 1.3]]),
    covariances=torch.tensor(
        [[[0.25, 0.12], [0.12, 0.2]], [[0.2, -0.1], [-0.1, 0.3]], [[0.35, 0.1], [0.1, 0.12]]]
    ),
)


def train(name: str, model: nn.Module, settings: Settings, **options: Callable) -> None:
    """Fit a model to fresh draws of the mixture, and give it the averaged weights."""

    def fresh(epoch: int) -> Tensor:
        return LAW.sample(50 * settings.batch_size, torch.Generator().manual_seed(epoch + 1))

    def report(progress: Progress) -> None:
        print(name, {key: round(value, 3) for key, value in progress.metrics.items()}, flush=True)

    validation = LAW.sample(2000, torch.Generator().manual_seed(0))
    result = fit(model, settings, fresh, validation, report=report, **options)
    model.load_state_dict(result.weights)
    model.requires_grad_(False)


def derivative(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return d function / d x at each point, with one more index: what s3 is compared with."""
    return torch.func.vmap(torch.func.jacfwd(lambda point: function(point[None])[0]))(x)


def main() -> None:
    """Train, then print the errors."""
    parser = argparse.ArgumentParser(description="third-order score of a Gaussian mixture")
    parser.add_argument("--steps", type=int, default=4000, help="optimiser steps of each model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="seconds; numbers mean nothing")
    options = parser.parse_args()
    if options.quick:
        print("--quick: a run this small shows that the script works; its numbers mean nothing")
        options.steps = 20
    torch.manual_seed(options.seed)
    length = {"max_steps": options.steps, "validate_every": -(-options.steps // 4)}
    settings = partial(Settings, sigma=SIGMA, batch_size=1024, seed=options.seed, **length)

    scores = ScoreModel(MLP(2, 2 + 2, depth=4), sigma=SIGMA, rank=2)
    train("s1 and s2", scores, settings(target="jacobian"))
    third = HighOrderModel(MLP(2, 1 + 2 * 3, depth=4), order=3, sigma=SIGMA, rank=3)
    # `residual` regresses on products of the noise, and errors of s1 and s2 enter squared
    objective = partial(HighOrderObjective, lower=scores)
    train("s3", third, settings(target="residual"), objective=objective)

    exact = LAW.smoothed(SIGMA)
    x_noisy = exact.sample(4000, torch.Generator().manual_seed(options.seed + 1))
    s1, s2 = scores(x_noisy)
    s3, truth = third(x_noisy), exact.third_derivative(x_noisy)
    by_s2 = derivative(lambda x: scores(x)[1].to_dense(), x_noisy)
    by_s1 = derivative(lambda x: derivative(scores.score, x), x_noisy)
    for name, estimate, tensor in (
        ("s1", s1, exact.score(x_noisy)),
        ("s2", s2.to_dense(), exact.hessian(x_noisy)),
        ("s3, derivative of the learned s2", by_s2, truth),
        ("s3, second derivative of the learned s1", by_s1, truth),
        ("s3, learned", s3.to_dense(), truth),
    ):
        error = (estimate - tensor).norm() / tensor.norm()  # over all points and entries
        print(f"relative error of {name}: {100 * error:.1f} %")

    # kappa_3 / kappa_2^(3/2) of x given x_noisy, along the direction in which x is least known
    variance, w = (part.squeeze(-1) for part in posterior_covariance(s2, SIGMA).eigenpairs(1))
    learned = SIGMA**6 * s3.contract(w) / variance**1.5
    C = posterior_covariance(exact.hessian(x_noisy), SIGMA)
    kappa = torch.einsum("nijk,ni,nj,nk->n", truth, w, w, w)
    true = SIGMA**6 * kappa / torch.einsum("nij,ni,nj->n", C, w, w) ** 1.5
    error = (learned - true).square().mean().sqrt()
    print(f"skewness of the posterior: standard deviation {true.std():.3f}, error {error:.3f}")


if __name__ == "__main__":
    main()
