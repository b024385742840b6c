"""Training from more data than memory holds: the memory of each worker, and who waits for whom.

    python -m hosm.experiment.cost.study.large_data build/large reports/whole/large 20 2 4

makes 20 GB of images in files, trains a U-Net from them by Ray Train on 2 workers of which none
may hold more than 4 GB, and times how fast a worker's batches are read against how fast they are
trained on. The limit is the system's on a process's own memory (RLIMIT_DATA): what goes beyond it
fails. The peak is what the system counted at most (VmHWM), code and shared pages included.
A folder of images that is half made is gone on with, and so is a training.
"""

import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import torch
from torch import nn

from hosm.experiment.cluster.connection import connect
from hosm.experiment.cluster.train import train_on_cluster
from hosm.experiment.data.made_images import made_images, make_folder
from hosm.experiment.data.shards import ShardedRows
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.provenance import facts
from hosm.experiment.run.stage import write_csv, write_json
from hosm.experiment.settings import Backbone, ClusterParams, ModelParams, load_params
from hosm.experiment.train.training_task import TrainingTask
from hosm.training import Shard, TrainingResult, batches

__all__ = ["Limited", "read_speeds", "study", "train_from_files", "watched_peaks"]

SIDE, EACH = 128, 2_500  # pixels of an image; images of a file, 123 MB
BATCH, STEPS = 16, 40  # images of a step, over all workers
BYTES = 3 * SIDE * SIDE  # of an image
TIMED = 20  # batches that are read for a time
WORKER = "RayTrainWorker"


@dataclass(frozen=True)
class Limited(TrainingTask):
    """A task whose workers may each hold so many bytes of their own; 0 for any number."""

    most: int = 0

    def build(self) -> nn.Module:
        """Return the untrained model, within the limit."""
        if self.most:
            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            resource.setrlimit(resource.RLIMIT_DATA, (self.most, hard))
        return super().build()


def _peak(process: psutil.Process) -> int:
    """Return the most bytes that a process has held, 0 if it is gone."""
    try:
        text = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0
    (line,) = [line for line in text.splitlines() if line.startswith("VmHWM:")] or ["VmHWM: 0 kB"]
    return int(line.split()[1]) * 1024


@contextmanager
def watched_peaks(name: str = WORKER, pause: float = 0.25) -> Iterator[dict[int, int]]:
    """Yield what maps processes below this one, by number, to their peaks in bytes so far.

    Args:
        name: part of the names of the processes that are watched.
        pause: seconds between two looks.
    """
    peaks: dict[int, int] = {}
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(pause):
            for process in psutil.Process().children(recursive=True):
                try:
                    if name in " ".join(process.cmdline()):
                        peaks[process.pid] = max(peaks.get(process.pid, 0), _peak(process))
                except psutil.Error:
                    continue

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join()


def _forget(folder: Path) -> None:
    """Have the system drop what it keeps of the files of a folder, so that the disk is read."""
    os.sync()
    for path in folder.glob("*.npy"):
        with path.open("rb") as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _seconds(rows: ShardedRows, size: int, seed: int, noise: bool) -> float:
    """Return the seconds that one batch of one worker takes to be read, with noise or without."""
    if noise:
        source = batches(lambda epoch: rows, size, seed, Shard(), 0)
        began = time.perf_counter()
        for _ in range(TIMED):
            next(source)
    else:
        draw = torch.Generator().manual_seed(seed)
        began = time.perf_counter()
        for _ in range(TIMED):
            rows[torch.randint(len(rows), (size,), generator=draw)]
    return (time.perf_counter() - began) / TIMED


def read_speeds(folder: Path, size: int = BATCH) -> pd.DataFrame:
    """Return the seconds of a batch of random rows: from disk, once more, and with its noise.

    Args:
        folder: of files, see `ShardedRows`.
        size: of a batch.
    """
    rows, found = ShardedRows(folder, unit=127.5, low=-1.0), []
    cases = (("rows from the disk", True, False), ("the same rows again", False, False))
    for what, cold, noise in (*cases, ("with the noise of a batch", False, True)):
        if cold:
            _forget(folder)
        seconds = _seconds(rows, size, 0, noise)
        found.append({"what": what, "seconds": seconds, "images_per_second": size / seconds})
    return pd.DataFrame(found)


