"""Where a denoised photograph is uncertain, and in which ways it may be wrong.

Learns the scores of patches of 8 x 8 grey pixels from one photograph that scikit-learn ships and
two thirds of another, adds noise to the middle third, and denoises it patch by patch: each pixel
is the mean over the patches that hold it, and so is its variance, an upper bound if that of each
patch is right (see `hosm.io.patches`). The covariance of a patch is sigma^4 s2 + sigma^2 I (Meng,
Song, Li and Ermon, NeurIPS 2021, theorem 1); its leading directions say how the pixels err
together, as in Manor and Michaeli, "On the Posterior Distribution in Denoising: Application to
Uncertainty Quantification", ICLR 2024. The measured error stands beside what is predicted: a small
network ranks places rightly, but fine texture errs by more than it says, and flat parts by less.
A minute of one core:

    python examples/micrograph.py --out build/micrograph.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_sample_image

import hosm
from hosm.io import cut_patches, map_over_patches, patch_corners, random_patches

SIDE, TOP = 8, 255.0
DIRECTIONS, SHOWN = 4, 4


def photographs() -> tuple[list[np.ndarray], np.ndarray]:
    """Return grey pages to learn from, and a clean one that is none of them."""
    flower, china = (load_sample_image(f"{each}.jpg").mean(2) for each in ("flower", "china"))
    third = china.shape[1] // 3
    return [flower, china[:, :third], china[:, -third:]], china[:, third:-third]


def psnr(error: np.ndarray) -> float:
    """Return the peak signal-to-noise ratio of errors, in dB."""
    return float(10 * np.log10(TOP**2 / (error**2).mean()))


def report(error: np.ndarray, v: np.ndarray) -> None:
    """Print how predicted variances v and measured errors agree, all of the page's shape."""
    square = error**2
    blocks = patch_corners(error, (SIDE, SIDE), SIDE)
    coarse = [cut_patches(each, (SIDE, SIDE), blocks).mean(1) for each in (v, square)]
    relation = np.corrcoef(*np.log(coarse))[0, 1]
    print(f"variance of a pixel: predicted {v.mean():.1f}, measured {square.mean():.1f}")
    print(f"correlation of their logarithms over squares of {SIDE} x {SIDE}: {relation:.2f}")
    tenths = np.array_split(np.argsort(v.ravel()), 10)
    for name, part in (("least", tenths[0]), ("most", tenths[-1])):
        pair = square.ravel()[part].mean(), v.ravel()[part].mean()
        print(f"the tenth of the pixels of {name} variance: error {pair[0]:.1f} of {pair[1]:.1f}")


def directions(
    estimator: hosm.ScoreEstimator, noisy: np.ndarray, clean: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Print how much of the patches' errors leading directions hold; return some patches' own."""
    corners = patch_corners(noisy, (SIDE, SIDE), SIDE)
    law = estimator.posterior(cut_patches(noisy, (SIDE, SIDE), corners))
    error = cut_patches(clean, (SIDE, SIDE), corners) - law.mean
    values, vectors = law.directions(DIRECTIONS)
    held = (np.einsum("ndk,nd->nk", vectors, error) ** 2).sum() / (error**2).sum()
    said = values.sum() / law.variance.sum()
    print(
        f"{DIRECTIONS} directions of {SIDE**2} hold {held:.0%} of the patches' squared error, "
        f"predicted {said:.0%}, by chance {DIRECTIONS / SIDE**2:.0%}"
    )
    chosen = np.argsort(law.variance.sum(1))[-1 :: -len(corners) // (8 * SHOWN)][:SHOWN]
    return corners[chosen], law.mean[chosen], values[chosen], vectors[chosen]


def picture(pages: dict[str, np.ndarray], found: tuple[np.ndarray, ...]) -> Figure:
    """Draw the pages, and a line for each of some patches: its mean and its directions."""
    figure = Figure(figsize=(13, 7.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1.5, 1])
    reach = max(np.percentile(page, 99) for page in [*pages.values()][-2:])
    for ax, (name, page) in zip(above.subplots(1, len(pages)), pages.items(), strict=True):
        deviation = name.startswith(("std", "error"))
        limits = {"vmin": 0, "vmax": reach if deviation else TOP}
        ax.imshow(page, cmap="viridis" if deviation else "gray", **limits)
        ax.set(xticks=[], yticks=[], title=name)
        if name == "denoised":
            for number, (i, j) in enumerate(found[0]):
                ax.text(j, i, str(number + 1), color="tab:orange", fontsize=11, weight="bold")
    axes = below.subplots(SHOWN // 2, 2 * (1 + DIRECTIONS))
    for number, (_, mean, values, vectors) in enumerate(zip(*found, strict=True)):
        line = axes[number // 2][(number % 2) * (1 + DIRECTIONS) :]
        line[0].imshow(mean.reshape(SIDE, SIDE), cmap="gray", vmin=0, vmax=TOP)
        line[0].set_title(f"patch {number + 1}", fontsize=9)
        for k in range(DIRECTIONS):
            v = vectors[:, k].reshape(SIDE, SIDE)
            line[1 + k].imshow(v, cmap="RdBu_r", vmin=-0.4, vmax=0.4)
            line[1 + k].set_title(f"std {np.sqrt(values[k]):.0f}", fontsize=9)
    for ax in axes.ravel():
        ax.set(xticks=[], yticks=[])
    return figure


def main() -> None:
    """Learn patches, denoise a photograph, print how right the uncertainty is, draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sigma", type=float, default=25.0, help="noise in grey levels of 255")
    parser.add_argument("--points", type=int, default=50_000, help="patches to learn from")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--stride", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/micrograph.png"))
    parser.add_argument("--quick", action="store_true", help="seconds, and a poor model")
    options = parser.parse_args()
    pages, clean = photographs()
    if options.quick:
        options.points, options.steps, options.stride, clean = 2000, 60, 4, clean[100:200, :120]
    rng = np.random.default_rng(options.seed)
    noisy = clean + options.sigma * rng.normal(size=clean.shape)
    estimator = hosm.ScoreEstimator(
        options.sigma,
        standardise=False,
        weight_decay=0.01,
        max_steps=options.steps,
        random_state=options.seed,
    ).fit(random_patches(pages, (SIDE, SIDE), options.points, rng))
    shares: list[np.ndarray] = []

    def answer(patches: np.ndarray) -> list[np.ndarray]:
        law = estimator.posterior(patches)
        shares.append(law.clipped_share)
        return [law.mean, law.variance]

    mean, variance = map_over_patches(noisy, (SIDE, SIDE), options.stride, answer)
    error = mean - clean
    print(f"noisy {psnr(noisy - clean):.2f} dB, denoised {psnr(error):.2f} dB")
    print(f"share of the covariances that clipping added: {np.concatenate(shares).mean():.4f}")
    report(error, variance)
    found = directions(estimator, noisy, clean)
    pages_shown = {"clean": clean, "noisy": noisy, "denoised": mean}
    (square,) = map_over_patches(
        error**2, (SIDE, SIDE), 2, lambda x: [np.broadcast_to(x.mean(1)[:, None], x.shape)]
    )
    pages_shown |= {"std": np.sqrt(variance), "error, smoothed": np.sqrt(square)}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    picture(pages_shown, found).savefig(options.out, dpi=90)
    print(options.out)


if __name__ == "__main__":
    main()
