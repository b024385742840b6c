"""How far drawn pictures are from real ones, in the features of a classifier.

The features are those of the last layer but one of the project's own classifier of digits, see
`hosm.experiment.diversity.study.classifier`. Their Frechet distance is not the FID, whose network
is another. Precision is the share of draws within the ball of a real picture that reaches
to its k-th real neighbour (Kynkaanniemi et al., "Improved Precision and Recall Metric for
Assessing Generative Models", NeurIPS 2019); coverage the share of these balls that hold a draw
(Naeem et al., "Reliable Fidelity and Diversity Metrics for Generative Models", ICML 2020).
"""

from pathlib import Path

import torch
from torch import Tensor

from hosm.experiment.data.datasets import DataSet
from hosm.experiment.diversity.study.classifier import (
    Classifier,
    accuracy,
    fit,
    labels_of,
    load_classifier,
    save_classifier,
)
from hosm.experiment.settings import ClassifierParams

__all__ = ["NEIGHBOURS", "features", "learned_classifier", "precision_and_coverage"]

NEIGHBOURS = 5
CLASSIFIER = ClassifierParams(width=8, steps=800, batch_size=64, learning_rate=1e-2, seed=0)


def learned_classifier(folder: Path, data: DataSet) -> Classifier:
    """Return the classifier of a folder, which is trained where there is none."""
    if not folder.is_dir():
        model = fit(data, CLASSIFIER)
        found = accuracy(model, torch.tensor(data.test), labels_of(data, "test"))
        save_classifier(model, folder, data=data.name, **found)
    return load_classifier(folder)[0]


@torch.inference_mode()
def features(classifier: Classifier, x: Tensor) -> Tensor:
    """Return the outputs of the last layer but one, shape (n, 4 width), of images (n, D)."""
    return classifier.layers[:-1](x.view(-1, *classifier.shape))


def precision_and_coverage(
    draws: Tensor, real: Tensor, neighbours: int = NEIGHBOURS
) -> tuple[float, float]:
    """Return the share of draws near a real point, and of real points near a draw.

    Args:
        draws: features, shape (n, D).
        real: features, shape (m, D).
        neighbours: k; balls of real points reach to their k-th neighbour, 1 to m - 1.
    """
    radius = torch.cdist(real, real).kthvalue(neighbours + 1, dim=1).values
    inside = torch.cdist(real, draws) <= radius.unsqueeze(1)
    return float(inside.any(0).double().mean()), float(inside.any(1).double().mean())
