"""What a reader is told of the machine on which times were measured, and of its load."""

import pandas as pd

from hosm.experiment.run.machine_load import UNKNOWN, Load
from hosm.experiment.shared.rows import Row

__all__ = ["NOTE", "marked", "machine_note", "with_machine"]

BUSY = "busy machine"
NOTE = "note"  # key in the `attrs` of a table, of a sentence that stands below it
KNOWN = "others"  # a column that times have since their machine is watched


def _load(row: Row) -> Load:
    return Load(row.get("others", UNKNOWN.others), row.get("stolen", UNKNOWN.stolen))


def marked(text: str, *rows: Row) -> str:
    """Return the text of a cell, marked if the machine was busy while it was measured.

    Args:
        text: made of times.
        rows: of results, those that the times come from; one without a load is not marked.
    """
    return f"{text} ({BUSY})" if any(_load(row).busy for row in rows) else text


def machine_note(times: pd.DataFrame) -> str:
    """Return a sentence on the machine, its threads and its load while times were measured.

    Args:
        times: rows of results; those of earlier versions have no load.
    """
    known = times[times[KNOWN].notna()] if KNOWN in times else times[:0]
    if known.empty:
        return "What other processes did while this was timed is unknown."
    where = [" and ".join(map(str, known["machine"].unique()))]
    for name, unit in (("threads", "thread"), ("megahertz", "MHz")):
        values = known[name].dropna() if name in known else known[:0]
        if len(values):
            ends = dict.fromkeys((f"{values.min():,.0f}", f"{values.max():,.0f}"))
            many = "s" if unit == "thread" and values.max() > 1 else ""
            where.append(f"{' to '.join(ends)} {unit}{many}")
    shares = f"at most {known[KNOWN].max():.0%} of the cores"
    told = f"Timed on {', '.join(where)}. Meanwhile other processes used {shares}"
    told += f", and the host of the machine kept at most {known['stolen'].max():.0%}."
    if "left_out" in known and known["left_out"].max() > 0:
        told += f" Up to {known['left_out'].max():.0f} disturbed rounds are left out."
    busy = sum(Load(*pair).busy for pair in zip(known[KNOWN], known["stolen"], strict=True))
    return f"{told} Times marked as of a {BUSY} are no measure of the method." if busy else told


def with_machine(table: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the note on its machine below it.

    Args:
        table: cells of text.
        times: rows of results that it is made of.
    """
    table.attrs[NOTE] = machine_note(times)
    return table
