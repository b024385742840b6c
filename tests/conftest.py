"""Fixtures that several test modules share."""

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture
def generator():
    """A seeded source of randomness."""
    return torch.Generator().manual_seed(0)
