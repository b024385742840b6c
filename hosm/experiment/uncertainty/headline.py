"""The headline numbers of denoisers of images."""

from collections.abc import Iterator, Mapping

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import HeadlineLine
from hosm.experiment.presenting.longer_runs import short_name
from hosm.experiment.shared.rows import records
from hosm.experiment.uncertainty.results import Denoiser

__all__ = ["uncertainty_lines"]

SHOWN_SIGMA = 0.5  # of the likelihoods


def uncertainty_lines(denoisers: Mapping[str, Denoiser]) -> Iterator[HeadlineLine]:
    """Yield likelihoods and correlation of images, of the longer run where there is one."""
    longest = {short_name(name): found for name, found in denoisers.items()}
    for name, found in longest.items():
        whole = found.numbers[found.numbers["model"] == "range"]
        rows = records(whole)
        row = min(rows, key=lambda each: abs(each["sigma"] - SHOWN_SIGMA))
        parts = ("nll_low_rank", "nll_diagonal", "nll_isotropic")
        values = " / ".join(formats.number(row[part], 4) for part in parts)
        where = f"NLL of clean images, nats, {name}, σ = {row['sigma']:g}"
        yield HeadlineLine(where, "C / its diagonal / one variance", formats.DASH, values)
        values = " / ".join(formats.number(each["correlation"], 2) for each in rows)
        where = f"correlation of variance and squared error, {name}"
        scales = " / ".join(f"{each['sigma']:g}" for each in rows)
        yield HeadlineLine(where, f"one model, σ = {scales}", formats.DASH, values)
