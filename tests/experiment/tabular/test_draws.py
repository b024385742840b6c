"""Draws of digits that the page shows."""

import numpy as np
import pytest

from hosm.experiment.tabular.study.draws import LAWS, digits_draws
from hosm.experiment.tabular.study.real_tables import read_table


@pytest.mark.filterwarnings("ignore::UserWarning")  # of few rows, steps and the draws
def test_clean_draws_keep_to_the_values_of_their_pixels_and_noisy_ones_do_not():
    found = digits_draws(60)
    assert tuple(found) == LAWS and {part.shape for part in found.values()} == {(12, 8, 8)}
    table = read_table("digits").numpy()
    assert all((table == row).all(1).any() for row in found["rows"].reshape(-1, 64))
    clean = found["clean"].reshape(-1, 64)
    assert (clean >= table.min(0)).all() and (clean <= table.max(0)).all()
    noisy = found["noisy"].reshape(-1, 64)
    assert (noisy < table.min(0)).mean() > 0.1 and np.isfinite(noisy).all()
