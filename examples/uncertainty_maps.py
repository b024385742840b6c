"""Uncertainty of your own noisy images in one call: mean, maps, directions, samples, as a picture.

Takes a trained model (a folder with model.safetensors and card.json) and noisy images as an array
of shape (n, D) or (n, channels, height, width) in a .npy file, in the units of the training data,
with the noise's standard deviation. Without images it takes digits of the training data's test
split and adds the noise itself. After `dvc repro`, from the project's folder:

    python examples/uncertainty_maps.py --sigma 0.5 --out maps.png
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from hosm.experiment.data.datasets import load
from hosm.experiment.train.models import load_model
from hosm.scores import FixedScale
from hosm.uncertainty import leading_directions, posterior

COLUMNS = ("x~", "mean", "std", "90 % low", "90 % high", "sample", "sample", "v1", "v2", "v3")
SAMPLES, DIRECTIONS = 2, 3


def maps(model: FixedScale, x_noisy: torch.Tensor) -> torch.Tensor:
    """Return the pictures of each image, (n, columns, D), from one evaluation of the model."""
    law = posterior(model, x_noisy, model.sigma)
    low, high = law.interval(0.9)
    samples = law.sample(SAMPLES, torch.Generator().manual_seed(0))
    directions = leading_directions(law.covariance, DIRECTIONS)[1]
    parts = [x_noisy, law.mean, law.variance.sqrt(), low, high, *samples, *directions.unbind(2)]
    return torch.stack(parts, 1)


def picture(images: np.ndarray, shape: list[int]) -> Figure:
    """Draw the maps, a line for each image; colour images as the mean of their channels."""
    figure = Figure(figsize=(1.15 * len(COLUMNS), 1.5 * len(images)), layout="constrained")
    axes = figure.subplots(len(images), len(COLUMNS), squeeze=False)
    for line, row in zip(axes, images, strict=True):
        for ax, flat, name in zip(line, row, COLUMNS, strict=True):
            colours = {"std": "viridis", "v1": "RdBu_r", "v2": "RdBu_r", "v3": "RdBu_r"}
            shown = flat.reshape(shape).mean(0)
            reach = np.abs(shown).max() if name.startswith("v") else None
            limits = {"vmin": reach and -reach, "vmax": reach}
            drawn = ax.imshow(shown, cmap=colours.get(name, "gray"), **limits)
            ax.set(xticks=[], yticks=[])
            bar = figure.colorbar(drawn, ax=ax, orientation="horizontal", pad=0.02)
            bar.ax.tick_params(labelsize=6)
    for ax, name in zip(axes[0], COLUMNS, strict=True):
        ax.set_title(name, fontsize=9)
    return figure


def main() -> None:
    """Read the model and the images, print a line for each, write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path, default=Path("data/models/mnist5k"))
    parser.add_argument("--images", type=Path, help=".npy file of noisy images")
    parser.add_argument("--sigma", type=float, default=0.5, help="standard deviation of the noise")
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("maps.png"))
    options = parser.parse_args()
    model, card = load_model(options.model)
    if options.images:
        given = np.load(options.images, allow_pickle=False)[: options.count]
        x_noisy = torch.as_tensor(given, dtype=torch.float32).flatten(1)
    else:
        clean = torch.as_tensor(load(Path("data/prepared") / card["data"]).test[: options.count])
        noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
        x_noisy = clean + options.sigma * noise
    images = maps(model.at(options.sigma), x_noisy)
    for i, std in enumerate(images[:, 2]):
        print(f"image {i}: std of a pixel {std.mean():.3f} on average, {std.max():.3f} at most")
    picture(images.numpy(), card["shape"]).savefig(options.out, dpi=120)
    print(options.out)


if __name__ == "__main__":
    main()
