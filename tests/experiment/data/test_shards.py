"""Data larger than memory: the same batches as from memory, and no more of it than a batch."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet

from hosm.experiment.data.shards import ShardedRows, pack, parquet_pieces
from hosm.training.keyed_batches import Shard, batches

ROOT = Path(__file__).resolve().parents[3]
ROWS = np.random.default_rng(0).integers(0, 256, size=(103, 2, 3)).astype(np.uint8)


@pytest.fixture
def rows(tmp_path):
    assert pack([ROWS[:40], ROWS[40:41], ROWS[41:]], tmp_path / "shards") == 103
    return ShardedRows(tmp_path / "shards", unit=127.5, low=-1.0)


def taken(points, start, count, shard, orthogonal=False):
    found = batches(lambda epoch: points, 12, 5, shard, start, orthogonal)
    return [next(found) for _ in range(count)]


@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("shard", [Shard(0, 1), Shard(1, 2)])
def test_batches_are_those_of_memory_bit_for_bit(rows, shard, orthogonal):
    memory = torch.from_numpy(
        ROWS.reshape(103, 6).astype(np.float32) / np.float32(127.5) + np.float32(-1.0)
    )
    wanted = taken(memory, 0, 20, shard, orthogonal)  # of three epochs
    for one, other in zip(wanted, taken(rows, 0, 20, shard, orthogonal), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    for one, other in zip(wanted[11:], taken(rows, 11, 9, shard, orthogonal), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_rows_go_to_the_device_of_the_training(rows):
    moved = rows.on(torch.device("meta"))  # where `batches` then draws the noise
    assert moved.device.type == "meta" and moved[torch.tensor([3, 1])].device.type == "meta"
    assert rows.device.type == "cpu" and rows[torch.tensor([3])].device.type == "cpu"


def test_each_row_is_seen_once_in_an_epoch(rows):
    seen = torch.cat([batch.x for batch in taken(rows, 0, 8, Shard(0, 1))])
    assert len({tuple(row.tolist()) for row in seen}) == 96


def test_files_that_do_not_fit_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no .npy file"):
        ShardedRows(tmp_path)
    np.save(tmp_path / "a.npy", ROWS)
    np.save(tmp_path / "b.npy", ROWS.astype(np.float32))
    with pytest.raises(ValueError, match=r"b\.npy must hold uint8 rows of shape \(2, 3\)"):
        ShardedRows(tmp_path)
    (tmp_path / "b.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"b\.npy cannot be read: it must hold 618 bytes"):
        ShardedRows(tmp_path)
    with pytest.raises(ValueError, match="must hold no .npy file"):
        pack([ROWS], tmp_path)


@pytest.mark.parametrize("number", [-1, 103])
def test_a_row_that_is_not_there_is_named(rows, number):
    with pytest.raises(
        ValueError, match=f"index must be a whole number from 0 to 102, got {number}"
    ):
        rows[torch.tensor([number])]


def test_a_thousand_files_are_read_without_holding_them_open(tmp_path):
    pack([np.full((1, 2), k, np.float32) for k in range(1500)], tmp_path)
    rows = ShardedRows(tmp_path)
    open_files = len(os.listdir("/proc/self/fd"))
    assert rows[torch.tensor([1499, 0])].tolist() == [[1499, 1499], [0, 0]]
    assert len(os.listdir("/proc/self/fd")) <= open_files < 1000


def test_numbers_that_are_not_finite_are_refused_when_they_are_read(tmp_path):
    pack([np.array([[1.0, 2.0], [np.nan, 3.0]])], tmp_path)
    rows = ShardedRows(tmp_path)
    assert rows[torch.tensor([0])].tolist() == [[1.0, 2.0]]
    with pytest.raises(ValueError, match="finite"):
        rows[torch.tensor([1])]


def test_parquet_files_are_packed_in_pieces(tmp_path):
    table = pyarrow.table({"a": np.arange(5.0), "b": np.arange(5)})
    parquet.write_table(table, tmp_path / "t.parquet")
    assert pack(parquet_pieces(tmp_path / "t.parquet"), tmp_path / "shards") == 5
    assert ShardedRows(tmp_path / "shards")[torch.tensor([4, 0])].tolist() == [[4, 4], [0, 0]]


LIMITED = """
import resource, sys
import numpy as np, psutil, torch
from hosm.experiment.data.shards import ShardedRows
from hosm.training.keyed_batches import Shard, batches
rows = ShardedRows(sys.argv[1], 127.5, -1.0)
before = psutil.Process().memory_info().vms
limit = before + 2**29
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    np.fromfile(rows.files[0].path, np.uint8)
    print("all of it fits, so that this shows nothing")
except MemoryError:
    pass
found = batches(lambda epoch: rows, 64, 0, Shard(0, 1), 100)
print(sum(len(next(found).x) for _ in range(20)), len(rows))
"""


def test_a_gigabyte_is_read_within_half_of_it(tmp_path):
    header = {"descr": "|u1", "fortran_order": False, "shape": (2**18, 4096)}
    with (tmp_path / "a.npy").open("wb") as stream:  # of zeros that take no place on the disk
        np.lib.format.write_array_header_1_0(stream, header)
        stream.truncate(stream.tell() + 2**30)
    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1280", str(2**18)]
