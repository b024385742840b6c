"""The headline numbers of table 2, and of what training costs."""

from collections.abc import Iterator

from hosm.experiment.cost.results import Cost
from hosm.experiment.cost.study.ratios import speed_ratios
from hosm.experiment.cost.tables import step_table
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import Finding
from hosm.experiment.presenting.timing import marked
from hosm.experiment.shared.rows import Row, records

__all__ = ["speed_findings", "speed_sentence", "training_findings", "training_sentence"]

OVER = "Time over DSM"
PAPER_RANK = 20  # stands in both columns of table 2, and needs no more than D = 100


def _ratio(found: Cost) -> Row:
    """Return the ratios of times at the largest dimension, without compilation."""
    ratios = speed_ratios(found.speed[found.speed["device"] == "cpu"])
    largest = max(row["dimension"] for row in ratios)
    rows = [r for r in ratios if r["dimension"] == largest and not r["compiled"]]
    return next((each for each in rows if each["rank"] == PAPER_RANK), rows[0])


def _step(found: Cost) -> Row:
    """Return the row of a training step of both scores by the default target."""
    steps = records(step_table(found.training[found.training["device"] == "cpu"]))
    return next(r for r in steps if r["Step"].endswith("jacobian") and r["r"] != "0")


def speed_sentence(found: Cost) -> str:
    """Return the time that s2 saves against differentiation, in a sentence."""
    row = _ratio(found)
    loop, low, high = (formats.number(row[name]) for name in ("loop", "loop_low", "loop_high"))
    return (
        "Differentiating a U-Net’s first-order score coordinate by coordinate takes "
        f"{marked(loop, row)} times as long as its second-order score ({low} to {high} over "
        "repeats), in "
        f"{row['dimension']:,.0f} dimensions at rank {row['rank']:.0f}; the paper’s factor is "
        f"{formats.number(row['paper'])}."
    )


def training_sentence(found: Cost) -> str:
    """Return the time of training both scores over that of one, in a sentence."""
    step = _step(found)
    return (
        f"A training step of both scores takes {step[OVER].removesuffix('×')} times as long as "
        f"one of the first-order score alone (U-Net, {step['D']} dimensions, rank {step['r']})."
    )


def speed_findings(found: Cost) -> Iterator[Finding]:
    """Yield the time that s2 saves against differentiation."""
    row = _ratio(found)
    yield Finding(
        f"Time to differentiate a U-Net's first-order score coordinate by coordinate, over the "
        f"time of its second-order score, in {row['dimension']:,.0f} dimensions at rank "
        f"{row['rank']:.0f}.",
        marked(formats.ratio(row["loop"], row["loop_low"], row["loop_high"]), row),
        f"{formats.ratio(row['paper'])} in the paper",
    )


def training_findings(found: Cost) -> Iterator[Finding]:
    """Yield the time of training both scores."""
    joint = _step(found)
    yield Finding(
        f"Time of a training step of both scores over one of the first-order score alone; U-Net, "
        f"{joint['D']} dimensions, rank {joint['r']}.",
        joint[OVER],
        "at least 1",
    )
