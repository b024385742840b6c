"""Does a GPU train as the CPU does? Checks and times on one device, as rows of a table.

    python -m hosm.experiment.cost.study.device reports/device

trains a small model and a U-Net on the device and on the CPU, stops and resumes, by the plain loop
and by Ray Train, tries each option of the loop, and times scores, autodiff Hessians and training
steps. A check compares two numbers within a stated tolerance. Without a GPU it is a rehearsal: the
same code on the CPU, written to build/device, with a list of what stays unproven.
"""

import copy
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from hosm.experiment.cluster.connection import connect
from hosm.experiment.cluster.train import train_on_cluster
from hosm.experiment.data.datasets import law
from hosm.experiment.run.process import PROJECT, StageError, main
from hosm.experiment.run.provenance import facts
from hosm.experiment.run.stage import write_csv, write_json
from hosm.experiment.settings import Backbone, ClusterParams, ModelParams, load_params
from hosm.experiment.shared.stopwatch import Work, summary, timed_in_turn
from hosm.experiment.train.training_task import TrainingTask, train_here, training_settings
from hosm.scores import autodiff_hessian
from hosm.training import JointObjective, Shard, TrainingResult, batches

__all__ = ["check_device", "checks", "times"]

CPU = torch.device("cpu")
STEPS, STOP = 60, 25
UNPROVEN = (
    "kernels of the GPU: losses, gradients and noise against the CPU's",
    "resuming on a GPU bit for bit, and what its nondeterminism costs",
    "NCCL, more than one GPU, and a share of a GPU for each trial",
    "bfloat16 and torch.compile on a GPU, pinned batches, memory and every time",
)
FLOAT, TRAINED, HALF = 1e-4, 1e-2, 5e-2
"""Largest gaps, relative: of float32 sums in another order, of losses after STEPS steps that such
gaps were carried through, and of bfloat16, whose numbers have three digits."""


def _plain(**changes: Any) -> TrainingTask:  # noqa: ANN401
    """Return a network of vectors on a Gaussian of 100 dimensions, at rank 20."""
    spec = ModelParams(
        backbone=Backbone(kind="mlp", shared=True, width=256),
        **{"sigma": 0.1, "rank": 20, "learning_rate": 1e-3, "batch_size": 256, **changes},
        max_steps=STEPS,
        average_width=0.1,
        validate_every=STEPS // 3,
    )
    exact = law("gaussian100")
    points = exact.sample(2048, torch.Generator().manual_seed(0)).float().numpy()
    return TrainingTask("gaussian100", spec, (exact.dimension,), 1.0, points, points[:512])


def _pictures(**changes: Any) -> TrainingTask:  # noqa: ANN401
    """Return a U-Net on random pictures of 16 x 16, over a range of noise scales."""
    own = {key: changes.pop(key) for key in ("autocast",) if key in changes}
    spec = ModelParams(
        backbone=Backbone(kind="unet", shared=True, channels=(32, 64, 64), head=32, **own),
        sigma=(0.1, 1.0),
        parametrisation="denoiser",
        psd=True,
        regime="finite",
        **{"rank": 4, "learning_rate": 1e-3, "batch_size": 16, **changes},
        max_steps=STEPS // 3,
        average_width=0.1,
        validate_every=STEPS // 3,
    )
    points = torch.randn(64, 256, generator=torch.Generator().manual_seed(0)).numpy()
    return TrainingTask("pictures", spec, (1, 16, 16), 1.0, points, points[:32])


def _row(
    check: str, ours: float, reference: float, bound: float, unit: str = ""
) -> dict[str, Any]:
    """Return a check: two numbers, their relative gap, and whether it is within a bound."""
    gap = abs(ours - reference) / max(abs(reference), 1e-12)
    verdict = "holds" if gap <= bound else "FAILS"
    row = {"check": check, "device": ours, "reference": reference, "gap": gap, "bound": bound}
    print(f"{check}: {ours:.6g} against {reference:.6g}, gap {gap:.2g}: {verdict}", flush=True)
    return {**row, "unit": unit, "verdict": verdict}


