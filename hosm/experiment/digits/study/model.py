"""One U-Net of both scores of digits, for bounds, draws and inverse problems.

    python -m hosm.experiment.digits.study.model MODEL

About half an hour of one core. Its state is kept beside the model at each validation, so that a
training that is stopped goes on from there.
"""

import argparse
import logging
from pathlib import Path

import torch

from hosm.experiment.data.datasets import DataSet, prepare
from hosm.experiment.settings import Backbone, ModelParams
from hosm.experiment.train.models import load_model, save_model
from hosm.experiment.train.training_task import TrainingTask, train_here
from hosm.scores import ScoreModel
from hosm.training import Progress, load_checkpoint, save_checkpoint

__all__ = ["digits", "learned", "train"]

SIGMAS = (0.01, 10.0)
RANK, STEPS = 20, 4000  # columns of s2, steps of the training
VALIDATED = 250  # steps between validations
logger = logging.getLogger(__name__)


def digits() -> DataSet:
    """Return the digits: 4,000 to learn from, 500 to choose by and 500 to judge by."""
    return prepare("mnist5k", train_points=4000, validation_points=500, test_points=500, seed=0)


def train(data: DataSet, folder: Path, steps: int = STEPS) -> None:
    """Train the network and save it; an interrupted training goes on.

    Args:
        data: images.
        folder: of the model; the state of the training lies beside it until it ends.
        steps: of the training.
    """
    spec = ModelParams(
        backbone=Backbone(kind="unet", channels=(16, 32, 32), head=64, shared=True),
        sigma=SIGMAS,
        rank=RANK,
        parametrisation="denoiser",
        psd=True,
        target="likelihood",
        variance_reduction="none",
        gamma=300.0,
        regime="finite",
        learning_rate=4e-3,
        batch_size=16,
        max_steps=steps,
        average_width=0.05,
        validate_every=min(VALIDATED, steps),
    )
    shape, std = data.card["shape"], data.card["std"]
    kept = folder.with_name(folder.name + ".state")

    def report(progress: Progress) -> None:
        save_checkpoint(progress.state(), kept)
        losses = {name: round(value, 4) for name, value in progress.metrics.items()}
        logger.info("step %d of %d: %s", progress.step, steps, losses)

    state = load_checkpoint(kept) if kept.is_file() else None
    found = train_here(TrainingTask.of(data, spec, shape, std), report=report, state=state)
    facts = {"data": data.name, "data_sha256": data.card["sha256"], "best_step": found.best_step}
    save_model(found.weights, spec, shape, std, folder, **facts)
    kept.unlink()


def learned(folder: Path, data: DataSet) -> ScoreModel:
    """Return the network of a folder, which is trained where there is none."""
    if not folder.is_dir():
        train(data, folder)
    torch.set_num_threads(1)
    return load_model(folder)[0].requires_grad_(False)


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="folder of the network")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    train(digits(), parser.parse_args().model)


if __name__ == "__main__":
    main()
