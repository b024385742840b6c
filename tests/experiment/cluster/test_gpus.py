"""GPUs: who gets one, and how large a share. To Ray they are numbers, so any machine will do."""

import os
from types import SimpleNamespace

import pytest
import ray
import torch

from hosm.experiment.cluster import tune, worker
from hosm.experiment.cluster.connection import settled, worker_capacity
from hosm.experiment.run.process import StageError
from hosm.experiment.settings import ClusterParams, load_params
from tests.experiment.cluster.test_train import ROOT, params

NODES = [{"CPU": 4.0}, {"CPU": 8.0, "GPU": 2.0}]


@pytest.mark.parametrize(
    ("use_gpu", "nodes", "given", "room"),
    [
        ("auto", NODES, True, 2),
        ("auto", NODES[:1], False, 4),
        ("auto", [{"CPU": 4.0, "GPU": 0.0}], False, 4),
        (False, NODES, False, 12),
        (True, NODES[:1], True, 0),
    ],
)
def test_each_worker_has_a_gpu_where_the_cluster_has_any(use_gpu, nodes, given, room):
    asked = params(use_gpu=use_gpu)
    assert settled(asked, nodes).use_gpu is given
    assert worker_capacity(asked, nodes) == room


def test_every_profile_takes_gpus_where_there_are_any(tmp_path):
    text = (ROOT / "params.yaml").read_text()
    for profile in ("smoke", "laptop", "paper"):
        path = tmp_path / f"{profile}.yaml"
        path.write_text(text.replace("profile: laptop", f"profile: {profile}"))
        assert load_params(path).cluster.use_gpu == "auto"


def grid(trial=None, workers=1, share=0.25, cells=1, storage=""):
    sweep = load_params(ROOT / "params.yaml").sweep
    changed = {"workers_per_trial": workers, "gpus_per_trial": share, "cpus_per_worker": 1}
    each = [{"dataset": "none", "seed": seed} for seed in range(cells)]
    asked: ClusterParams = params(use_gpu="auto")
    return tune.Grid(
        each, trial, lambda tables: "", sweep.model_copy(update=changed), asked, storage
    )


def nodes(monkeypatch, **resources):
    monkeypatch.setattr(ray, "nodes", lambda: [{"Resources": resources, "Alive": True}])
    monkeypatch.setattr(ray, "cluster_resources", lambda: resources)


def test_trials_share_gpus_and_workers_have_whole_ones(monkeypatch):
    nodes(monkeypatch, CPU=16.0, GPU=2.0)
    assert tune._needs(grid()) == {"CPU": 1.0, "GPU": 0.25}
    assert tune._needs(grid(workers=2)) == {"CPU": 2.0, "GPU": 2.0}
    assert tune._concurrency({"CPU": 1.0, "GPU": 0.25}, 0) == 8
    assert tune._concurrency({"CPU": 1.0, "GPU": 1 / 3}, 0) == 6
    assert tune._concurrency({"CPU": 1.0, "GPU": 0.25}, 3) == 3
    with pytest.raises(StageError, match="a trial needs 3 GPUs; the cluster has 2"):
        tune._concurrency({"CPU": 3.0, "GPU": 3.0}, 0)


def test_without_gpus_trials_ask_for_cpus_alone(monkeypatch):
    nodes(monkeypatch, CPU=4.0)
    assert tune._needs(grid()) == {"CPU": 1.0} and tune._concurrency({"CPU": 1.0}, 0) == 4


@pytest.mark.parametrize(
    ("lent", "usable", "device"),
    [([], True, "cpu"), ([0], True, "cuda"), ([0], False, "cpu")],
)
def test_a_trial_trains_on_what_it_is_lent(lent, usable, device, monkeypatch, capsys):
    monkeypatch.setattr(ray, "get_gpu_ids", lambda: lent)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: usable)
    monkeypatch.setattr(tune, "train_here", lambda task, **given: given["device"].type)
    carried = SimpleNamespace(sweep=grid().sweep, cluster=params(), storage="")
    assert tune._trainer(carried)(None, None, None) == device
    assert ("cannot use" in capsys.readouterr().out) == (bool(lent) and not usable)


def where(cell, train, keep, state):
    """A trial that says what it was lent."""
    share = ray.get_runtime_context().get_assigned_resources().get("GPU", 0)
    return {"rows": [{"gpus": len(ray.get_gpu_ids()), "share": share, "process": os.getpid()}]}


@pytest.mark.cluster
def test_ray_lends_each_trial_its_share(tmp_path):
    options = {"include_dashboard": True, "dashboard_host": "127.0.0.1", "log_to_driver": False}
    options |= {"object_store_memory": 200 * 2**20, "_node_ip_address": "127.0.0.1"}
    ray.init(address="local", num_cpus=2, num_gpus=1, **options)
    try:
        found = tune.run_grid(grid(where, 1, 0.5, 2, str(tmp_path)), "shares", lambda *_: None)
    finally:
        ray.shutdown()
    assert [(row["gpus"], row["share"]) for (row,) in (each["rows"] for each in found)] == [
        (1, 0.5)
    ] * 2


@pytest.mark.parametrize(("rounds", "said"), [(True, "TF32"), (False, "float32")])
def test_the_log_says_whether_products_are_rounded(rounds, said, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = rounds
    try:
        found = worker._described(torch.device("cuda"))
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert found.startswith(f"on a GPU: products of matrices in {said}, convolutions in ")
