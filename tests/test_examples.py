"""Examples that take a moment, run as a user runs them."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from hosm.experiment.models import build_model, save_model
from hosm.experiment.params import ModelParams

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SHAPE = (1, 8, 8)


@pytest.fixture
def model(tmp_path):
    """An untrained denoiser of 8 x 8 images, saved."""
    spec = ModelParams(
        backbone={"kind": "mlp", "width": 8, "shared": True},
        sigma=(0.1, 1.0),
        rank=2,
        parametrisation="denoiser",
        psd=True,
        learning_rate=1e-3,
        batch_size=1,
        max_steps=1,
        average_width=0.0,
        validate_every=1,
    )
    weights = build_model(spec, SHAPE, 0.3).state_dict()
    save_model(weights, spec, SHAPE, 0.3, tmp_path / "model", data="none")
    return tmp_path / "model"


def run(monkeypatch, name, *arguments):
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


@pytest.mark.parametrize("shape", [(3, *SHAPE), (3, 64)])
def test_uncertainty_maps_draws_a_users_images(monkeypatch, tmp_path, capsys, model, shape):
    images = torch.rand(shape, generator=torch.Generator().manual_seed(0)).numpy()
    np.save(tmp_path / "x.npy", images)
    out = tmp_path / "maps.png"
    options = ("--model", model, "--images", tmp_path / "x.npy", "--out", out, "--count", 2)
    run(monkeypatch, "uncertainty_maps.py", *options)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 3 and printed[0].startswith("image 0: std of a pixel 0.")
    with Image.open(out) as image:
        assert image.width > 900 and image.height > 200


def test_a_noise_scale_that_the_model_does_not_cover_is_named(monkeypatch, tmp_path, model):
    np.save(tmp_path / "x.npy", np.zeros((1, 64), np.float32))
    options = ("--model", model, "--images", tmp_path / "x.npy", "--sigma", 3.0)
    with pytest.raises(ValueError, match=r"trained at sigma 0.1 to 1.0, got 3.0"):
        run(monkeypatch, "uncertainty_maps.py", *options)


QUICK = {
    "causal_ordering.py": ("learned ", "Stein kernel, 200 points", "by variance", "by chance"),
    "inpainting.py": ("with the known pixels, learned", "with the known pixels, exact"),
    "micrograph.py": ("noisy 2", "4 directions of 64 hold"),
    "ood.py": ("order 1: ", "photo patches", "digit 7"),
    "preconditioned.py": ("plain ", "covariance ", "mean s2 "),
}


@pytest.mark.parametrize("name", QUICK)
def test_examples_print_their_figures_and_draw(monkeypatch, tmp_path, capsys, name):
    out = tmp_path / "folder" / "out.png"
    run(monkeypatch, name, "--quick", "--out", out)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == str(out)
    for start in QUICK[name]:
        assert any(line.startswith(start) for line in lines), lines
    assert "nan " not in " ".join(lines)
    with Image.open(out) as image:
        pixels = np.asarray(image.convert("L"))
    assert image.width > 500 and pixels.std() > 20


def test_examples_are_short():
    for path in EXAMPLES.glob("*.py"):
        assert path.read_text().count("\n") <= 200, path.name