def _task(rows: Any, validation: Any, side: int, most: int) -> Limited:  # noqa: ANN401
    spec = ModelParams(
        backbone=Backbone(kind="unet", shared=True, channels=(8, 16, 16)),
        sigma=0.1,
        rank=4,
        regime="finite",
        learning_rate=1e-3,
        batch_size=BATCH,
        max_steps=STEPS,
        average_width=0.1,
        validate_every=STEPS // 2,
    )
    return Limited("made", spec, (3, side, side), 0.5, rows, validation, most=most)


def train_from_files(
    folder: Path, storage: str, cluster: ClusterParams, most: int, side: int = SIDE
) -> tuple[TrainingResult, list[int]]:
    """Train from a folder of images; return the result and the peak of each worker, in bytes.

    Args:
        folder: of files of images, shape (n, 3, side, side).
        storage: absolute path for the states of the run.
        cluster: where the run is trained.
        most: bytes that each may hold of its own; 0 for any number.
        side: of an image, in pixels.
    """
    rows = ShardedRows(folder, unit=127.5, low=-1.0)
    held_out = made_images(32, side, seed=2**31).reshape(32, -1)
    validation = held_out.astype(np.float32) / np.float32(127.5) + np.float32(-1.0)
    with connect(cluster), watched_peaks() as peaks:
        task = _task(rows, validation, side, most)
        result = train_on_cluster(task, cluster, storage)
    return result, sorted(peaks.values(), reverse=True)[: cluster.workers]


def _make(folder: Path, files: int) -> None:
    """Make the images that are not there yet, and show how long the rest takes."""
    began, there = time.perf_counter(), len(list(folder.glob("*.npy")))

    def tell(made: int) -> None:
        pace = (time.perf_counter() - began) / max(made - there, 1)
        left = f"about {pace * (files - made):.0f} s left"
        print(f"\r{made} of {files} files of images, {left}   ", end="", flush=True)

    make_folder(folder, files, EACH, SIDE, tell)
    print()


def study(folder: str, out: str, gigabytes: str, workers: str, most: str) -> None:
    """Make images, train from them, and write what it took into two tables and a card.

    Args:
        folder: where the images and the states of the run go.
        out: where the tables go.
        gigabytes: of images.
        workers: of the run.
        most: gigabytes that a worker may hold of its own.
    """
    place, share, limit = Path(folder).resolve(), BATCH // int(workers), int(float(most) * 1e9)
    images = place / "images"
    _make(images, round(float(gigabytes) * 1e9 / (EACH * BYTES)))
    speeds = read_speeds(images, share)
    params = load_params(PROJECT / "params.yaml")
    sizes = {"workers": int(workers), "cpus_per_worker": 1, "local_cpus": int(workers)}
    cluster = params.cluster.model_copy(update=sizes)
    result, peaks = train_from_files(images, str(place / "states"), cluster, limit)
    step = result.seconds_per_step
    table = speeds.assign(images=share, step=step, share=speeds["seconds"] / step)
    memory = pd.DataFrame({"worker": range(len(peaks)), "peak": peaks, "limit": limit})
    write_csv(table, Path(out) / "reading.csv")
    write_csv(memory, Path(out) / "memory.csv")
    machine = facts(PROJECT, params.profile, params)
    card = {name: machine[name] for name in ("hardware", "cpus", "versions", "commit")}
    card |= {"bytes": sum(path.stat().st_size for path in images.glob("*.npy")), "side": SIDE}
    card |= {"steps": result.step, "seconds_per_step": step, "load_average": os.getloadavg()[0]}
    write_json(card, Path(out) / "card.json")
    print(f"{table.to_string(index=False)}\n{memory.to_string(index=False)}")


if __name__ == "__main__":
    main(study, *sys.argv[1:])
