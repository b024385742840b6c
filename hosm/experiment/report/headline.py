"""The headline numbers of a run, paper beside ours, in Markdown for the README."""

from typing import Any

import pandas as pd

from hosm.experiment.accuracy.headline import accuracy_lines
from hosm.experiment.cost.headline import cost_lines
from hosm.experiment.denoising.headline import denoising_lines
from hosm.experiment.mixing.headline import mixing_lines
from hosm.experiment.presenting.headline import HeadlineLine
from hosm.experiment.report.results import Results
from hosm.experiment.uncertainty.headline import uncertainty_lines

__all__ = ["headline", "headline_table", "readme_block", "replace_between_markers"]

COLUMNS = ("Measured", "By", "Paper", "Ours ± s.e.")


def headline(results: Results) -> list[HeadlineLine]:
    """Return the numbers to show first: what was measured, by what, the paper's, ours.

    Errors are those of the whole of table 1, the rest those of this run.
    """
    return [
        *accuracy_lines(results.accuracy.whole.table1),
        *cost_lines(results.cost),
        *mixing_lines(results.mixing.longest),
        *denoising_lines(results.denoising),
        *uncertainty_lines(results.denoisers),
    ]


def headline_table(results: Results) -> pd.DataFrame:
    """Return the headline numbers as a table."""
    return pd.DataFrame(headline(results), columns=list(COLUMNS))


def readme_block(results: Results, facts: dict[str, Any]) -> str:
    """Return the table of results for the README, with a line that says where it comes from.

    Args:
        results: what the stages measured.
        facts: as `page.facts` returns them.
    """
    frame = headline_table(results)
    seeds, counts = facts["seeds"], results.accuracy.whole.table1["seeds"].dropna()
    few, many = int(counts.min()), int(counts.max())
    whole = f"{few} to {many}" if few < many else f"{few}"
    named = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    notes = [
        "Errors are squared Frobenius norms summed over entries,",
        f"means over {whole} seeds (`make table1`).",
        f"The rest is of profile `{facts['profile']}`, {named}, on {facts['hardware']};",
        "ranges are least to largest.",
    ]
    return f"{frame.to_markdown(index=False, disable_numparse=True)}\n\n{' '.join(notes)}"


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
