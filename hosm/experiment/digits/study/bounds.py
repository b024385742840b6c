"""Bounds of the U-Net of digits in bits for each dimension, and the seconds of a step.

    python -m hosm.experiment.digits.study.bounds MODEL RESULTS

The pixels of held-out digits are levels of a byte (`hosm.diffusion.quantised_decoder`). What is
finished is not measured again.
"""

import argparse
import time
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from hosm.diffusion import (
    EDM,
    Beta,
    BetaTilde,
    Covariance,
    Diagonal,
    LowRank,
    OptimalIsotropic,
    bits_per_dimension,
    quantised_decoder,
    start,
    variational_bound,
)
from hosm.experiment.data.datasets import DataSet
from hosm.experiment.diffusion.study.models import seeded
from hosm.experiment.digits.study.model import digits, learned
from hosm.experiment.run.stage import write_csv
from hosm.experiment.shared.rows import Row
from hosm.operators import DiagonalPlusLowRank
from hosm.scores import ScoreModel

__all__ = ["Remembered", "bound_rows", "covariances", "parts", "second_rows"]

WIDTH = 1 / 255  # of a level
HELD = 100  # digits that the best multiple of I is fitted on
TIMED, ROUNDS = 50, 15  # digits of a step that is timed, and how often


class Remembered:
    """A model that keeps both scores at each noise scale, for points that stay the same.

    Args:
        model: of both scores.
    """

    def __init__(self, model: ScoreModel) -> None:
        self.model = model
        self.kept: dict[float, tuple[Tensor, Tensor, DiagonalPlusLowRank | None]] = {}

    def __call__(self, x: Tensor, sigma: float) -> tuple[Tensor, DiagonalPlusLowRank | None]:
        """Return s1, shape (n, D), and s2 at x, evaluated once for the same points and sigma."""
        if sigma not in self.kept or not torch.equal(self.kept[sigma][0], x):
            self.kept[sigma] = (x, *self.model(x, sigma))
        return self.kept[sigma][1:]

    def score(self, x: Tensor, sigma: float) -> Tensor:
        """Return s1 at x, both of shape (n, D)."""
        return self(x, sigma)[0]


def covariances(model: ScoreModel, held: Tensor, sigmas: Tensor) -> dict[str, Covariance]:
    """Return the covariances that are compared, by their names."""
    return {
        "beta": Beta(model.data_std),
        "beta-tilde": BetaTilde(model.data_std),
        "optimal isotropic": OptimalIsotropic.fit(model, held, sigmas, seeded(1)),
        "diagonal": Diagonal(),
        "diagonal plus low rank": LowRank(),
    }


def parts(data: DataSet, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return digits to train on, to fit a constant on, and to judge by."""
    train, held, test = (torch.tensor(part) for part in (data.train, data.validation, data.test))
    return train, held[:HELD], test[:count]


def bound_rows(
    model: ScoreModel, data: DataSet, places: Iterable[tuple[int, int]], count: int
) -> Iterator[list[Row]]:
    """Yield the bounds in bits for each dimension by covariance, at each number of steps and seed.

    Args:
        model: of both scores over a range of noise.
        data: the digits that it was trained on.
        places: numbers of steps, each with the seed of the noise.
        count: digits that judge.
    """
    (points, held, x), high = parts(data, count), model.sigma[1]  # type: ignore[index]
    prior = start(points.mean(0), points.var(0), high, len(x))
    decoder, size = quantised_decoder(WIDTH, 0.0, 1.0), x.shape[1]
    for number, seed in places:
        sigmas = EDM(*model.sigma).grid(number)  # type: ignore[misc]
        remembered, rows = Remembered(model), list[Row]()
        for name, kind in covariances(model, held, sigmas).items():
            noise = seeded(10, seed)
            bound = variational_bound(remembered, x, sigmas, kind, prior, noise, decoder=decoder)
            bits = bits_per_dimension(bound.total, size)
            rows.append(
                {
                    "steps": number,
                    "seed": seed,
                    "covariance": name,
                    "bits": float(bits.mean()),
                    "error": float(bits.std()) / len(x) ** 0.5,
                    "decoder": float(bits_per_dimension(bound.decoder, size).mean()),
                    "points": len(x),
                }
            )
        yield rows


@torch.no_grad()
def second_rows(model: ScoreModel, data: DataSet) -> list[Row]:
    """Return the processor's seconds of a step by covariance, and their ratio to a constant's.

    The covariances take turns, and ratios are of the same round, so that what else a machine does
    counts little.
    """
    _, held, x = parts(data, TIMED)
    sigmas = EDM(*model.sigma).grid(10)  # type: ignore[misc]
    sigma, sigma_next = sigmas[4:6].tolist()
    noisy = x + sigma * torch.randn(x.shape, generator=seeded(2))
    kinds = covariances(model, held, sigmas)
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for _, (name, kind) in product(range(1 + ROUNDS), kinds.items()):
        begun = time.process_time()
        kind.step(model, noisy, sigma, sigma_next).sample(seeded(3))
        times[name].append(time.process_time() - begun)
    rows = []
    for name, each in times.items():
        ratios = [own / other for own, other in zip(each, times["beta"], strict=True)]
        found = {"seconds": median(each[1:]), "ratio": median(ratios[1:])}  # the first warms up
        rows.append({"covariance": name, "points": TIMED, **found, "rounds": ROUNDS})
    return rows


def main() -> None:
    """Read the command line, train where there is no model, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="folder of the network; made if it is missing")
    parser.add_argument("results", type=Path, help="folder of the tables")
    parser.add_argument("--steps", type=int, nargs="+", default=[5, 10, 25, 50, 100])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--points", type=int, default=500, help="digits that judge")
    options = parser.parse_args()
    data = digits()
    model, seconds = learned(options.model, data), options.results / "seconds.csv"
    if not seconds.exists():
        write_csv(pd.DataFrame(second_rows(model, data)), seconds)
    file = options.results / "bounds.csv"
    rows: list[Any] = pd.read_csv(file).to_dict("records") if file.exists() else []
    done = {(row["steps"], row["seed"]) for row in rows}
    places = [(n, s) for n in options.steps for s in range(options.seeds) if (n, s) not in done]
    for found in bound_rows(model, data, places, options.points):
        rows += found
        write_csv(pd.DataFrame(rows), file)


if __name__ == "__main__":
    main()
