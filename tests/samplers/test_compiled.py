"""Compiled chains: walks are so many steps, resumed bit for bit; who cannot walk is named."""

from functools import partial

import pytest
import torch

from hosm.distributions import named_laws as energies
from hosm.networks import MLP, ConditionalMLP
from hosm.operators import DiagonalPlusLowRank
from hosm.samplers import Kernel, compiled, langevin, ozaki, sample_chain
from hosm.scores import ScoreModel
from tests.tolerances import FLOAT32

LAW = energies.ring6()


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def both(x):
    return LAW.score(x), LAW.hessian(x)


KERNELS = {
    "langevin": langevin(LAW.score, 0.1),
    "a step for each chain": langevin(LAW.score, torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5])),
    "mala": langevin(LAW.score, 0.8, LAW.log_prob),
    "ozaki": ozaki(LAW.score_and_diagonal, 1.0),
    "full, adjusted": ozaki(both, 1.0, form="full", log_prob=LAW.log_prob),
}


@pytest.fixture
def uncompiled(monkeypatch):
    """Leave walks as they are written, which takes no seconds and rounds like steps."""
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)


def run(kernel, **options):
    return sample_chain(kernel, LAW.sample(5, generator(1)), generator=generator(2), **options)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("length", [1, 4, 64])
def test_a_walk_is_so_many_steps(name, length, uncompiled):
    numbers, options = [], {"steps": 9, "burn_in": 5, "thin": 3}
    walked = run(
        compiled(KERNELS[name], length), progress=lambda i, info: numbers.append(i), **options
    )
    assert torch.equal(walked, run(KERNELS[name], **options))
    assert numbers == list(range(1, 33))


def test_chains_walk_where_they_can_and_step_where_fewer_are_left(uncompiled):
    kernel, calls = compiled(KERNELS["langevin"], 4), []
    counted = kernel._replace(
        walk=lambda state, noises: calls.append("walk") or kernel.walk(state, noises),
        step=lambda state, g: calls.append("step") or kernel.step(state, g),
    )
    run(counted, steps=11)
    assert calls == ["walk"] * 2 + ["step"] * 3
    calls.clear()
    run(counted, steps=11, checkpoint_every=6)
    assert calls == ["walk", "step", "step", "walk", "step"]


@pytest.mark.parametrize("stop", [7, 13, 20])
@pytest.mark.parametrize("name", ["mala", "ozaki"])
def test_an_interrupted_compiled_chain_goes_on_bit_for_bit(name, stop, uncompiled, tmp_path):
    kernel = compiled(KERNELS[name], 4)
    options = {"steps": 22, "checkpoint_every": 6}
    whole = run(kernel, **options)

    def interrupt(i, info):
        if i == stop:
            raise KeyboardInterrupt

    file = tmp_path / "chain.safetensors"
    with pytest.raises(KeyboardInterrupt):
        run(kernel, checkpoint=file, progress=interrupt, **options)
    assert file.exists()
    assert torch.equal(run(kernel, checkpoint=file, **options), whole)


def test_a_walk_that_diverges_names_the_guard(uncompiled):
    law = LAW.tolerant()
    kernel = compiled(ozaki(law.score_and_diagonal, 300.0, "none"), 16)
    with pytest.raises(FloatingPointError, match="within 64 transitions.*guard 'floor'"):
        run(kernel, steps=200)


def test_compiled_chains_are_those_of_the_kernel_up_to_rounding():
    network = MLP(2, 2, width=16)
    model = ScoreModel(network, sigma=0.1)
    kernel = ozaki(model.score_and_diagonal, 0.3)
    fast = compiled(kernel, 2)
    torch.testing.assert_close(run(fast, steps=8), run(kernel, steps=8), **FLOAT32)


def test_many_compiled_kernels_stay_apart(monkeypatch):
    """Of one code, more than torch.compile keeps of it by default; traced, but not optimised."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    for eps in torch.linspace(0.1, 1.0, 12).tolist():
        kernel = langevin(LAW.score, eps)
        assert torch.equal(run(compiled(kernel, 2), steps=4), run(kernel, steps=4))


def of_a_range():
    network = ConditionalMLP(2, 2 + 1, width=16)
    options = {"parametrisation": "denoiser", "psd": True}
    model = ScoreModel(network, sigma=(0.1, 1.0), rank=1, **options).at(0.5)
    return ozaki(model.diagonal_only(), 0.3, clock="langevin")


@pytest.mark.parametrize("name", [*KERNELS, "a model of a range"])
def test_every_kind_of_kernel_can_be_traced(name, monkeypatch):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    kernel = {**KERNELS, "a model of a range": of_a_range()}[name]
    assert torch.equal(run(compiled(kernel, 2), steps=4), run(kernel, steps=4))


def branches(x):
    return -x if x.sum() > 0 else x


def test_a_model_that_cannot_be_traced_is_named():
    kernel = compiled(langevin(branches, 0.1), 4)
    with pytest.raises(ValueError, match="kernel must be fit for torch.compile, got .*branching"):
        run(kernel, steps=4)


def low_rank(x):
    return -x, DiagonalPlusLowRank.from_diagonal(-torch.ones_like(x))


@pytest.mark.parametrize(
    ("kernel", "length", "message"),
    [
        (KERNELS["mala"], 0, "length must be .*got 0"),
        (
            ozaki(low_rank, 0.5, form="low-rank"),
            4,
            "forms diagonal and full, got one without advance",
        ),
        (Kernel(KERNELS["mala"].init, KERNELS["mala"].step), 4, "kernel must be one of langevin"),
        (LAW.score, 4, "kernel must be one of langevin"),
    ],
)
def test_what_cannot_be_compiled_is_named(kernel, length, message):
    with pytest.raises(ValueError, match=message):
        compiled(kernel, length)
