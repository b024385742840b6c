"""Every table of a run, by its file's name; each drawer says what its own hold.

Cells are text. The best estimates of a table are marked as in Markdown, `**7.30 ± 0.04**`; a dash
stands where the paper, or this run, has no number.
"""

from pathlib import Path

import pandas as pd

from hosm.experiment.accuracy.headline import accuracy_headline
from hosm.experiment.accuracy.tables import accuracy_tables
from hosm.experiment.cost.tables import cost_tables
from hosm.experiment.denoising.tables import denoising_tables
from hosm.experiment.diffusion.tables import diffusion_tables
from hosm.experiment.dimension.tables import dimension_tables
from hosm.experiment.diversity.tables import diversity_tables
from hosm.experiment.inverse.tables import inverse_tables
from hosm.experiment.mixing.tables import mixing_tables
from hosm.experiment.photos.tables import photos_tables
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.timing import NOTE
from hosm.experiment.reduction.tables import reduction_tables
from hosm.experiment.report.claims import claims
from hosm.experiment.report.replication import verdict_tables
from hosm.experiment.report.results import Results
from hosm.experiment.tabular.tables import tabular_tables
from hosm.experiment.uncertainty.tables import uncertainty_tables
from hosm.io import write_whole

__all__ = ["display_tables", "write_all", "write_table"]


def display_tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return every table by its file's name."""
    tables = {
        "headline-accuracy": accuracy_headline(results.accuracy.whole),
        **verdict_tables(claims(results), results.opinions),
        **accuracy_tables(results.accuracy),
        **reduction_tables(results.reduction),
        **cost_tables(results.cost),
        **mixing_tables(results.mixing),
        **denoising_tables(results.denoising),
        **tabular_tables(results.tabular),
        **photos_tables(results.photos),
        **diffusion_tables(results.diffusion),
        **inverse_tables(results.inverse),
        **dimension_tables(results.dimension),
    }
    for name, denoiser in results.denoisers.items():
        tables |= uncertainty_tables(name, denoiser)
    for name, chains in results.diversity.items():
        tables |= diversity_tables(name, chains)
    return tables


def write_table(frame: pd.DataFrame, folder: Path, name: str) -> None:
    """Write a table as `name`.csv, without marks, and `name`.md, with its note.

    Args:
        frame: cells of text.
        folder: where to; made if it is missing.
        name: the files' name without its ending.
    """
    text = frame.map(formats.plain).to_csv(index=False)
    write_whole(text.encode(), folder / f"{name}.csv")
    markdown = frame.to_markdown(index=False, disable_numparse=True)
    note = f"\n{frame.attrs[NOTE]}\n" if NOTE in frame.attrs else ""
    write_whole(f"{markdown}\n{note}".encode(), folder / f"{name}.md")


def write_all(results: Results, folder: Path) -> None:
    """Write every table to a folder, as CSV and Markdown."""
    for name, frame in display_tables(results).items():
        write_table(frame, folder, name)
