"""The headline numbers of a run, paper beside ours, in Markdown for the README."""

from typing import Any

import pandas as pd

from hosm.experiment.accuracy.headline import accuracy_headline
from hosm.experiment.cost.headline import cost_lines
from hosm.experiment.denoising.headline import denoising_lines
from hosm.experiment.inverse.headline import inverse_lines
from hosm.experiment.mixing.headline import mixing_lines
from hosm.experiment.photos.headline import photos_lines
from hosm.experiment.presenting.headline import HeadlineLine
from hosm.experiment.report.results import Results
from hosm.experiment.tabular.headline import tabular_lines
from hosm.experiment.uncertainty.headline import uncertainty_lines

__all__ = ["headline_tables", "readme_block", "replace_between_markers"]

COLUMNS = ("Measured", "By", "Paper", "Ours ± s.e.")
NOTES = """\
Errors are squared Frobenius norms summed over entries, with the standard error of a mean over
{seeds} seeds (`make table1`). The paper trains on data sets whose size it does not print: of our
two regimes, {points} points with weight decay and early stopping are the nearest to it. Fresh
draws are steps times batch, each point seen once. The paper does not print the parameters of its
laws either, so that its errors and ours are not of the same laws."""
REST = """\
Of profile `{profile}`, {seeds}, on {hardware}; ranges are least to largest. *Vacuous* are
effective samples of draws whose bias is beyond the bounds: they say nothing of the law that was to
be sampled."""


def _lines(results: Results) -> list[HeadlineLine]:
    """Return the numbers to show first, beside those of table 1."""
    return [
        *cost_lines(results.cost),
        *mixing_lines(results.mixing.longest),
        *denoising_lines(results.denoising),
        *uncertainty_lines(results.denoisers),
        *tabular_lines(results.tabular.run),
        *photos_lines(results.photos.longest),
        *inverse_lines(results.inverse.longest),
    ]


def headline_tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return the numbers to show first, by their files' names: of accuracy, and the rest.

    Errors are those of the whole of table 1, the rest those of this run.

    Args:
        results: what the stages measured.
    """
    return {
        "headline-accuracy": accuracy_headline(results.accuracy.whole),
        "headline": pd.DataFrame(_lines(results), columns=list(COLUMNS)),
    }


def readme_block(results: Results, facts: dict[str, Any]) -> str:
    """Return the tables of results for the README, with lines that say where they come from.

    Args:
        results: what the stages measured.
        facts: as `page.facts` returns them.
    """
    accuracy, rest = (
        frame.to_markdown(index=False, disable_numparse=True)
        for frame in headline_tables(results).values()
    )
    whole, seeds = results.accuracy.whole, facts["seeds"]
    counts = whole.table1["seeds"].dropna()
    few, many = int(counts.min()), int(counts.max())
    notes = NOTES.format(
        seeds=f"{few} to {many}" if few < many else few,
        points=whole.card["protocol"]["train_points"],
    )
    named = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    told = REST.format(profile=facts["profile"], seeds=named, hardware=facts["hardware"])
    return f"{accuracy}\n\n{notes}\n\n{rest}\n\n{told}"


def replace_between_markers(text: str, begin: str, end: str, block: str) -> str:
    """Return a text with what stands between two markers replaced.

    Args:
        text: the whole text.
        begin: the marker before the block; stays.
        end: the marker after it; stays.
        block: what stands on the lines between.

    Raises:
        ValueError: a marker is missing or repeated, or `end` comes first.
    """
    for marker in (begin, end):
        if text.count(marker) != 1:
            raise ValueError(f"marker {marker!r} must occur once, got {text.count(marker)} times")
    before, rest = text.split(begin)
    if end not in rest:
        raise ValueError(f"marker {end!r} stands before {begin!r}")
    return f"{before}{begin}\n{block.strip()}\n{end}{rest.split(end)[1]}"
