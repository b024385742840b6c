"""A run on 1, 2 and 3 workers stops and goes on: as many bit for bit, others up to rounding."""

import os
import socket
from datetime import timedelta
from functools import partial

import pytest
import torch
import torch.distributed
import torch.multiprocessing

from hosm.experiment.cluster import worker
from hosm.experiment.cluster.pulses import Pulse, Pulses
from hosm.experiment.cluster.saved_states import SavedStates
from hosm.experiment.data import datasets
from hosm.experiment.settings import Backbone, ModelParams
from hosm.experiment.train.training_task import TrainingTask, train_here
from hosm.training import Shard

pytestmark = pytest.mark.cluster
STOP = 17  # between the validations, which are every 10 steps
SUMS = {"rel": 1e-5, "abs": 1e-6}  # of losses in float32, over workers in another order


def task():
    """A model of two networks, whose gradients arrive in another order than DDP expects."""
    sizes = {"train_points": 640, "validation_points": 300, "test_points": 10}
    data = datasets.prepare("ring6", seed=0, **sizes)
    spec = ModelParams(
        backbone=Backbone(kind="mlp", shared=False, width=32),
        sigma=0.1,
        rank=1,
        learning_rate=2e-3,
        batch_size=64,  # no multiple of 3
        max_steps=40,
        average_width=0.1,
        validate_every=10,
    )
    return TrainingTask.of(data, spec, data.card["shape"], data.card["std"])


def group_work(rank, workers, port, folder, start, due):
    """What a worker does, without Ray: train from a state, keep one, write the result."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    patience = timedelta(seconds=100)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=workers, timeout=patience)
    device, pulse, kept = torch.device("cpu"), Pulse(), {}
    path = folder / "state.pt"
    state = torch.load(path) if start and rank == 0 else None
    result = train_here(
        task(),
        shard=Shard(rank, workers),
        wrap=worker._wrap(device, workers, pulse),
        reduce=partial(worker._sum_over_workers, pulse=pulse),
        report=lambda progress: kept.update({progress.step: progress.state()}),
        due=lambda step: due and step == STOP,
        state=worker._agreed(state, device, pulse),
    )
    assert pulse.waits == 0 and pulse.step in (0, 40, 40 - STOP)  # of several workers alone
    if rank == 0:
        torch.save(kept.get(STOP), folder / ("later.pt" if start else "state.pt"))
        torch.save((result.weights, result.history), folder / "result.pt")


def train(workers, folder, start=False, due=True):
    """Train on so many workers; return weights and history."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    arguments = (workers, port, folder, start, due)
    torch.multiprocessing.start_processes(
        group_work, arguments, nprocs=workers, start_method="fork"
    )
    return torch.load(folder / "result.pt")


@pytest.fixture(scope="module", params=[1, 2, 3])
def stopped(request, tmp_path_factory):
    """Workers, the folder with the state that they kept, and how their run went on."""
    folder = tmp_path_factory.mktemp("stopped")
    return request.param, folder, train(request.param, folder)


def test_a_run_goes_on_bit_for_bit_on_as_many_workers(stopped):
    workers, folder, (weights, history) = stopped
    again, losses = train(workers, folder, start=True)
    assert losses == history
    assert all(torch.equal(again[name], weights[name]) for name in weights)


def test_a_state_changes_nothing_of_the_run_that_keeps_it(stopped, tmp_path):
    workers, _, (weights, history) = stopped
    other, losses = train(workers, tmp_path, due=False)
    assert losses == history
    assert all(torch.equal(other[name], weights[name]) for name in weights)


def test_a_run_goes_on_with_other_workers_up_to_rounding(stopped):
    workers, folder, (_, history) = stopped
    _, losses = train(workers % 3 + 1, folder, start=True)
    assert [entry["step"] for entry in losses] == [10, 20, 30, 40]
    for ours, reference in zip(losses, history, strict=True):
        assert ours == pytest.approx(reference, **SUMS)


@pytest.mark.parametrize("rank", [0, 1])
def test_workers_meet_some_times_in_a_second_whatever_a_step_takes(rank, tmp_path, monkeypatch):
    """The clock of rank 0 decides; the other hears when to report and when to meet again."""
    now, told = [0.0], []

    def agreed(value):
        told.append(value if rank == 0 else (len(told) == 3, 5, False))
        return told[-1]

    monkeypatch.setattr(worker.time, "monotonic", lambda: now[0])
    config = {"tracking": (None, None), "task": task(), "listener": None}
    config |= {"checkpoint_every": 0, "checkpoint_seconds": 3.0}
    states = SavedStates(str(tmp_path), 2)
    reporter = worker._Reporter(rank, config, states, agreed)
    due = []
    for step in range(1, 1001):
        now[0] += 0.01
        if reporter.due(step):
            due.append(step)
    if rank == 0:
        assert [round(step / 300) for step in due] == [1, 2, 3]  # steps of 10 ms, states of 3 s
        assert 30 <= len(told) <= 60  # of ten seconds
    else:
        assert due == [16] and len(told) == 200


def beats(rows, patience=10.0):
    """Give (seconds, rank, step, waits) to two workers' watch; return what it says at the end."""
    now, said = [0.0], ""
    pulses = Pulses(patience, clock=lambda: now[0])
    for seconds, rank, step, waits in rows:
        now[0] = seconds
        said = pulses.beat(1.0, rank, 2, f"process {rank}", (step, waits))
    assert said == pulses.who()
    return said


def test_the_worker_that_others_wait_for_is_named():
    first = [(0, 0, 5, False), (0, 1, 5, False), (1, 0, 6, True), (1, 1, 6, False)]
    still = [(each, rank, 6, rank == 0) for each in range(2, 20) for rank in (0, 1)]
    assert beats(first) == "" and beats(first + still[:16]) == ""
    said = "worker 1 of 2 (process 1) has stood still in step 6 for 10 s"
    assert beats(first + still) == said
    slow = [(each, rank, 6 + each // 9, rank == 0) for each in range(2, 60) for rank in (0, 1)]
    assert beats(first + slow) == ""  # nine seconds a step are slow, and no hang


def test_nobody_is_named_before_the_first_step():
    assert beats([(each, rank, 0, False) for each in range(100) for rank in (0, 1)]) == ""


def test_a_silent_worker_is_named_and_a_link_that_all_wait_for():
    first = [(0, 0, 5, True), (0, 1, 5, True)]
    alone = [(each, 0, 5, True) for each in range(1, 20)]
    assert beats(first + alone).startswith("worker 1 of 2 (process 1) has stood still")
    both = [(each, rank, 5, True) for each in range(1, 20) for rank in (0, 1)]
    assert beats(first + both).startswith("the link between 2 workers, which all wait, has stood")


def test_a_group_that_is_started_again_is_watched_anew():
    now = [0.0]
    pulses = Pulses(10.0, clock=lambda: now[0])
    for attempt in (1.0, 2.0):
        for rank in (0, 1):
            assert pulses.beat(attempt, rank, 2, "old", (3, False)) == ""
        now[0] += 11
        assert "worker 0 of 2 (old) and worker 1" in pulses.beat(attempt, 0, 2, "old", (3, False))
    assert pulses.beat(3.0, 0, 1, "new", (3, False)) == "" and pulses.who() == ""
    assert pulses.beat(2.0, 1, 2, "late", (3, False)) == "" and list(pulses.heard) == [0]
