"""Tables and pictures as the templates of the page read them, each with the run that it is of."""

import base64
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.longer_runs import LONG_RUN, LONGER, THIS_RUN, short_name
from hosm.experiment.presenting.timing import NOTE
from hosm.experiment.report.texts import captions

__all__ = ["SPLIT", "chosen", "parts", "picture", "run_of_table", "table"]

SPLIT = {  # table -> columns whose values become the captions of its parts
    "table1-accuracy": ["Data set", "Regime"],
    "table1-first-order": ["Data set", "Regime"],
    "table1-whole": ["Data set", "Regime"],
    "table2-speed": ["Network"],
    "table3-mixing": ["Target", "Scores"],
    "table3-whole": ["Target", "Scores"],
    **{
        f"tabular-{kind}{ending}": ["Columns", "Rows"]
        for kind in ("diagonal", "hessian", "score")
        for ending in ("", LONGER)
    },
    **{f"inverse{ending}": ["Model", "Task"] for ending in ("", LONGER)},
}
OF_LONG_RUNS = ("headline-accuracy", "dimension")  # tables whose names do not say so
OF_NO_RUN = ("verdicts-paper", "verdicts-own", "second-opinions", "photos-published")
SPACE = "\N{NO-BREAK SPACE}"
NUMERIC = re.compile(r"[-~]?\d.*|–")


def chosen(wanted: str, names: Collection[str]) -> str:
    """Return the name to show for a wanted figure or table: that of the longest run of it.

    What was found of sets of images has their names at its end.

    Args:
        wanted: the name without a set of images and without `LONGER`.
        names: of the figures or tables that are there.

    Raises:
        ValueError: there is none.
    """
    by_short = {short_name(name): name for name in sorted(names)}  # longer ones come last
    if wanted in by_short:
        return by_short[wanted]
    found = [name for short, name in by_short.items() if short.startswith(f"{wanted}-")]
    if not found:
        raise ValueError(f"{wanted} must be one of {', '.join(by_short)}")
    return found[0]


def run_of_table(name: str) -> str:
    """Return which run a table is of; nothing for one that counts verdicts."""
    if name in OF_NO_RUN:
        return ""
    return LONG_RUN if LONGER in name or name in OF_LONG_RUNS else THIS_RUN


def _cell(text: str) -> dict[str, Any]:
    shown = formats.plain(text)
    for joint in (" = ", " ± "):
        shown = shown.replace(joint, f"{SPACE}{joint.strip()}{SPACE}")
    return {"text": shown, "best": formats.is_bold(text), "number": bool(NUMERIC.fullmatch(shown))}


def table(frame: pd.DataFrame, caption: str = "") -> dict[str, Any]:
    """Return a table as the template reads it."""
    columns = list(map(str, frame.columns))
    rows = [[_cell(str(text)) for text in row] for row in frame.itertuples(index=False)]
    numeric = [all(row[i]["number"] for row in rows) for i in range(len(columns))]
    heads = [{"text": text, "number": flag} for text, flag in zip(columns, numeric, strict=True)]
    return {"caption": caption, "columns": heads, "rows": rows, "note": ""}


def parts(name: str, frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Split a table at the columns that head its parts; its note stands below the last."""
    by = SPLIT.get(name)
    if by is None:
        split = [table(frame)]
    else:
        groups = frame.groupby(by, sort=False)
        split = [table(part.drop(columns=by), ", ".join(map(str, key))) for key, part in groups]
    split[-1]["note"] = frame.attrs.get(NOTE, "")
    return split


def picture(name: str, path: Path, run: str) -> dict[str, str]:
    """Return a picture, inline, with its words and the run that it shows."""
    known = captions()
    names = name, short_name(name), name.partition("-")[0]  # the rest names the images
    text = next(known[each] for each in names if each in known)
    content = base64.b64encode(path.read_bytes()).decode()
    words = {"caption": text.caption, "alt": text.alt, "run": run, "name": name}
    return {"src": f"data:image/png;base64,{content}", **words}
