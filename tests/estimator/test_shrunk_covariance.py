"""The covariance of Ledoit and Wolf, as scikit-learn computes it."""

import numpy as np
import pytest
import torch
from sklearn.covariance import ledoit_wolf

from hosm.estimator.shrunk_covariance import shrunk_covariance, shrunk_second_moment
from tests.tolerances import FLOAT64

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("size", [(20, 30), (500, 4)])
@pytest.mark.parametrize("centred", [False, True])
def test_it_is_that_of_ledoit_and_wolf(size, centred):
    x = RNG.normal(size=size) @ RNG.normal(size=(size[1], size[1])) + 3
    expected, _ = ledoit_wolf(x, assume_centered=centred)
    found = (shrunk_second_moment if centred else shrunk_covariance)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, expected, **FLOAT64)
