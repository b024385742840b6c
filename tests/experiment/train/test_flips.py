"""Images seen in a mirror: half of them in each epoch, another half in the next."""

import pytest
import torch

from hosm.experiment.settings import Backbone, ModelParams
from hosm.experiment.train import training_task
from hosm.experiment.train.training_task import TrainingTask

NEEDED = {"sigma": 0.5, "rank": 0, "learning_rate": 1e-3, "batch_size": 4, "max_steps": 4}
NEEDED |= {
    "average_width": 0.1,
    "validate_every": 2,
    "backbone": Backbone(kind="mlp", shared=True),
}


def task(shape, **changes):
    images = torch.arange(200.0 * 12).view(200, 12)
    spec = ModelParams(**{**NEEDED, "regime": "finite", "flips": True, **changes})
    return TrainingTask("none", spec, shape, 1.0, images.numpy(), images.numpy()), images


def test_half_of_the_images_is_mirrored_another_in_each_epoch():
    one, images = task((2, 2, 3))
    mirrored = images.view(200, 2, 2, 3).flip(3).reshape(200, 12)
    source, chosen = training_task._points(one, images), []
    for epoch in (0, 1):
        seen = source(epoch)
        flipped = (seen == mirrored).all(1)
        assert ((seen == images).all(1) ^ flipped).all()
        assert 60 < flipped.sum() < 140  # of 200 fair coins
        assert torch.equal(seen, source(epoch))
        chosen.append(flipped)
    assert not torch.equal(*chosen)


def test_only_images_of_a_training_split_can_be_flipped():
    with pytest.raises(ValueError, match=r"flips must be of images .* got \(12,\)"):
        training_task._points(*task((12,)))
    with pytest.raises(ValueError, match="regime must be finite for flips"):
        task((2, 2, 3), regime="streaming")
