"""Tables for readers: the stages' numbers beside the paper's, units in the headers.

Cells are text. The best estimates of a table are marked as in Markdown, `**7.30 ± 0.04**`; a dash
stands where the paper, or this run, has no number. Table 1 marks the lowest error and those
within two standard errors of it, table 2 the fastest method, table 3 the sampler with the most
effective samples per second among those whose draws are within the bounds on bias.
"""

from pathlib import Path

import pandas as pd

from hosm.experiment.accuracy.tables import (
    accuracy_table,
    cost_table,
    first_order_table,
)
from hosm.experiment.cost import tables as cost_tables
from hosm.experiment.cost.study.ratios import speed_ratios
from hosm.experiment.diversity.tables import diversity_tables
from hosm.experiment.mixing.tables import comparison_table, mixing_table, peer_table
from hosm.experiment.presenting import number_formats as cells
from hosm.experiment.report.headline import headline_table, readme_block, replace_between_markers
from hosm.experiment.report.results import Results, load_results
from hosm.experiment.shared.rows import Row, groups, records
from hosm.experiment.uncertainty.tables import denoiser_tables, posterior_table
from hosm.io import write_whole

__all__ = [
    "display_tables",
    "load_results",
    "ratio_table",
    "reduction_table",
    "readme_block",
    "replace_between_markers",
    "speed_table",
    "write_all",
    "write_table",
]


def reduction_table(errors: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of figure 1, with and without variance reduction."""
    rows = [
        {
            "σ": f"{row['sigma']:g}",
            "Variance reduction": row["reduction"],
            "Squared error of s1, ours ± s.e.": cells.plus_minus(
                row["s1_error"], row["s1_standard_error"]
            ),
            "Target of s2": row["target"],
            "Squared error of s2, ours ± s.e.": cells.plus_minus(
                row["s2_error"], row["s2_standard_error"]
            ),
            "Seeds": cells.count(row["seeds"]),
        }
        for row in records(errors)
    ]
    return pd.DataFrame(rows)


def _network(row: Row) -> str:
    device = "" if row["device"] == "cpu" else f", {row['device'].upper()}"
    sizes = f"D = {row['dimension']:.0f}, batch {row['batch']:.0f}"
    return f"{cells.network(row['backbone'])}, {sizes}{device}"


def _rows_timed(row: Row) -> str:
    timed, total = row["rows_timed"], row["dimension"]
    return "all" if timed >= total else f"scaled from {timed:.0f} of {total:.0f} rows"


def speed_table(speed: pd.DataFrame) -> pd.DataFrame:
    """Return table 2: times of second-order scores, and of s1 alone, for a whole batch."""
    rows = []
    for _, group in groups(speed, "device", "backbone", "dimension", "batch"):
        times = records(group)
        s1 = next(row["seconds"] for row in times if row["method"] == "s1")
        second = [row["seconds"] for row in times if not row["method"].startswith("s1")]
        rows += [_time_row(row, s1, min(second)) for row in times]
    return pd.DataFrame(rows)


def _time_row(row: Row, s1: float, fastest: float) -> Row:
    ours, low, high = (
        cells.milliseconds(row[name]) for name in ("seconds", "seconds_low", "seconds_high")
    )
    best = row["seconds"] == fastest and not row["method"].startswith("s1")
    return {
        "Network": _network(row),
        "Method": row["method"],
        "Rank": f"{row['rank']:.0f}" if row["rank"] else cells.DASH,
        "Paper, TITAN Xp (ms)": cells.milliseconds(row["paper_seconds"]),
        "Ours, median (ms)": cells.bold(ours) if best else ours,
        "Least to largest (ms)": f"{low} to {high}",
        "Time over s1": cells.ratio(row["seconds"] / s1),
        "Parameters": cells.count(row["parameters"]),
        "Jacobian rows timed": _rows_timed(row),
    }


def ratio_table(speed: pd.DataFrame) -> pd.DataFrame:
    """Return the ratios of table 2: autodiff over s2, ours beside the paper's, and s2 over s1."""
    rows = [
        {
            "Network": _network(row),
            "Rank": f"{row['rank']:.0f}" + (", compiled" if row["compiled"] else ""),
            "Loop / s2, paper": cells.ratio(row["paper"]),
            "Loop / s2, ours (range)": cells.ratio(row["loop"], row["loop_low"], row["loop_high"]),
            "Fastest chunked autodiff / s2, ours (range)": cells.ratio(
                row["chunked"], row["chunked_low"], row["chunked_high"]
            ),
            "s2 / s1, ours": cells.ratio(row["s1"]),
            "s1 and s2 of a shared trunk / s1, ours": cells.ratio(row["joint"]),
        }
        for row in speed_ratios(speed)
    ]
    return pd.DataFrame(rows)


def display_tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return every table by its file's name."""
    of_images = [denoiser_tables(*each) for each in results.denoisers.items()]
    of_images += [diversity_tables(*each) for each in results.diversity.items()]
    return {
        "headline": headline_table(results),
        "table1-accuracy": accuracy_table(results.accuracy.table1),
        "table1-cost": cost_table(results.accuracy.cost),
        "table1-whole": accuracy_table(results.accuracy.whole.table1),
        "table1-whole-cost": cost_table(results.accuracy.whole.cost),
        "table1-first-order": first_order_table(results.accuracy.trials),
        "figure1-errors": reduction_table(results.reduction.errors),
        "table2-speed": speed_table(results.cost.speed),
        "table2-ratios": ratio_table(results.cost.speed),
        "cost-losses": cost_tables.loss_table(results.cost.training),
        "cost-steps": cost_tables.step_table(results.cost.training),
        "cost-variants": cost_tables.variant_table(results.cost.training),
        "cost-dimension": cost_tables.growth_table(results.cost.growth, results.cost.slopes),
        "cost-rank": cost_tables.rank_table(results.cost.growth, results.cost.slopes),
        "scaling-workers": cost_tables.workers_table(results.cost.workers),
        "scaling-plan": cost_tables.plan_table(results.cost.plan),
        **_sampling_tables(results),
        "figure2-posteriors": posterior_table(results.denoising.posteriors),
        **{name: table for tables in of_images for name, table in tables.items()},
    }


def _sampling_tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return the tables of the samplers, of this run and of one that is kept."""
    tables = {
        "table3-comparison": comparison_table(results.mixing.run),
        "table3-mixing": mixing_table(results.mixing.run.final),
        "table3-peers": peer_table(results.mixing.run.peers),
    }
    if results.mixing.whole is not None:
        tables["table3-whole"] = mixing_table(results.mixing.whole.final)
        tables["table3-comparison-whole"] = comparison_table(results.mixing.whole)
    return tables


def write_table(frame: pd.DataFrame, folder: Path, name: str) -> None:
    """Write a table as `name`.csv, without marks, and `name`.md.

    Args:
        frame: cells of text.
        folder: where to; made if it is missing.
        name: the files' name without its ending.
    """
    text = frame.map(cells.plain).to_csv(index=False)
    write_whole(text.encode(), folder / f"{name}.csv")
    markdown = frame.to_markdown(index=False, disable_numparse=True)
    write_whole(f"{markdown}\n".encode(), folder / f"{name}.md")


def write_all(results: Results, folder: Path) -> None:
    """Write every table to a folder, as CSV and Markdown."""
    for name, frame in display_tables(results).items():
        write_table(frame, folder, name)
