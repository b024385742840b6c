"""The classifier of images: what it learns, what it refuses, and how it is kept."""

import json

import pytest
import torch

from hosm.experiment.data.datasets import DataSet, prepare
from hosm.experiment.diversity.study.classifier import (
    AFFINE,
    Classifier,
    accuracy,
    distorted,
    fit,
    labels_of,
    load_classifier,
    save_classifier,
)
from hosm.experiment.settings import ClassifierParams
from tests.tolerances import FLOAT32

SIZES = {"train_points": 1000, "validation_points": 100, "test_points": 297}
PARAMS = ClassifierParams(width=8, steps=120, batch_size=50, learning_rate=1e-2, seed=0)


@pytest.fixture(scope="module")
def digits():
    return prepare("digits8", **SIZES, seed=0)


@pytest.fixture(scope="module")
def trained(digits):
    return fit(digits, PARAMS)


def test_it_learns_digits_that_it_has_not_seen(digits, trained):
    x, labels = torch.as_tensor(digits.test), labels_of(digits, "test")
    found = accuracy(trained, x, labels)
    assert found["accuracy"] > 0.9 and found["images"] == 297
    shuffled = accuracy(trained, x, labels.roll(1))["accuracy"]
    assert shuffled < 0.3  # the labels are what it finds, not what it is told
    assert not trained.training and trained.classes == 10


def test_accuracy_is_a_share_with_its_binomial_error(digits, trained):
    x = torch.as_tensor(digits.test)[:100]
    labels = trained.probabilities(x).argmax(1)
    assert accuracy(trained, x, labels) == {"accuracy": 1.0, "standard_error": 0.0, "images": 100}
    labels[:20] = (labels[:20] + 1) % 10
    found = accuracy(trained, x, labels)
    assert found["accuracy"] == pytest.approx(0.8)
    assert found["standard_error"] == pytest.approx((0.8 * 0.2 / 100) ** 0.5)


def test_probabilities_are_those_of_the_logits_whatever_the_blocks(digits, trained, monkeypatch):
    x = torch.as_tensor(digits.test)[:10]
    with torch.no_grad():
        expected = trained(x).softmax(1)
    monkeypatch.setattr("hosm.experiment.diversity.study.classifier.BLOCK", 3)
    torch.testing.assert_close(trained.probabilities(x), expected)


def test_training_depends_on_the_seed_alone(digits):
    short = PARAMS.model_copy(update={"steps": 3})
    state = torch.get_rng_state()
    first = fit(digits, short).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(5)
    again = fit(digits, short).state_dict()
    other = fit(digits, short.model_copy(update={"seed": 1})).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["layers.0.weight"], other["layers.0.weight"])


def test_distortions_are_small_and_keep_a_constant_image(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(20, 3, 8, 8, generator=generator)
    moved = distorted(images, generator)
    assert moved.shape == images.shape and not torch.equal(moved, images)
    assert moved.min() >= 0 and moved.max() <= 1
    torch.testing.assert_close(distorted(0 * images + 0.3, generator), 0 * images + 0.3)
    monkeypatch.setattr(
        "hosm.experiment.diversity.study.classifier.AFFINE", dict.fromkeys(AFFINE, 0.0)
    )
    torch.testing.assert_close(distorted(images, generator), images, **FLOAT32)


def test_a_shift_is_one_of_pixels(monkeypatch):
    """A bound of 0.25 on 8 pixels is one pixel at most, 0.25 times half a side."""
    monkeypatch.setattr(
        "hosm.experiment.diversity.study.classifier.AFFINE",
        {**dict.fromkeys(AFFINE, 0.0), "shift": 0.25},
    )
    ramp = torch.arange(8.0).expand(200, 1, 8, 8).contiguous()
    moved = distorted(ramp, torch.Generator().manual_seed(0))[:, 0, 4, 3:5] - ramp[0, 0, 0, 3:5]
    torch.testing.assert_close(moved[:, 0], moved[:, 1], **FLOAT32)
    assert 0.9 < moved.abs().max() <= 1 + FLOAT32["atol"] and moved.min() < -0.9


def test_what_is_saved_is_what_is_loaded(digits, trained, tmp_path):
    save_classifier(trained, tmp_path / "c", data="digits8", measured={"test_accuracy": 0.95})
    again, card = load_classifier(tmp_path / "c")
    x = torch.as_tensor(digits.test)[:5]
    assert torch.equal(again.probabilities(x), trained.probabilities(x))
    assert (card["classes"], card["shape"]) == (10, [1, 8, 8]) and not again.training
    assert {path.name for path in tmp_path.iterdir()} == {"c"}  # nothing is left beside it


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "model.safetensors").unlink(), "no complete model"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x" * 40), "no complete"),
        (lambda folder: (folder / "card.json").write_text("{"), "no complete model"),
        (lambda folder: (folder / "card.json").write_text("[]"), "must hold an object"),
        (lambda folder: rewrite(folder, width=9), "do not fit its card"),
        (lambda folder: rewrite(folder, shape=[8]), "shape .channels, height, width."),
        (lambda folder: rewrite(folder, classes=None), "do not fit its card"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(trained, tmp_path, damage, message):
    save_classifier(trained, tmp_path / "c")
    damage(tmp_path / "c")
    with pytest.raises(ValueError, match=message) as caught:
        load_classifier(tmp_path / "c")
    assert "\n" not in str(caught.value)


def rewrite(folder, **changes):
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps({**card, **changes}))


@pytest.mark.parametrize("shape", [[64], [1, 3, 8], [8, 8]])
def test_samples_that_are_no_images_are_refused(shape):
    with pytest.raises(ValueError, match="shape .channels, height, width."):
        Classifier(shape, 10, 4)


def test_images_without_classes_are_refused(digits):
    bare = DataSet("own", digits.train, digits.validation, digits.test, None, digits.card)
    with pytest.raises(ValueError, match="own must have classes"):
        fit(bare, PARAMS)
