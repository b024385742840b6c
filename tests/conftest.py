"""Fixtures that several test modules share, and the number of threads."""

import os

import pytest
import torch

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


@pytest.fixture
def generator():
    """A seeded source of randomness."""
    return torch.Generator().manual_seed(0)
