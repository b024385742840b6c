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

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hosm.experiment.diversity.study.classifier import Classifier, accuracy
from hosm.experiment.diversity.study.samplers import BLOCK, DenoiserScores, Sampler
from hosm.experiment.settings import DiversityParams
from hosm.experiment.shared.files import Array
from hosm.experiment.shared.rows import Row
from hosm.noise import standard_normal
from hosm.samplers import Kernel

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
        last: the denoised images at the end, shape (n, D).
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
def run_chains(
    kernel: Kernel,
    x0: Tensor,
    wanted: list[int],
    model: Classifier,
    scores: DenoiserScores,
    seed: int,
) -> Chains:
    """Run chains block after block, and record them at some iterations.

    Args:
        kernel: the transition.
        x0: where they start, shape (n, D).
        wanted: ascending iterations, from 0 on.
        model: the classifier.
        scores: of the denoiser.
        seed: of the noise, which kernels that are given the same share.
    """
    blocks: list[list[Tensor]] = []
    ends: list[Tensor] = []
    for place, x in enumerate(x0.split(BLOCK)):
        generator = torch.Generator(x.device).manual_seed(seed + place)
        state, found = kernel.init(x), []
        for iteration in range(wanted[-1] + 1):
            if iteration:
                state, _ = kernel.step(state, generator)
            if iteration in wanted:
                m = scores.denoised(state.x, state.score)
                sure, labels = model.probabilities(m).max(1)
                found.append((labels.cpu(), sure.cpu(), m.mean(1).cpu()))
        blocks.append([torch.stack(column) for column in zip(*found, strict=True)])
        ends.append(m.cpu())
    labels, sure, brightness = (torch.cat(parts, 1) for parts in zip(*blocks, strict=True))
    return Chains(labels, sure, brightness, torch.cat(ends))


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
) -> tuple[pd.DataFrame, dict[str, Array]]:
    """Run all samplers from the same noisy starts, with the same noise.

    Args:
        chosen: samplers by name.
        starts: images, shape (k, D), and their classes, shape (k,).
        model: the classifier.
        scores: of the denoiser.
        cost: seconds of an iteration of a block of chains, by method.
        params: how many chains and iterations, and the seed.

    Returns:
        A row for each sampler, recorded iteration and start; and for the pictures `starts`, their
        classes `own`, and of each sampler 'chains|name' and 'labels|name', last images of chains.
    """
    (images, own), seconds = starts, cost.set_index("method")["seconds"]
    generator = torch.Generator(images.device).manual_seed(params.seed + 2)
    clean = images.repeat_interleave(params.chains, 0)
    x0 = clean + scores.sigma * standard_normal(clean, generator)
    rows: list[Row] = []
    shown = [(2 * i + 1) * len(own) // (2 * SHOWN_STARTS) for i in range(SHOWN_STARTS)]
    both = {"starts": images, "own": own}
    pictures = {name: part[shown].cpu().numpy() for name, part in both.items()}
    for name, sampler in chosen.items():
        wanted, kernel = records(params, sampler.time), sampler.kernel(scores)
        found = run_chains(kernel, x0, wanted, model, scores, params.seed + 3)
        about: Row = {"sampler": name, "method": sampler.method, "clock": sampler.clock}
        about["step"] = sampler.step
        for row in _rows(found, own.cpu(), wanted, model.classes):
            spent = {"time": row["iterations"] * sampler.time}
            spent["seconds"] = row["iterations"] * seconds[sampler.method]
            rows.append({**about, **row, **spent})
        last = found.last.unflatten(0, (len(own), -1))[shown, :SHOWN_CHAINS]
        labels = found.labels[-1].unflatten(0, (len(own), -1))[shown, :SHOWN_CHAINS]
        pictures |= {f"chains|{name}": last.numpy(), f"labels|{name}": labels.numpy()}
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
