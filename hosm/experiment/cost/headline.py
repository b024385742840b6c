"""The headline numbers of table 2, and of what training costs."""

from collections.abc import Iterator

import pandas as pd

from hosm.experiment.cost.results import Cost
from hosm.experiment.cost.study.ratios import speed_ratios
from hosm.experiment.cost.tables import loss_table, step_table
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import Finding, HeadlineLine
from hosm.experiment.presenting.timing import marked
from hosm.experiment.shared.rows import Row, records

__all__ = ["cost_findings", "cost_lines"]

OVER = "Time over DSM"
PAPER_RANK = 20  # stands in both columns of table 2, and needs no more than D = 100


def _range(row: Row, name: str) -> str:
    """Return a ratio of times with its range, and whether the machine was busy."""
    return marked(formats.ratio(row[name], row[f"{name}_low"], row[f"{name}_high"]), row)


def _speed_lines(speed: pd.DataFrame) -> Iterator[HeadlineLine]:
    """Yield the speed-ups over autodiff at one rank, over the fastest one at the largest D."""
    ratios = speed_ratios(speed[speed["device"] == "cpu"])
    largest = max(row["dimension"] for row in ratios)
    for backbone in dict.fromkeys(row["backbone"] for row in ratios):
        rows = [row for row in ratios if row["backbone"] == backbone]
        row = next((row for row in rows if row["rank"] == PAPER_RANK), rows[0])
        name = formats.network(backbone)
        where = f"time over that of s2, {name}, D = {row['dimension']:.0f}, r = {row['rank']:.0f}"
        loop = _range(row, "loop")
        yield HeadlineLine(
            where, "autodiff, one coordinate after another", formats.ratio(row["paper"]), loop
        )
        for fast in (each for each in rows if each["compiled"]):
            loop = _range(fast, "loop")
            yield HeadlineLine(
                f"{where}, compiled", "autodiff, one coordinate after another", formats.DASH, loop
            )
        if row["dimension"] == largest:
            chunked = _range(row, "chunked")
            yield HeadlineLine(where, row["chunked_method"], formats.DASH, chunked)


def _training_lines(found: Cost) -> Iterator[HeadlineLine]:
    """Yield what training costs beside a dense loss and a first-order step, and its growth."""
    training = found.training[found.training["device"] == "cpu"]
    losses = records(loss_table(training))
    largest = [row for row in losses if row["D"] == losses[-1]["D"]]
    names = ("Target", "Variance reduction", "Dense / ours")
    targets, reductions, gains = (" / ".join(row[name] for row in largest) for name in names)
    where = f"time of a dense D x D loss over ours, D = {largest[0]['D']}, r = {largest[0]['r']}"
    yield HeadlineLine(where, f"{targets}, variance reduction {reductions}", formats.DASH, gains)
    steps = records(step_table(training))
    joint = [row for row in steps if row["Step"].endswith("jacobian") and row["r"] != "0"]
    size = f"D = {joint[0]['D']}, r = {joint[0]['r']}"
    reductions, over = (" / ".join(row[name] for row in joint) for name in (names[1], OVER))
    where = f"time of a step of s1 and s2 over s1 alone, U-Net, {size}"
    yield HeadlineLine(where, f"jacobian, variance reduction {reductions}", formats.DASH, over)
    slopes = found.slopes[found.slopes["device"] == "cpu"]
    fits = slopes[(slopes["method"] == "joint step") & (slopes["variable"] == "D")]
    for fit in records(fits.nlargest(1, "rank")):
        ends = f"{fit['from']:,.0f} to {fit['to']:,.0f}"
        steepness = f"{fit['time']:.2f}, {fit['memory']:.2f}"
        yield HeadlineLine(
            f"slopes of a step with D, {ends}", "log time, log memory", formats.DASH, steepness
        )


def cost_lines(found: Cost) -> Iterator[HeadlineLine]:
    """Yield the headline numbers of times and memory."""
    yield from _speed_lines(found.speed)
    yield from _training_lines(found)


def cost_findings(found: Cost) -> Iterator[Finding]:
    """Yield the time that s2 saves against differentiation, and the time of training it."""
    ratios = speed_ratios(found.speed[found.speed["device"] == "cpu"])
    largest = max(row["dimension"] for row in ratios)
    rows = [r for r in ratios if r["dimension"] == largest and not r["compiled"]]
    row = next((each for each in rows if each["rank"] == PAPER_RANK), rows[0])
    yield Finding(
        f"Time to differentiate a U-Net's first-order score coordinate by coordinate, over the "
        f"time of its second-order score, in {row['dimension']:,.0f} dimensions at rank "
        f"{row['rank']:.0f}.",
        _range(row, "loop"),
        f"{formats.ratio(row['paper'])} in the paper",
    )
    steps = records(step_table(found.training[found.training["device"] == "cpu"]))
    joint = next(r for r in steps if r["Step"].endswith("jacobian") and r["r"] != "0")
    yield Finding(
        f"Time of a training step of both scores over one of the first-order score alone; U-Net, "
        f"{joint['D']} dimensions, rank {joint['r']}.",
        joint[OVER],
        "at least 1",
    )
