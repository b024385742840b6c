"""Examples that take a moment, run as a user runs them."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from hosm.distributions import GaussianMixture
from hosm.experiment.run.tracking import open_tracker
from hosm.experiment.settings import ModelParams
from hosm.experiment.train.models import build_model, save_model
from hosm.inverse import inpainting, measured
from hosm.operators import DiagonalPlusLowRank
from hosm.uncertainty import Posterior

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
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
    with pytest.raises(ValueError, match=r"sigma must be 0.1 to 1.0, as in training, got 3.0"):
        run(monkeypatch, "uncertainty_maps.py", *options)


WARNING = "--quick: a run this small shows that the script works; its numbers mean nothing"
NUMBERS = {  # examples that draw nothing -> how a line of theirs begins
    "few_steps.py": "likelihood by the flow: error ",
    "inverse_problems.py": "covariance ",
    "noise_conditional.py": "sigma 0.316: range ",
    "third_order.py": "relative error of s3, learned: ",
}
QUICK = {
    "causal_ordering.py": ("order, Gaussian", "SCORE, additive", "by variance", "true order"),
    "inpainting.py": ("with the known pixels, learned", "with the known pixels, exact"),
    "micrograph.py": ("noisy 2", "4 directions of 576 hold"),
    "ood.py": ("order 1: ", "photo patches", "digit 7"),
    "preconditioned.py": ("plain ", "covariance ", "mean s2 "),
}


@pytest.mark.parametrize("name", QUICK)
def test_examples_print_their_figures_and_draw(monkeypatch, tmp_path, capsys, name):
    out = tmp_path / "folder" / "out.png"
    run(monkeypatch, name, "--quick", "--out", out)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(WARNING) and lines[-1] == str(out)
    for start in QUICK[name]:
        assert any(line.startswith(start) for line in lines), lines
    assert "nan " not in " ".join(lines)
    with Image.open(out) as image:
        pixels = np.asarray(image.convert("L"))
    assert image.width > 500 and pixels.std() > 20


@pytest.mark.parametrize("name", NUMBERS)
def test_examples_without_a_picture_are_quick_too_and_say_so(monkeypatch, capsys, name):
    run(monkeypatch, name, "--quick")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(WARNING)
    assert any(line.startswith(NUMBERS[name]) for line in lines)
    assert "nan " not in " ".join(lines)


def names_of(name):
    return runpy.run_path(str(EXAMPLES / name))


def test_the_exact_answer_of_inpainting_is_that_of_the_library_for_a_gaussian():
    example = names_of("inpainting.py")
    law, generator = example["textures"](), torch.Generator().manual_seed(0)
    S, sigma = law.covariances[0], example["SIGMA"]
    one = GaussianMixture(torch.ones(1).double(), law.means[:1], S.unsqueeze(0))
    x = one.sample(3, generator)
    x_noisy = x + sigma * torch.randn(x.shape, generator=generator, dtype=torch.float64)
    known = torch.arange(x.shape[1]) % 5 == 0
    values, vectors = torch.linalg.eigh(S)
    C = values * sigma**2 / (values + sigma**2)  # of x given x_noisy, in the eigenvectors
    factor = (vectors * (C - C[0] / 2).sqrt()).expand(3, -1, -1)
    covariance = DiagonalPlusLowRank((C[0] / 2).expand(x.shape), factor)
    mean = x_noisy @ (vectors * (C / sigma**2)) @ vectors.T
    given = Posterior(mean, covariance, torch.zeros(3).double())
    found = measured(given, inpainting(known), x[:, known], example["LITTLE"]).mean()
    wanted = example["exact"](one, x_noisy, x[:, known], known)[0]
    # conjugate gradients stop at a relative residual of 4e-11
    torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-7)


def test_order_divergence_and_auroc_are_counts_of_pairs():
    causal, ood = names_of("causal_ordering.py"), names_of("ood.py")
    rng = np.random.default_rng(0)
    parents = causal["random_graph"](8, 12, rng)
    orders = [rng.permutation(8) for _ in range(20)]
    for order in orders:
        place = {int(variable): i for i, variable in enumerate(order)}
        wrong = sum(place[i] > place[j] for i, j in np.argwhere(parents).tolist())
        assert causal["order_divergence"](parents, order) == wrong
    known, other = rng.integers(0, 6, 30), rng.integers(2, 8, 40)
    pairs = np.mean([(b > a) + 0.5 * (b == a) for a in known for b in other])
    assert ood["auroc"](known, other) == pytest.approx(pairs)


def test_examples_are_short():
    for path in EXAMPLES.glob("*.py"):
        assert path.read_text().count("\n") <= 200, path.name


def test_compare_runs_reads_the_estimates_of_a_store(monkeypatch, tmp_path, capsys):
    tracker = open_tracker(f"sqlite:///{tmp_path}/mlflow.db", "hosm", tmp_path)
    out = ("--store", tracker.uri, "--out", tmp_path / "compared.png")
    with pytest.raises(ValueError, match="holds no finished estimate; run `dvc repro sweep`"):
        run(monkeypatch, "compare_runs.py", *out)
    cell = {"dataset": "gaussian100", "regime": "streaming", "sigma": 0.05, "rank": 15}
    with tracker.run("sweep") as parent:
        for seed, error in ((0, 7.0), (1, 9.0)):
            params = {**cell, "target": "moment", "seed": seed}
            numbers, tags = {"hessian_error": error}, {"stage": "trial", "profile": "laptop"}
            tracker.finished_child(parent, f"trial{seed}", params, numbers, tags)
            lost = {**params, "target": "residual"}
            tracker.finished_child(parent, f"lost{seed}", lost, numbers, tags, "FAILED")
        small = {
            **cell,
            "target": "moment",
            "seed": 0,
        }  # newer, of other sizes: no mean with these
        tags = {"stage": "trial", "profile": "smoke"}
        tracker.finished_child(parent, "small", small, {"hessian_error": 90.0}, tags)
    capsys.readouterr()
    run(monkeypatch, "compare_runs.py", *out)
    printed = capsys.readouterr().out
    lines = [line.split()[:7] for line in printed.splitlines()]
    expected = ["gaussian100", "streaming", "0.05", "moment", "15"]
    assert ["laptop", *expected, "8"] in lines and ["smoke", *expected, "90"] in lines
    assert "residual" not in printed
    with Image.open(tmp_path / "compared.png") as image:
        assert image.width > 300
