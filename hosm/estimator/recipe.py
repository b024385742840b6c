"""How a table of points becomes a model of both scores: s1 first, then s2 on the frozen s1.

s1 is learned by denoising score matching and stopped early on held-out points. s2 = diag(alpha) +
beta beta^T (Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data Distribution by
Denoising", NeurIPS 2021, section 4.1) is then a network of its own, trained by `hosm.training`.

The network of s1 starts as the Gaussian that fits the data: its linear skip as -P, P being the
inverse of S + sigma^2 I, with the covariance S shrunk towards a multiple of I (Ledoit and Wolf, "A
well-conditioned estimator for large-dimensional covariance matrices", 2004), and the rest as zero.
What is learned is how the data depart from it; weight decay spares the skip.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from hosm.estimator.shrunk_covariance import shrunk_covariance
from hosm.networks import MLP
from hosm.scores import ScoreModel, outputs_per_coordinate
from hosm.training import HeadsObjective, Progress, Settings, fit

__all__ = [
    "DEFAULT_TRAINING",
    "Recipe",
    "Reshaped",
    "first_model",
    "gaussian_start",
    "learn_first",
    "learn_second",
    "with_head",
]

DEFAULT_TRAINING = Settings(
    sigma=1.0,
    target="dsm",
    weight_decay=0.1,
    batch_size=256,
    max_steps=3000,
    validate_every=100,
    patience=10,
)
HELD_DRAWS, MOST_DRAWS = 2000, 40  # noisy points of a validation, about; of each held-out point
SECOND_SHARE = 0.5  # of the steps of s1 that s2 takes
HEAD_RATE = 2.5  # learning rate of s2 over that of s1


def _silent(name: str, progress: Progress) -> None:
    """Report nothing."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How both networks are trained.

    Args:
        training: settings of s1, which say what each is; its sigma and target are replaced. s2
            takes 2.5 times the learning rate and half of the steps.
        report: called at each validation with the network's name and its progress.
    """

    training: Settings = DEFAULT_TRAINING
    report: Callable[[str, Progress], None] = _silent

    def settings(self, target: str, sigma: float, points: int, share: float = 1.0) -> Settings:
        """Return the settings of one network's training.

        Args:
            target: `dsm` for s1, or the target of s2.
            sigma: noise scale, above 0.
            points: number of training points, which a batch does not exceed.
            share: of the steps of s1.

        Raises:
            ValueError: a value out of its range.
        """
        whole = self.training
        return replace(
            whole,
            sigma=sigma,
            target=target,
            learning_rate=whole.learning_rate * (1.0 if target == "dsm" else HEAD_RATE),
            batch_size=min(whole.batch_size, points),
            max_steps=self.steps(share),
        )

    def steps(self, share: float) -> int:
        """Return the largest number of steps of a network that has a share of those of s1."""
        return max(1, round(share * self.training.max_steps))


class Reshaped(nn.Module):
    """Any module as a backbone of the library: what it returns is read as (n, outputs, D).

    Args:
        module: from points (n, D) to n times outputs times D numbers, in that order.
        dimension: D.
        outputs: numbers for each coordinate.
    """

    conditional = False

    def __init__(self, module: nn.Module, dimension: int, outputs: int) -> None:
        super().__init__()
        self.module, self.dimension, self.outputs = module, dimension, outputs

    def forward(self, x: Tensor) -> Tensor:
        """Map points x, shape (n, D), to outputs of shape (n, outputs, D).

        Raises:
            ValueError: the module returns another number of numbers.
        """
        y = self.module(x)
        if y.numel() != x.numel() * self.outputs or len(y) != len(x):
            shape = (len(x), self.outputs, self.dimension)
            raise ValueError(
                f"the module must return the shape {shape} or one that reshapes to it, "
                f"got {tuple(y.shape)}"
            )
        return y.reshape(len(x), self.outputs, self.dimension)


def _width(dimension: int) -> int:
    """Return the units of a hidden layer of the default network for D coordinates."""
    return 128 if dimension <= 64 else 256


def _network(
    module: nn.Module | None, dimension: int, outputs: int, seed: int, skip: bool
) -> nn.Module:
    """Return a copy of the given module as a backbone, or the default network, seeded."""
    if module is not None:
        return Reshaped(copy.deepcopy(module), dimension, outputs)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MLP(dimension, outputs, _width(dimension), skip=skip)


@torch.no_grad()
def gaussian_start(network: MLP, x: Tensor, sigma: float) -> None:
    """Make the first output of a network the score of the smoothed Gaussian that fits points.

    Args:
        network: of one output and with a linear skip; its weights change.
        x: clean points, shape (n, D).
        sigma: noise scale.
    """
    x = x.double()
    covariance = shrunk_covariance(x)
    eye = torch.eye(len(covariance), dtype=x.dtype, device=x.device)
    precision = torch.linalg.inv(covariance + sigma**2 * eye)
    skip: Any = network.skip
    last: Any = network.layers[-1]
    skip.weight.copy_(-precision)
    last.weight.zero_()
    last.bias.copy_(precision @ x.mean(0))


def _repeated(held: Tensor) -> Tensor:
    """Return held-out points (m, D), several times where they are few: each gets other noise."""
    return held.repeat(min(max(1, HELD_DRAWS // len(held)), MOST_DRAWS), 1)


def first_model(dimension: int, sigma: float, backbone: nn.Module | None, seed: int) -> ScoreModel:
    """Return an untrained model of s1 alone; arguments as in `learn_first`, seed of weights."""
    return ScoreModel(_network(backbone, dimension, 1, seed, True), sigma=sigma)


def with_head(first: ScoreModel, head: nn.Module | None, rank: int, seed: int) -> ScoreModel:
    """Return a model of a given s1 and an untrained s2; arguments as in `learn_second`."""
    network = _network(head, first.dimension, outputs_per_coordinate(rank), seed, False)
    if isinstance(network, MLP) and isinstance(first.trunk, MLP):
        network.begin_as(first.trunk)
    shared: dict[str, Any] = {"parametrisation": first.parametrisation, "psd": first.psd}
    shared |= {"data_std": first.data_std, "sigma": first.sigma}
    return ScoreModel(first.trunk, network, rank=rank, **shared)


def learn_first(
    train: Tensor, held: Tensor, sigma: float, backbone: nn.Module | None, recipe: Recipe
) -> tuple[ScoreModel, list[dict[str, float]]]:
    """Learn s1 of q_sigma by denoising score matching.

    Args:
        train: clean points, shape (n, D), float32, of mean near 0 and variance near 1.
        held: held-out clean points, shape (m, D), for early stopping.
        sigma: noise scale, in the units of the points.
        backbone: None for a network of the library's, three layers and a linear skip that start
            as a Gaussian; or any module from (n, D) to (n, D), of which a copy is trained.
        recipe: how.

    Returns:
        The model of s1 alone, in evaluation mode, and the losses at each validation.

    Raises:
        ValueError: a value of the recipe out of its range, or a module of another output.
        FloatingPointError: the loss is not finite.
    """
    model = first_model(train.shape[1], sigma, backbone, recipe.training.seed).to(train.device)
    if isinstance(model.trunk, MLP):
        gaussian_start(model.trunk, train, sigma)
    result = fit(
        model,
        recipe.settings("dsm", sigma, len(train)),
        lambda epoch: train,
        _repeated(held),
        report=partial(recipe.report, "s1"),
    )
    model.load_state_dict(result.weights)
    return model.eval().requires_grad_(False), result.history


def learn_second(
    first: ScoreModel,
    train: Tensor,
    held: Tensor,
    head: nn.Module | None,
    rank: int,
    target: str,
    recipe: Recipe,
) -> tuple[ScoreModel, list[dict[str, float]]]:
    """Learn s2 on a frozen s1 (see `hosm.training.modules`).

    Args:
        first: a model of s1 alone, of one noise scale; its weights stay as they are, and are
            shared.
        train: clean points, shape (n, D), float32.
        held: held-out clean points, shape (m, D), for early stopping.
        head: None for a network of the library's, which starts as the hidden layers of s1 where
            that is one too; or any module from (n, D) to (n, 1 + rank, D), which is copied.
        rank: columns r of beta; 0 for a diagonal s2.
        target: `jacobian`, `residual`, `moment` or `likelihood` (see `hosm.objectives`).
        recipe: how.

    Returns:
        The model of both scores, in evaluation mode, and the losses at each validation.

    Raises:
        ValueError: a value of the recipe out of its range, or a module of another output.
        FloatingPointError: the loss is not finite.
    """
    model = with_head(first, head, rank, recipe.training.seed + 1).to(train.device)
    models = nn.ModuleDict({"s2": model})
    result = fit(
        models,
        recipe.settings(target, model.sigma, len(train), SECOND_SHARE),  # type: ignore[arg-type]
        lambda epoch: train,
        _repeated(held),
        objective=HeadsObjective,
        report=partial(recipe.report, "s2"),
    )
    models.load_state_dict(result.weights)
    return model.eval().requires_grad_(False), result.history
