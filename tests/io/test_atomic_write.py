"""Files are whole or not there: under errors, and when the disk is full."""

import errno
import os

import pytest

from hosm.io import atomic_write as writing
from hosm.io import write_whole


def test_a_file_is_replaced_and_its_folder_made(tmp_path):
    path = tmp_path / "new" / "file.txt"
    write_whole(b"one", path)
    write_whole(b"two", path)
    assert path.read_bytes() == b"two" and path.stat().st_mode & 0o777 == 0o644
    assert [each.name for each in path.parent.iterdir()] == ["file.txt"]


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_an_error_leaves_the_earlier_file_and_names_it(tmp_path, monkeypatch, call):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "file.txt"
    write_whole(b"one", path)
    monkeypatch.setattr(writing.os, call, full)
    with pytest.raises(OSError, match=r"No space left on device: .*file\.txt was not written"):
        write_whole(b"two", path)
    assert path.read_bytes() == b"one"
    assert [each.name for each in tmp_path.iterdir()] == ["file.txt"]


def test_the_contents_reach_the_disk_before_the_name_and_the_name_after(tmp_path, monkeypatch):
    calls, path = [], tmp_path / "file.txt"
    sync, replace = os.fsync, os.replace

    def synced(handle):
        calls.append(os.readlink(f"/proc/self/fd/{handle}"))
        sync(handle)

    def replaced(source, target):
        calls.append("renamed")
        replace(source, target)

    monkeypatch.setattr(writing.os, "fsync", synced)
    monkeypatch.setattr(writing.os, "replace", replaced)
    write_whole(b"one", path)
    assert calls[0].endswith(".tmp") and calls[1:] == ["renamed", str(tmp_path)]
