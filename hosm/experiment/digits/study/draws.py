"""Digits that are drawn by the U-Net in few steps, with each covariance, beside real ones.

    python -m hosm.experiment.digits.study.draws MODEL RESULTS

All samplers start at the same noise and take their steps at the same noise scales; the last step
returns its mean. `draws.csv` has a row for each number of steps, seed and sampler, and for real
digits in place of draws; `draws.npz` holds a few draws of each. What is finished is not measured
again.
"""

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hosm.diffusion import EDM, ancestral, ddim, dpm_solver, start
from hosm.experiment.data.datasets import DataSet
from hosm.experiment.diffusion.study.models import seeded
from hosm.experiment.digits.study.bounds import covariances, parts
from hosm.experiment.digits.study.distances import (
    features,
    learned_classifier,
    precision_and_coverage,
)
from hosm.experiment.digits.study.model import digits, learned
from hosm.experiment.diversity.study.classifier import Classifier
from hosm.experiment.run.stage import write_csv
from hosm.experiment.shared.rows import Row
from hosm.metrics import frechet_distance
from hosm.scores import ScoreModel

__all__ = ["REAL", "distance_row", "drawn"]

REAL = "real digits"
SHOWN = 8  # draws that are kept of each sampler
BLOCK = 50  # digits drawn at once
DETERMINISTIC = {"DDIM": ddim, "DPM-Solver++(2M)": dpm_solver}


def drawn(
    model: ScoreModel, data: DataSet, steps: int, seed: int, count: int
) -> Iterator[tuple[str, Tensor]]:
    """Yield the name of each sampler and the digits that it draws, shape (count, D).

    Args:
        model: of both scores over a range of noise.
        data: the digits that it was trained on.
        steps: noise scales.
        seed: of the noise.
        count: digits for each sampler.
    """
    points, held, _ = parts(data, count)
    sigmas = EDM(*model.sigma).grid(steps)  # type: ignore[misc]
    prior = start(points.mean(0), points.var(0), model.sigma[1], count)  # type: ignore[index]
    begin = prior.sample(seeded(20, seed)).split(BLOCK)
    for name, kind in covariances(model, held, sigmas).items():
        noise = seeded(21, seed)
        yield name, torch.cat([ancestral(model, x, sigmas, kind, noise).x for x in begin])
    for name, sampler in DETERMINISTIC.items():
        yield name, torch.cat([sampler(model, x, sigmas).x for x in begin])


def distance_row(classifier: Classifier, x: Tensor, real: Tensor) -> Row:
    """Return how far images x, shape (n, D), are from real ones, (m, D)."""
    own, other = features(classifier, x.clamp(0, 1)), features(classifier, real)
    precision, coverage = precision_and_coverage(own, other)
    distance = frechet_distance(own, other)
    return {"frechet": distance, "precision": precision, "coverage": coverage, "images": len(x)}


def _measure(
    model: ScoreModel,
    classifier: Classifier,
    data: DataSet,
    options: argparse.Namespace,
    folder: Path,
) -> None:
    """Measure what is not finished, and write it after each number of steps and seed."""
    real, file = torch.tensor(data.test), folder / "draws.csv"
    rows: list[Any] = pd.read_csv(file).to_dict("records") if file.exists() else []
    kept = (
        dict(np.load(folder / "draws.npz", allow_pickle=False))
        if (folder / "draws.npz").exists()
        else {}
    )
    done = {(row["steps"], row["seed"]) for row in rows}
    if (0, 0) not in done:
        others = torch.tensor(data.validation)[: options.images]
        about = {"steps": 0, "seed": 0, "sampler": REAL}
        rows.append(about | distance_row(classifier, others, real))
    for steps, seed in product(options.steps, range(options.seeds)):
        if (steps, seed) in done:
            continue
        for name, x in drawn(model, data, steps, seed, options.images):
            about = {"steps": steps, "seed": seed, "sampler": name}
            rows.append(about | distance_row(classifier, x, real))
            if seed == 0:
                kept[f"{steps}/{name}"] = (255 * x[:SHOWN].clamp(0, 1)).byte().numpy()
        write_csv(pd.DataFrame(rows), file)
        np.savez_compressed(folder / "draws.npz", **kept)  # type: ignore[arg-type]


def main() -> None:
    """Read the command line, train what is missing, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="folder of the network; made if it is missing")
    parser.add_argument("results", type=Path, help="folder of the tables")
    parser.add_argument("--steps", type=int, nargs="+", default=[5, 10, 25, 50])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--images", type=int, default=500, help="drawn by each sampler")
    options = parser.parse_args()
    data = digits()
    model = learned(options.model, data)
    classifier = learned_classifier(options.model.with_name("classifier"), data)
    options.results.mkdir(parents=True, exist_ok=True)
    _measure(model, classifier, data, options, options.results)


if __name__ == "__main__":
    main()
