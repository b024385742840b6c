"""The tables of docs/scaling.md, from what `make scale` and `make large-data` have kept.

    python -m hosm.experiment.cost.scaling_page reports/whole docs/scaling.md

writes each table between its two marks. A test compares the page with the kept results.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from tabulate import tabulate

from hosm.experiment.cost.study.large_data import SIDE
from hosm.experiment.cost.study.scale_measured import FASTER, LIFETIME, RESTART, SPREAD
from hosm.experiment.run.process import main
from hosm.experiment.shared.rows import groups, records
from hosm.io import write_whole

__all__ = ["filled", "page_tables"]

MILLION, TRIALS = 1_000_000, 10_000
LARGE = 3 * 256**2  # numbers of an image


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    return tabulate([*rows], headers=header, tablefmt="pipe", disable_numparse=True)


def _machine(card: dict[str, Any]) -> str:
    """Return where a study ran, and how many processes ran or waited there at its end."""
    return f"On {card['hardware']}, load average {card['load_average']:.2g} at the end."


def _assumptions(card: dict[str, Any], times: pd.DataFrame, check: pd.DataFrame) -> str:
    """Return each assumption, its value, and what it was compared with at 1, 2 and 3 workers."""
    steps = times[times["what"] == "step"]
    said = card["fixed"] + card["sample"] * steps["size"]
    line = (said / steps["seconds"] - 1).abs().max()
    three = times[(times["what"] == "all-reduce") & (times["workers"] == 3)]
    volume = 4 / 3 * 4 * three["size"] / card["bandwidth"] + 4 * card["latency"]
    ring = three["seconds"] / volume
    shared = check[check["workers"] == 3]
    crowd = shared["measured"] / shared["formula"]
    simulated = (check["simulation"] / check["formula"] - 1).abs().max()
    rows = [
        (
            "a step computes for a fixed time and a time for each sample",
            f"{1e3 * card['fixed']:.3g} ms + {1e3 * card['sample']:.3g} ms a sample",
            f"1 worker, {len(steps)} batches: at most {line:.0%} off",
        ),
        (
            "an all-reduce sends 2 (P - 1) / P of the gradients, after 2 (P - 1) waits",
            f"{card['bandwidth'] / 1e9:.2g} GB/s, {1e6 * card['latency']:.3g} us",
            f"fitted to 2 workers; 3 take {ring.min():.2g} to {ring.max():.2g} times what it says",
        ),
        (
            "nothing of the all-reduce is hidden behind computation",
            "-",
            "an upper bound; see the table of 1, 2 and 3 workers",
        ),
        (
            "all wait for the slowest of P, whose times vary alike",
            f"by {card['spread']:.1%} of a step here, by {SPREAD:.0%} on a GPU (assumed)",
            f"simulated step by step: at most {simulated:.0%} from the formula",
        ),
        (
            "workers that share processors take turns",
            f"{card['cpus']} processors",
            f"3 workers here: {crowd.min():.2g} to {crowd.max():.2g} times what it says",
        ),
        (
            "a batch is read beside the training of the one before",
            f"{1e6 * card['batch_32']:.3g} us an image of 32 x 32 with its noise",
            "2 workers from files, below",
        ),
        (
            "a GPU computes so many times as fast as a core here",
            " or ".join(f"{FASTER[kind]:g} ({kind})" for kind in FASTER),
            "not checked: no GPU was at hand",
        ),
        (
            "links of GPUs",
            "200 GB/s up to 8, 40 GB/s beyond",
            "not checked: the makers' figures",
        ),
        (
            "a GPU dies once in so long; a start takes a minute, a state is kept each 20 s",
            f"{LIFETIME / 86400:g} days, {RESTART:g} s",
            "the start: `make faults`; the lifetime is assumed",
        ),
    ]
    return _table(("assumption", "value", "checked"), rows)


def _check(check: pd.DataFrame) -> str:
    rows = [
        (
            row["kind"],
            f"{row['workers']:.0f}",
            f"{row['samples_each']:.0f}",
            f"{1e3 * row['formula']:.3g}",
            f"{1e3 * row['simulation']:.3g}",
            f"{1e3 * row['measured']:.3g}",
            f"{row['measured'] / row['formula']:.2f}",
        )
        for row in records(check)
    ]
    header = ("scaling", "workers", "samples of each", "formula (ms)", "simulation (ms)")
    return _table((*header, "measured (ms)", "measured over formula"), rows)


def _plan(plan: pd.DataFrame) -> str:
    rows = []
    for (kind, precision), part in groups(plan, "kind", "precision"):
        for row in records(part):
            step, images = f"{1e3 * row['step']:,.1f}", f"{row['samples_per_second']:,.0f}"
            share = f"{row['samples_each']:.0f}", step, images
            lost = f"{1 - row['kept']:.2%}"
            part_named = str(row["limit"]).replace("_", "-")
            labels = (kind, precision, f"{row['workers']:.0f}")
            rows.append((*labels, *share, f"{row['efficiency']:.0%}", part_named, lost))
    header = ("scaling", "numbers", "GPUs", "images of each", "step (ms)", "images a second")
    return _table((*header, "efficiency", "largest part", "time lost to deaths"), rows)


def _breaks(card: dict[str, Any], trials: pd.DataFrame, peak: float) -> str:
    """Return what breaks first at scale, with numbers, and what was done about it."""
    few, many = (trials.iloc[place] for place in (0, -1))
    slope = (many["seconds"] - few["seconds"]) / (many["trials"] - few["trials"])
    held = MILLION * LARGE * 4 / 1e9
    rows = [
        (
            f"a million images of 256 x 256 as float32: {held:,.0f} GB in Ray's store and as much "
            "on each worker",
            "at once",
            f"rows are read from files: {peak / 1e9:.2g} GB a worker at most (20 GB of images)",
        ),
        (
            f"noise of such an image, drawn on a core: {1 / card['batch_256']:.0f} images a "
            f"second, where reading alone gives {1 / card['row_256']:,.0f}",
            "where a GPU trains faster than that",
            "noise of rows from files is drawn on the GPU",
        ),
        (
            f"{TRIALS:,} trials: {slope:.2g} s each besides their training, one after another",
            f"{slope * TRIALS / 60:.0f} minutes in all, no matter how many GPUs",
            "processes are used again (`reuse_actors`); trials of one s1 share one fit",
        ),
        (
            "100 users of one SQLite store: one of them writes at a time",
            "not measured: as soon as several write at once",
            "PostgreSQL with S3, passwords; a server that is away loses no row",
        ),
        (
            "100 users of one Ray head: their drivers share its memory",
            "not measured: at tens of drivers",
            "a `RayJob` has a cluster of its own, with limits",
        ),
    ]
    return _table(("what", "breaks", "what was done"), rows)


def _large(reading: pd.DataFrame, memory: pd.DataFrame, card: dict[str, Any]) -> str:
    rows = [
        (
            row["what"],
            f"{1e3 * row['seconds']:.3g} ms",
            f"{row['images_per_second']:,.0f}",
            f"{row['images_per_second'] * 3 * SIDE**2 / 1e6:,.0f}",
            f"{row['share']:.1%}",
        )
        for row in records(reading)
    ]
    images = reading["images"].iloc[0]
    header = (f"a batch of {images} images", "time", "images a second", "MB a second")
    peaks = " and ".join(f"{peak / 1e9:.2f}" for peak in memory["peak"])
    limit = memory["limit"].iloc[0] / 1e9
    told = (
        f"{card['bytes'] / 1e9:.3g} GB of images of {card['side']} x {card['side']}, "
        f"{len(memory)} workers, {card['steps']} steps of {card['seconds_per_step']:.3g} s. "
        f"Peak of each worker: {peaks} GB of {limit:g} GB allowed. {_machine(card)}"
    )
    return f"{told}\n\n{_table((*header, 'share of a step'), rows)}"


def page_tables(folder: Path) -> dict[str, str]:
    """Return the tables of the page by their marks.

    Args:
        folder: holds the results of both studies, in `scale` and `large`.
    """
    scale, large = folder / "scale", folder / "large"
    card = json.loads((scale / "card.json").read_text())
    memory, check = pd.read_csv(large / "memory.csv"), pd.read_csv(scale / "check.csv")
    return {
        "assumptions": _assumptions(card, pd.read_csv(scale / "times.csv"), check),
        "check": f"{_check(check)}\n\n{_machine(card)}",
        "plan": _plan(pd.read_csv(scale / "plan.csv")),
        "breaks": _breaks(card, pd.read_csv(scale / "trials.csv"), float(memory["peak"].max())),
        "large": _large(
            pd.read_csv(large / "reading.csv"),
            memory,
            json.loads((large / "card.json").read_text()),
        ),
    }


def filled(text: str, tables: dict[str, str]) -> str:
    """Return the text of the page with its tables.

    Args:
        text: with `<!-- begin:name -->` and `<!-- end:name -->` for each of them.
        tables: by name.

    Raises:
        ValueError: a mark is missing.
    """
    for name, table in tables.items():
        begin, end = f"<!-- begin:{name} -->", f"<!-- end:{name} -->"
        if begin not in text or end not in text:
            raise ValueError(f"the page must have the marks {begin} and {end}")
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        new = f"{begin}\n{table}\n{end}"
        text = re.sub(pattern, lambda found, new=new: new, text, flags=re.DOTALL)  # type: ignore[misc]
    return text


def write_page(folder: str, page: str) -> None:
    """Write the tables of kept results into the page."""
    place = Path(page)
    write_whole(filled(place.read_text(), page_tables(Path(folder))).encode(), place)


if __name__ == "__main__":
    main(write_page, *sys.argv[1:])