def _loss(result: TrainingResult) -> float:
    """Return the last validation loss of the first order."""
    return result.history[-1]["validation_dsm"]


def _largest(found: dict[str, Tensor], reference: dict[str, Tensor]) -> float:
    """Return the largest gap between weights, relative to the largest weight of each tensor."""
    gaps = [
        float((found[name].cpu() - value.cpu()).abs().max() / value.abs().max().clamp_min(1e-12))
        for name, value in reference.items()
    ]
    return max(gaps)


def _gradient(task: TrainingTask, device: torch.device) -> dict[str, Tensor]:
    """Return the gradients of the first batch by the name of their weights."""
    model, settings = task.build().to(device), training_settings(task.spec)
    objective = JointObjective(model, settings)
    points = torch.tensor(task.train).to(device)
    source = batches(lambda epoch: points, settings.batch_size, settings.seed, Shard(), 0)
    terms = objective(*next(source))
    (terms * torch.tensor(objective.weights, device=device)).sum().backward()
    return {name: each.grad for name, each in model.named_parameters() if each.grad is not None}


def _against_cpu(device: torch.device) -> Iterator[dict[str, Any]]:
    """Yield checks of the device against the CPU: gradients of each target, losses."""
    for target in ("jacobian", "residual", "moment"):
        task = _plain(target=target)
        gap = _largest(_gradient(task, device), _gradient(task, CPU))
        yield _row(f"gradients of a batch, target {target}", 1 + gap, 1.0, 10 * FLOAT)
    for name, task in (("MLP", _plain()), ("U-Net", _pictures())):
        ours, reference = train_here(task, device=device), train_here(task)
        yield _row(f"loss of the {name}, trained", _loss(ours), _loss(reference), TRAINED)


def _resumed(device: torch.device) -> Iterator[dict[str, Any]]:
    """Yield checks of a run that stops and goes on: on the device, and from it on the CPU."""
    task, states = _plain(), {}
    whole = train_here(
        task,
        device=device,
        due=lambda step: step == STOP,
        report=lambda now: states.update({now.step: now.state()}),
    )
    again = train_here(task, device=device, state=states[STOP])
    bound = 0.0 if device.type == "cpu" else FLOAT
    yield _row(
        "weights after a resumption", 1 + _largest(again.weights, whole.weights), 1.0, bound
    )
    other = train_here(task, state=states[STOP])
    yield _row("loss of a run that went on on the CPU", _loss(other), _loss(whole), TRAINED)


def _options(device: torch.device) -> Iterator[dict[str, Any]]:
    """Yield checks of each option of the loop against the loop without it."""
    plain, pictures = (train_here(task, device=device) for task in (_plain(), _pictures()))
    for change, bound in (({"accumulate": 4}, TRAINED), ({"prefetch": 2}, TRAINED)):
        (name,) = change
        ours = train_here(_plain(regime="finite", **change), device=device)
        reference = train_here(_plain(regime="finite"), device=device)
        yield _row(f"loss with {name}", _loss(ours), _loss(reference), bound)
    ours = train_here(_pictures(channels_last=True), device=device)
    yield _row("loss with channels_last", _loss(ours), _loss(pictures), TRAINED)
    ours = train_here(_pictures(autocast=True), device=device)
    yield _row("loss with autocast", _loss(ours), _loss(pictures), HALF)
    if device.type == "cuda":  # on a CPU it would take a C++ compiler and minutes
        ours = train_here(_plain(compiled=True), device=device)
        yield _row("loss with compiled", _loss(ours), _loss(plain), TRAINED)


