"""What every stage does around its work: find the project, report errors, end with its parent."""

import atexit
import ctypes
import inspect
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from hosm.experiment.run.secrets import masked

__all__ = [
    "PROJECT",
    "StageError",
    "cpu_count",
    "die_with_parent",
    "has_ended",
    "identity",
    "keep_freed_memory",
    "main",
    "silenced",
]

PROJECT = Path(os.environ.get("HOSM_PROJECT") or Path.cwd()).resolve()
_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of mallopt(3)
_DEFAULT_TRIM, _DEFAULT_MMAPS = 128 * 1024, 65536


class StageError(RuntimeError):
    """A stage cannot do its work; the message is one line for the user."""


def cpu_count() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def die_with_parent() -> None:
    """Have Linux end this process when its parent (DVC) is killed: no orphan trains on.

    By SIGTERM, since a shell's background jobs ignore SIGINT.
    """
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            raise SystemExit("the parent process ended before the stage began")


def keep_freed_memory(keep: bool = True) -> None:
    """Have glibc keep the memory of freed tensors for the next ones, or give it back as it does.

    By default each large tensor is mapped anew and its pages cleared at first touch, in every
    step of a training. Where there is no glibc, nothing happens.

    Args:
        keep: whether to keep it; False gives back what is free now, and later large tensors.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_MAX, 0 if keep else _DEFAULT_MMAPS)
        libc.mallopt(_M_TRIM_THRESHOLD, -1 if keep else _DEFAULT_TRIM)  # -1: never
        if not keep:
            libc.malloc_trim(0)


def identity() -> str:
    """Return what identifies this process: its host, its number and when it started."""
    return f"{socket.gethostname()} {os.getpid()} {psutil.Process().create_time()}"


def has_ended(known: str) -> bool:
    """Say whether a process of this host has ended; False for one of another host.

    Args:
        known: as returned by `identity`.
    """
    host, number, started = known.rsplit(" ", 2)
    if host != socket.gethostname():
        return False
    try:
        return psutil.Process(int(number)).create_time() != float(started)
    except psutil.NoSuchProcess:
        return True


@contextmanager
def silenced(*names: str) -> Iterator[None]:
    """Silence loggers in the body.

    Args:
        names: of the loggers.
    """
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _interrupt(number: int, frame: object) -> None:
    """End what runs, once: a parent of many threads sends its signal more than once as it dies."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt(signal.Signals(number).name)


def main(stage: Callable[..., None], *arguments: str) -> None:
    """Run a stage; user errors end in one line on stderr and a non-zero exit status.

    Args:
        stage: the stage's function; one that takes `*options` judges them itself.
        arguments: what it is called with, from the command line; --help tells what it does.
    """
    options = [each for each in arguments if each.startswith("-")]
    if {"-h", "--help"} & {*options}:
        print(inspect.getdoc(stage))
        raise SystemExit(0)
    signature = inspect.signature(stage)
    if options and "options" not in signature.parameters:
        raise SystemExit(f"error: {stage.__name__} must be given no options, got {options[0]}")
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise SystemExit(f"error: the arguments of {stage.__name__} are wrong: {error}") from error
    keep_freed_memory()
    signal.signal(signal.SIGTERM, _interrupt)
    if "DVC_STAGE" in os.environ:
        die_with_parent()
    try:
        stage(*arguments)
    except (StageError, ValueError, OSError, ImportError, FloatingPointError) as error:
        if os.environ.get("HOSM_TRACEBACK"):
            raise
        print(f"error: {masked(' '.join(str(error).split()))}", file=sys.stderr)
        raise SystemExit(1) from error
    except KeyboardInterrupt as error:
        print("interrupted", file=sys.stderr)
        if "ray" in sys.modules and sys.modules["ray"].is_initialized():
            atexit.register(_leave, 130)
        raise SystemExit(130) from error


def _leave(status: int) -> None:
    """End the process before Ray does, a thread of which may still wait and end it with 1.

    What Ray has started on this machine ends with the process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
