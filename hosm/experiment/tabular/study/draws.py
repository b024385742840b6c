"""Draws of a table of pictures, by which a reader sees whether they imitate it.

The table is scikit-learn's digits: 64 columns, each a pixel from 0 to 16, many of them at 0 in
most rows. Beside rows of the table stand draws of the law whose derivatives the default estimator
gives, at the one noise scale that it chose, and draws that imitate the table.
"""

import torch

from hosm import ScoreEstimator
from hosm.experiment.shared.files import Arrays
from hosm.experiment.tabular.study.real_tables import read_table

__all__ = ["LAWS", "SIDE", "digits_draws"]

LAWS = ("rows", "noisy", "clean")  # lines of the picture
SIDE = 8  # of a digit, in pixels
SHOWN = 12  # of each
SEED = 0


def digits_draws(rows: int) -> Arrays:
    """Return rows of the digits, and draws of both laws of an estimator that was fitted to them.

    Args:
        rows: that are fitted, at most.

    Returns:
        Pictures, shape (12, 8, 8), float64, in units of the table, by the names of `LAWS`.
    """
    digits = read_table("digits")
    order = torch.randperm(len(digits), generator=torch.Generator().manual_seed(SEED))
    x = digits[order[:rows]].numpy()
    estimator = ScoreEstimator(random_state=SEED).fit(x)
    drawn = {law: estimator.sample(SHOWN, SEED, law=law) for law in LAWS[1:]}
    found = {"rows": x[:SHOWN], **drawn}
    return {law: values.reshape(-1, SIDE, SIDE) for law, values in found.items()}
