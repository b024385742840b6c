"""Fixtures that several test modules share, and the number of threads."""

import os
import signal

import pytest
import torch

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


@pytest.fixture
def generator():
    """A seeded source of randomness."""
    return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def ends_as_before():
    """Undo what a stage that runs in this process does to how the process ends."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)
