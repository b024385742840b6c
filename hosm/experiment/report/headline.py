"""The numbers of a run to show first: on the page as sentences, in README as a table."""

from typing import Any

import pandas as pd

from hosm.experiment.accuracy.headline import accuracy_findings, accuracy_sentence
from hosm.experiment.cost.headline import (
    speed_findings,
    speed_sentence,
    training_findings,
    training_sentence,
)
from hosm.experiment.denoising.headline import denoising_findings, denoising_sentence
from hosm.experiment.diffusion.headline import diffusion_findings, diffusion_sentence
from hosm.experiment.inverse.headline import inverse_findings, inverse_sentence
from hosm.experiment.mixing.headline import mixing_findings, mixing_sentence
from hosm.experiment.photos.headline import photos_findings, photos_sentence
from hosm.experiment.presenting.headline import Told
from hosm.experiment.presenting.longer_runs import LONG_RUN, THIS_RUN, run_name
from hosm.experiment.report.results import Results
from hosm.experiment.tabular.headline import tabular_findings, tabular_sentence
from hosm.experiment.uncertainty.headline import uncertainty_findings, uncertainty_sentence

__all__ = ["findings", "readme_block", "replace_between_markers"]

FINDINGS = ("What was measured", "Ours", "To compare with", "Run")
TOLD = """\
*{this}*: profile `{profile}`, {seeds}, on {hardware}. *{long}*: a run at larger sizes whose
results are kept in `reports/whole`. ± is one standard error, ranges are least to largest of
repeats."""


def findings(results: Results) -> list[Told]:
    """Return what each study found, by the longest run of it that is there.

    Args:
        results: what the stages measured.
    """
    whole, cost, images = results.accuracy.whole, results.cost, results.denoisers
    plane, table, photos = results.denoising, results.tabular, results.photos
    mixing, steps, solved = results.mixing, results.diffusion, results.inverse
    longest = max(map(run_name, images), key=(THIS_RUN, LONG_RUN).index)
    told = [
        (LONG_RUN, accuracy_sentence(whole), accuracy_findings(whole)),
        (THIS_RUN, speed_sentence(cost), speed_findings(cost)),
        (THIS_RUN, training_sentence(cost), training_findings(cost)),
        (table.shown, tabular_sentence(table.longest), tabular_findings(table.longest)),
        (THIS_RUN, denoising_sentence(plane), denoising_findings(plane)),
        (longest, uncertainty_sentence(images), uncertainty_findings(images)),
        (photos.shown, photos_sentence(photos.longest), photos_findings(photos.longest)),
        (mixing.shown, mixing_sentence(mixing.longest), mixing_findings(mixing.longest)),
        (steps.shown, diffusion_sentence(steps.longest), diffusion_findings(steps.longest)),
        (solved.shown, inverse_sentence(solved.longest), inverse_findings(solved.longest)),
    ]
    return [Told(run, sentence, list(found)) for run, sentence, found in told]


def readme_block(results: Results, facts: dict[str, Any]) -> str:
    """Return the table of results for the README, with a line that says where they come from.

    Args:
        results: what the stages measured.
        facts: as `page.facts` returns them.
    """
    rows = [[*found, each.run] for each in findings(results) for found in each.findings]
    table = pd.DataFrame(rows, columns=list(FINDINGS))
    seeds = facts["seeds"]
    named = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    runs = {"this": THIS_RUN.capitalize(), "long": LONG_RUN.capitalize()}
    about = {"profile": facts["profile"], "seeds": named, "hardware": facts["hardware"]}
    return f"{_compact(table)}\n\n{TOLD.format(**runs, **about)}"


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
