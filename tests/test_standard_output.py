"""Programs whose reader leaves: they end quietly, with the exit code of their work."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from hosm.standard_output import a_reader_may_leave
{}
with a_reader_may_leave():
    print("x" * {})
    {}
"""


def ended(size, last="", guard=""):
    """Run a program whose stdout nobody reads; return its exit code and what it says."""
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-c", PROGRAM.format(guard, size, last)]
    held = os.environ | {"PYTHONUNBUFFERED": ""}  # what is printed waits for the flush
    told = {"stdout": writer, "stderr": subprocess.PIPE, "text": True, "env": held}
    done = subprocess.run(words, **told, timeout=60)
    os.close(writer)
    return done.returncode, done.stderr


@pytest.mark.parametrize("size", [1, 1_000_000])  # within Python's buffer, and beyond it
def test_a_reader_that_left_is_no_error(size):
    assert ended(size) == (0, "")


def test_an_exit_code_is_kept():
    assert ended(1, "raise SystemExit(3)") == (3, "")


def test_without_the_guard_it_is_one():
    code, said = ended(1, guard="from contextlib import nullcontext as a_reader_may_leave")
    assert code != 0 and "BrokenPipeError" in said
