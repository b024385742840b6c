"""What the stages `mixing` and `peers` wrote, and what is kept of a longer run of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hosm.experiment.presenting.longer_runs import LONG_RUN, THIS_RUN
from hosm.experiment.shared.files import Arrays, read_arrays, read_frames, read_json

__all__ = ["Mixing", "Sampling", "load_mixing", "load_sampling"]

MEASURED = "ess_nice ess_bulk r_hat kolmogorov variance_ratio finite_share within_bound"
FRAMES = {  # field of Sampling -> file, and the columns that a report needs
    "final": (
        "mixing/table3.csv",
        f"target scores method setting step_size {MEASURED} ess_bulk_standard_error acceptance "
        "distance tuning_within_bound paper_ess iterations_to_bound seconds_eager "
        "seconds_compiled seconds_per_iteration ess_bulk_per_second",
    ),
    "tuning": (
        "mixing/tuning.csv",
        "target scores method step_size ess_bulk kolmogorov variance_ratio within_bound",
    ),
    "curves": ("mixing/curves.csv", "target scores method iterations kolmogorov"),
    "approach": (
        "mixing/approach.csv",
        "target scores method step_size iterations kolmogorov finite_share",
    ),
    "bias": ("mixing/bias.csv", "target method relative step_size bias standard_error"),
    "peers": (
        "peers/peers.csv",
        f"target method library step_size {MEASURED} acceptance gradients "
        "seconds_per_iteration ess_bulk_per_second",
    ),
}


@dataclass(frozen=True, eq=False)
class Sampling:
    """Tables of the samplers, and points by 'target|scores|method' or 'target|method|eps|when'.

    A study that is kept from a longer run (see `make mixing`) has no points and tells in `card`
    how it was made.
    """

    final: pd.DataFrame
    tuning: pd.DataFrame
    curves: pd.DataFrame
    approach: pd.DataFrame
    bias: pd.DataFrame
    peers: pd.DataFrame
    draws: Arrays
    card: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Mixing:
    """A study of the samplers by this run, and one that is kept from a longer run, if any.

    `bias_bound` is the largest Kolmogorov distance that tuning accepts.
    """

    run: Sampling
    whole: Sampling | None
    bias_bound: float

    @property
    def longest(self) -> Sampling:
        """The longer study if there is one, else that of this run."""
        return self.whole or self.run

    @property
    def shown(self) -> str:
        """Which of the two `longest` is."""
        return LONG_RUN if self.whole else THIS_RUN


def load_sampling(folder: Path, *, pictured: bool = True) -> Sampling:
    """Read the tables of the samplers.

    Args:
        folder: with the results of the stages `mixing` and `peers`.
        pictured: whether points were kept; if not, a card was.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column, or holds no rows.
    """
    frames = read_frames(folder, FRAMES)
    draws = read_arrays(folder / "mixing" / "samples.npz") if pictured else {}
    card = {} if pictured else read_json(folder / "card.json", "profile commit hardware")
    return Sampling(**frames, draws=draws, card=card)


def load_mixing(results: Path, kept: Path, bias_bound: float) -> Mixing:
    """Read the tables of the samplers, of this run and of a longer one.

    Args:
        results: the folder `data/results`.
        kept: the folder `reports/whole` of what is kept of longer runs.
        bias_bound: largest Kolmogorov distance that tuning accepts.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column, or holds no rows.
    """
    longer = kept / "sampling"
    whole = load_sampling(longer, pictured=False) if longer.is_dir() else None
    return Mixing(load_sampling(results), whole, bias_bound)
