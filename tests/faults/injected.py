"""A training run that is struck at chosen steps, each time once, and that logs every step.

A fault is a step and what happens at it:

    worker0, worker1    the worker of that rank is killed once it has taken the step
    driver              the driver is killed then, and Ray with it; the worker takes no step more
    orphan              the same, but the worker trains on until Ray ends it
    torn                the worker is killed when it has written half of the step's state
    renamed             the worker is killed when the state stands, before Ray hears of the step
    slow0, slow1        the worker of that rank takes its time over every step from there on
    slower              all take much time over every step, until there is a file steps.log.hurry
    hung0, hung1        the training of that worker stands still once it has taken the step
    frozen1             the whole process of that worker stands still then
    greedy0, greedy1    the worker asks for more memory than there is, as often as it gets there
"""

import os
import signal
import time
from dataclasses import dataclass

import torch
import torch.distributed

from hosm.experiment.cluster import saved_states as states
from hosm.experiment.data import datasets
from hosm.experiment.settings import Backbone, ClusterParams, ModelParams
from hosm.experiment.train.training_task import TrainingTask
from hosm.training import loop as training

STEPS, EVERY = 300, 20
SLOW, SLOWER = 0.03, 0.6  # seconds


@dataclass(frozen=True)
class Injected(TrainingTask):
    """A task with faults; `log` takes the steps of rank 0, and files beside it say what struck."""

    faults: tuple[tuple[int, str], ...] = ()
    log: str = ""
    driver: int = 0

    def build(self):
        """Return the model, as the worker asks for it, with the faults in its process."""
        if self.log:
            inject(self)
        return super().build()


def inject(task):
    """Have the loop and the writing of states strike this process, or the driver's."""
    update, write = training.RunState.update, states.write_whole
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0

    def struck(step, kind, number):
        if (step, kind) in task.faults and first(f"{task.log}.{step}.{kind}"):
            os.kill(number, signal.SIGKILL)
            time.sleep(60 if kind == "driver" else 0)

    def counted(run, batch):
        update(run, batch)
        if rank == 0:
            with open(task.log, "a") as log:
                log.write(f"{run.step}\n")
            struck(run.step, "driver", task.driver)
            struck(run.step, "orphan", task.driver)
        struck(run.step, f"worker{rank}", os.getpid())
        slowed(run.step)

    def slowed(step):
        kinds = {kind for when, kind in task.faults if when <= step}
        slower = "slower" in kinds and not os.path.exists(f"{task.log}.hurry")
        time.sleep(SLOWER if slower else SLOW if f"slow{rank}" in kinds else 0)
        if (step, f"hung{rank}") in task.faults and first(f"{task.log}.{step}.hung{rank}"):
            time.sleep(3600)
        if (step, f"frozen{rank}") in task.faults and first(f"{task.log}.{step}.frozen{rank}"):
            os.kill(os.getpid(), signal.SIGSTOP)
        if (step, f"greedy{rank}") in task.faults:
            torch.empty(2**60)

    def written(data, path):
        step = int(path.stem)
        if (step, "torn") in task.faults and first(f"{task.log}.{step}.torn"):
            path.with_name(f".{path.name}-half.tmp").write_bytes(data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write(data, path)
        struck(step, "renamed", os.getpid())

    training.RunState.update, states.write_whole = counted, written


def first(path):
    """Whether nobody has made this file before; it is there from now on."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def task(faults=(), log="", driver=0):
    """Return a small run of a few hundred steps."""
    sizes = {"train_points": 640, "validation_points": 300, "test_points": 10}
    data = datasets.prepare("ring6", seed=0, **sizes)
    spec = ModelParams(
        backbone=Backbone(kind="mlp", shared=False, width=32),
        sigma=0.1,
        rank=1,
        learning_rate=2e-3,
        batch_size=64,
        max_steps=STEPS,
        average_width=0.1,
        validate_every=100,
    )
    shape, std = tuple(data.card["shape"]), data.card["std"]
    arrays = (data.train, data.validation)
    return Injected("ring6", spec, shape, std, *arrays, faults=faults, log=log, driver=driver)


def settings(workers=1, failures=0, fewest=0):
    """Return where the run is trained."""
    return ClusterParams(
        workers=workers,
        fewest_workers=fewest,
        use_gpu=False,
        backend="auto",
        cpus_per_worker=1,
        local_cpus=3,
        object_store_mb=100,
        max_failures=failures,
        hang_seconds=20,
        checkpoint_seconds=0,
        checkpoint_every=EVERY,
        checkpoints_kept=3,
    )
