"""Figures 7 and 8: what classes of images chains reach, from noise and from one test image.

From a noisy test image of each class, x + sigma z, many chains start, each with noise of its own.
After so many iterations their points are denoised by Tweedie's formula and classified, and the
share is recorded whose class is no longer that of the start (Meng, Song, Li and Ermon, "Estimating
High Order Gradients of the Data Distribution by Denoising", NeurIPS 2021, section 6.3, figures 7
and 8, appendix F). At iteration 0 it is what noise and denoising alone change. The paper compares
Langevin and Ozaki at equal eps, where Ozaki's clock is twice as fast (see `hosm.samplers`); beside
that stand Ozaki on Langevin's clock, and every method at the largest step within a bias (see
`step_search`). A sampler that is biased towards one class changes classes too, so the entropy of
the classes, the classifier's confidence and the images' brightness stand beside the share.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hosm.experiment.diversity.study.classifier import Classifier, accuracy
from hosm.experiment.diversity.study.samplers import BLOCK, DenoiserScores, Sampler
from hosm.experiment.settings import DiversityParams
from hosm.experiment.shared.files import Array
from hosm.experiment.shared.finished_parts import NOTHING_FINISHED, FinishedParts
from hosm.experiment.shared.rows import Row
from hosm.noise import standard_normal

__all__ = [
    "Chains",
    "accuracies",
    "curves",
    "entropy",
    "from_noise",
    "records",
    "run_chains",
    "samplers_of",
    "starts_of",
]

SHOWN_CHAINS, SHOWN_NOISE = 12, 3  # of each start and method, and from noise, in the pictures
SHOWN_STARTS = 2


class Chains(NamedTuple):
    """What was recorded of n chains at R iterations.

    Attributes:
        labels: class of the denoised image, shape (R, n).
        confidence: the classifier's probability of that class, shape (R, n).
        brightness: mean pixel of the denoised image, shape (R, n).
        last: the denoised images at the end of the chains whose places were asked for, shape
            (shown, D).
    """

    labels: Tensor
    confidence: Tensor
    brightness: Tensor
    last: Tensor


def samplers_of(params: DiversityParams) -> dict[str, Sampler]:
    """Return the samplers at equal eps, by what reports call them."""
    eps = params.step
    return {
        "Langevin": Sampler("langevin", eps, "langevin"),
        "Ozaki": Sampler("ozaki", eps, "paper"),
        "Ozaki, Langevin's clock": Sampler("ozaki", eps, "langevin"),
    }


def records(params: DiversityParams, time: float) -> list[int]:
    """Return the iterations that are recorded: 0, a geometric grid, the end, and the equal time.

    Args:
        params: how many iterations and records.
        time: of an iteration. The equal time is what Langevin's iterations at equal eps take.
    """
    count, equal = params.iterations, params.iterations * params.step / 2
    grid = {0, *np.geomspace(1, count, params.records).astype(int).tolist()}
    return sorted(grid | {min(count, max(1, round(equal / time)))})


def starts_of(images: Tensor, labels: Tensor, model: Classifier) -> tuple[Tensor, Tensor]:
    """Return the first image of each class that the classifier gets right, and the classes.

    Args:
        images: of the test split, shape (n, D).
        labels: their classes, shape (n,).
        model: the classifier.

    Raises:
        ValueError: it gets none right.
    """
    right = model.probabilities(images).argmax(1) == labels
    places = [torch.nonzero(right & (labels == c)).flatten()[:1] for c in labels.unique()]
    first = torch.cat(places)
    if not len(first):
        raise ValueError("the classifier must get at least one test image right, got none")
    return images[first], labels[first]


@torch.inference_mode()
def accuracies(
    images: Tensor, labels: Tensor, model: Classifier, scores: DenoiserScores, seed: int
) -> dict[str, float]:
    """Return the classifier's accuracy on test images, and on the same noised and denoised.

    Args:
        images: of the test split, shape (n, D).
        labels: their classes, shape (n,).
        model: the classifier.
        scores: of the denoiser.
        seed: of the noise.
    """
    generator = torch.Generator(images.device).manual_seed(seed)
    blocks = (images + scores.sigma * standard_normal(images, generator)).split(BLOCK)
    denoised = torch.cat([scores.denoised(block, scores.first(block)) for block in blocks])
    both = {"clean": images, "denoised": denoised}
    found = {name: accuracy(model, x, labels) for name, x in both.items()}
    return {f"{name}_{key}": value for name, row in found.items() for key, value in row.items()}


@torch.inference_mode()
def _run_block(
    sampler: Sampler,
    x: Tensor,
    wanted: list[int],
    model: Classifier,
    scores: DenoiserScores,
    seed: int,
    shown: list[int],
) -> list[Any]:
    """Return labels, confidence and brightness at each record, and the last images of some."""
    generator = torch.Generator(x.device).manual_seed(seed)
    kernel = sampler.kernel(scores)
    state, found = kernel.init(x), []
    for iteration in range(wanted[-1] + 1):
        if iteration:
            state, _ = kernel.step(state, generator)
        if iteration in wanted:
            m = scores.denoised(state.x, state.score)
            sure, labels = model.probabilities(m).max(1)
            found.append((labels.tolist(), sure.tolist(), m.mean(1).tolist()))
    return [*zip(*found, strict=True), m[shown].tolist()]


def run_chains(
    sampler: Sampler,
    x0: Tensor,
    wanted: list[int],
    model: Classifier,
    scores: DenoiserScores,
    seed: int,
    shown: Sequence[int],
    finished: FinishedParts = NOTHING_FINISHED,
) -> Chains:
    """Run chains block after block, and record them at some iterations.

    Args:
        sampler: the transition.
        x0: where they start, shape (n, D).
        wanted: ascending iterations, from 0 on.
        model: the classifier.
        scores: of the denoiser.
        seed: of the noise, which samplers that are given the same share.
        shown: places of the chains, from 0 to n - 1 and ascending, whose last images are wanted.
        finished: blocks of chains that a stopped run finished, of these models and starts.
    """
    blocks = []
    for place, x in enumerate(x0.split(BLOCK)):
        here = [i - place * BLOCK for i in shown if 0 <= i - place * BLOCK < len(x)]
        about = {**asdict(sampler), "wanted": wanted, "block": place, "seed": seed, "shown": here}
        run = partial(_run_block, sampler, x, wanted, model, scores, seed + place, here)
        blocks.append(finished.part(about, run))
    labels, *measured, last = zip(*blocks, strict=True)
    classes = torch.cat([torch.tensor(part) for part in labels], 1)
    sure, brightness = (
        torch.cat([torch.tensor(part, dtype=x0.dtype) for part in parts], 1) for parts in measured
    )
    images = [image for part in last for image in part]
    return Chains(classes, sure, brightness, torch.tensor(images, dtype=x0.dtype))


def entropy(counts: Tensor) -> Tensor:
    """Return the entropy of shares, in nats, of counts (*, classes): shape (*)."""
    return torch.special.entr(counts / counts.sum(-1, keepdim=True)).sum(-1)


def _rows(found: Chains, own: Tensor, wanted: list[int], classes: int) -> list[Row]:
    """Return a row for each start and recorded iteration."""
    labels = found.labels.unflatten(1, (len(own), -1))  # (R, starts, chains)
    counts = torch.nn.functional.one_hot(labels, classes).sum(2).double()
    measures = {
        "changed": (labels != own.view(1, -1, 1)).double().mean(2),
        "entropy": entropy(counts),
        "classes": (counts > 0).sum(2),
        "confidence": found.confidence.unflatten(1, (len(own), -1)).mean(2),
        "brightness": found.brightness.unflatten(1, (len(own), -1)).mean(2),
    }
    return [
        {"start": int(own[i]), "iterations": t}
        | {name: float(values[place, i]) for name, values in measures.items()}
        for place, t in enumerate(wanted)
        for i in range(len(own))
    ]


def curves(
    chosen: dict[str, Sampler],
    starts: tuple[Tensor, Tensor],
    model: Classifier,
    scores: DenoiserScores,
    cost: pd.DataFrame,
    params: DiversityParams,
    finished: FinishedParts = NOTHING_FINISHED,
) -> tuple[pd.DataFrame, dict[str, Array]]:
    """Run all samplers from the same noisy starts, with the same noise.

    Args:
        chosen: samplers by name.
        starts: images, shape (k, D), and their classes, shape (k,).
        model: the classifier.
        scores: of the denoiser.
        cost: seconds of an iteration of a block of chains, by method.
        params: how many chains and iterations, and the seed.
        finished: blocks of chains that a stopped run finished, of these models and starts.

    Returns:
        A row for each sampler, recorded iteration and start; and for the pictures `starts`, their
        classes `own`, and of each sampler 'chains|name' and 'labels|name', last images of chains.
    """
    (images, own), seconds = starts, cost.set_index("method")["seconds"]
    generator = torch.Generator(images.device).manual_seed(params.seed + 2)
    clean = images.repeat_interleave(params.chains, 0)
    x0 = clean + scores.sigma * standard_normal(clean, generator)
    rows: list[Row] = []
    pictured = [(2 * i + 1) * len(own) // (2 * SHOWN_STARTS) for i in range(SHOWN_STARTS)]
    first = range(min(SHOWN_CHAINS, params.chains))
    shown = [start * params.chains + place for start in pictured for place in first]
    both = {"starts": images, "own": own}
    pictures = {name: part[pictured].cpu().numpy() for name, part in both.items()}
    for name, sampler in chosen.items():
        wanted = records(params, sampler.time)
        found = run_chains(sampler, x0, wanted, model, scores, params.seed + 3, shown, finished)
        about: Row = {"sampler": name, "method": sampler.method, "clock": sampler.clock}
        about["step"] = sampler.step
        for row in _rows(found, own.cpu(), wanted, model.classes):
            spent = {"time": row["iterations"] * sampler.time}
            spent["seconds"] = row["iterations"] * seconds[sampler.method]
            rows.append({**about, **row, **spent})
        last, labels = found.last, found.labels[-1, shown]
        pictures[f"chains|{name}"] = last.unflatten(0, (SHOWN_STARTS, -1)).numpy()
        pictures[f"labels|{name}"] = labels.unflatten(0, (SHOWN_STARTS, -1)).numpy()
        share = float(np.mean([row["changed"] for row in rows[-len(own) :]]))
        print(f"{name}, eps = {sampler.step:g}: {share:.1%} changed class", flush=True)
    return pd.DataFrame(rows), pictures


@torch.inference_mode()
def from_noise(scores: DenoiserScores, like: Tensor, params: DiversityParams) -> dict[str, Array]:
    """Return denoised images of chains that start at N(0, I), for figure 7.

    Args:
        scores: of the denoiser.
        like: any images, shape (n, D), for dimension, dtype and device.
        params: step, iterations, chains and the seed.

    Returns:
        `noise_iterations`, shape (R,), and 'noise|name' of each sampler at equal eps, shape
        (R, chains, D).
    """
    wanted = [0, *np.unique(np.geomspace(5, max(params.noise_iterations, 6), 8).astype(int))]
    arrays = {"noise_iterations": np.array(wanted)}
    generator = torch.Generator(like.device).manual_seed(params.seed + 4)
    x0 = standard_normal(like[:1].expand(SHOWN_NOISE, -1), generator)
    for name, sampler in samplers_of(
        params.model_copy(update={"step": params.noise_step})
    ).items():
        kernel, kept = sampler.kernel(scores), []
        generator = torch.Generator(like.device).manual_seed(params.seed + 5)
        state = kernel.init(x0)
        for iteration in range(wanted[-1] + 1):
            if iteration:
                state, _ = kernel.step(state, generator)
            if iteration in wanted:
                kept.append(scores.denoised(state.x, state.score).cpu())
        arrays[f"noise|{name}"] = torch.stack(kept).numpy()
    return arrays
