"""Where a denoised photograph is uncertain, and in which ways it may be wrong.

Takes the denoiser of photographs that comes with the package (`hosm.PictureDenoiser.pretrained`,
which has not seen this one), adds noise to a photograph that scikit-learn ships, and denoises it.
Beside each pixel's standard deviation stands the error that was made. The covariance of a window
(Meng, Song, Li and Ermon, NeurIPS 2021, theorem 1) has leading directions, which say how its
pixels err together, as in Manor and Michaeli, "On the Posterior Distribution in Denoising:
Application to Uncertainty Quantification", ICLR 2024. A few seconds of one core:

    python examples/micrograph.py --out build/micrograph.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.ndimage import uniform_filter
from sklearn.datasets import load_sample_image

import hosm

TOP, SIDE = 255.0, 24
DIRECTIONS, SHOWN = 4, 4


def psnr(error: np.ndarray) -> float:
    """Return the peak signal-to-noise ratio of errors, in dB."""
    return float(10 * np.log10(TOP**2 / (error**2).mean()))


def report(error: np.ndarray, variance: np.ndarray) -> None:
    """Print how predicted variances and measured errors agree, both of the picture's shape."""
    square = error**2
    coarse = [np.log(uniform_filter(each, 8)[4::8, 4::8]).ravel() for each in (variance, square)]
    print(f"variance of a pixel: predicted {variance.mean():.1f}, measured {square.mean():.1f}")
    relation = np.corrcoef(*coarse)[0, 1]
    print(f"correlation of their logarithms over squares of 8 x 8 pixels: {relation:.2f}")
    tenths = np.array_split(np.argsort(variance.ravel()), 10)
    ratios = [square.ravel()[each].mean() / variance.ravel()[each].mean() for each in tenths]
    text = ", ".join(f"{each:.2f}" for each in ratios)
    print(f"measured over predicted, in tenths of the pixels from least to most: {text}")


def windows(found: hosm.pictures.DenoisedPicture) -> list[tuple[int, int, int, int]]:
    """Return some windows, from the most uncertain on."""
    height, width = found.mean.shape
    places = [(i, j) for i in range(0, height - SIDE, SIDE) for j in range(0, width - SIDE, SIDE)]
    places.sort(key=lambda at: -found.variance[at[0] : at[0] + SIDE, at[1] : at[1] + SIDE].sum())
    return [(*places[k * len(places) // (8 * SHOWN)], SIDE, SIDE) for k in range(SHOWN)]


def share(found: hosm.pictures.DenoisedPicture, error: np.ndarray) -> None:
    """Print how much of the error of windows leading directions hold."""
    held, said, whole, total = 0.0, 0.0, 0.0, 0.0
    for i, j, height, width in windows(found):
        values, vectors = found.directions((i, j, height, width), DIRECTIONS)
        part = error[i : i + height, j : j + width]
        held += (np.tensordot(vectors, part, 2) ** 2).sum()
        said, whole = said + values.sum(), whole + (part**2).sum()
        total += found.variance[i : i + height, j : j + width].sum()
    print(
        f"{DIRECTIONS} directions of {SIDE**2} hold {held / whole:.0%} of the windows' squared "
        f"error, predicted {said / total:.0%}, by chance {DIRECTIONS / SIDE**2:.1%}"
    )


def draw(pages: dict[str, np.ndarray], found: hosm.pictures.DenoisedPicture) -> Figure:
    """Draw the pages, and a line for each of some windows: its mean and its directions."""
    figure = Figure(figsize=(13, 7.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1.5, 1])
    reach = float(np.percentile(np.abs(pages["error"]), 99))
    axes = above.subplots(1, len(pages))
    for ax, (name, page) in zip(axes, pages.items(), strict=True):
        grey = name in ("clean", "noisy", "denoised")
        limits = {"vmin": 0, "vmax": TOP if grey else reach}
        shown = ax.imshow(np.abs(page), cmap="gray" if grey else "viridis", **limits)
        ax.set(xticks=[], yticks=[], title=name)
        for number, (i, j, _, _) in enumerate(windows(found) if name == "denoised" else []):
            ax.text(j, i, str(number + 1), color="tab:orange", fontsize=11, weight="bold")
    above.colorbar(shown, ax=axes[-2:], shrink=0.6, label="grey levels of 255")
    lines = below.subplots(SHOWN // 2, 2 * (1 + DIRECTIONS))
    for number, window in enumerate(windows(found)):
        line = lines[number // 2][(number % 2) * (1 + DIRECTIONS) :]
        i, j, height, width = window
        line[0].imshow(found.mean[i : i + height, j : j + width], cmap="gray", vmin=0, vmax=TOP)
        line[0].set_title(f"window {number + 1}", fontsize=9)
        for k, (value, vector) in enumerate(
            zip(*found.directions(window, DIRECTIONS), strict=True)
        ):
            largest = np.abs(vector).max()
            drawn = line[1 + k].imshow(vector, cmap="RdBu_r", vmin=-largest, vmax=largest)
            below.colorbar(drawn, ax=line[1 + k], shrink=0.6).ax.tick_params(labelsize=6)
            line[1 + k].set_title(f"std {np.sqrt(value):.0f}", fontsize=9)
    for ax in lines.ravel():
        ax.set(xticks=[], yticks=[])
    return figure


def main() -> None:
    """Denoise a photograph, print how right the uncertainty is, draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sigma", type=float, default=25.0, help="noise in grey levels of 255")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/micrograph.png"))
    parser.add_argument("--quick", action="store_true", help="seconds; numbers mean nothing")
    options = parser.parse_args()
    clean = load_sample_image("china.jpg").mean(2)
    if options.quick:
        print("--quick: a run this small shows that the script works; its numbers mean nothing")
        clean = clean[100:260, 200:360]
    noise = np.random.default_rng(options.seed).normal(size=clean.shape)
    noisy = clean + options.sigma * noise
    found = hosm.PictureDenoiser.pretrained(1).denoise(noisy, options.sigma)
    error = found.mean - clean
    print(f"noisy {psnr(noisy - clean):.2f} dB, denoised {psnr(error):.2f} dB")
    report(error, found.variance)
    share(found, error)
    pages = {"clean": clean, "noisy": noisy, "denoised": found.mean, "std": found.std}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    draw({**pages, "error": error}, found).savefig(options.out, dpi=90)
    print(options.out)


if __name__ == "__main__":
    main()
