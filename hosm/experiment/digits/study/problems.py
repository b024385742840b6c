"""Linear inverse problems on digits: every method on four measurements, with the U-Net.

    python -m hosm.experiment.digits.study.problems MODEL RESULTS

The posterior is not known here. Judged are the distance of the mean of the draws to the digit, and
how often intervals of the draws hold the digit's pixels, at those pixels that vary among digits.
Many pixels are 0 in almost all draws; so that such atoms do not count as covered by any interval,
noise of `JITTER` is added to the draws and to the digit alike, which leaves a right posterior
right. All methods have as many evaluations of the network; rivals take products with its Jacobian
besides. What is finished is not measured again.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hosm.experiment.data.datasets import DataSet
from hosm.experiment.diffusion.study.models import seeded
from hosm.experiment.digits.study.model import digits, learned
from hosm.experiment.run.stage import write_csv
from hosm.experiment.shared.rows import Row
from hosm.inverse import (
    METHODS,
    LinearOperator,
    PosteriorSamples,
    blur,
    inpainting,
    posterior_samples,
    projections,
    super_resolution,
)
from hosm.scores import ScoreModel

__all__ = ["judged", "tasks"]

SIDE = 28
HIDDEN = slice(8, 20)  # rows and columns of the square that is missing
ROWS = 100  # of the random projections
NOISE, JITTER = 0.1, 0.02
LEAST_STD = 0.05  # of the pixels that are judged
LEVELS = (0.5, 0.8, 0.95)
TUNED = ("dps", "pigdm")  # whose papers leave a factor of the guidance to the user
STRENGTHS = (0.3, 1.0, 3.0)
SHOWN = 4  # draws that are kept of each method


def tasks() -> dict[str, LinearOperator]:
    """Return the measurements of a digit by their names."""
    known = torch.ones(SIDE, SIDE, dtype=torch.bool)
    known[HIDDEN, HIDDEN] = False
    reach = torch.arange(-4, 5, dtype=torch.float64)
    line = torch.exp(-reach.square() / 8)
    kernel = torch.outer(line, line)
    matrix = torch.randn(ROWS, SIDE**2, generator=seeded(30), dtype=torch.float64) / SIDE
    return {
        "a square is missing": inpainting(known.flatten()),
        "super-resolution x 4": super_resolution((SIDE, SIDE), 4),
        "Gaussian blur": blur((SIDE, SIDE), kernel / kernel.sum()),
        "random projections": projections(matrix),
    }


def judged(found: PosteriorSamples, truth: Tensor, varying: Tensor) -> Row:
    """Return the error of the mean, and how often intervals hold the truth.

    Args:
        found: n draws for each of b measurements.
        truth: what was measured, shape (b, D).
        varying: pixels that are judged, truth values, shape (D,).

    Returns:
        `error`, a root mean square in units of a pixel's range, and `coverage_p` for levels p.
    """
    error = (found.mean - truth)[:, varying].square().mean().sqrt()
    row: Row = {"error": float(error)}
    noise = [JITTER * torch.randn(x.shape, generator=seeded(31)) for x in (found.draws, truth)]
    rough = PosteriorSamples(found.draws + noise[0], found.evaluations, found.products)
    for level in LEVELS:
        low, high = rough.interval(level)
        inside = (truth + noise[1] >= low) & (truth + noise[1] <= high)
        row[f"coverage_{level:g}"] = float(inside[:, varying].double().mean())
    return row


def _measured(operator: LinearOperator, x: Tensor, seed: int) -> Tensor:
    seen = operator.forward(x)
    return seen + NOISE * torch.randn(seen.shape, generator=seeded(32, seed))


def _sampled(
    model: ScoreModel,
    operator: LinearOperator,
    y: Tensor,
    method: str,
    options: argparse.Namespace,
    strength: float,
) -> tuple[PosteriorSamples, float]:
    """Return draws and the seconds of the processor that they took."""
    asked: Any = model if method in ("covariance", "diagonal") else model.first_order()
    begun = time.process_time()
    found = posterior_samples(
        asked,
        operator,
        y,
        noise=NOISE,
        method=method,
        steps=options.steps,
        n=options.draws,
        sigma=model.sigma,  # type: ignore[arg-type]
        generator=seeded(33),
        data_std=model.data_std,
        strength=strength,
    )
    return found, time.process_time() - begun


def _strength(
    model: ScoreModel,
    operator: LinearOperator,
    x: Tensor,
    method: str,
    options: argparse.Namespace,
) -> float:
    """Return the factor of a rival's guidance whose mean is nearest to other digits x, (b, D)."""
    if method not in TUNED:
        return 1.0
    y, errors = _measured(operator, x, 1), {}
    for strength in STRENGTHS:
        found, _ = _sampled(model, operator, y, method, options, strength)
        errors[strength] = float((found.mean - x).square().mean())
    return min(errors, key=lambda strength: errors[strength])


def _measure(model: ScoreModel, data: DataSet, options: argparse.Namespace, folder: Path) -> None:
    """Measure what is not finished, and write it after each method."""
    file, pictures = folder / "methods.csv", folder / "pictures.npz"
    rows: list[Any] = pd.read_csv(file).to_dict("records") if file.exists() else []
    kept = dict(np.load(pictures, allow_pickle=False)) if pictures.exists() else {}
    done = {(row["task"], row["method"]) for row in rows}
    varying = torch.tensor(data.train).std(0) > LEAST_STD
    truth = torch.tensor(data.test)[: options.measurements]
    others = torch.tensor(data.validation)[: options.tuning]
    for task, operator in tasks().items():
        y = _measured(operator, truth, 0)
        seen = operator.adjoint(y)[0]
        kept |= {f"{task}/truth": truth[0].numpy(), f"{task}/measurement": seen.numpy()}
        for method in options.methods:
            if (task, method) in done:
                continue
            strength = _strength(model, operator, others, method, options)
            found, seconds = _sampled(model, operator, y, method, options, strength)
            cost = {"evaluations": found.evaluations, "products": found.products}
            about = {"task": task, "method": method, "strength": strength}
            rows.append(about | judged(found, truth, varying) | cost | {"seconds": seconds})
            one = found.draws[:, 0]
            shown = torch.cat([found.mean[:1], found.variance[:1].sqrt(), one[:SHOWN]])
            kept[f"{task}/{method}"] = shown.half().numpy()
            write_csv(pd.DataFrame(rows), file)
            np.savez_compressed(pictures, **kept)  # type: ignore[arg-type]


def main() -> None:
    """Read the command line, train what is missing, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="folder of the network; made if it is missing")
    parser.add_argument("results", type=Path, help="folder of the tables")
    parser.add_argument("--steps", type=int, default=25, help="evaluations of each chain")
    parser.add_argument("--draws", type=int, default=40, help="for each measurement, 39 or more")
    parser.add_argument("--measurements", type=int, default=10, help="of each task")
    parser.add_argument("--tuning", type=int, default=2, help="digits that rivals are tuned on")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    options = parser.parse_args()
    data = digits()
    options.results.mkdir(parents=True, exist_ok=True)
    _measure(learned(options.model, data), data, options, options.results)


if __name__ == "__main__":
    main()