def _by_ray(device: torch.device) -> Iterator[dict[str, Any]]:
    """Yield checks of Ray Train on one worker, with a GPU where there is one."""
    params = ClusterParams(
        workers=1,
        use_gpu="auto",
        backend="auto",
        cpus_per_worker=1,
        local_cpus=2,
        object_store_mb=200,
        max_failures=0,
        checkpoints_kept=2,
    )
    task = _plain()
    with connect(params), tempfile.TemporaryDirectory() as folder:
        ours = train_on_cluster(task, params, folder)
    reference = train_here(task, device=device)
    bound = 0.0 if device.type == "cpu" else TRAINED
    yield _row("loss by Ray Train", _loss(ours), _loss(reference), bound)


def checks(device: torch.device) -> pd.DataFrame:
    """Return a row for each check: what, both numbers, their relative gap, bound and verdict.

    Args:
        device: which is checked.
    """
    parts: tuple[Callable[[torch.device], Iterator[dict[str, Any]]], ...]
    parts = (_against_cpu, _resumed, _options, _by_ray)
    return pd.DataFrame([row for part in parts for row in part(device)])


def _works(device: torch.device) -> dict[str, Work]:
    """Return what is timed: a batch of ten scores, autodiff Hessians and a training step."""
    works: dict[str, Work] = {}
    for name, task in (("MLP, D 100", _plain()), ("U-Net, D 256", _pictures())):
        model: Any = copy.deepcopy(task.build()).to(device).eval()
        sigma = None if isinstance(task.spec.sigma, float) else 0.5
        x = torch.tensor(task.train[:10]).to(device)

        def score(model: Any = model, x: Tensor = x, sigma: Any = sigma) -> None:  # noqa: ANN401
            with torch.no_grad():
                model(x, sigma)

        def hessian(model: Any = model, x: Tensor = x, sigma: Any = sigma) -> None:  # noqa: ANN401
            autodiff_hessian(lambda points: model.score(points, sigma), x, mode="reverse")

        def step(task: TrainingTask = task) -> None:
            _gradient(task, device)

        works |= {f"{name}: s1 and s2": score, f"{name}: autodiff Hessian": hessian}
        works[f"{name}: model built, gradient of a batch"] = step
    return works


def times(device: torch.device, repeats: int = 5) -> pd.DataFrame:
    """Return the seconds of each work on a device: median, least, largest.

    Args:
        device: where.
        repeats: rounds.
    """
    timed = timed_in_turn(_works(device), repeats, device)
    return pd.DataFrame([{"work": name, **summary(each)} for name, each in timed.items()])


def check_device(folder: str) -> None:
    """Write checks.csv, times.csv and card.json; those of a rehearsal to build/device.

    Args:
        folder: where to, below the project.

    Raises:
        StageError: a check fails.
    """
    began, real = time.monotonic(), torch.cuda.is_available()
    device = torch.device("cuda" if real else "cpu")
    place = PROJECT / (folder if real else "build/device")
    found, timed = checks(device), times(device)
    params = load_params(PROJECT / "params.yaml")
    machine = facts(PROJECT, params.profile, params)
    card = {name: machine[name] for name in ("hardware", "cpus", "versions", "commit")}
    card |= {
        "device": torch.cuda.get_device_name() if real else "cpu",
        "rehearsal": not real,
        "unproven": [] if real else list(UNPROVEN),
        "tf32": {
            "matrices": torch.backends.cuda.matmul.allow_tf32,
            "convolutions": torch.backends.cudnn.allow_tf32,
        },
        "seconds": round(time.monotonic() - began),
    }
    write_csv(found, place / "checks.csv")
    write_csv(timed, place / "times.csv")
    write_json(card, place / "card.json")
    print(timed.to_string(index=False))
    print(json.dumps(card, indent=2))
    if not real:
        print("a rehearsal on the CPU; unproven:", *UNPROVEN, sep="\n  ")
    if failed := [row["check"] for row in found.to_dict("records") if row["verdict"] != "holds"]:
        raise StageError(f"{len(failed)} of {len(found)} checks fail: {'; '.join(failed)}")


if __name__ == "__main__":
    main(check_device, *sys.argv[1:])
