"""Starting the project's programs in folders of their own; none outlives the suite."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = ("RAY_", "DVC_", "MLFLOW_", "HOSM_")
MARKS = set()  # of all programs that were started; at the end nothing of them may be left
PATIENCE = 900  # seconds, for a machine that has other work; a program that ends is seen at once


def environment(mark, **extra):
    """Return an environment without the settings of whoever runs the tests."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
    kept |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MARK": str(mark)}
    kept |= {
        "RAY_TMPDIR": short(mark),
        "HOSM_OUTBOX": f"{mark}/outbox",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    return {**kept, **{key: str(value) for key, value in extra.items()}}


def short(mark):
    """Return a folder for Ray's sockets, whose paths must be short."""
    folder = Path(tempfile.gettempdir(), f"hf-{abs(hash(str(mark))) % 10**6}")
    folder.mkdir(exist_ok=True)
    return str(folder)


def start(mark, *command, log=None, cwd=ROOT, **extra):
    """Start a program; what it prints goes to `log`, or to log.txt in the marked folder."""
    MARKS.add(str(mark))
    with Path(log or Path(mark, "log.txt")).open("a") as stream:
        return subprocess.Popen(
            [str(part) for part in command],
            cwd=cwd,
            env=environment(mark, **extra),
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a job ignores it
        )


def text(mark, name="log.txt"):
    """Return what a program has printed, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", Path(mark, name).read_text())


def wait_for(condition, tell=lambda: "", process=None, seconds=PATIENCE):
    """Wait until a condition holds; fail at once if a process that should bring it about ends."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"timed out\n{tell()[-4000:]}"
        if process is not None and process.poll() is not None:
            assert condition(), f"ended with {process.returncode}\n{tell()[-4000:]}"
            return
        time.sleep(0.1)


def marked(mark):
    """Return the processes whose environment holds the mark, Ray's among them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MARK={mark}\0".encode() in path.read_bytes() + b"\0":
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def gone(mark, seconds=30):
    """Wait until no process of the mark is left; end those that stay, and say how many."""
    deadline = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    for number in left:
        os.kill(number, signal.SIGKILL)
    shutil.rmtree(short(mark), ignore_errors=True)
    return len(left)
