"""A classifier of images: which class a chain of figure 8 has reached.

The paper counts changes of the class by a pretrained classifier of 99.5 % accuracy on MNIST that
it does not name (Meng, Song, Li and Ermon, "Estimating High Order Gradients of the Data
Distribution by Denoising", NeurIPS 2021, appendix F). Ours is a plain convolutional network,
trained on the training split under random affine distortions; test images are for its accuracy
alone. Its learning rate rises and falls once (Smith and Topin, "Super-Convergence", 2018).
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hosm import __version__
from hosm.experiment.data.datasets import DataSet
from hosm.experiment.settings import ClassifierParams
from hosm.experiment.train.weights import read_weights, write_weights

__all__ = [
    "Classifier",
    "accuracy",
    "distorted",
    "fit",
    "labels_of",
    "load_classifier",
    "save_classifier",
]

AFFINE = {"angle": 0.2, "size": 0.1, "shear": 0.2, "shift": 0.15}  # largest; of half a side
BLOCK = 500  # images that are classified at once


class Classifier(nn.Module):
    """Five convolutions over three resolutions, a mean over the last, and a linear layer.

    Args:
        shape: channels, height and width of an image, both sides 4 or more.
        classes: how many there are.
        width: feature maps at full resolution; doubled at each of the next two.

    Raises:
        ValueError: the samples are no images, or too small.
    """

    def __init__(self, shape: Sequence[int], classes: int, width: int) -> None:
        super().__init__()
        if len(shape) != 3 or min(shape[1:]) < 4:
            raise ValueError(
                "samples must have shape (channels, height, width), both sides 4 or more, "
                f"got {tuple(shape)}"
            )
        self.shape, self.classes, self.width = tuple(shape), classes, width
        sizes = [shape[0], width, width, 2 * width, 2 * width, 4 * width]
        layers: list[nn.Module] = []
        for place, (before, after) in enumerate(zip(sizes, sizes[1:], strict=False)):
            layers += [nn.MaxPool2d(2)] if place in (2, 4) else []
            layers += [nn.Conv2d(before, after, 3, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(after), nn.ReLU()]
        pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, classes)]
        self.layers = nn.Sequential(*layers, *pooled)

    def forward(self, x: Tensor) -> Tensor:
        """Map flat images x, shape (n, D), to the logits of their classes, (n, classes)."""
        return self.layers(x.view(-1, *self.shape))

    @torch.inference_mode()
    def probabilities(self, x: Tensor) -> Tensor:
        """Return the probability of each class for flat images x, (n, D): shape (n, classes)."""
        return torch.cat([self(block).softmax(1) for block in x.split(BLOCK)])


def labels_of(data: DataSet, split: str) -> Tensor:
    """Return the classes of a split, shape (n,).

    Args:
        data: images with classes.
        split: train, validation or test.

    Raises:
        ValueError: the data have no classes.
    """
    if data.labels is None:
        raise ValueError(f"{data.name} must have classes to train a classifier, got none")
    return torch.as_tensor(data.labels[split])


def distorted(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return each image turned, sized, sheared and shifted at random, within `AFFINE`.

    Args:
        images: shape (n, channels, height, width).
        generator: source of the distortions.
    """
    n = len(images)
    turn, size, shear, *shift = (
        bound * (2 * torch.rand(n, generator=generator) - 1)
        for bound in (*AFFINE.values(), AFFINE["shift"])
    )
    cos, sin = turn.cos() * (1 + size), turn.sin() * (1 + size)
    rows = torch.stack([cos, shear - sin, shift[0]], 1), torch.stack([sin, cos, shift[1]], 1)
    places = nn.functional.affine_grid(torch.stack(rows, 1), list(images.shape), False)
    return nn.functional.grid_sample(images, places, padding_mode="border", align_corners=False)


def fit(data: DataSet, params: ClassifierParams) -> Classifier:
    """Return a classifier trained on the training split, in evaluation mode.

    Args:
        data: images with classes.
        params: its size, how it trains, and the seed.

    Raises:
        ValueError: the samples are no images, or have no classes.
    """
    x, labels = torch.as_tensor(data.train), labels_of(data, "train")
    generator = torch.Generator().manual_seed(params.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(params.seed)
        model = Classifier(data.card["shape"], int(labels.max()) + 1, params.width)
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    rate = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=params.learning_rate, total_steps=params.steps + 1
    )
    for _ in range(params.steps):
        chosen = torch.randint(len(x), (params.batch_size,), generator=generator)
        batch = distorted(x[chosen].view(-1, *model.shape), generator)
        loss = nn.functional.cross_entropy(model(batch.flatten(1)), labels[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        rate.step()
    return model.eval()


def accuracy(model: Classifier, x: Tensor, labels: Tensor) -> dict[str, float]:
    """Return the share of images whose class is found, its standard error, and their number.

    Args:
        model: in evaluation mode.
        x: flat images, shape (n, D).
        labels: their classes, shape (n,).
    """
    share = float((model.probabilities(x).argmax(1) == labels).double().mean())
    error = math.sqrt(share * (1 - share) / len(x))
    return {"accuracy": share, "standard_error": error, "images": len(x)}


def save_classifier(
    model: Classifier,
    folder: Path,
    **facts: Any,  # noqa: ANN401
) -> None:
    """Write a classifier's folder whole or not at all.

    Args:
        model: what to write.
        folder: where to; what stood there is replaced.
        facts: what the card says beside the architecture, such as the accuracy.
    """
    sizes = {"shape": list(model.shape), "classes": model.classes, "width": model.width}
    write_weights(model.state_dict(), {**sizes, "version": __version__, **facts}, folder)


def load_classifier(folder: Path) -> tuple[Classifier, dict[str, Any]]:
    """Return a saved classifier, in evaluation mode, and its card.

    Args:
        folder: as written by `save_classifier`.

    Raises:
        ValueError: the folder is incomplete or damaged, or its weights do not fit its card.
    """
    weights, card = read_weights(folder)
    try:
        model = Classifier(card["shape"], card["classes"], card["width"])
        model.load_state_dict(weights)
    except (KeyError, TypeError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"the weights in {folder} do not fit its card: {reason}") from error
    return model.eval(), card
