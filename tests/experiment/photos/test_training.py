"""The photographs that the shipped denoisers are learned from, and how they are trained."""

import numpy as np
import pytest
from PIL import Image

from hosm.experiment.photos import training
from hosm.pictures import PictureDenoiser

SIZES = {"large.png": (3000, 400), "compressed.png": (1200, 300), "small.png": (600, 200)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A package's contents: pictures of one shade on the left and another on the right."""
    monkeypatch.setattr(training, "PHOTOGRAPHS", {"package": tuple(SIZES)})
    place = tmp_path / "package" / "usr" / "share"
    place.mkdir(parents=True)
    for name, (width, height) in SIZES.items():
        pixels = np.zeros((height, width, 3), np.uint8)
        pixels[:, width // 2 :] = 90, 150, 210
        Image.fromarray(pixels).save(place / name)
    return tmp_path


def test_photographs_are_cut_down_as_far_as_their_size_asks(folder):
    colour, grey = training.photographs(folder, 3), training.photographs(folder, 1)
    shapes = [(200, 1500, 3), (222, 889, 3), (200, 600, 3)]  # halved, over 1.35, as it is
    assert [page.shape for page in colour] == shapes
    assert [page.shape for page in grey] == [shape[:2] for shape in shapes]
    assert colour[0][0, -1].tolist() == [90, 150, 210] and colour[0].dtype == np.uint8
    assert grey[0][0, -1] == round(0.299 * 90 + 0.587 * 150 + 0.114 * 210)


def test_a_photograph_that_is_missing_is_named(folder):
    (folder / "package" / "usr" / "share" / "small.png").unlink()
    with pytest.raises(FileNotFoundError, match="package holds no small.png"):
        training.photographs(folder, 1)


def test_training_saves_a_model_and_leaves_no_state(folder, capsys):
    pages = [
        page[:, -300:] + np.arange(300, dtype=np.uint8) for page in training.photographs(folder, 1)
    ]
    place = folder / "m.hosm"
    trained = training.train(pages, place, 1)
    again = PictureDenoiser.load(place)
    assert again.sigma_ == trained.sigma_ and again.model_.channels == 1
    assert not place.with_suffix(".state").exists()
    assert capsys.readouterr().out.startswith("step 1 of 1, 0 min: train_dsm ")
