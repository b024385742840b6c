"""One model for every noise scale from .1 to 1, against a model for each of five scales.

The data are a mixture of three Gaussians in the plane, whose smoothed scores are known. Printed
is the relative error of s2, the root of E ||s2 - H||^2 / E ||H||^2 over 10,000 points of q_sigma,
where H is the exact Hessian. The model of the range may take the steps of all five together.

Takes about five minutes on one CPU thread: python examples/noise_conditional.py
"""

import argparse
import time

import torch

from hosm.distributions import GaussianMixture
from hosm.networks import MLP, ConditionalMLP
from hosm.scores import ScoreModel
from hosm.training import Settings, fit

SCALES = (0.1, 0.178, 0.316, 0.562, 1.0)
RANGE = (0.08, 1.25)  # a little more than is asked for, so that no scale lies at an end
LAW = GaussianMixture(
    torch.tensor([0.40, 0.35, 0.25]),
    torch.tensor([[-1.5, 0.0], [1.2, 1.0], [0.3, -1.6]]),
    torch.tensor(
        [[[0.3, 0.15], [0.15, 0.25]], [[0.2, -0.1], [-0.1, 0.4]], [[0.5, 0.0], [0.0, 0.1]]]
    ),
)


def draw(epoch: int) -> torch.Tensor:
    """Return the epoch's fresh clean points, shape (16384, 2)."""
    return LAW.sample(16384, torch.Generator().manual_seed(epoch))


def train(sigma: float | tuple[float, float], steps: int, seed: int) -> ScoreModel:
    """Train one model; the second-order term and DSM weigh alike in the denoiser's units."""
    torch.manual_seed(seed)
    network, gamma = (ConditionalMLP, 1.0) if isinstance(sigma, tuple) else (MLP, 1 / sigma**2)
    std = float(LAW.sample(4096, torch.Generator().manual_seed(1)).std())
    model = ScoreModel(
        network(2, outputs=4), sigma=sigma, rank=2, parametrisation="denoiser", data_std=std
    )
    settings = Settings(
        sigma=sigma,
        gamma=gamma,
        learning_rate=5e-3,
        batch_size=512,
        max_steps=steps,
        validate_every=steps,
        seed=seed,
    )
    model.load_state_dict(fit(model, settings, draw, draw(10**6)[:2000]).weights)
    return model


def relative_error(model: ScoreModel, sigma: float) -> float:
    """Return the relative error of s2 at points of q_sigma."""
    generator = torch.Generator().manual_seed(3)
    x = LAW.sample(10_000, generator)
    x_noisy = x + sigma * torch.randn(x.shape, generator=generator)
    hessian = LAW.smoothed(sigma).hessian(x_noisy)
    with torch.no_grad():
        error = model(x_noisy, sigma)[1].to_dense() - hessian
    return float(error.square().sum() / hessian.square().sum()) ** 0.5


def main() -> None:
    """Train the six models and print one line for each scale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3000, help="of each model of one scale")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="seconds; numbers mean nothing")
    options = parser.parse_args()
    if options.quick:
        print("--quick: a run this small shows that the script works; its numbers mean nothing")
        options.steps = 4
    start = time.perf_counter()
    whole = train(RANGE, len(SCALES) * options.steps, options.seed)
    print(f"model of sigma {RANGE[0]} to {RANGE[1]}: {time.perf_counter() - start:.0f} s")
    for sigma in SCALES:
        single = relative_error(train(sigma, options.steps, options.seed), sigma)
        ours = relative_error(whole, sigma)
        print(f"sigma {sigma:5.3f}: range {ours:.4f}, alone {single:.4f}, {ours / single:.2f}x")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
