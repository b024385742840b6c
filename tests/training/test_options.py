"""Options of the loop, each off by default: what they may change, and what they must not."""

import threading

import pytest
import torch
from torch import nn

from hosm.networks.unet import UNet
from hosm.scores import ScoreModel
from hosm.training import Shard, batches, fit
from hosm.training import loop as training
from hosm.training.keyed_batches import prefetched
from tests.training.test_loop import DATA, model, run, settings

ORDER = {"rtol": 1e-4, "atol": 1e-5}  # sums in float32 in another order, over 40 steps


def same(ours, reference):
    assert ours.history == reference.history
    assert all(torch.equal(ours.weights[name], reference.weights[name]) for name in ours.weights)


def close(ours, reference):
    for name, value in reference.weights.items():
        torch.testing.assert_close(ours.weights[name], value, **ORDER)


def test_prefetched_batches_are_the_same():
    before = threading.active_count()
    same(run(settings=settings(prefetch=3)), run())
    states = {}
    run(report=lambda progress: states.update({progress.step: progress.state()}))
    same(run(settings=settings(prefetch=2), state=states[20]), run())
    deadline = threading.Event()
    while threading.active_count() > before:  # the threads end with their runs
        assert not deadline.wait(0.05)


def test_what_fails_while_batches_are_prefetched_is_raised():
    source = batches(lambda epoch: DATA / (epoch == 0), 16, 5, Shard(), 0)
    found = prefetched(source, 2, torch.device("cpu"))
    for _ in range(4):
        next(found)
    with pytest.raises(ValueError, match="points must be finite"):
        next(found)


@pytest.mark.parametrize("parts", [2, 3, 16])
def test_a_batch_in_parts_is_the_whole_batch(parts):
    close(run(settings=settings(accumulate=parts)), run())


def test_a_batch_in_parts_averages_gradients_over_workers_once():
    """In all parts but the last, gradients add up on each worker alone."""
    calls = []

    class Averaged(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, *batch):
            calls.append("forward")
            return self.module(*batch)

        def no_sync(self):
            calls.append("alone")
            return torch.enable_grad()

    run(settings=settings(accumulate=3, max_steps=1, validate_every=1), wrap=Averaged)
    assert calls == ["alone", "forward", "alone", "forward", "forward"]


def test_compiled_networks_learn_the_same(monkeypatch):
    """By the compiler's front end alone, as not every machine has a C++ compiler."""
    compiled, original = [], nn.Module.compile

    def compile_eagerly(network):
        compiled.append(network)
        original(network, backend="eager")

    monkeypatch.setattr(nn.Module, "compile", compile_eagerly)
    net = model()
    close(run(net, settings=settings(compiled=True)), run())
    assert compiled == [net.trunk]


def pictures(**options):
    torch.manual_seed(0)
    net = UNet((1, 8, 8), 3, (8, 8), **options)
    return ScoreModel(net, sigma=0.5, rank=1, parametrisation="denoiser")


def run_pictures(net, state=None, report=lambda progress: None, **changes):
    data = torch.randn(32, 64, generator=torch.Generator().manual_seed(0))
    chosen = settings(batch_size=8, max_steps=6, validate_every=3, **changes)
    return fit(net, chosen, lambda epoch: data, data[:8], state=state, report=report)


def test_channels_last_is_a_matter_of_layout():
    net = pictures()
    ours = run_pictures(net, channels_last=True)
    for found, plain in zip(ours.history, run_pictures(pictures()).history, strict=True):
        assert found == pytest.approx(plain, rel=1e-4)  # float32, six steps
    weights = [each for each in net.parameters() if each.ndim == 4 and min(each.shape[1:]) > 1]
    assert weights
    assert all(each.is_contiguous(memory_format=torch.channels_last) for each in weights)


def test_dropout_is_keyed_by_the_step_and_absent_from_validation():
    states = {}
    whole = run_pictures(
        pictures(dropout=0.3), report=lambda now: states.update({now.step: now.state()})
    )
    torch.manual_seed(99)  # as in another process
    same(run_pictures(pictures(dropout=0.3), state=states[3]), whole)
    assert whole.history != run_pictures(pictures()).history
    net = training.RunState(
        training.JointObjective(pictures(dropout=0.3), settings()),
        settings(),
        lambda module: module,
    )
    x = torch.randn(4, 64)
    assert torch.equal(net.averaged.model.score(x), net.averaged.model.score(x))
    assert not torch.equal(net.objective.model.score(x), net.objective.model.score(x))


def test_workers_drop_different_features():
    keys = {training._drop_key(0, step, rank) for step in range(50) for rank in range(4)}
    assert len(keys) == 200 and min(keys) >= 0
