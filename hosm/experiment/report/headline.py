"""The numbers of a run to show first: on the page beside the paper's, in README as sentences."""

from typing import Any

import pandas as pd

from hosm.experiment.accuracy.headline import accuracy_findings, accuracy_headline
from hosm.experiment.cost.headline import cost_findings, cost_lines
from hosm.experiment.denoising.headline import denoising_findings, denoising_lines
from hosm.experiment.diffusion.headline import diffusion_findings, diffusion_lines
from hosm.experiment.inverse.headline import inverse_findings, inverse_lines
from hosm.experiment.mixing.headline import mixing_findings, mixing_lines
from hosm.experiment.photos.headline import photos_findings, photos_lines
from hosm.experiment.presenting.headline import Finding, HeadlineLine
from hosm.experiment.report.results import Results
from hosm.experiment.tabular.headline import tabular_findings, tabular_lines
from hosm.experiment.uncertainty.headline import uncertainty_findings, uncertainty_lines

__all__ = ["headline_tables", "readme_block", "replace_between_markers"]

COLUMNS = ("Measured", "By", "Paper", "Ours ± s.e.")
FINDINGS = ("What was measured", "Ours", "To compare with")
TOLD = """\
Of profile `{profile}`, {seeds}, on {hardware}; ± is one standard error, ranges are least to
largest of repeats."""


def _lines(results: Results) -> list[HeadlineLine]:
    """Return the numbers to show first, beside those of table 1."""
    return [
        *cost_lines(results.cost),
        *mixing_lines(results.mixing.longest),
        *denoising_lines(results.denoising),
        *uncertainty_lines(results.denoisers),
        *tabular_lines(results.tabular.run),
        *photos_lines(results.photos.longest),
        *diffusion_lines(results.diffusion.longest),
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


def _findings(results: Results) -> list[Finding]:
    """Return what README shows, in whole sentences."""
    return [
        *accuracy_findings(results.accuracy.whole),
        *cost_findings(results.cost),
        *tabular_findings(results.tabular.run),
        *denoising_findings(results.denoising),
        *uncertainty_findings(results.denoisers),
        *photos_findings(results.photos.longest),
        *mixing_findings(results.mixing.longest),
        *diffusion_findings(results.diffusion.longest),
        *inverse_findings(results.inverse.longest),
    ]


def readme_block(results: Results, facts: dict[str, Any]) -> str:
    """Return the table of results for the README, with a line that says where they come from.

    Args:
        results: what the stages measured.
        facts: as `page.facts` returns them.
    """
    table = pd.DataFrame(_findings(results), columns=list(FINDINGS))
    seeds = facts["seeds"]
    named = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    told = TOLD.format(profile=facts["profile"], seeds=named, hardware=facts["hardware"])
    return f"{_compact(table)}\n\n{told}"


def _compact(table: pd.DataFrame) -> str:
    """Return a table in Markdown without the padding of its columns, which makes lines long."""
    rows = [table.columns, ["---"] * len(table.columns), *table.to_numpy()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


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
