"""Programs whose output goes through a pipe that may be closed, as `head` closes it.

    hosm ood model.hosm new.csv | head

A program that writes on after its reader has left gets BrokenPipeError, either where it prints or
when Python flushes at its end, where nothing can catch it. So all is flushed while it can still be
caught, and what is left goes to the null device, as Python's documentation has it ("Note on
SIGPIPE", module signal).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["a_reader_may_leave"]


@contextmanager
def a_reader_may_leave() -> Iterator[None]:
    """Run the body of a program, and end it quietly where the reader of its output has left."""
    try:
        yield
    except BrokenPipeError:
        pass  # there is nobody left to tell
    finally:
        for stream in (sys.stdout, sys.stderr):
            _flush(stream)


def _flush(stream: TextIO) -> None:
    """Write out what a stream holds, into nothing if its reader has left."""
    try:
        stream.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
