"""What the stage `train` wrote of each model's losses."""

from pathlib import Path

import pandas as pd

from hosm.experiment.shared.files import read_frame

__all__ = ["load_training_losses"]

LOSSES = "step train_dsm train_second validation_dsm validation_second"


def load_training_losses(results: Path) -> dict[str, pd.DataFrame]:
    """Read the losses of every model, by its name.

    Args:
        results: the folder `data/results`.

    Raises:
        FileNotFoundError: there are none.
        ValueError: a file lacks a column, or holds no rows.
    """
    files = sorted((results / "training").glob("*.csv"))
    if not files:
        raise FileNotFoundError(f"{results / 'training'} holds no losses; run the stage train")
    return {path.stem: read_frame(path, LOSSES) for path in files}
