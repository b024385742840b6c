"""One thread for small matrices: several cost more than they save where other work is waiting.

A fit in closed form takes thousands of short steps, and threads that wait for each other at the
end of each of them. On two cores that other processes used too, a mixture of 500 rows of 4 columns
took 30 times the processor time in two threads, and the eigenvectors of a matrix of 448 columns 90
times. Large tables keep the threads that torch and NumPy were given.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits

__all__ = ["threads_that_pay", "torch_threads_that_pay"]

MANY_NUMBERS = 1_000_000  # in a table, from which on threads pay
MANY_COLUMNS = 100  # likewise, of its matrices


def _is_small(rows: int, columns: int) -> bool:
    return rows * columns < MANY_NUMBERS and columns < MANY_COLUMNS


@contextmanager
def torch_threads_that_pay(rows: int, columns: int) -> Iterator[None]:
    """Let torch use one thread for a small table; its former number is restored afterwards."""
    before = torch.get_num_threads()
    if before == 1 or not _is_small(rows, columns):
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def threads_that_pay(rows: int, columns: int) -> Iterator[None]:
    """Let torch, NumPy, SciPy and scikit-learn use one thread for a small table.

    What they used before is restored afterwards.
    """
    limit = 1 if _is_small(rows, columns) else None
    with torch_threads_that_pay(rows, columns), threadpool_limits(limit):
        yield
