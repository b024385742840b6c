"""Data larger than memory: peaks, the limit, times of reading, and a run of two workers."""

import subprocess
import sys
import time

import pytest

from hosm.experiment.cost.study import large_data
from hosm.experiment.cost.study.large_data import read_speeds, train_from_files, watched_peaks
from hosm.experiment.data.made_images import make_folder
from hosm.experiment.run.process import PROJECT
from hosm.experiment.settings import load_params

MEGABYTE = 2**20
HOLD = "import sys, time; held = bytearray({}); print('held', flush=True); sys.stdin.read()"
LIMITED = """
import numpy as np
from hosm.experiment.cost.study import large_data
from hosm.experiment.cost.study.large_data import _task
rows = np.zeros((4, 192), np.float32)
for most, size in ((0, 5_000_000_000), (4_000_000_000, 1_000_000_000), (0, 5_000_000_000)):
    _task(rows, rows, 8, most).build()
    try:
        np.empty(size, np.uint8)
        print(size, "held")
    except MemoryError:
        print(size, "refused")
"""


def test_the_peak_of_a_process_is_seen():
    with watched_peaks("held = bytearray", 0.05) as peaks:
        command = [sys.executable, "-c", HOLD.format(200 * MEGABYTE)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, **pipes) as child:
            assert child.stdout.readline() == b"held\n"
            while child.pid not in peaks:
                time.sleep(0.05)
            time.sleep(0.2)
            child.stdin.close()
    assert set(peaks) == {child.pid}
    assert 200 * MEGABYTE <= peaks[child.pid] < 300 * MEGABYTE


@pytest.mark.cluster
def test_a_worker_holds_no_more_than_it_may():
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True)
    said = ["5000000000 held", "1000000000 held", "5000000000 refused"]  # the limit stays
    assert done.stdout.splitlines() == said, done.stderr


def test_times_of_reading_are_of_a_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(large_data, "TIMED", 2)
    make_folder(tmp_path, 2, 16, 128)
    found = read_speeds(tmp_path, 4)
    assert len(found) == 3 and (found["seconds"] > 0).all()
    assert (found["images_per_second"] * found["seconds"]).round(6).eq(4).all()


@pytest.mark.cluster
def test_two_workers_train_from_files_within_four_gigabytes(tmp_path):
    make_folder(tmp_path / "images", 3, 20, 16)
    sizes = {"workers": 2, "cpus_per_worker": 1, "local_cpus": 2}
    cluster = load_params(PROJECT / "params.yaml").cluster.model_copy(update=sizes)
    result, peaks = train_from_files(
        tmp_path / "images", str(tmp_path / "states"), cluster, 4_000_000_000, side=16
    )
    assert result.step == 40 and len(result.history) == 2
    assert len(peaks) == 2 and all(100 * MEGABYTE < peak < 4_000_000_000 for peak in peaks)
